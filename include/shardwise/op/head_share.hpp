// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/input_pieces.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/split.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The heads of one tensor-parallel rank, as numbers of the whole model's heads. Key-value heads are those that its query heads
/// read: ranks share them where a group is cut or ranks exceed them.
struct HeadShare {
    UnitRange query;
    UnitRange kv;
    /// Query heads that read one key-value head in the whole model.
    std::int64_t group = 1;

    friend constexpr bool operator==(HeadShare const&, HeadShare const&) = default;
};

/// What one rank owns of an attention's heads when its output projection is cut into `pieces`: by split_units and
/// split_kv_heads where a piece is one head.
///
/// Errors  invalid_argument where heads cannot be sharded; more ranks than query heads, with the largest number that is legal
[[nodiscard]] constexpr Result<HeadShare> head_share(std::int64_t heads, std::int64_t kv_heads,
                                                     InputPieces const& pieces, std::int64_t ranks, std::int64_t rank) {
    Error error{ErrorCode::invalid_argument};
    error.in("tensor parallel");
    if (heads < 1 || kv_heads < 1 || heads % kv_heads != 0) {
        return error.at("heads")
            .because("the query heads are not a multiple of the key-value heads")
            .got(heads)
            .multiple_of(kv_heads)
            .fix("give a number of query heads that is a multiple of the key-value heads");
    }
    if (ranks < 1) return error.at("ranks").because("are less than one").got(ranks).at_least(1);
    if (rank < 0 || rank >= ranks)
        return error.at("rank").because("is no rank of the group").got(rank).between(0, ranks - 1);
    if (ranks > heads) {
        return error.at("ranks")
            .because("are more than the query heads, which cannot be cut")
            .got(ranks)
            .at_most(heads)
            .fix("use at most as many ranks as query heads; the others can serve as pipeline or data parallel ranks");
    }
    if (pieces.inputs % heads != 0 || pieces.inputs < heads) {
        return error.at("heads")
            .because("the output projection's inputs are not made of whole heads")
            .got(pieces.inputs)
            .multiple_of(heads);
    }
    auto const head_dim = pieces.inputs / heads;
    auto const inputs = pieces.inputs_of_rank(ranks, rank);
    if (inputs.begin % head_dim != 0 || inputs.end % head_dim != 0) {
        return error.at("pieces")
            .because("cut a head")
            .got(pieces.grain)
            .multiple_of(head_dim)
            .fix("cut the output projection by head_pieces");
    }
    UnitRange const query{inputs.begin / head_dim, inputs.end / head_dim};
    auto const group = heads / kv_heads;
    if (query.size() == 0) return HeadShare{query, {}, group};
    return HeadShare{query, {query.begin / group, (query.end - 1) / group + 1}, group};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
