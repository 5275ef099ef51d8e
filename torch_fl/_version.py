"""The version, in one place: setup.py, the diagnosis and `torch_fl.__version__` read it here."""

VERSION = "0.1.0"
