// SPDX-License-Identifier: Apache-2.0
#pragma once

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
#include <shardwise/kernels/detail/kernel_probe.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

// One for each header of kernels/backward/: true where a call with the back end's views and streams finds a body.
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
    linear_input_gradient(p.in, p.in, p.out, {}, p.stream);
    linear_weight_gradient(p.in, p.in, p.out, {}, p.stream);
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

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
