// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/compute_backend.hpp>
#include <shardwise/backend/detail/any_api.hpp>
#include <shardwise/backend/device_weight.hpp>
#include <shardwise/backend/host/products.hpp>
#include <shardwise/kernels/activation.hpp>
#include <shardwise/kernels/add.hpp>
#include <shardwise/kernels/add_row.hpp>
#include <shardwise/kernels/arg_max.hpp>
#include <shardwise/kernels/attention.hpp>
#include <shardwise/kernels/backward/activation.hpp>
#include <shardwise/kernels/backward/add.hpp>
#include <shardwise/kernels/backward/attention.hpp>
#include <shardwise/kernels/backward/cross_entropy.hpp>
#include <shardwise/kernels/backward/embedding.hpp>
#include <shardwise/kernels/backward/layer_norm.hpp>
#include <shardwise/kernels/backward/linear.hpp>
#include <shardwise/kernels/backward/rms_norm.hpp>
#include <shardwise/kernels/backward/rope.hpp>
#include <shardwise/kernels/backward/scale.hpp>
#include <shardwise/kernels/backward/soft_cap.hpp>
#include <shardwise/kernels/combine_rows.hpp>
#include <shardwise/kernels/copy_rows.hpp>
#include <shardwise/kernels/device/activation.hpp>
#include <shardwise/kernels/device/add.hpp>
#include <shardwise/kernels/device/add_row.hpp>
#include <shardwise/kernels/device/arg_max.hpp>
#include <shardwise/kernels/device/combine_rows.hpp>
#include <shardwise/kernels/device/copy_rows.hpp>
#include <shardwise/kernels/device/embedding.hpp>
#include <shardwise/kernels/device/expert_table.hpp>
#include <shardwise/kernels/device/fill.hpp>
#include <shardwise/kernels/device/gated_delta.hpp>
#include <shardwise/kernels/device/layer_norm.hpp>
#include <shardwise/kernels/device/order_experts.hpp>
#include <shardwise/kernels/device/residual_norm.hpp>
#include <shardwise/kernels/device/rms_norm.hpp>
#include <shardwise/kernels/device/rope.hpp>
#include <shardwise/kernels/device/rope_turns.hpp>
#include <shardwise/kernels/device/route.hpp>
#include <shardwise/kernels/device/sample.hpp>
#include <shardwise/kernels/device/scale.hpp>
#include <shardwise/kernels/device/scale_rows.hpp>
#include <shardwise/kernels/device/soft_cap.hpp>
#include <shardwise/kernels/device/softmax.hpp>
#include <shardwise/kernels/device/step_attention.hpp>
#include <shardwise/kernels/device/store_step.hpp>
#include <shardwise/kernels/device/take_rows.hpp>
#include <shardwise/kernels/device/xielu.hpp>
#include <shardwise/kernels/dropout.hpp>
#include <shardwise/kernels/embedding.hpp>
#include <shardwise/kernels/expert_table.hpp>
#include <shardwise/kernels/fill.hpp>
#include <shardwise/kernels/gated_delta.hpp>
#include <shardwise/kernels/layer_norm.hpp>
#include <shardwise/kernels/order_experts.hpp>
#include <shardwise/kernels/quantize.hpp>
#include <shardwise/kernels/residual_norm.hpp>
#include <shardwise/kernels/rms_norm.hpp>
#include <shardwise/kernels/rope.hpp>
#include <shardwise/kernels/rope_turns.hpp>
#include <shardwise/kernels/route.hpp>
#include <shardwise/kernels/sample.hpp>
#include <shardwise/kernels/sampling_table.hpp>
#include <shardwise/kernels/scale.hpp>
#include <shardwise/kernels/scale_rows.hpp>
#include <shardwise/kernels/soft_cap.hpp>
#include <shardwise/kernels/softmax.hpp>
#include <shardwise/kernels/step_attention.hpp>
#include <shardwise/kernels/store_rows.hpp>
#include <shardwise/kernels/store_step.hpp>
#include <shardwise/kernels/take_rows.hpp>
#include <shardwise/kernels/xielu.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What CUDA and HIP have in common, asked without an SDK.
using AnyDevice = DeviceBackend<detail::AnyApi>;

/// What `Backend` would be where there is none.
struct NoBackend {};

namespace detail {

/// What kernels are called with, on some back end.
template <class B>
requires requires {
    typename B::Stream;
}
struct KernelProbe {
    TensorView<float const, 2, B> in;
    TensorView<float, 2, B> out;
    TensorView<float const, 1, B> vector;
    TensorView<float, 1, B> sums;
    TensorView<double, 1, B> scales;
    TensorView<std::int32_t const, 1, B> ids;
    TensorView<std::int32_t, 1, B> chosen;
    TensorView<std::int32_t, 2, B> routes;
    typename B::Stream& stream;
};

// One for each header of kernels/: true where a call with the back end's views and streams finds a body.
template <class B>
concept HasActivation = requires(KernelProbe<B> p) {
    activation<float>(p.in, p.out, ActivationKind::silu, p.stream);
};
template <class B>
concept HasAdd = requires(KernelProbe<B> p) {
    add<float>(p.in, p.in, p.out, p.stream);
};
template <class B>
concept HasAddRow = requires(KernelProbe<B> p) {
    add_row<float>(p.vector, p.out, p.stream);
};
template <class B>
concept HasArgMax = requires(KernelProbe<B> p) {
    arg_max(p.in, p.chosen, p.stream);
};
template <class B>
concept HasAttention = requires(KernelProbe<B> p) {
    attention<float>(p.in, p.in, p.in, p.out, AttentionOptions{}, p.stream);
};
template <class B>
concept HasCombineRows = requires(KernelProbe<B> p) {
    combine_rows(p.in, p.ids, p.in, p.out, p.stream);
};
template <class B>
concept HasCopyRows = requires(KernelProbe<B> p) {
    copy_rows<float>(p.in, p.out, p.stream);
};
template <class B>
concept HasDropout = requires(KernelProbe<B> p) {
    dropout(p.in, p.out, DropoutOptions{}, p.stream);
};
template <class B>
concept HasEmbedding = requires(KernelProbe<B> p) {
    embedding<float>(p.ids, p.in, p.out, p.stream);
};
template <class B>
concept HasFill = requires(KernelProbe<B> p) {
    fill<float>(p.out, 0.0F, p.stream);
};
template <class B>
concept HasLayerNorm = requires(KernelProbe<B> p) {
    layer_norm<float>(p.in, p.vector, p.vector, p.out, 0.0F, p.stream);
};
/// The host counts the rows of each expert, and multiplies by its weight.
template <class B>
concept HasMultiplyExperts = requires(KernelProbe<B> p, ExpertTable<B> const& table) {
    table.multiply(p.in, p.ids, p.ids, p.out, p.stream);
};
template <class B>
concept HasOrderExperts = requires(KernelProbe<B> p, TensorView<std::int32_t const, 2, B> ids) {
    order_experts(ids, RoutingOrder::row_of_pair, p.chosen, p.chosen, p.stream);
};
template <class B>
concept HasQuantize = requires(KernelProbe<B> p, std::span<std::byte> bytes) {
    quantize(p.in, WeightFormat::int8, bytes, bytes, p.stream);
};
template <class B>
concept HasResidualNorm = requires(KernelProbe<B> p) {
    residual_norm<float>(p.in, p.out, p.vector, p.out, 0.0F, p.stream);
};
template <class B>
concept HasRmsNorm = requires(KernelProbe<B> p) {
    rms_norm<float>(p.in, p.vector, p.out, 0.0F, p.stream);
};
template <class B>
concept HasRope = requires(KernelProbe<B> p) {
    rope<float>(p.out, p.ids, p.vector, std::int64_t{}, RopeLayout::half, p.stream);
};
template <class B>
concept HasRopeTurns = requires(KernelProbe<B> p) {
    rope_turns(p.ids, p.vector, p.out, p.stream);
    rope<float>(p.out, p.in, std::int64_t{}, RopeLayout::half, p.stream);
};
template <class B>
concept HasRoute = requires(KernelProbe<B> p) {
    route(p.in, p.vector, p.routes, p.out, RouterOptions{}, p.stream);
};
template <class B>
concept HasSample = requires(KernelProbe<B> p, SamplingTable<B>& table) {
    sample(p.in, table, p.chosen, p.stream);
};
template <class B>
concept HasGatedDelta = requires(KernelProbe<B> p, TensorView<float, 1, B> state, DeltaWeights<B> const& weights) {
    gated_delta(p.in, p.in, DeltaShape{}, weights, true, state, state, p.out, p.stream);
};
template <class B>
concept HasXielu = requires(KernelProbe<B> p) {
    xielu(p.in, p.vector, p.out, p.stream);
};
template <class B>
concept HasScale = requires(KernelProbe<B> p) {
    scale<float>(p.in, p.out, 1.0F, p.stream);
};
template <class B>
concept HasScaleRows = requires(KernelProbe<B> p) {
    scale_rows(p.in, p.in, p.out, ActivationKind::sigmoid, p.stream);
};
template <class B>
concept HasSoftCap = requires(KernelProbe<B> p) {
    soft_cap(p.in, p.out, 1.0F, p.stream);
};
template <class B>
concept HasSoftmax = requires(KernelProbe<B> p) {
    softmax<float>(p.in, p.out, p.stream);
};
template <class B>
concept HasStepAttention = requires(KernelProbe<B> p, StepRows<float, B> const& cache, StepTable<B> const& table) {
    step_attention<float>(p.in, cache, cache, p.out, table, AttentionOptions{}, p.stream);
};
template <class B>
concept HasStoreRows = requires(KernelProbe<B> p, CachedRows<float, B> const& cache) {
    store_rows<float>(p.in, p.out, cache, std::int64_t{}, p.stream);
};
template <class B>
concept HasStoreStep = requires(KernelProbe<B> p, StepTable<B> const& table) {
    store_rows<float>(p.in, p.out, table, std::int64_t{}, p.stream);
};
template <class B>
concept HasTakeRows = requires(KernelProbe<B> p) {
    take_rows<float>(p.ids, p.in, p.out, p.stream);
};

// Those of kernels/backward/.
template <class B>
concept HasActivationBackward = requires(KernelProbe<B> p) {
    activation_backward(p.in, p.in, p.out, false, ActivationKind::silu, p.stream);
    gated_activation_backward(p.in, p.in, p.in, p.out, p.out, false, ActivationKind::silu, p.stream);
};
template <class B>
concept HasAddBackward = requires(KernelProbe<B> p) {
    add_backward(p.in, p.out, false, p.stream);
};
template <class B>
concept HasAttentionBackward = requires(KernelProbe<B> p) {
    attention_backward(AttentionForward{}, AttentionGradients{}, AttentionOptions{}, p.sums, p.stream);
};
template <class B>
concept HasEmbeddingBackward = requires(KernelProbe<B> p) {
    embedding_backward(p.ids, p.in, p.out, false, p.stream);
};
template <class B>
concept HasHeadCrossEntropy = requires(KernelProbe<B> p) {
    head_cross_entropy(HeadLoss{}, HeadLossGradients{}, HeadLossOptions{}, p.sums, p.stream);
};
template <class B>
concept HasLayerNormBackward = requires(KernelProbe<B> p) {
    layer_norm_backward(p.in, p.vector, p.in, p.out, false, p.sums, p.sums, false, p.scales, 0.0F, p.stream);
};
template <class B>
concept HasLinearBackward = requires(KernelProbe<B> p) {
    linear_input_gradient(p.in, p.in, p.out, false, p.stream);
    linear_weight_gradient(p.in, p.in, p.out, false, p.stream);
    linear_bias_gradient(p.in, p.sums, false, p.stream);
};
template <class B>
concept HasRmsNormBackward = requires(KernelProbe<B> p) {
    rms_norm_backward(p.in, p.vector, p.in, p.out, false, p.sums, false, p.scales, 0.0F, p.stream);
};
template <class B>
concept HasRopeBackward = requires(KernelProbe<B> p) {
    rope_backward<float>(p.out, p.ids, p.vector, std::int64_t{}, RopeLayout::half, p.stream);
};
template <class B>
concept HasScaleBackward = requires(KernelProbe<B> p) {
    scale_backward(p.in, p.out, false, 0.0F, p.stream);
};
template <class B>
concept HasSoftCapBackward = requires(KernelProbe<B> p) {
    soft_cap_backward(p.in, p.in, p.out, false, 1.0F, p.stream);
};

}  // namespace detail

/// A kernel, and whether a back end has it.
struct KernelSupport {
    /// As its header in kernels/ is named; `gemm` and `multiply` are the back ends' own.
    std::string_view name;
    bool is_there = false;
    /// For C++ programs: neither a model that runs nor one that trains reaches it yet.
    bool is_library_only = false;
};

/// Which kernels a back end has: Host, AnyDevice for CUDA and HIP, NoBackend for all others.
///
/// Order  by name
template <class Backend>
inline constexpr std::array kernel_support{
    KernelSupport{"activation", detail::HasActivation<Backend>},
    KernelSupport{"activation_backward", detail::HasActivationBackward<Backend>},
    KernelSupport{"add", detail::HasAdd<Backend>},
    KernelSupport{"add_backward", detail::HasAddBackward<Backend>},
    KernelSupport{"add_row", detail::HasAddRow<Backend>},
    KernelSupport{"arg_max", detail::HasArgMax<Backend>},
    KernelSupport{"attention", detail::HasAttention<Backend>},
    KernelSupport{"attention_backward", detail::HasAttentionBackward<Backend>},
    KernelSupport{"combine_rows", detail::HasCombineRows<Backend>},
    KernelSupport{"copy_rows", detail::HasCopyRows<Backend>},
    KernelSupport{"dropout", detail::HasDropout<Backend>},
    KernelSupport{"embedding", detail::HasEmbedding<Backend>},
    KernelSupport{"embedding_backward", detail::HasEmbeddingBackward<Backend>},
    KernelSupport{"fill", detail::HasFill<Backend>},
    KernelSupport{"gated_delta", detail::HasGatedDelta<Backend>},
    KernelSupport{"gemm", MultipliesMatrices<Backend>},
    KernelSupport{"head_cross_entropy", detail::HasHeadCrossEntropy<Backend>},
    KernelSupport{"layer_norm", detail::HasLayerNorm<Backend>},
    KernelSupport{"layer_norm_backward", detail::HasLayerNormBackward<Backend>},
    KernelSupport{"linear_backward", detail::HasLinearBackward<Backend>},
    KernelSupport{"multiply", HoldsWeights<Backend>},
    KernelSupport{"multiply_experts", detail::HasMultiplyExperts<Backend>},
    KernelSupport{"order_experts", detail::HasOrderExperts<Backend>},
    KernelSupport{"quantize", detail::HasQuantize<Backend>},
    KernelSupport{"residual_norm", detail::HasResidualNorm<Backend>},
    KernelSupport{"rms_norm", detail::HasRmsNorm<Backend>},
    KernelSupport{"rms_norm_backward", detail::HasRmsNormBackward<Backend>},
    KernelSupport{"rope", detail::HasRope<Backend>},
    KernelSupport{"rope_backward", detail::HasRopeBackward<Backend>},
    KernelSupport{"rope_turns", detail::HasRopeTurns<Backend>, !std::same_as<Backend, Host>},
    KernelSupport{"route", detail::HasRoute<Backend>},
    KernelSupport{"sample", detail::HasSample<Backend>},
    KernelSupport{"scale", detail::HasScale<Backend>},
    KernelSupport{"scale_backward", detail::HasScaleBackward<Backend>},
    KernelSupport{"scale_rows", detail::HasScaleRows<Backend>},
    KernelSupport{"soft_cap", detail::HasSoftCap<Backend>},
    KernelSupport{"soft_cap_backward", detail::HasSoftCapBackward<Backend>},
    KernelSupport{"softmax", detail::HasSoftmax<Backend>},
    KernelSupport{"step_attention", detail::HasStepAttention<Backend>},
    KernelSupport{"store_rows", detail::HasStoreRows<Backend>},
    KernelSupport{"store_step", detail::HasStoreStep<Backend>},
    KernelSupport{"take_rows", detail::HasTakeRows<Backend>},
    KernelSupport{"xielu", detail::HasXielu<Backend>},
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
