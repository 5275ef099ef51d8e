# Sources of the runtime layer, relative to csrc/. csrc/ itself is the include directory.
set(TORCH_FL_RUNTIME_SOURCES
    runtime/accelerator/kunlunxin/device.cc
    runtime/accelerator/kunlunxin/error.cc
    runtime/accelerator/kunlunxin/event.cc
    runtime/accelerator/kunlunxin/foreign_pinned.cc
    runtime/accelerator/kunlunxin/memory.cc
    runtime/accelerator/kunlunxin/process.cc
    runtime/accelerator/kunlunxin/stream.cc
    runtime/block_pool.cc
    runtime/copy.cc
    runtime/device_allocator.cc
    runtime/event.cc
    runtime/generator.cc
    runtime/guard.cc
    runtime/hooks.cc
    runtime/host_allocator.cc
    runtime/runtime.cc
    runtime/stream.cc
)

# Device tracing. The vendor's CUPTI-compatible tracer instruments the CUDA dispatch key, which this backend does
# not use: armed, it would report an empty device timeline. kunlunxin gets the tracer that says it is unavailable.
if(NOT DEFINED TORCH_FL_ACCELERATOR)
    set(TORCH_FL_ACCELERATOR kunlunxin)
endif()
if(TORCH_FL_ACCELERATOR STREQUAL "kunlunxin")
    set(TORCH_FL_TRACER_SOURCES profiler/unavailable_device_tracer.cc)
else()
    message(FATAL_ERROR "no device tracer is known for the accelerator ${TORCH_FL_ACCELERATOR}")
endif()
list(APPEND TORCH_FL_RUNTIME_SOURCES ${TORCH_FL_TRACER_SOURCES})
