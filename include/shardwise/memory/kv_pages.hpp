// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/bytes.hpp>
#include <shardwise/core/checked.hpp>
#include <shardwise/core/dtype.hpp>
#include <shardwise/core/optional.hpp>
#include <shardwise/memory/request.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Tokens of one page of a cache: few, so that the last page of a sequence wastes little, and no less than a vector
/// register has floats.
inline constexpr std::int64_t kv_page_tokens = 16;

/// What one layer of one rank caches of a token: `heads` keys and as many values.
struct KvLayer {
    std::int64_t heads = 0;
    std::int64_t key_dim = 0;
    std::int64_t value_dim = 0;
    /// Tokens that a query sees; 0: all.
    std::int64_t window = 0;
    /// Numbers in fp32 that are kept of a sequence beside keys and values, however long it is.
    std::int64_t state = 0;

    friend constexpr bool operator==(KvLayer const&, KvLayer const&) = default;
};

/// How much a rank's cache is made for.
struct KvCapacity {
    /// Sequences at a time.
    std::int64_t sequences = 1;
    /// Tokens of the longest sequence.
    std::int64_t context = 0;
    /// New tokens of one step.
    std::int64_t step_tokens = 0;
    /// Tokens of all sequences together, which share the pages; 0: `sequences` times `context`.
    std::int64_t tokens = 0;
    /// f32, bf16 or i8: bytes with a scale in float for each token and head, of keys and of values.
    Dtype dtype = Dtype::f32;
    WindowPolicy policy = WindowPolicy::window;
};

/// Pages of one sequence of `tokens` tokens: all of it, or of a layer with a window what its queries see before the new
/// tokens of a step, and those, wherever in a page they begin.
[[nodiscard]] constexpr std::int64_t kv_sequence_pages(KvCapacity const& capacity, std::int64_t window,
                                                       std::int64_t tokens) {
    auto const all = ceil_divide(tokens, kv_page_tokens);
    if (window <= 0 || capacity.policy == WindowPolicy::full) return all;
    auto const new_tokens = capacity.step_tokens < capacity.context ? capacity.step_tokens : capacity.context;
    if (window >= tokens || new_tokens >= tokens - window) return all;
    auto const seen = ceil_divide(window - 1 + new_tokens - 1, kv_page_tokens) + 1;
    return seen < all ? seen : all;
}

/// Pages that all sequences share in layers with such a window; nothing where they leave 63 bits.
[[nodiscard]] constexpr Optional<std::int64_t> kv_pages(KvCapacity const& capacity, std::int64_t window) {
    auto const most = checked_multiply(capacity.sequences, kv_sequence_pages(capacity, window, capacity.context));
    if (!most) return std::nullopt;
    auto const shared = ceil_divide(capacity.tokens, kv_page_tokens);
    return capacity.tokens > 0 && shared < *most ? shared : *most;
}

/// Bytes of one page of one layer.
[[nodiscard]] constexpr Optional<std::int64_t> kv_page_bytes(KvLayer const& layer, Dtype dtype) {
    auto const scales = dtype == Dtype::i8 ? std::int64_t{2 * 4} : std::int64_t{0};
    auto const elements = checked_add(layer.key_dim, layer.value_dim);
    auto const bytes = elements ? checked_multiply(*elements, bits(dtype) / 8) : elements;
    auto const head = bytes ? checked_add(*bytes, scales) : bytes;
    auto const token = head ? checked_multiply(*head, layer.heads) : head;
    return token ? checked_multiply(*token, kv_page_tokens) : token;
}

/// The cache of one layer on one rank, to the byte: what the executor allocates, each of its arrays in whole multiples of `grain`.
/// Nothing where it leaves 63 bits.
///
/// Units  bytes of pages; the estimator's kv_cache_bytes is the least that any cache needs: it has no pages, a window
///        without the new tokens, and no scales
[[nodiscard]] constexpr Optional<Bytes> kv_layer_bytes(KvLayer const& layer, KvCapacity const& capacity,
                                                       std::int64_t grain = 1) {
    auto const pages = kv_pages(capacity, layer.window);
    auto const page = kv_page_bytes(layer, capacity.dtype);
    auto const bytes = pages && page ? checked_multiply(*pages, *page) : Optional<std::int64_t>{};
    auto const states = checked_multiply(capacity.sequences, layer.state);
    auto const state_bytes = states ? checked_multiply(*states, std::int64_t{4}) : states;
    auto const total = bytes && state_bytes ? checked_add(*bytes, *state_bytes) : Optional<std::int64_t>{};
    if (!total) return std::nullopt;
    if (grain == 1) return Bytes{*total};
    auto const rows = *pages * kv_page_tokens * layer.heads;
    std::int64_t sum = round_up(*state_bytes, grain);
    for (auto const width : {layer.key_dim, layer.value_dim}) {
        sum += round_up(rows * width * bits(capacity.dtype) / 8, grain);
        if (capacity.dtype == Dtype::i8) sum += round_up(rows * 4, grain);
    }
    return Bytes{sum};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
