"""torch_fl: the PyTorch device `flagos` for the Kunlunxin P800 XPU.

    import torch, torch_fl
    torch.ones(8, 8, device="flagos")

Importing it opens the vendor's libraries in the right order, whatever LD_LIBRARY_PATH says, then torch_fl._C.
When that cannot work it raises torch_fl.LoadError, which names the library, where it was looked for and the cure.
FLAGOS_LOAD=0 imports the package alone.
"""

from ._preload import finder as _finder
from ._preload import hook as _hook
from ._preload.errors import LoadError
from ._version import VERSION as __version__

__all__ = ["LoadError", "__version__"]


def _explain(failure: _hook.Failure) -> ImportError:
    from .diagnose import load_error

    return load_error(failure)


if _hook.wanted():
    _finder.install(_explain)
    from . import _C, _routes, flagos

    _C._register_operators(_routes.installed())
    flagos.register()
    __all__ += ["flagos"]
