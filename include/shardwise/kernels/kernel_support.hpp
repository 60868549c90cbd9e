// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/compute_backend.hpp>
#include <shardwise/backend/detail/any_api.hpp>
#include <shardwise/backend/device_product.hpp>
#include <shardwise/backend/device_sums.hpp>
#include <shardwise/backend/device_weight.hpp>
#include <shardwise/backend/host/products.hpp>
#include <shardwise/kernels/activation.hpp>
#include <shardwise/kernels/add.hpp>
#include <shardwise/kernels/add_row.hpp>
#include <shardwise/kernels/arg_max.hpp>
#include <shardwise/kernels/attention.hpp>
#include <shardwise/kernels/attention_temperature.hpp>
#include <shardwise/kernels/combine_rows.hpp>
#include <shardwise/kernels/copy_rows.hpp>
#include <shardwise/kernels/detail/backward_probes.hpp>
#include <shardwise/kernels/detail/kernel_probe.hpp>
#include <shardwise/kernels/device/activation.hpp>
#include <shardwise/kernels/device/add.hpp>
#include <shardwise/kernels/device/add_row.hpp>
#include <shardwise/kernels/device/arg_max.hpp>
#include <shardwise/kernels/device/attention_temperature.hpp>
#include <shardwise/kernels/device/combine_rows.hpp>
#include <shardwise/kernels/device/copy_rows.hpp>
#include <shardwise/kernels/device/embedding.hpp>
#include <shardwise/kernels/device/expert_table.hpp>
#include <shardwise/kernels/device/fill.hpp>
#include <shardwise/kernels/device/gated_delta.hpp>
#include <shardwise/kernels/device/layer_norm.hpp>
#include <shardwise/kernels/device/mean_rows.hpp>
#include <shardwise/kernels/device/order_experts.hpp>
#include <shardwise/kernels/device/quantize.hpp>
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
#include <shardwise/kernels/device/square_sums.hpp>
#include <shardwise/kernels/device/step_attention.hpp>
#include <shardwise/kernels/device/store_step.hpp>
#include <shardwise/kernels/device/take_rows.hpp>
#include <shardwise/kernels/device/weigh_rows.hpp>
#include <shardwise/kernels/device/xielu.hpp>
#include <shardwise/kernels/dropout.hpp>
#include <shardwise/kernels/embedding.hpp>
#include <shardwise/kernels/expert_table.hpp>
#include <shardwise/kernels/fill.hpp>
#include <shardwise/kernels/gated_delta.hpp>
#include <shardwise/kernels/layer_norm.hpp>
#include <shardwise/kernels/mean_rows.hpp>
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
#include <shardwise/kernels/square_sums.hpp>
#include <shardwise/kernels/step_attention.hpp>
#include <shardwise/kernels/store_rows.hpp>
#include <shardwise/kernels/store_step.hpp>
#include <shardwise/kernels/take_rows.hpp>
#include <shardwise/kernels/weigh_rows.hpp>
#include <shardwise/kernels/xielu.hpp>
#include <shardwise/op/product_sums.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What CUDA and HIP have in common, asked without an SDK.
using AnyDevice = DeviceBackend<detail::AnyApi>;

/// What `Backend` would be where there is none.
struct NoBackend {};

namespace detail {

// One for each header of kernels/: true where a call with the back end's views and streams finds a body.
template <class B, class T = float>
concept HasActivation = requires(KernelProbe<B, T> p) {
    activation<T>(p.in, p.out, ActivationKind::silu, p.stream);
};
template <class B, class T = float>
concept HasAdd = requires(KernelProbe<B, T> p) {
    add<T>(p.in, p.in, p.out, p.stream);
};
template <class B, class T = float>
concept HasAddRow = requires(KernelProbe<B, T> p) {
    add_row<T>(p.held, p.out, p.stream);
};
template <class B>
concept HasArgMax = requires(KernelProbe<B> p) {
    arg_max(p.in, p.chosen, p.stream);
};
template <class B, class T = float>
concept HasAttention = requires(KernelProbe<B, T> p) {
    attention<T>(p.in, p.in, p.in, p.out, AttentionOptions{}, p.stream);
};
template <class B, class T = float>
concept HasAttentionTemperature = requires(KernelProbe<B, T> p) {
    attention_temperature<T>(p.out, p.ids, std::int64_t{1}, 0.0F, p.stream);
};
template <class B, class T = float>
concept HasCombineRows = requires(KernelProbe<B, T> p) {
    combine_rows(p.in, p.ids, p.weights, p.out, p.stream);
};
template <class B, class T = float>
concept HasCopyRows = requires(KernelProbe<B, T> p) {
    copy_rows<T>(p.in, p.out, p.stream);
};
template <class B>
concept HasDropout = requires(KernelProbe<B> p) {
    dropout(p.in, p.out, DropoutOptions{}, p.stream);
};
template <class B, class T = float>
concept HasEmbedding = requires(KernelProbe<B, T> p) {
    embedding<T>(p.ids, p.in, p.out, p.stream);
}
&&(HasHostMemory<B> || requires(KernelProbe<B, T> p, typename B::Weight const& table) {
    embedding(p.ids, table, p.out, p.stream, std::int64_t{});
});
template <class B, class T = float>
concept HasFill = requires(KernelProbe<B, T> p) {
    fill<T>(p.out, 0.0F, p.stream);
};
template <class B, class T = float>
concept HasLayerNorm = requires(KernelProbe<B, T> p) {
    layer_norm<T>(p.in, p.held, p.held, p.out, 0.0F, p.stream);
};
template <class B, class T = float>
concept HasMeanRows = requires(KernelProbe<B, T> p) {
    mean_rows<T>(p.ids, p.in, p.out, p.stream);
};
/// The host counts the rows of each expert, and multiplies by its weight.
template <class B, class T = float>
concept HasMultiplyExperts = requires(KernelProbe<B, T> p, ExpertTable<B> const& table) {
    table.multiply(p.in, p.ids, p.ids, p.out, p.stream);
};
template <class B>
concept HasOrderExperts = requires(KernelProbe<B> p, TensorView<std::int32_t const, 2, B> ids) {
    order_experts(ids, RoutingOrder::row_of_pair, p.chosen, p.chosen, p.stream);
};
/// The host into bytes of a checkpoint, a device into a weight of its own.
template <class B>
concept HasQuantize = (HasHostMemory<B> &&
                       requires(KernelProbe<B> p, std::span<std::byte> bytes) {
                           quantize(p.in, WeightFormat::int8, bytes, bytes, p.stream);
                           dequantize(WeightSource{}, p.out, p.stream);
                       }) ||
                      requires(KernelProbe<B> p, typename B::Weight& weight) {
    quantize(p.in, weight, p.stream);
    dequantize(weight, p.out, p.stream);
};
template <class B, class T = float>
concept HasResidualNorm = requires(KernelProbe<B, T> p) {
    residual_norm<T>(p.in, p.out, p.row, p.out, 0.0F, p.stream);
};
template <class B, class T = float>
concept HasRmsNorm = requires(KernelProbe<B, T> p) {
    rms_norm<T>(p.in, p.held, p.out, 0.0F, p.stream);
};
template <class B, class T = float>
concept HasRope = requires(KernelProbe<B, T> p) {
    rope<T>(p.out, p.ids, p.vector, std::int64_t{}, RopeLayout::half, p.stream);
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
template <class B, class T = float>
concept HasGatedDelta = requires(KernelProbe<B, T> p, TensorView<float, 1, B> state, DeltaWeights<B> const& weights) {
    gated_delta(p.in, p.in, DeltaShape{}, weights, true, state, state, p.out, p.stream);
};
template <class B, class T = float>
concept HasXielu = requires(KernelProbe<B, T> p) {
    xielu(p.in, p.vector, p.out, p.stream);
};
template <class B, class T = float>
concept HasScale = requires(KernelProbe<B, T> p) {
    scale<T>(p.in, p.out, 1.0F, p.stream);
};
template <class B, class T = float>
concept HasScaleRows = requires(KernelProbe<B, T> p) {
    scale_rows(p.in, p.in, p.out, ActivationKind::sigmoid, p.stream);
};
template <class B, class T = float>
concept HasSoftCap = requires(KernelProbe<B, T> p) {
    soft_cap(p.in, p.out, 1.0F, p.stream);
};
template <class B, class T = float>
concept HasSoftmax = requires(KernelProbe<B, T> p) {
    softmax<T>(p.in, p.out, p.stream);
};
/// The host adds up in double, a device in floats.
template <class B, class T = float>
concept HasSquareSums = (HasHostMemory<B> &&
                         requires(KernelProbe<B, T> p, Span<SquareSum const> parts, TensorView<double, 2, B> sums) {
                             sum_squares<T>(p.in, parts, sums, p.stream);
                             scale_by_squares<T>(p.in, sums, std::int64_t{}, p.row, p.out, 0.0F, p.stream);
                         }) ||
                        requires(KernelProbe<B, T> p, SquareCut const& cut) {
    sum_squares<T>(p.in, cut, p.cache, p.stream);
    scale_by_squares<T>(p.in, p.weights, std::int64_t{}, p.held, p.out, 0.0F, p.stream);
};
template <class B, class T = float>
concept HasStepAttention = requires(KernelProbe<B, T> p, StepRows<float, B> const& cache, StepTable<B> const& table) {
    step_attention<float>(p.in, cache, cache, p.out, table, AttentionOptions{}, p.stream);
};
template <class B, class T = float>
concept HasStoreRows = requires(KernelProbe<B, T> p, CachedRows<float, B> const& cache) {
    store_rows<float>(p.in, p.cache, cache, std::int64_t{}, p.stream);
};
template <class B, class T = float>
concept HasStoreStep = requires(KernelProbe<B, T> p, StepTable<B> const& table) {
    store_rows<float>(p.in, p.cache, table, std::int64_t{}, p.stream);
};
template <class B, class T = float>
concept HasTakeRows = requires(KernelProbe<B, T> p) {
    take_rows<T>(p.ids, p.in, p.out, p.stream);
};
template <class B, class T = float>
concept HasWeighRows = requires(KernelProbe<B, T> p) {
    weigh_rows<T>(p.in, p.ids, p.weights, p.out, p.stream);
};

template <class B, class T = float>
concept HasGemm = requires(KernelProbe<B, T> p) {
    B::template gemm<T>(p.in, p.in, p.out, GemmOptions{}, p.stream);
};
template <class B, class T = float>
concept HasMultiply = HoldsWeights<B> && requires(KernelProbe<B, T> p, typename B::Weight const& weight) {
    B::multiply(p.in, weight, p.out, p.stream);
};
template <class B, class T = float>
concept HasMultiplySums = HoldsWeights<B> &&
    requires(KernelProbe<B, T> p, typename B::Weight const& weight, TensorView<float, 3, B> sums) {
    B::multiply_sums(p.in, weight, ProductSums{}, sums, p.stream);
};

}  // namespace detail

/// A kernel, and whether a back end has it.
struct KernelSupport {
    /// As its header in kernels/ is named; `gemm`, `multiply` and `multiply_sums` are the back ends' own.
    std::string_view name;
    bool is_there = false;
    /// For C++ programs: neither a model that runs nor one that trains reaches it yet.
    bool is_library_only = false;
    /// True of what reads or writes rows of activations, in their type.
    bool has_rows = false;
};

namespace detail {

[[nodiscard]] constexpr KernelSupport of_rows(std::string_view name, bool is_there) {
    return {.name = name, .is_there = is_there, .has_rows = true};
}

}  // namespace detail

/// Which kernels a back end has: Host, AnyDevice for CUDA and HIP, NoBackend for all others; by rows of T where it reads or writes
/// activations.
///
/// Order  by name
template <class Backend, class T = float>
inline constexpr std::array kernel_support{
    detail::of_rows("activation", detail::HasActivation<Backend, T>),
    KernelSupport{"activation_backward", detail::HasActivationBackward<Backend>},
    detail::of_rows("add", detail::HasAdd<Backend, T>),
    KernelSupport{"add_backward", detail::HasAddBackward<Backend>},
    detail::of_rows("add_row", detail::HasAddRow<Backend, T>),
    KernelSupport{"arg_max", detail::HasArgMax<Backend>},
    detail::of_rows("attention", detail::HasAttention<Backend, T>),
    KernelSupport{"attention_backward", detail::HasAttentionBackward<Backend>},
    detail::of_rows("attention_temperature", detail::HasAttentionTemperature<Backend, T>),
    detail::of_rows("combine_rows", detail::HasCombineRows<Backend, T>),
    detail::of_rows("copy_rows", detail::HasCopyRows<Backend, T>),
    KernelSupport{"dropout", detail::HasDropout<Backend>},
    detail::of_rows("embedding", detail::HasEmbedding<Backend, T>),
    KernelSupport{"embedding_backward", detail::HasEmbeddingBackward<Backend>},
    detail::of_rows("fill", detail::HasFill<Backend, T>),
    detail::of_rows("gated_delta", detail::HasGatedDelta<Backend, T>),
    detail::of_rows("gemm", detail::HasGemm<Backend, T>),
    KernelSupport{"head_cross_entropy", detail::HasHeadCrossEntropy<Backend>},
    detail::of_rows("layer_norm", detail::HasLayerNorm<Backend, T>),
    KernelSupport{"layer_norm_backward", detail::HasLayerNormBackward<Backend>},
    KernelSupport{"linear_backward", detail::HasLinearBackward<Backend>},
    detail::of_rows("mean_rows", detail::HasMeanRows<Backend, T>),
    detail::of_rows("multiply", detail::HasMultiply<Backend, T>),
    detail::of_rows("multiply_experts", detail::HasMultiplyExperts<Backend, T>),
    detail::of_rows("multiply_sums", detail::HasMultiplySums<Backend, T>),
    KernelSupport{"order_experts", detail::HasOrderExperts<Backend>},
    KernelSupport{"quantize", detail::HasQuantize<Backend>, !std::same_as<Backend, Host>},
    detail::of_rows("residual_norm", detail::HasResidualNorm<Backend, T>),
    detail::of_rows("rms_norm", detail::HasRmsNorm<Backend, T>),
    KernelSupport{"rms_norm_backward", detail::HasRmsNormBackward<Backend>},
    detail::of_rows("rope", detail::HasRope<Backend, T>),
    KernelSupport{"rope_backward", detail::HasRopeBackward<Backend>},
    KernelSupport{"rope_turns", detail::HasRopeTurns<Backend>},
    KernelSupport{"route", detail::HasRoute<Backend>},
    KernelSupport{"sample", detail::HasSample<Backend>},
    detail::of_rows("scale", detail::HasScale<Backend, T>),
    KernelSupport{"scale_backward", detail::HasScaleBackward<Backend>},
    detail::of_rows("scale_rows", detail::HasScaleRows<Backend, T>),
    detail::of_rows("soft_cap", detail::HasSoftCap<Backend, T>),
    KernelSupport{"soft_cap_backward", detail::HasSoftCapBackward<Backend>},
    detail::of_rows("softmax", detail::HasSoftmax<Backend, T>),
    detail::of_rows("square_sums", detail::HasSquareSums<Backend, T>),
    detail::of_rows("step_attention", detail::HasStepAttention<Backend, T>),
    detail::of_rows("store_rows", detail::HasStoreRows<Backend, T>),
    detail::of_rows("store_step", detail::HasStoreStep<Backend, T>),
    detail::of_rows("take_rows", detail::HasTakeRows<Backend, T>),
    detail::of_rows("weigh_rows", detail::HasWeighRows<Backend, T>),
    detail::of_rows("xielu", detail::HasXielu<Backend, T>),
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
