"""torch_fl: the PyTorch device `flagos` for the Kunlunxin P800 XPU.

    import torch, torch_fl
    torch.ones(8, 8, device="flagos")

Importing it opens the vendor's libraries in the right order, whatever LD_LIBRARY_PATH says, then torch_fl._C.
When that cannot work it raises torch_fl.LoadError, which names the library, where it was looked for and the cure.
FLAGOS_LOAD=0 imports the package alone.
"""

from ._preload import hook as _hook
from ._preload.errors import LoadError
from ._version import VERSION as __version__

__all__ = ["LoadError", "__version__"]

if _hook.wanted():
    try:
        _preloaded = _hook.preload()
        import torch  # noqa: F401  (torch's own libraries come with torch, and _C needs them)

        _hook.import_extension(_preloaded)
    except _hook.LoadFailed as failed:
        from .diagnose import load_error

        raise load_error(failed.failure) from failed.__cause__

    from . import _C, _routes, flagos

    _C._register_operators(_routes.installed())
    flagos.register()
    __all__ += ["flagos"]
