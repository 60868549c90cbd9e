// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/compute_backend.hpp>
#include <shardwise/comm/communicator.hpp>
#include <shardwise/core/check_views.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/parallel/collectives.hpp>
#include <shardwise/parallel/detail/element_wise.hpp>

#include <cmath>
#include <cstdint>
#include <limits>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// One rank's part of scores over a vocabulary that is sharded over the ranks.
template <class Backend>
struct VocabShard {
    /// [rows, this rank's columns]
    TensorView<float, 2, Backend> values;
    /// The id of the first of these columns.
    std::int64_t first_id = 0;
};

namespace detail {

struct RowMaximaBody {
    float const* logits;
    std::int64_t stride;
    std::int64_t width;
    float* maxima;
    constexpr void operator()(std::int64_t begin, std::int64_t end) const {
        for (auto row = begin; row < end; ++row) {
            auto largest = -std::numeric_limits<float>::infinity();
            for (std::int64_t i = 0; i < width; ++i) {
                auto const value = logits[row * stride + i];
                largest = value > largest || value != value ? value : largest;
            }
            maxima[row] = largest;
        }
    }
};

/// What a rank that does not have a row's target keeps of its logit, which is at most 0 once the maximum is taken off.
inline constexpr float no_target = 1.0F;

/// logits become exp(logit - maximum), of which the row's sum is taken; the target's logit is kept.
struct ExponentialsBody {
    float* logits;
    std::int64_t stride;
    std::int64_t width;
    std::int64_t first_id;
    std::int32_t const* targets;
    float const* maxima;
    float* sums;
    float* chosen;
    void operator()(std::int64_t begin, std::int64_t end) const {
        for (auto row = begin; row < end; ++row) {
            auto* const values = logits + row * stride;
            auto const place = targets[row] - first_id;
            chosen[row] = place >= 0 && place < width && targets[row] >= 0 ? values[place] - maxima[row] : no_target;
            double sum = 0.0;
            for (std::int64_t i = 0; i < width; ++i) {
                values[i] = std::exp(values[i] - maxima[row]);
                sum += static_cast<double>(values[i]);
            }
            sums[row] = static_cast<float>(sum);
        }
    }
};

/// Exponentials become probabilities, and the loss is made.
struct LossBody {
    float* values;
    std::int64_t stride;
    std::int64_t width;
    std::int32_t const* targets;
    float const* sums;
    float const* chosen;
    float* loss;
    void operator()(std::int64_t begin, std::int64_t end) const {
        for (auto row = begin; row < end; ++row) {
            bool const is_nowhere = targets[row] >= 0 && chosen[row] == no_target;
            auto const sum = is_nowhere ? std::numeric_limits<float>::quiet_NaN() : sums[row];
            auto const scale = 1.0F / sum;
            for (std::int64_t i = 0; i < width; ++i) values[row * stride + i] *= scale;
            loss[row] = targets[row] < 0 ? 0.0F : std::log(sum) - chosen[row];
        }
    }
};

/// Probabilities become the logits' gradient.
struct LossGradientBody {
    float* values;
    std::int64_t stride;
    std::int64_t width;
    std::int64_t first_id;
    std::int32_t const* targets;
    float const* scale;
    constexpr void operator()(std::int64_t begin, std::int64_t end) const {
        for (auto row = begin; row < end; ++row) {
            auto const factor = targets[row] < 0 ? 0.0F : scale[row];
            for (std::int64_t i = 0; i < width; ++i) {
                auto const own = targets[row] == first_id + i ? 1.0F : 0.0F;
                values[row * stride + i] = (values[row * stride + i] - own) * factor;
            }
        }
    }
};

}  // namespace detail

/// Floats that vocab_cross_entropy needs beside its tensors.
[[nodiscard]] constexpr std::int64_t vocab_cross_entropy_workspace(std::int64_t rows) {
    return 3 * rows;
}

/// loss = log(sum of exp(logits)) - logits[target] for logits whose vocabulary is sharded over the ranks, which never meet: exactly
/// three all-reduces of one number per row (maximum, sum of exponentials, target's logit). The logits become probabilities, which
/// vocab_cross_entropy_backward takes. A negative target (torch's -100) has no loss; one that no rank has (an id beyond the
/// vocabulary) makes its row's loss and gradients NaN, on all ranks.
///
/// Shapes  logits [rows, this rank's columns], targets [rows], loss [rows]; workspace [vocab_cross_entropy_workspace(rows)]
/// Memory  allocates nothing
/// Order   on `stream`, the collectives too
/// Errors  shape_mismatch; a collective's error stops the stream
/// Source  Shoeybi et al., Megatron-LM (arXiv 1909.08053), section 3
template <ComputeBackend Backend, Communicator C>
[[nodiscard]] Result<> vocab_cross_entropy(VocabShard<Backend> const& logits,
                                           TensorView<std::int32_t const, 1, Backend> targets,
                                           TensorView<float, 1, Backend> loss, TensorView<float, 1, Backend> workspace,
                                           C& comm, typename Backend::Stream& stream) {
    if (auto const known = check_views("vocab_cross_entropy", logits.values, targets, loss, workspace); !known)
        return known;
    auto const& values = logits.values;
    auto const rows = values.extent(0);
    auto const width = values.extent(1);
    Error error{ErrorCode::shape_mismatch};
    error.in("vocab_cross_entropy");
    if (targets.elements() != rows || loss.elements() != rows)
        return error.because("each row needs a target and a loss").got(targets.elements()).expected(rows);
    auto const needed = vocab_cross_entropy_workspace(rows);
    if (workspace.elements() < needed)
        return error.because("the workspace is too small").got(workspace.elements()).at_least(needed);
    auto const maxima = workspace.part(0, rows);
    auto const sums = workspace.part(rows, rows);
    auto const chosen = workspace.part(2 * rows, rows);
    auto const grain = detail::row_grain(width);
    detail::launch_ranges<Backend>(
        rows, grain, detail::RowMaximaBody{values.data(), values.stride(0), width, maxima.data()}, stream);
    submit_all_reduce(comm, maxima, ReduceOp::max, stream);
    detail::launch_ranges<Backend>(rows, grain,
                                   detail::ExponentialsBody{values.data(), values.stride(0), width, logits.first_id,
                                                            targets.data(), maxima.data(), sums.data(), chosen.data()},
                                   stream);
    submit_all_reduce(comm, sums, ReduceOp::sum, stream);
    submit_all_reduce(comm, chosen, ReduceOp::min, stream);
    detail::launch_ranges<Backend>(rows, grain,
                                   detail::LossBody{values.data(), values.stride(0), width, targets.data(), sums.data(),
                                                    chosen.data(), loss.data()},
                                   stream);
    return {};
}

/// The gradient of this rank's logits, in place of the probabilities that vocab_cross_entropy left: no communication.
///
/// Shapes  probabilities [rows, this rank's columns]; targets [rows]; loss_gradient [rows], such as 1 / valid tokens
/// Order   on `stream`
/// Errors  shape_mismatch
template <ComputeBackend Backend>
[[nodiscard]] Result<> vocab_cross_entropy_backward(VocabShard<Backend> const& probabilities,
                                                    TensorView<std::int32_t const, 1, Backend> targets,
                                                    TensorView<float const, 1, Backend> loss_gradient,
                                                    typename Backend::Stream& stream) {
    if (auto const known = check_views("vocab_cross_entropy_backward", probabilities.values, targets, loss_gradient);
        !known)
        return known;
    auto const& values = probabilities.values;
    if (targets.elements() != values.extent(0) || loss_gradient.elements() != values.extent(0)) {
        return Error{ErrorCode::shape_mismatch}
            .in("vocab_cross_entropy_backward")
            .because("each row needs a target and a gradient of its loss")
            .got(targets.elements())
            .expected(values.extent(0));
    }
    detail::launch_ranges<Backend>(
        values.extent(0), detail::row_grain(values.extent(1)),
        detail::LossGradientBody{values.data(), values.stride(0), values.extent(1), probabilities.first_id,
                                 targets.data(), loss_gradient.data()},
        stream);
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
