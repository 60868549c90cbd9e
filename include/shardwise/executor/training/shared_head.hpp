// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/training/gathered_columns.hpp>
#include <shardwise/kernels/backward/cross_entropy.hpp>

#include <algorithm>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// What shared_head_cross_entropy gathers of so many tokens.
[[nodiscard]] inline GatherSizes shared_head_sizes(std::int64_t tokens, std::int64_t vocabulary, std::int64_t hidden,
                                                   TensorPlace const& place) {
    auto const count = std::min(tokens, HeadLossOptions{}.chunk);
    auto const of = [&](std::int64_t width) { return count * split_units(width, place.ranks, place.rank).size(); };
    return {.staging = count * std::max(vocabulary, hidden), .share = std::max(of(vocabulary), of(hidden))};
}

/// head_cross_entropy, with its bits, of ranks that share the vocabulary: each makes the logits of its words, which all gather, a chunk at
/// a time, and from all of them its columns of the input's gradient, which all gather again.
///
/// Shapes  as head_cross_entropy, but `own` and to.head are this rank's rows (split_units), bias and its gradient are whole; `turned`
///         [vocabulary, this rank's columns]: the head, cut along the other axis; in.head is not read
/// Order   on `stream`, the collectives too
/// Errors  as head_cross_entropy; a collective's error stops the stream
template <class Head>
[[nodiscard]] Result<> shared_head_cross_entropy(TensorRank const& rank, Head const& own, Head const& turned,
                                                 std::int64_t vocabulary, HeadLoss const& in,
                                                 HeadLossGradients const& to, HeadLossOptions const& options,
                                                 TensorView<float, 1, Host> workspace, HostStream& stream) {
    constexpr std::string_view name = "head_cross_entropy";
    auto const tokens = in.in.extent(0);
    auto const needed = head_cross_entropy_workspace(tokens, vocabulary, options);
    if (workspace.elements() < needed) return small_workspace(name, workspace.elements(), needed);
    if (!stream.isa()) return stream.isa().error();
    auto const rows = loss_rows(in, to, options, *stream.isa());
    auto const words = split_units(vocabulary, rank.place.ranks, rank.place.rank);
    auto const columns = split_units(in.in.extent(1), rank.place.ranks, rank.place.rank);
    stream.submit([targets = in.targets, vocabulary, name] { return check_targets(name, targets, vocabulary); });
    for (std::int64_t first = 0; first < tokens; first += options.chunk) {
        auto const count = std::min(options.chunk, tokens - first);
        auto const part = in.in.rows(first, count);
        TensorView<float, 2, Host> const logits(workspace.data(), {count, vocabulary});
        TensorView<float, 2, Host> const share(rank.share, {count, words.size()});
        if (auto const made = own.logits(part, share, stream); !made) return made;
        gather_columns(rank, share, shared_evenly(vocabulary, rank.place), logits, stream);
        Host::launch(count, rows_of_chunk(rows, logits, first), stream, row_grain(vocabulary));
        if (!to.in.empty()) {
            auto const made = to.in.rows(first, count);
            auto const done =
                turned.input_gradient(logits, made.columns(columns.begin, columns.size()), to.is_input_added, stream);
            if (!done) return done;
            gather_shares(rank, made, stream);
        }
        bool const is_added = to.is_head_added || first > 0;
        if (!to.head.empty()) {
            auto const done =
                linear_weight_gradient(logits.columns(words.begin, words.size()), part, to.head, is_added, stream);
            if (!done) return done;
        }
        if (auto const made = head_bias_gradient(logits, to.bias, is_added, stream); !made) return made;
    }
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
