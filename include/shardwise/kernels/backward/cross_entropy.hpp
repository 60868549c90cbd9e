// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/gemm_options.hpp>
#include <shardwise/backend/host/gemm.hpp>
#include <shardwise/core/check_views.hpp>
#include <shardwise/core/input_pieces.hpp>
#include <shardwise/core/list.hpp>
#include <shardwise/core/scalar_math.hpp>
#include <shardwise/kernels/backward/ignored_target.hpp>
#include <shardwise/kernels/backward/linear.hpp>
#include <shardwise/kernels/detail/check_gradients.hpp>
#include <shardwise/kernels/detail/element.hpp>
#include <shardwise/kernels/detail/lanes_backward.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How a head's products become logits, and how many tokens have logits at a time.
struct HeadLossOptions {
    /// Multiplies the products (cohere's logit_scale, the inverse of granite's logits_scaling).
    float scale = 1.0F;
    /// Logits become cap * tanh(logit / cap); 0: they do not (gemma2).
    float soft_cap = 0.0F;
    /// Tokens of a chunk. The bits do not depend on it where it is a multiple of 256 (of what products sum at a time).
    std::int64_t chunk = 256;
};

/// Floats that head_cross_entropy needs beside its tensors: one chunk of logits.
[[nodiscard]] constexpr std::int64_t head_cross_entropy_workspace(std::int64_t tokens, std::int64_t vocabulary,
                                                                  HeadLossOptions const& options = {}) {
    return std::min(tokens, options.chunk) * vocabulary;
}

/// What a loss on a head's logits reads.
///
/// Shapes  in [tokens, hidden]; head [vocabulary, hidden]; bias [vocabulary] or empty; targets [tokens]: an id, or ignored_target;
///         weights [tokens] or empty: 1 each
struct HeadLoss {
    TensorView<float const, 2, Host> in;
    TensorView<float const, 2, Host> head;
    TensorView<float const, 1, Host> bias{};
    TensorView<std::int32_t const, 1, Host> targets;
    TensorView<float const, 1, Host> weights{};
};

/// What it makes.
///
/// Shapes  loss [tokens]; in_gradient [tokens, hidden], head_gradient [vocabulary, hidden], bias_gradient [vocabulary]: each may be
///         empty
struct HeadLossGradients {
    TensorView<float, 1, Host> loss;
    TensorView<float, 2, Host> in{};
    TensorView<float, 2, Host> head{};
    TensorView<float, 1, Host> bias{};
    bool is_input_added = false;
    bool is_head_added = false;

    [[nodiscard]] bool is_loss_only() const { return in.empty() && head.empty() && bias.empty(); }
};

namespace detail {

/// The rows of one chunk: their losses, and logits into gradients.
struct LossRows {
    float (*greatest)(float const*, std::int64_t);
    double (*sum)(float const*, std::int64_t, float);
    void (*finish)(float*, std::int64_t, float, float);
    void (*gradient)(float*, std::int64_t, std::int64_t, float, double, float, float, float);

    TensorView<float, 2, Host> logits;
    TensorView<float const, 1, Host> bias;
    std::int32_t const* targets;
    float const* weights;
    float* loss;
    HeadLossOptions options;
    bool is_loss_only;

    /// The sum of exp(logit - largest): pieces of the vocabulary each in double, then by halves as a tree of leaves, so that ranks
    /// which have some of the pieces can share it.
    [[nodiscard]] double sum_of(float const* row, float largest) const {
        auto const pieces = leaf_pieces(logits.extent(1));
        double sums[64] = {};
        for (std::int64_t i = 0; i < pieces.count; ++i)
            sums[i] = sum(row + pieces.begin_of(i), pieces.begin_of(i + 1) - pieces.begin_of(i), largest);
        for (std::int64_t step = 1; step < pieces.count; step *= 2) {
            for (std::int64_t i = 0; i + step < pieces.count; i += 2 * step) sums[i] += sums[i + step];
        }
        return sums[0];
    }
    void operator()(std::int64_t begin, std::int64_t end) const {
        auto const width = logits.extent(1);
        for (auto row = begin; row < end; ++row) {
            auto* const values = logits.row(row);
            if (targets[row] == ignored_target) {
                loss[row] = 0.0F;
                if (!is_loss_only) std::fill_n(values, width, 0.0F);
                continue;
            }
            for (std::int64_t i = 0; i < bias.elements(); ++i) values[i] += bias.data()[i];
            finish(values, width, options.scale, options.soft_cap);
            auto const largest = greatest(values, width);
            auto const total = sum_of(values, largest);
            auto const distance = static_cast<double>(largest) - static_cast<double>(values[targets[row]]);
            loss[row] = static_cast<float>(logarithm_of(total) + distance);
            if (is_loss_only) continue;
            gradient(values, width, targets[row], largest, total, weights == nullptr ? 1.0F : weights[row],
                     options.scale, options.soft_cap);
        }
    }
};

[[nodiscard]] inline Result<> check_head_loss(std::string_view kernel, HeadLoss const& in, HeadLossGradients const& to,
                                              HeadLossOptions const& options) {
    if (auto const known =
            check_views(kernel, in.in, in.head, in.bias, in.targets, in.weights, to.loss, to.in, to.head, to.bias);
        !known)
        return known;
    auto const tokens = in.in.extent(0);
    auto const hidden = in.in.extent(1);
    auto const vocabulary = in.head.extent(0);
    if (auto const checked = check_shape(kernel, "head", in.head, vocabulary, hidden); !checked) return checked;
    if (auto const checked = check_columns(kernel, "bias", in.bias, vocabulary, true); !checked) return checked;
    if (auto const checked = check_optional(kernel, "in_gradient", to.in, tokens, hidden); !checked) return checked;
    if (auto const checked = check_optional(kernel, "head_gradient", to.head, vocabulary, hidden); !checked)
        return checked;
    if (auto const checked = check_columns(kernel, "bias_gradient", to.bias, vocabulary, true); !checked)
        return checked;
    Error error{ErrorCode::shape_mismatch};
    error.in(kernel);
    if (in.targets.elements() != tokens)
        return error.because("each token needs a target").got(in.targets.elements()).expected(tokens);
    if (to.loss.elements() != tokens)
        return error.because("each token needs a loss").got(to.loss.elements()).expected(tokens);
    if (!in.weights.empty() && in.weights.elements() != tokens)
        return error.because("each token needs a weight").got(in.weights.elements()).expected(tokens);
    auto const is_finite = [](float value) { return std::abs(value) <= std::numeric_limits<float>::max(); };
    std::string_view const wrong = !is_finite(options.scale)                                     ? "scale"
                                   : !(options.soft_cap >= 0.0F) || !is_finite(options.soft_cap) ? "soft_cap"
                                   : options.chunk < 1                                           ? "chunk"
                                                                                                 : "";
    if (wrong.empty()) return {};
    return Error{ErrorCode::invalid_argument}.in(kernel).at(wrong).because(
        wrong == "chunk"   ? "must be at least one token"
        : wrong == "scale" ? "must be finite"
                           : "must be at least 0, and finite");
}

/// Targets are read when the stream gets there.
[[nodiscard]] inline Result<> check_targets(std::string_view kernel, TensorView<std::int32_t const, 1, Host> targets,
                                            std::int64_t vocabulary) {
    for (std::int64_t token = 0; token < targets.elements(); ++token) {
        auto const target = targets.data()[token];
        if (target == ignored_target || (target >= 0 && target < vocabulary)) continue;
        return Error{ErrorCode::invalid_argument}
            .in(kernel)
            .at("targets")
            .because("have an id that is not of the vocabulary, nor -100, which has no loss")
            .got(target)
            .between(0, vocabulary - 1)
            .fix("check the tokenizer that made the ids");
    }
    return {};
}

/// What makes losses, and gradients of logits, of the rows of a chunk.
[[nodiscard]] inline LossRows loss_rows(HeadLoss const& in, HeadLossGradients const& to, HeadLossOptions const& options,
                                        IsaLevel level) {
    return {choose_kernel<decltype(LossRows::greatest)>(level, SHARDWISE_KERNEL_LEVELS(greatest_of<float>)),
            choose_kernel<decltype(LossRows::sum)>(level, SHARDWISE_KERNEL_LEVELS(softmax_sum<float>)),
            choose_kernel<decltype(LossRows::finish)>(level, SHARDWISE_KERNEL_LEVELS(finish_logits)),
            choose_kernel<decltype(LossRows::gradient)>(level, SHARDWISE_KERNEL_LEVELS(cross_entropy_gradient_row)),
            {},
            in.bias,
            in.targets.data(),
            in.weights.empty() ? nullptr : in.weights.data(),
            to.loss.data(),
            options,
            to.is_loss_only()};
}
/// Those of a chunk that begins at token `first`.
[[nodiscard]] inline LossRows rows_of_chunk(LossRows rows, TensorView<float, 2, Host> logits, std::int64_t first) {
    rows.logits = logits;
    rows.targets += first;
    rows.weights = rows.weights == nullptr ? nullptr : rows.weights + first;
    rows.loss += first;
    return rows;
}
/// As many rows at a time as products sum, so that the chunk plays no part here either.
[[nodiscard]] inline Result<> head_bias_gradient(TensorView<float, 2, Host> logits, TensorView<float, 1, Host> to,
                                                 bool is_added, HostStream& stream) {
    auto const count = logits.extent(0);
    for (std::int64_t row = 0; !to.empty() && row < std::max<std::int64_t>(count, 1); row += tile_inputs) {
        auto const some = logits.rows(row, std::min(tile_inputs, count - row));
        if (auto const made = linear_bias_gradient(some, to, is_added || row > 0, stream); !made) return made;
    }
    return {};
}

/// What a loss multiplies by a head of floats.
///
/// Shapes  weight [vocabulary, hidden]; of `logits` in [tokens, hidden], to [tokens, vocabulary]; of `input_gradient` the other way round
struct DenseHead {
    TensorView<float const, 2, Host> weight;

    [[nodiscard]] Result<> logits(TensorView<float const, 2, Host> in, TensorView<float, 2, Host> to,
                                  HostStream& stream) const {
        return Host::gemm<float>(in, weight, to, {.is_b_transposed = true}, stream);
    }
    [[nodiscard]] Result<> input_gradient(TensorView<float const, 2, Host> gradient, TensorView<float, 2, Host> to,
                                          bool is_added, HostStream& stream) const {
        return linear_input_gradient(gradient, weight, to, {.is_added = is_added}, stream);
    }
    /// The columns of all logits whose weights' gradient is made here.
    [[nodiscard]] static TensorView<float const, 2, Host> own(TensorView<float const, 2, Host> logits) {
        return logits;
    }
};

/// head_cross_entropy with a head that makes its products itself; in.head is not read, and all else was checked.
template <class Head>
[[nodiscard]] Result<> cross_entropy_of(Head const& head, std::int64_t vocabulary, HeadLoss const& in,
                                        HeadLossGradients const& to, HeadLossOptions const& options,
                                        TensorView<float, 1, Host> workspace, HostStream& stream) {
    constexpr std::string_view name = "head_cross_entropy";
    auto const tokens = in.in.extent(0);
    auto const needed = head_cross_entropy_workspace(tokens, vocabulary, options);
    if (workspace.elements() < needed) return small_workspace(name, workspace.elements(), needed);
    if (!stream.isa()) return stream.isa().error();
    auto const rows = loss_rows(in, to, options, *stream.isa());
    stream.submit([targets = in.targets, vocabulary, name] { return check_targets(name, targets, vocabulary); });
    for (std::int64_t first = 0; first < std::max<std::int64_t>(tokens, 1); first += options.chunk) {
        auto const count = std::min(options.chunk, tokens - first);
        auto const part = in.in.rows(first, count);
        TensorView<float, 2, Host> const logits(workspace.data(), {count, vocabulary});
        if (auto const made = head.logits(part, logits, stream); !made) return made;
        Host::launch(count, rows_of_chunk(rows, logits, first), stream, row_grain(vocabulary));
        bool const is_added = to.is_head_added || first > 0;
        if (!to.in.empty()) {
            auto const made = head.input_gradient(logits, to.in.rows(first, count), to.is_input_added, stream);
            if (!made) return made;
        }
        if (!to.head.empty()) {
            auto const made = linear_weight_gradient(head.own(logits), part, to.head, {.is_added = is_added}, stream);
            if (!made) return made;
        }
        if (auto const made = head_bias_gradient(logits, to.bias, is_added, stream); !made) return made;
    }
    return {};
}

}  // namespace detail

/// The loss of each token, -log softmax(logits)[target] with logits = in * head^T + bias, and the gradients of the sum of weights *
/// losses, chunk by chunk: there are never more logits than those of one chunk. The loss itself is not weighted; ignored tokens
/// have loss 0 and no gradient.
///
/// Shapes  see HeadLoss and HeadLossGradients; workspace [head_cross_entropy_workspace(...)]
/// Memory  allocates nothing; outputs overlap nothing else
/// Order   on `stream`; products as Host::gemm's, the sum of exponentials in double by 64 pieces of the vocabulary and a tree over
///         them, gradients of head and bias over the tokens chunk after chunk: threads take rows and columns
/// Errors  shape_mismatch; invalid_argument for options; a target that is neither an id nor ignored_target stops the stream; what the
///         stream says of its instruction set
/// Source  Hsu et al., Liger Kernel, arXiv 2410.10989 (chunks of tokens)
[[nodiscard]] inline Result<> head_cross_entropy(HeadLoss const& in, HeadLossGradients const& to,
                                                 HeadLossOptions const& options, TensorView<float, 1, Host> workspace,
                                                 HostStream& stream) {
    constexpr std::string_view name = "head_cross_entropy";
    if (auto const checked = detail::check_head_loss(name, in, to, options); !checked) return checked;
    if (auto const known = check_views(name, workspace); !known) return known;
    return detail::cross_entropy_of(detail::DenseHead{in.head}, in.head.extent(0), in, to, options, workspace, stream);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
