"""The process that imports torch_fl: an interpreter or a torch that is not torch_fl's to use."""

from __future__ import annotations

from torch_fl.diagnose.escape import shell_word
from torch_fl.diagnose.finding import Evidence, Fact, Finding, Fix, Page, Severity, register

register(
    Page(
        "sub-interpreter",
        "torch_fl is imported in a sub-interpreter",
        "A process can hold several Python interpreters, and torch_fl was imported in one that is not the first. "
        "PyTorch keeps its Python state once a process, for the main interpreter; in another one it crashes or blocks. "
        "Nothing is opened.",
        "PyGILState_Ensure, which PyTorch and pybind11 call from their own threads, always takes the main interpreter.",
        "Python, C API, section Sub-interpreter support, Bugs and caveats; PEP 684; PEP 734",
        "Import torch_fl in the main interpreter. Under mod_wsgi that is `WSGIApplicationGroup %{GLOBAL}`.",
    )
)


def sub_interpreter(python: str) -> Finding:
    """torch_fl was imported in an interpreter that is not the process's first."""
    return Finding(
        "sub-interpreter",
        Severity.ERROR,
        "torch_fl",
        "torch_fl is imported in a sub-interpreter, where PyTorch does not work",
        (Evidence("interpreter", (Fact(python, "this is not the main interpreter of the process"),)),),
        "the program runs Python in several interpreters of one process, as mod_wsgi does for several applications",
        Fix("import torch_fl in the main interpreter (mod_wsgi: WSGIApplicationGroup %{GLOBAL}) or in another process"),
    )


register(
    Page(
        "privateuse-taken",
        "another backend has PyTorch's PrivateUse1 device",
        "PyTorch has one device for backends from outside, PrivateUse1, and another package had it before torch_fl. "
        "That package goes on working; torch_fl stays out.",
        "The device's name can be set once a process, and its hooks, guard and allocator registered once.",
        "PyTorch, c10/core/DeviceType.cpp, register_privateuse1_backend; ATen/detail/PrivateUse1HooksInterface.cpp",
        "Keep one PrivateUse1 backend a process. TORCH_DEVICE_BACKEND_AUTOLOAD=0 stops `import torch` from loading the "
        "installed ones by itself; an environment of its own for each is simplest.",
    )
)


def privateuse_taken(owner: str, module: str, python: str) -> Finding:
    """`owner`: the name that the device has; `module`: where torch.OWNER comes from, "" when nobody registered it."""
    return Finding(
        "privateuse-taken",
        Severity.ERROR,
        "torch",
        f"the backend {owner} has PyTorch's PrivateUse1 device",
        (
            Evidence(
                "looked at",
                (
                    Fact("torch._C._get_privateuse1_backend_name()", owner),
                    Fact(f"torch.{owner}", f"registered by {module}" if module else "no module is registered"),
                ),
            ),
        ),
        f"{owner} was loaded before torch_fl in this process, by the program or by `import torch` itself, and PyTorch "
        "has room for one such device",
        Fix(
            "do not load the other backend in a process that uses torch_fl",
            (f"TORCH_DEVICE_BACKEND_AUTOLOAD=0 {shell_word(python)} -c 'import torch_fl'",),
        ),
    )
