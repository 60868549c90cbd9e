// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/input_pieces.hpp>
#include <shardwise/core/result.hpp>

#include <concepts>
#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A policy has a name for messages.
template <class P>
concept HasPolicyName = requires {
    { P::name } -> std::convertible_to<std::string_view>;
};

/// A policy says how a width that is summed over is cut (`grain` inputs stay together), and whether the pieces are the leaves
/// of a fixed tree.
template <class P>
concept CutsSums = requires {
    { P::cut(std::int64_t{}, std::int64_t{}) } -> std::same_as<InputPieces>;
    { P::has_fixed_tree } -> std::convertible_to<bool>;
};

/// How partial sums of several ranks become one.
template <class P>
concept ReductionPolicy = HasPolicyName<P> && CutsSums<P>;

/// Each rank multiplies its share at once and the ranks' sums are added in the order of the ranks: least work, but the last bits
/// depend on the number of ranks.
struct Fast {
    static constexpr std::string_view name = "fast";
    static constexpr bool has_fixed_tree = false;
    [[nodiscard]] static constexpr InputPieces cut(std::int64_t width, std::int64_t grain) {
        return block_pieces(width, grain);
    }
};

/// Sums have leaves that the weight's shape and format fix, and a tree over them: the same bits for any number of ranks and every
/// communicator, at one instruction set level. A rank holds and multiplies what it does under Fast: its own inputs, in one
/// weight. It costs an addition for each leaf, and an all-gather of the ranks' tree nodes instead of an all-reduce.
struct Deterministic {
    static constexpr std::string_view name = "deterministic";
    static constexpr bool has_fixed_tree = true;
    [[nodiscard]] static constexpr InputPieces cut(std::int64_t width, std::int64_t grain) {
        return leaf_pieces(width, grain);
    }
};

static_assert(ReductionPolicy<Fast> && ReductionPolicy<Deterministic>);

namespace detail {

/// Errors  invalid_argument for pieces that are made of nothing
[[nodiscard]] constexpr Result<> check_pieces(std::string_view subject, InputPieces const& pieces) {
    if (pieces.count < 1) {
        return Error{ErrorCode::invalid_argument}
            .in(subject)
            .at("pieces")
            .because("cut a weight without inputs")
            .got(pieces.inputs);
    }
    if (pieces.grain >= 1) return {};
    return Error{ErrorCode::invalid_argument}
        .in(subject)
        .at("pieces")
        .because("are made of less than one input")
        .got(pieces.grain)
        .at_least(1);
}

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
