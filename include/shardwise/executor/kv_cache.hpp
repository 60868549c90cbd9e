// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/buffer.hpp>
#include <shardwise/backend/compute_backend.hpp>
#include <shardwise/backend/host.hpp>
#include <shardwise/backend/host/huge_pages.hpp>
#include <shardwise/core/assert.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/executor/kv_page_group.hpp>
#include <shardwise/kernels/cached_rows.hpp>
#include <shardwise/kernels/step_table.hpp>
#include <shardwise/kernels/store_rows.hpp>
#include <shardwise/kernels/store_step.hpp>
#include <shardwise/memory/kv_pages.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The keys and values that one rank keeps, in pages of a fixed number of tokens that all sequences share. A sequence
/// has a list of pages, the same for all layers that see equally far; in layers with a window it writes over the pages
/// that no query sees any more.
///
/// Slots number the sequences. Keys and values are written and read in stream order; lists of pages change at once,
/// between steps: a slot that is released, or used by another sequence, waits for the stream first.
///
/// Memory  kv_layer_bytes of each layer, when it is made; lists of pages lie beside the context's memory
template <AllocatesMemory Backend>
class KvCache {
public:
    using Context = typename Backend::Context;
    using Stream = typename Backend::Stream;
    using Matrix = TensorView<float const, 2, Backend>;

    KvCache() = default;

    /// Pages for the layers of a rank.
    ///
    /// Errors  unsupported for an element type that is neither f32, bf16 nor i8; size_overflow; out_of_memory
    [[nodiscard]] static Result<KvCache> create(Context& context, std::span<KvLayer const> layers,
                                                KvCapacity const& capacity) {
        if (capacity.dtype != Dtype::f32 && capacity.dtype != Dtype::bf16 && capacity.dtype != Dtype::i8) {
            return Error{ErrorCode::unsupported}
                .in("kv cache")
                .at(traits(capacity.dtype).short_name)
                .because("is no element type that keys and values are kept in")
                .fix("use fp32, bf16 or int8");
        }
        KvCache cache(capacity);
        for (auto const& shape : layers) {
            auto const pages = kv_pages(capacity, shape.window);
            if (!kv_layer_bytes(shape, capacity) || !pages || *pages > std::numeric_limits<std::int32_t>::max())
                return Error{ErrorCode::size_overflow}.in("kv cache").at("context").got(capacity.context);
            auto const rows = *pages * kv_page_tokens;
            auto const hold = [&](Half& side, std::int64_t width) -> Result<> {
                auto const bytes = rows * shape.heads * width * bits(capacity.dtype) / 8;
                auto elements = Buffer<std::byte, Backend>::allocate(context, bytes);
                if (!elements) return elements.error();
                if constexpr (std::same_as<Backend, Host>) detail::prefer_huge_pages(elements->data(), bytes);
                side.elements = std::move(*elements);
                side.width = shape.heads * width;
                if (capacity.dtype != Dtype::i8) return {};
                auto scales = Buffer<float, Backend>::allocate(context, rows * shape.heads);
                if (!scales) return scales.error();
                side.scales = std::move(*scales);
                return {};
            };
            Layer layer{shape, 0, rows, {}, {}, {}, {}};
            if (auto const done = hold(layer.keys, shape.key_dim); !done) return done.error();
            if (auto const done = hold(layer.values, shape.value_dim); !done) return done.error();
            if (shape.state > 0) {
                auto states = Buffer<float, Backend>::allocate(context, capacity.sequences * shape.state);
                if (!states) return states.error();
                layer.states = std::move(*states);
                layer.seen.resize(static_cast<std::size_t>(capacity.sequences), 0);
            }
            // Lists take little beside what is held by now.
            layer.group = cache.group_of(shape.window);
            cache.layers_.push_back(std::move(layer));
        }
        return Result<KvCache>(std::move(cache));
    }

    [[nodiscard]] KvCapacity const& capacity() const { return capacity_; }
    [[nodiscard]] Bytes bytes() const {
        Bytes sum{0};
        for (auto const& layer : layers_) sum += layer.keys.bytes() + layer.values.bytes() + layer.states.bytes();
        return sum;
    }

    /// Whether a sequence of so many tokens fits at all, whether it fits beside those that have pages, and whether one has any.
    [[nodiscard]] bool could_hold(std::int64_t tokens) const {
        if (tokens > capacity_.context) return false;
        return all_groups([&](Group const& group) { return group.needed(tokens) <= group.pages; });
    }
    [[nodiscard]] bool has_room(std::int64_t tokens) const {
        if (tokens > capacity_.context) return false;
        return all_groups([&](Group const& group) { return group.needed(tokens) <= std::ssize(group.free); });
    }
    [[nodiscard]] bool has_pages(std::int64_t slot) const {
        return all_groups([&](Group const& group) { return group.held(slot) > 0; });
    }
    /// Pages that no sequence has, in layers that see everything (or, where there are none, the first window).
    [[nodiscard]] std::int64_t free_pages() const {
        return groups_.empty() ? 0 : static_cast<std::int64_t>(groups_.front().free.size());
    }

    /// Gives a sequence the pages that it still lacks for so many tokens.
    ///
    /// Errors  invalid_argument for a slot that does not exist or more tokens than a sequence has; out_of_memory where
    ///         too few pages are free: then none is taken
    [[nodiscard]] Result<> reserve(std::int64_t slot, std::int64_t tokens) {
        auto const refused = [] { return Error{ErrorCode::invalid_argument}.in("kv cache"); };
        if (slot < 0 || slot >= capacity_.sequences)
            return refused().at("slot").because("has no cache").got(slot).between(0, capacity_.sequences - 1);
        if (tokens > capacity_.context) {
            return refused()
                .at("context")
                .because("is not long enough for the sequence's past and new tokens")
                .got(tokens)
                .at_most(capacity_.context)
                .fix("make a longer context");
        }
        for (auto const& group : groups_) {
            auto const more = group.needed(tokens) - group.held(slot);
            auto const free = static_cast<std::int64_t>(group.free.size());
            if (more <= free) continue;
            return Error{ErrorCode::out_of_memory}
                .in("kv cache")
                .because("has not enough free pages for the sequence")
                .got(free)
                .at_least(more)
                .fix("wait until a sequence is done, or give the cache more tokens");
        }
        for (auto& group : groups_) group.take(slot, tokens);
        return {};
    }
    /// Takes a sequence's pages back: what it has written is forgotten.
    void release(std::int64_t slot) {
        for (auto& group : groups_) group.give_back(slot);
    }

    /// Lists of pages that a sequence has: one for all layers that see equally far.
    [[nodiscard]] std::int64_t groups() const { return static_cast<std::int64_t>(groups_.size()); }
    /// Whose list a layer's pages are in.
    [[nodiscard]] std::int64_t group(std::size_t layer) const {
        return static_cast<std::int64_t>(layers_[layer].group);
    }
    /// A sequence's lists, one for each group: page i has the tokens from i * kv_page_tokens on. They stay where they are, and grow
    /// as pages are reserved.
    void lists(std::int64_t slot, std::span<std::span<std::int32_t const>> to) const {
        SHARDWISE_ASSERT(to.size() == groups_.size());
        for (std::size_t i = 0; i < to.size(); ++i) to[i] = groups_[i].lists[static_cast<std::size_t>(slot)];
    }

    /// Calls visit(element) with a value of the element type.
    template <class Visit>
    auto with_element(Visit const& visit) const {
        if (capacity_.dtype == Dtype::bf16) return visit(Bfloat16{});
        if (capacity_.dtype == Dtype::i8) return visit(std::int8_t{});
        SHARDWISE_ASSERT(capacity_.dtype == Dtype::f32);
        return visit(float{});
    }

    /// The keys or the values of a sequence's first `count` tokens; of a layer with a window those that the next
    /// queries see.
    template <CacheElement Cache>
    [[nodiscard]] CachedRows<Cache, Backend> keys(std::size_t layer, std::int64_t slot, std::int64_t count) const {
        return rows<Cache>(layers_[layer], layers_[layer].keys, slot, count);
    }
    template <CacheElement Cache>
    [[nodiscard]] CachedRows<Cache, Backend> values(std::size_t layer, std::int64_t slot, std::int64_t count) const {
        return rows<Cache>(layers_[layer], layers_[layer].values, slot, count);
    }

    /// All keys or all values of a layer, in pages.
    ///
    /// Shapes  memory [rows, heads * dim]; scales [rows, heads] where elements are bytes
    template <CacheElement Cache>
    struct Memory {
        TensorView<Cache const, 2, Backend> elements;
        TensorView<float const, 2, Backend> scales;
    };
    template <CacheElement Cache>
    [[nodiscard]] Memory<Cache> key_memory(std::size_t layer) const {
        return memory_of<Cache>(layers_[layer], layers_[layer].keys);
    }
    template <CacheElement Cache>
    [[nodiscard]] Memory<Cache> value_memory(std::size_t layer) const {
        return memory_of<Cache>(layers_[layer], layers_[layer].values);
    }

    /// What a layer keeps of sequences beside keys and values: a row for each slot. That of a sequence with no past holds anything:
    /// whoever computes begins anew.
    [[nodiscard]] TensorView<float, 2, Backend> states(std::size_t layer) {
        auto& of = layers_[layer];
        return {of.states.data(), {of.shape.state > 0 ? capacity_.sequences : 0, of.shape.state}};
    }
    [[nodiscard]] std::int64_t state_elements(std::size_t layer) const { return layers_[layer].shape.state; }
    /// Whether a sequence's state stands after its first `past` tokens, or there are none.
    ///
    /// Errors  invalid_argument where it was left after another number of tokens: it cannot go back
    [[nodiscard]] Result<> check_state(std::size_t layer, std::int64_t slot, std::int64_t past) const {
        auto const seen = layers_[layer].seen[static_cast<std::size_t>(slot)];
        if (past == 0 || past == seen) return {};
        return Error{ErrorCode::invalid_argument}
            .in("kv cache")
            .at("past")
            .because("is not where the state of a layer stands, which cannot go back")
            .got(past)
            .expected(seen);
    }
    /// Notes that a sequence's state will stand after so many tokens.
    void advance_state(std::size_t layer, std::int64_t slot, std::int64_t tokens) {
        layers_[layer].seen[static_cast<std::size_t>(slot)] = tokens;
    }

    /// Puts the keys and values of a step's new tokens, of all its sequences, into their pages.
    ///
    /// Shapes  keys [tokens, heads * key_dim], values [tokens, heads * value_dim]; values empty where the layer has none
    /// Memory  the table's step is not replaced until it is done
    /// Order   on `stream`
    /// Errors  shape_mismatch
    template <ActivationElement T>
    [[nodiscard]] Result<> store(std::size_t layer, TensorView<T const, 2, Backend> keys,
                                 TensorView<T const, 2, Backend> values, StepTable<Backend> const& table,
                                 Stream& stream) {
        return store_step<false, T>(layer, keys, values, table, stream);
    }
    /// Whether a layer's keys and values have so many columns: asked once by who calls store_bound.
    ///
    /// Errors  shape_mismatch
    [[nodiscard]] Result<> check_columns(std::size_t layer, std::int64_t keys, std::int64_t values) const {
        auto const& to = layers_[layer];
        bool const fits = to.keys.width == keys || to.keys.width == 0;
        if (fits && (to.values.width == values || to.values.width == 0)) return {};
        return Error{ErrorCode::shape_mismatch}
            .in("kv cache")
            .at(fits ? "values" : "keys")
            .because("are not as wide as the layer's")
            .got(fits ? values : keys)
            .expected(fits ? to.values.width : to.keys.width);
    }
    /// `store` of rows whose columns check_columns has taken, of a step whose sequences have their pages: on the host nothing is
    /// checked again.
    template <ActivationElement T>
    [[nodiscard]] Result<> store_bound(std::size_t layer, TensorView<T const, 2, Backend> keys,
                                       TensorView<T const, 2, Backend> values, StepTable<Backend> const& table,
                                       Stream& stream) {
        return store_step<true, T>(layer, keys, values, table, stream);
    }

    /// Puts the keys and values of new tokens after a sequence's first `past`; it has pages for them.
    ///
    /// Shapes  keys [tokens, heads * key_dim], values [tokens, heads * value_dim]; values empty where the layer has none
    /// Order   on `stream`
    /// Errors  shape_mismatch
    [[nodiscard]] Result<> store(std::size_t layer, std::int64_t slot, std::int64_t past, Matrix keys, Matrix values,
                                 Stream& stream) {
        auto& to = layers_[layer];
        return with_element([&]<class Cache>(Cache) -> Result<> {
            auto const count = past + keys.extent(0);
            auto const put = [&](Half& side, Matrix from) -> Result<> {
                if (side.width == 0) return {};
                return store_rows<Cache>(from, {reinterpret_cast<Cache*>(side.elements.data()), {to.rows, side.width}},
                                         rows<Cache>(to, side, slot, count), past, stream,
                                         {side.scales.data(), {side.scales.size() == 0 ? 0 : to.rows, to.shape.heads}});
            };
            if (auto const done = put(to.keys, keys); !done) return done;
            return put(to.values, values);
        });
    }

private:
    /// Keys or values of a layer: [rows, width], and [rows, heads] scales of bytes.
    struct Half {
        Buffer<std::byte, Backend> elements;
        Buffer<float, Backend> scales;
        std::int64_t width = 0;

        [[nodiscard]] Bytes bytes() const { return elements.bytes() + scales.bytes(); }
    };
    struct Layer {
        KvLayer shape;
        std::size_t group = 0;
        std::int64_t rows = 0;
        Half keys;
        Half values;
        /// By slot: the state, and after how many tokens it stands.
        Buffer<float, Backend> states;
        std::vector<std::int64_t> seen;
    };

    template <bool is_bound, class T>
    [[nodiscard]] Result<> store_step(std::size_t layer, TensorView<T const, 2, Backend> keys,
                                      TensorView<T const, 2, Backend> values, StepTable<Backend> const& table,
                                      Stream& stream) {
        auto& to = layers_[layer];
        return with_element([&]<class Cache>(Cache) -> Result<> {
            auto const put = [&](Half& side, TensorView<T const, 2, Backend> from) -> Result<> {
                if (side.width == 0) return {};
                TensorView<Cache, 2, Backend> const memory(reinterpret_cast<Cache*>(side.elements.data()),
                                                           {to.rows, side.width});
                TensorView<float, 2, Backend> const scales(side.scales.data(),
                                                           {side.scales.size() == 0 ? 0 : to.rows, to.shape.heads});
                auto const group = static_cast<std::int64_t>(to.group);
                if constexpr (is_bound && std::same_as<Backend, Host>)
                    return detail::store_rows_bound<Cache>(from, memory, table, group, stream, scales);
                else
                    return store_rows<Cache>(from, memory, table, group, stream, scales);
            };
            if (auto const done = put(to.keys, keys); !done) return done;
            return put(to.values, values);
        });
    }
    using Group = detail::KvPageGroup;

    explicit KvCache(KvCapacity const& capacity) : capacity_(capacity) {}

    template <class Fits>
    [[nodiscard]] bool all_groups(Fits const& fits) const {
        return std::all_of(groups_.begin(), groups_.end(), fits);
    }
    [[nodiscard]] std::size_t group_of(std::int64_t window) {
        auto const found =
            std::find_if(groups_.begin(), groups_.end(), [&](Group const& group) { return group.window == window; });
        auto const index = static_cast<std::size_t>(found - groups_.begin());
        if (found != groups_.end()) return index;
        Group group;
        group.window = window;
        group.pages = *kv_pages(capacity_, window);
        group.most = kv_sequence_pages(capacity_, window, capacity_.context);
        for (auto page = group.pages; page-- > 0;) group.free.push_back(static_cast<std::int32_t>(page));
        group.lists.resize(static_cast<std::size_t>(capacity_.sequences));
        // A step never moves a list.
        for (auto& list : group.lists)
            list.reserve(static_cast<std::size_t>(ceil_divide(capacity_.context, kv_page_tokens)));
        groups_.push_back(std::move(group));
        return index;
    }

    template <CacheElement Cache>
    [[nodiscard]] static Memory<Cache> memory_of(Layer const& layer, Half const& side) {
        return {{reinterpret_cast<Cache const*>(side.elements.data()), {layer.rows, side.width}},
                {side.scales.data(), {side.scales.size() == 0 ? 0 : layer.rows, layer.shape.heads}}};
    }
    template <CacheElement Cache>
    [[nodiscard]] CachedRows<Cache, Backend> rows(Layer const& layer, Half const& side, std::int64_t slot,
                                                  std::int64_t count) const {
        auto const& list = groups_[layer.group].lists[static_cast<std::size_t>(slot)];
        return {{reinterpret_cast<Cache const*>(side.elements.data()), {layer.rows, side.width}},
                std::span<std::int32_t const>(list),
                kv_page_tokens,
                count,
                {side.scales.data(), {side.scales.size() == 0 ? 0 : layer.rows, layer.shape.heads}}};
    }

    KvCapacity capacity_;
    std::vector<Group> groups_;
    std::vector<Layer> layers_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
