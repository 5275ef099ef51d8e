"""The operator table: which ATen overloads run on the vendor's xdnn library, and through which of its functions.

Data only. csrc/aten/backends/kunlunxin holds the kernels; a test compares their tables with this one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Tuple


class Evidence(Enum):
    """How well a library function is known. The value is what the documentation prints."""

    SEEN = "publicly seen"  # called in public code: name and argument order
    NAMED = "wrapper known"  # named in public logs or reports; arguments follow from the naming rule
    INFERRED = "inferred"  # follows from the naming rule alone


FLOATING = ("float32", "float16", "bfloat16")
INTEGRAL = ("int64", "int32", "int16", "int8", "uint8")
REAL = (*FLOATING, *INTEGRAL)
ALL = (*REAL, "bool")
STORED = (*ALL, "float64")


@dataclass(frozen=True)
class Function:
    """One function of xdnn_pytorch.

    arguments  in order, the context left out; the last ones are outputs
    dtypes     those it is asked to compute in; a call in another one goes to the CPU without asking
    """

    name: str
    arguments: Tuple[str, ...]
    dtypes: Tuple[str, ...]
    evidence: Evidence


@dataclass(frozen=True)
class Operator:
    """One ATen overload with a native kernel.

    functions  names of the library functions that its kernel calls, the main one first
    note       what is special about it; empty when nothing is
    """

    aten: str
    functions: Tuple[str, ...]
    note: str = ""


def _function(name: str, arguments: str, dtypes: Tuple[str, ...], evidence: Evidence = Evidence.SEEN) -> Function:
    return Function(name, tuple(arguments.split()), dtypes, evidence)


FUNCTIONS: Tuple[Function, ...] = (
    _function("add_tensor", "self other alpha out", ALL),
    _function("add_scalar", "self other alpha out", ALL),
    _function("sub_tensor", "self other alpha out", REAL),
    _function("sub_scalar", "self other alpha out", REAL, Evidence.INFERRED),
    _function("mul_tensor", "self other out", ALL),
    _function("mul_scalar", "self other out", ALL),
    _function("div_tensor", "self other out", FLOATING),
    _function("div_scalar", "self other out", FLOATING),
    _function("fill__scalar", "self value out", STORED),
    _function("cast", "self out", STORED),
    _function("relu", "self out", REAL),
    _function("threshold_backward", "grad_output self threshold grad_input", FLOATING),
    _function("sum", "self dtype out", REAL),
    _function("sum_dim_IntList", "self dim keepdim dtype out", REAL),
    _function("mean", "self dtype out", FLOATING),
    _function("mean_dim", "self dim keepdim dtype out", FLOATING),
    _function("log_softmax", "self dim dtype out", FLOATING),
    _function("_log_softmax_backward_data", "grad_output output dim input_dtype grad_input", FLOATING),
    _function("nll_loss", "self target weight reduction ignore_index out", FLOATING),
    _function(
        "nll_loss_backward",
        "grad_output self target weight reduction ignore_index total_weight grad_input",
        FLOATING,
    ),
    _function("addmm", "self mat1 mat2 beta alpha out", FLOATING),
    _function("mm", "self mat2 out", FLOATING, Evidence.INFERRED),
    _function("bmm", "self mat2 out", FLOATING, Evidence.INFERRED),
)


def _binary(name: str) -> Tuple[Operator, ...]:
    tensor, scalar = f"{name}_tensor", f"{name}_scalar"
    return (
        Operator(f"{name}.Tensor", (tensor, scalar)),
        Operator(f"{name}_.Tensor", (tensor, scalar)),
        Operator(f"{name}.out", (tensor, scalar)),
        Operator(f"{name}.Scalar", (scalar,)),
        Operator(f"{name}_.Scalar", (scalar,)),
    )


_TOTAL_WEIGHT = "total_weight is a second call, over inputs of -1"

OPERATORS: Tuple[Operator, ...] = (
    Operator("fill_.Scalar", ("fill__scalar",), "float64 values that float cannot hold go to the CPU"),
    Operator("fill_.Tensor", ("cast",)),
    Operator("zero_", ("fill__scalar",), "every dtype, as bytes"),
    *_binary("add"),
    *_binary("sub"),
    *_binary("mul"),
    *_binary("div"),
    Operator("relu", ("relu",)),
    Operator("relu_", ("relu",)),
    Operator("threshold_backward", ("threshold_backward",)),
    Operator("threshold_backward.grad_input", ("threshold_backward",)),
    Operator("sum", ("sum",)),
    Operator("sum.dim_IntList", ("sum_dim_IntList", "sum")),
    Operator("sum.IntList_out", ("sum_dim_IntList", "sum")),
    Operator("mean", ("mean",)),
    Operator("mean.dim", ("mean_dim", "mean")),
    Operator("mean.out", ("mean_dim", "mean")),
    Operator("mm", ("mm",)),
    Operator("mm.out", ("mm",)),
    Operator("bmm", ("bmm",)),
    Operator("bmm.out", ("bmm",)),
    Operator("addmm", ("addmm",)),
    Operator("addmm.out", ("addmm",)),
    Operator("addmm_", ("addmm",)),
    Operator("_log_softmax", ("log_softmax",)),
    Operator("_log_softmax.out", ("log_softmax",)),
    Operator("_log_softmax_backward_data", ("_log_softmax_backward_data",)),
    Operator("_log_softmax_backward_data.out", ("_log_softmax_backward_data",)),
    Operator("nll_loss_forward", ("nll_loss",), _TOTAL_WEIGHT),
    Operator("nll_loss_forward.output", ("nll_loss",), _TOTAL_WEIGHT),
    Operator("nll_loss_backward", ("nll_loss_backward",)),
    Operator("nll_loss_backward.grad_input", ("nll_loss_backward",)),
)

# Registered whatever the routes say: a tensor cannot exist without them.
DEVICE_LAYER: Tuple[str, ...] = (
    "empty.memory_format",
    "empty_strided",
    "as_strided",
    "view",
    "_reshape_alias",
    "unfold",
    "view_as_real",
    "view_as_complex",
    "resize_",
    "set_",
    "set_.source_Tensor",
    "set_.source_Storage",
    "set_.source_Storage_storage_offset",
    "_local_scalar_dense",
    "record_stream",
    "copy_",
    "_copy_from",
    "_copy_from_and_resize",
)

# No kernel for the CPU, so that no fallback could run them: composed from operators that have one.
COMPOSED: Tuple[str, ...] = (
    "convolution_overrideable",
    "convolution_backward_overrideable",
    "_thnn_fused_lstm_cell",
    "_thnn_fused_lstm_cell_backward_impl",
    "_thnn_fused_gru_cell",
    "_thnn_fused_gru_cell_backward",
)


def function(name: str) -> Function:
    """The record of a library function. Raises KeyError for a name that is not in the table."""
    return {record.name: record for record in FUNCTIONS}[name]


def evidence(operator: Operator) -> Evidence:
    """The weakest evidence among the functions that an operator calls."""
    strength = list(Evidence)
    return max((function(name).evidence for name in operator.functions), key=strength.index)
