// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/training/gathered_columns.hpp>
#include <shardwise/kernels/backward/cross_entropy.hpp>

#include <algorithm>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// What SharedHead gathers of so many tokens.
[[nodiscard]] inline GatherSizes shared_head_sizes(std::int64_t tokens, std::int64_t vocabulary, std::int64_t hidden,
                                                   TensorPlace const& place) {
    auto const count = std::min(tokens, HeadLossOptions{}.chunk);
    auto const of = [&](std::int64_t width) { return count * split_units(width, place.ranks, place.rank).size(); };
    return {.staging = count * std::max(vocabulary, hidden), .share = std::max(of(vocabulary), of(hidden))};
}

/// What a loss multiplies by a head whose vocabulary ranks share, with the bits of one: each makes the logits of its words, which all
/// gather, and from all of them its columns of the input's gradient, which all gather again.
///
/// Shapes  as DenseHead; rows [this rank's words (split_units), hidden], turned [vocabulary, this rank's columns]: the head, cut along
///         the other axis
/// Order   on the stream, the collectives too; a collective's error stops it
template <class Head>
struct SharedHead {
    TensorRank const& rank;
    Head rows;
    Head turned;

    [[nodiscard]] Result<> logits(TensorView<float const, 2, Host> in, TensorView<float, 2, Host> to,
                                  HostStream& stream) const {
        TensorView<float, 2, Host> const share(rank.share, {in.extent(0), words(to.extent(1)).size()});
        if (auto const made = rows.logits(in, share, stream); !made) return made;
        gather_columns(rank, share, shared_evenly(to.extent(1), rank.place), to, stream);
        return {};
    }
    [[nodiscard]] Result<> input_gradient(TensorView<float const, 2, Host> gradient, TensorView<float, 2, Host> to,
                                          bool is_added, HostStream& stream) const {
        auto const columns = split_units(to.extent(1), rank.place.ranks, rank.place.rank);
        auto const done = turned.input_gradient(gradient, to.columns(columns.begin, columns.size()), is_added, stream);
        if (done) gather_shares(rank, to, stream);
        return done;
    }
    [[nodiscard]] TensorView<float const, 2, Host> own(TensorView<float const, 2, Host> logits) const {
        auto const own = words(logits.extent(1));
        return logits.columns(own.begin, own.size());
    }

private:
    [[nodiscard]] UnitRange words(std::int64_t vocabulary) const {
        return split_units(vocabulary, rank.place.ranks, rank.place.rank);
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
