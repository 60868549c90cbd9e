#pragma once

#include <cstdint>

namespace shardwise::inline v0 {

/// How tensor- and expert-parallel ranks share a parameter.
enum class ShardKind : std::uint8_t {
    replicated,  // every rank holds all of it
    units,       // dimension `dim` is dealt in `count` equal units by split_units
    kv_heads,    // dimension `dim` holds `count` key-value heads that serve `heads` query heads: split_kv_heads
    packed_qkv,  // dimension `dim` holds `heads` query heads, then `count` key heads and as many value heads
};

/// The shard rule of one parameter: along which dimension, in which indivisible units.
struct ShardRule {
    ShardKind kind = ShardKind::replicated;
    std::uint8_t dim = 0;
    std::int64_t count = 0;
    std::int64_t heads = 0;

    [[nodiscard]] static constexpr ShardRule units(int dim, std::int64_t count) {
        return {ShardKind::units, static_cast<std::uint8_t>(dim), count, 0};
    }
    [[nodiscard]] static constexpr ShardRule kv(int dim, std::int64_t kv_heads, std::int64_t heads) {
        return {ShardKind::kv_heads, static_cast<std::uint8_t>(dim), kv_heads, heads};
    }
    [[nodiscard]] static constexpr ShardRule qkv(int dim, std::int64_t heads, std::int64_t kv_heads) {
        return {ShardKind::packed_qkv, static_cast<std::uint8_t>(dim), kv_heads, heads};
    }

    friend constexpr bool operator==(ShardRule const&, ShardRule const&) = default;
};

}  // namespace shardwise::inline v0
