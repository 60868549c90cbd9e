// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/block_sum.cuh>
#include <shardwise/backend/detail/device_code.cuh>
#include <shardwise/kernels/detail/device_math.hpp>
#include <shardwise/kernels/detail/load_floats.hpp>
#include <shardwise/kernels/detail/pack.hpp>
#include <shardwise/kernels/detail/staged_rows.hpp>
#include <shardwise/kernels/detail/step_attention_call.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

constexpr int attention_threads = 128;

/// What __launch_bounds__ is told beside a block's threads, so that no registers are spilled: on CUDA blocks of a multiprocessor, on HIP
/// wavefronts of a quarter of one.
template <class Api, int blocks>
inline constexpr int least_blocks = DeviceCode<Api>::warp_size == 64 ? 1 : blocks;

/// An array's length, where sizes are counted as threads are.
template <int count>
inline constexpr unsigned array_size = static_cast<unsigned>(count);

// Where two kernels compute the same sum it is written with this, so that compilers round it alike.
[[nodiscard]] __device__ inline float fused(float a, float b, float c) {
#if defined(__CUDA_ARCH__)
    return __fmaf_rn(a, b, c);
#else
    return __builtin_fmaf(a, b, c);
#endif
}
[[nodiscard]] __device__ inline float no_score() {
    return float_of_bits(0xFF800000U);
}

/// A row's sums over some keys: the values stand relative to the greatest score.
struct RowSums {
    float greatest;
    float weights;
};

/// What two sums of a row are multiplied by where they are merged.
struct MergeFactors {
    float own;
    float theirs;
    RowSums sums;

    [[nodiscard]] __device__ float merged(float value, float other) const {
        return theirs == 0.0F ? value * own : fused(value, own, other * theirs);
    }
};

/// Takes in the keys after these, as the host's AttentionRow::merge: what has seen no key has no score.
[[nodiscard]] __device__ inline MergeFactors merge_sums(RowSums const& a, RowSums const& b) {
    if (b.greatest == no_score()) return {1.0F, 0.0F, a};
    if (a.greatest == no_score()) return {0.0F, 1.0F, b};
    auto const together = greater_of(a.greatest, b.greatest);
    auto const own = device_exp(a.greatest - together);
    auto const theirs = device_exp(b.greatest - together);
    return {own, theirs, {together, fused(a.weights, own, b.weights * theirs)}};
}

/// What a row's values are multiplied by in the end; a sink draws weight to itself and has no value.
[[nodiscard]] __device__ inline float last_factor(RowSums const& sums, float const* sink) {
    auto factors = MergeFactors{1.0F, 0.0F, sums};
    if (sink != nullptr && *sink != no_score()) {
        auto const together = sums.weights == 0.0F ? *sink : greater_of(sums.greatest, *sink);
        factors.own = sums.weights == 0.0F ? 0.0F : device_exp(sums.greatest - together);
        factors.sums.weights = fused(sums.weights, factors.own, device_exp(*sink - together));
    }
    return factors.sums.weights == 0.0F ? 0.0F : factors.own / factors.sums.weights;
}

/// The nearest bfloat16, of two as near the even one, as detail/attention_kernels.inc rounds.
[[nodiscard]] __device__ inline float nearest_bf16(float value) {
    auto const bits = bits_of_float(value);
    return float_of_bits((bits + 0x7FFFU + ((bits >> 16U) & 1U)) & 0xFFFF0000U);
}

/// The score of a key that a query of a head sees, from the product of the two; `key_scale` is that of bytes. Key and query are named
/// by their positions.
template <class Cache>
[[nodiscard]] __device__ float finish_score(StepAttentionCall<Cache> const& call, float product, float key_scale,
                                            std::int32_t head, std::int32_t key, std::int32_t query) {
    auto score = product * call.scale;
    if constexpr (sizeof(Cache) == 1) score *= key_scale;
    auto const offset = key - query;
    if (call.biases != nullptr) {
        auto const reach = call.bias_reach;
        auto const at = offset < -reach ? -reach : offset > reach ? reach : offset;
        auto bias = call.biases[static_cast<std::int64_t>(head) * (2 * reach + 1) + at + reach];
        if (reach == 0) bias = nearest_bf16(bias * nearest_bf16(static_cast<float>(key)));
        score = fused(bias, reach == 0 ? call.scale : 1.0F, score);
    }
    if (call.soft_cap > 0.0F) score = call.soft_cap * device_tanh(score / call.soft_cap);
    if (call.slopes != nullptr) {
        auto const distance = static_cast<float>(offset < 0 ? -offset : offset);
        score = fused(-call.slopes[head], distance, score);
    }
    return score;
}

/// Neighbours in shared memory.
template <unsigned count>
__device__ void store_floats(float* to, float const (&values)[count]) {
    SHARDWISE_DEVICE_UNROLL
    for (unsigned four = 0; four < count / 4; ++four) {
        float some[4];
        SHARDWISE_DEVICE_UNROLL
        for (unsigned i = 0; i < 4; ++i) some[i] = values[4 * four + i];
        store_pack(to + 4 * four, narrow_pack(some));
    }
}

/// The value of a byte of a word: without a conversion, of which devices have few units.
[[nodiscard]] __device__ inline float byte_value(std::uint32_t word, unsigned byte) {
    auto const shifted = word ^ 0x80808080U;
#if defined(__CUDA_ARCH__)
    std::uint32_t bits;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(bits) : "r"(shifted), "r"(0x4B000000U), "r"(0x7540U | byte));
#else
    auto const bits = 0x4B000000U | ((shifted >> (8 * byte)) & 0xFFU);
#endif
    return float_of_bits(bits) - 8388736.0F;
}

/// Eight elements that a thread reads at once.
template <class Cache>
struct Eight {
    static constexpr unsigned words = 2 * sizeof(Cache);
    static constexpr unsigned align = sizeof(Cache) == 1 ? 8 : 16;
    std::uint32_t bits[words];

    __device__ void clear() {
        SHARDWISE_DEVICE_UNROLL
        for (unsigned i = 0; i < words; ++i) bits[i] = 0;
    }
    __device__ void load(Cache const* at) {
        if constexpr (sizeof(Cache) == 1) {
            struct alignas(8) Pair {
                std::uint32_t words[2];
            };
            auto const pair = *reinterpret_cast<Pair const*>(at);
            bits[0] = pair.words[0];
            bits[1] = pair.words[1];
        } else {
            SHARDWISE_DEVICE_UNROLL
            for (unsigned pack = 0; pack < words / 4; ++pack) {
                auto const some = load_pack(at + pack * pack_elements<Cache>);
                SHARDWISE_DEVICE_UNROLL
                for (unsigned i = 0; i < 4; ++i) bits[4 * pack + i] = some.words[i];
            }
        }
    }
    __device__ void get(float (&values)[8]) const {
        SHARDWISE_DEVICE_UNROLL
        for (unsigned i = 0; i < 8; ++i) {
            if constexpr (sizeof(Cache) == 4) {
                values[i] = float_of_bits(bits[i]);
            } else if constexpr (sizeof(Cache) == 1) {
                values[i] = byte_value(bits[i / 4], i % 4);
            } else if constexpr (row_element<Cache> == RowElement::bf16) {
                values[i] = float_of_bits(i % 2 == 0 ? bits[i / 2] << 16U : bits[i / 2] & 0xFFFF0000U);
            } else {
                values[i] = half_value(static_cast<std::uint16_t>(i % 2 == 0 ? bits[i / 2] : bits[i / 2] >> 16U));
            }
        }
    }
};

/// One element, where rows lie on no pack.
[[nodiscard]] __device__ inline float element_value(float value) {
    return value;
}
[[nodiscard]] __device__ inline float element_value(Bfloat16 const& value) {
    return widen(value);
}
[[nodiscard]] __device__ inline float element_value(Float16 const& value) {
    return widen(value);
}
[[nodiscard]] __device__ inline float element_value(std::int8_t value) {
    return static_cast<float>(value);
}

/// Where the sums of a chunk lie in the workspace.
struct ChunkPlace {
    float* values;
    float* sums;
};
[[nodiscard]] __device__ inline ChunkPlace chunk_place(StepAttentionPlan const& call, std::int64_t sequence,
                                                       std::int64_t head, std::int64_t chunk) {
    auto const at = (sequence * call.heads + head) * call.chunks + chunk;
    auto* const sums = call.workspace + call.sequences * call.heads * call.chunks * call.value_dim;
    return {call.workspace + at * call.value_dim, sums + 2 * at};
}

/// The parts that a row sees.
struct SeenParts {
    std::int32_t begin;
    std::int32_t end;
};
[[nodiscard]] __device__ inline SeenParts seen_parts(SeenKeys const& seen) {
    if (seen.end <= seen.begin) return {0, 0};
    return {seen.begin / step_part_keys, (seen.end - 1) / step_part_keys + 1};
}

/// What a block has to do of a sequence of one token: some parts of the context of one or more heads.
struct SingleItem {
    std::int32_t sequence;
    std::int32_t head_tile;
    std::int32_t chunk;
    SeenKeys seen;
    SeenParts parts;
    bool is_there;
    /// There are no other parts: the block finishes the rows.
    bool is_whole;
};

/// Items in the order chunk, sequence, head tile, so that blocks side by side read what lies side by side.
[[nodiscard]] __device__ inline SingleItem single_item(StepAttentionPlan const& call, std::int64_t index,
                                                       std::int32_t head_tiles) {
    SingleItem item{};
    auto const sequences = static_cast<std::uint32_t>(call.sequences);
    auto const tiles = static_cast<std::uint32_t>(head_tiles);
    auto const number = static_cast<std::uint32_t>(index);
    item.head_tile = static_cast<std::int32_t>(number % tiles);
    item.sequence = static_cast<std::int32_t>(number / tiles % sequences);
    item.chunk = static_cast<std::int32_t>(number / tiles / sequences);
    if (item.sequence >= call.counts[1] || call.rows[item.sequence] != 1) return item;
    item.seen = seen_keys(call, item.sequence, 0);
    item.parts = seen_parts(item.seen);
    if (call.chunk == 0) {
        item.is_there = true;
        item.is_whole = true;
        return item;
    }
    auto const all = item.parts;
    auto const begin = item.chunk * call.chunk;
    item.parts.begin = all.begin > begin ? all.begin : begin;
    item.parts.end = all.end < begin + call.chunk ? all.end : begin + call.chunk;
    item.is_there = item.parts.begin < item.parts.end;
    item.is_whole = item.parts.begin == all.begin && item.parts.end == all.end;
    return item;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
