# Sources of the operator layer, relative to csrc/. csrc/ itself is the include directory.
set(TORCH_FL_ATEN_SOURCES
    aten/autocast.cc
    aten/composed.cc
    aten/copy.cc
    aten/cpu_fallback.cc
    aten/routing.cc
    aten/tensor.cc
    aten/backends/kunlunxin/adaptor.cc
    aten/backends/kunlunxin/context.cc
    aten/backends/kunlunxin/linalg.cc
    aten/backends/kunlunxin/loss.cc
    aten/backends/kunlunxin/pointwise.cc
    aten/backends/kunlunxin/reduction.cc
    aten/backends/kunlunxin/transfer.cc
)
