// A client of the operator library with a plain C interface, so that a test can call any operator through ctypes. It is
// compiled against an installed SDK, like a real client.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <xdnn_pytorch/xdnn_pytorch.h>

namespace xp = xdnn_pytorch;

extern "C" {

struct ClientTensor {
    const int64_t* sizes;
    const int64_t* strides;
    int64_t dims;
    int32_t type; // position in xdnn_pytorch::ScalarType
    void* data;
};

struct ClientScalar {
    bool floating;
    float number;
    int64_t integer;
};

// Arguments of one call: those that the operator does not take are ignored. type is -1 for none.
struct ClientCall {
    const char* name;
    const ClientTensor* tensors; // inputs, then the output
    int64_t tensor_count;
    const ClientScalar* scalars;
    int64_t scalar_count;
    const int64_t* dims;
    int64_t dim_count;
    int64_t reduction;
    int64_t ignore_index;
    int32_t type;
    bool keepdim;
    const char* mode; // or null
};

xdnn::Context* client_context(void) {
    return xdnn::create_context();
}

void client_destroy(xdnn::Context* context) {
    xdnn::destroy_context(context);
}

void client_set_stream(xdnn::Context* context, XPUStream stream) {
    context->set_stream(stream);
}

int client_device_type(xdnn::Context* context) {
    return context->dev().type();
}

// What the operator answers, or -1 for a name that this client does not know.
int client_call(xdnn::Context* context, const ClientCall* call) {
    std::vector<xp::Tensor> t;
    for (int64_t i = 0; i < call->tensor_count; ++i) {
        const ClientTensor& from = call->tensors[i];
        t.push_back(
            {{from.sizes, from.sizes + from.dims},
             {from.strides, from.strides + from.dims},
             static_cast<xp::ScalarType>(from.type),
             from.data});
    }
    std::vector<xp::Scalar> s;
    for (int64_t i = 0; i < call->scalar_count; ++i) {
        const ClientScalar& from = call->scalars[i];
        s.push_back(from.floating ? xp::Scalar::create(from.number) : xp::Scalar::create(from.integer));
    }
    const std::vector<int64_t> dims(call->dims, call->dims + call->dim_count);
    const xp::optional<xp::ScalarType> type =
        call->type < 0 ? xp::optional<xp::ScalarType>() : static_cast<xp::ScalarType>(call->type);
    const xp::optional<xp::StringView> mode =
        call->mode == nullptr ? xp::optional<xp::StringView>() : xp::StringView(call->mode);

    const std::map<std::string, std::function<int()>> operators = {
        {"add_tensor", [&] { return xp::add_tensor(context, t.at(0), t.at(1), s.at(0), t.at(2)); }},
        {"add_scalar", [&] { return xp::add_scalar(context, t.at(0), s.at(0), s.at(1), t.at(1)); }},
        {"sub_tensor", [&] { return xp::sub_tensor(context, t.at(0), t.at(1), s.at(0), t.at(2)); }},
        {"sub_scalar", [&] { return xp::sub_scalar(context, t.at(0), s.at(0), s.at(1), t.at(1)); }},
        {"mul_tensor", [&] { return xp::mul_tensor(context, t.at(0), t.at(1), t.at(2)); }},
        {"mul_scalar", [&] { return xp::mul_scalar(context, t.at(0), s.at(0), t.at(1)); }},
        {"div_tensor", [&] { return xp::div_tensor(context, t.at(0), t.at(1), t.at(2)); }},
        {"div_tensor_mode", [&] { return xp::div_tensor_mode(context, t.at(0), t.at(1), mode, t.at(2)); }},
        {"div_scalar", [&] { return xp::div_scalar(context, t.at(0), s.at(0), t.at(1)); }},
        {"fill__scalar", [&] { return xp::fill__scalar(context, t.at(0), s.at(0), t.at(0)); }},
        {"cast", [&] { return xp::cast(context, t.at(0), t.at(1)); }},
        {"relu", [&] { return xp::relu(context, t.at(0), t.at(1)); }},
        {"threshold_backward", [&] { return xp::threshold_backward(context, t.at(0), t.at(1), s.at(0), t.at(2)); }},
        {"sum", [&] { return xp::sum(context, t.at(0), type, t.at(1)); }},
        {"sum_dim_IntList", [&] { return xp::sum_dim_IntList(context, t.at(0), dims, call->keepdim, type, t.at(1)); }},
        {"mean", [&] { return xp::mean(context, t.at(0), type, t.at(1)); }},
        {"mean_dim", [&] { return xp::mean_dim(context, t.at(0), dims, call->keepdim, type, t.at(1)); }},
        {"log_softmax", [&] { return xp::log_softmax(context, t.at(0), dims.at(0), type, t.at(1)); }},
        {"_log_softmax_backward_data",
         [&] { return xp::_log_softmax_backward_data(context, t.at(0), t.at(1), dims.at(0), type, t.at(2)); }},
        {"nll_loss",
         [&] {
             return xp::nll_loss(context, t.at(0), t.at(1), t.at(2), call->reduction, call->ignore_index, t.at(3));
         }},
        {"nll_loss_backward",
         [&] {
             return xp::nll_loss_backward(
                 context, t.at(0), t.at(1), t.at(2), t.at(3), call->reduction, call->ignore_index, t.at(4), t.at(5));
         }},
        {"addmm", [&] { return xp::addmm(context, t.at(0), t.at(1), t.at(2), s.at(0), s.at(1), t.at(3)); }},
        {"mm", [&] { return xp::mm(context, t.at(0), t.at(1), t.at(2)); }},
        {"bmm", [&] { return xp::bmm(context, t.at(0), t.at(1), t.at(2)); }},
    };
    const auto found = operators.find(call->name);
    return found == operators.end() ? -1 : found->second();
}

} // extern "C"
