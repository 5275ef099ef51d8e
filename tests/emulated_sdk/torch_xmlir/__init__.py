"""A trap of the emulated SDK: the vendor's Python package must never be imported."""

raise ImportError(
    "torch_xmlir was imported. This is the emulated SDK's trap: the vendor's Python package must never be imported, "
    "only its shared libraries may be opened.",
    name=__name__,
)
