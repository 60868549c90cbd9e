// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/buffer.hpp>
#include <shardwise/backend/device.hpp>
#include <shardwise/calibrate/device_timer.hpp>
#include <shardwise/calibrate/rate_probe.hpp>
#include <shardwise/core/bytes.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/hardware/attention_rate.hpp>
#include <shardwise/kernels/device/step_attention.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The attention that is measured: a layer of a model with eight billion weights.
struct AttentionExtent {
    std::int64_t heads = 32;
    std::int64_t kv_heads = 8;
    std::int64_t head_dim = 128;
    /// New tokens of a prompt's chunk.
    std::int64_t prompt = 512;
    /// Of a sequence.
    std::array<std::int64_t, 3> contexts{1024, 8192, 32768};
};

namespace detail {

/// What keys and values of a sequence take in a cache of `kv`, with the scales of int8.
[[nodiscard]] constexpr std::int64_t cache_bytes(Dtype kv, std::int64_t context, AttentionExtent const& extent) {
    auto const scales = kv == Dtype::i8 ? 2 * static_cast<std::int64_t>(sizeof(float)) : 0;
    return context * extent.kv_heads * (2 * extent.head_dim * bits(kv) / 8 + scales);
}

/// A cache of one layer, whose sequences have pages of their own, and what reads it.
template <class Api, class Cache>
class AttentionProbe {
    using B = DeviceBackend<Api>;

public:
    AttentionProbe(DeviceTimer<Api>& timer, AttentionExtent const& extent, RateProbe const& probe)
        : timer_(timer), probe_(probe), extent_(extent) {
        options_.shape = {.heads = extent.heads,
                          .kv_heads = extent.kv_heads,
                          .key_dim = extent.head_dim,
                          .value_dim = extent.head_dim,
                          .is_causal = true};
    }

    /// `sequences` with `context` tokens each, of which `rows` are new; the seconds of a call.
    [[nodiscard]] Result<double> seconds(std::int64_t sequences, std::int64_t context, std::int64_t rows) {
        auto& stream = timer_.stream();
        auto const pages = (context + page_rows - 1) / page_rows;
        auto const held = sequences * pages * page_rows;
        auto table = StepTable<B>::create(
            timer_.context(),
            {.tokens = sequences * rows, .sequences = sequences, .groups = 1, .pages = pages, .page_rows = page_rows});
        if (!table) return table.error();
        auto const width = extent_.kv_heads * extent_.head_dim;
        auto keys = cleared<Cache>(held * width);
        auto values = cleared<Cache>(held * width);
        auto scales = cleared<float>(sizeof(Cache) == 1 ? held * extent_.kv_heads : 0);
        auto in = cleared<float>(sequences * rows * extent_.heads * extent_.head_dim);
        auto out = cleared<float>(sequences * rows * extent_.heads * extent_.head_dim);
        auto space = cleared<float>(step_attention_workspace<B>(options_, sequences * rows, sequences, context));
        for (auto const* const made : {&in, &out, &space, &scales}) {
            if (!*made) return made->error();
        }
        if (!keys || !values) return keys ? values.error() : keys.error();
        std::vector<std::int32_t> numbers(static_cast<std::size_t>(sequences * pages));
        std::iota(numbers.begin(), numbers.end(), 0);
        std::vector<std::span<std::int32_t const>> lists;
        for (std::int64_t i = 0; i < sequences; ++i)
            lists.emplace_back(numbers.data() + i * pages, static_cast<std::size_t>(pages));
        std::vector<StepSequence> steps;
        for (std::int64_t i = 0; i < sequences; ++i)
            steps.push_back({context - rows, rows, {&lists[static_cast<std::size_t>(i)], 1}, i});
        std::vector<std::int32_t> const ids(static_cast<std::size_t>(sequences * rows), 1);
        if (auto const written = table->write({ids, steps, {}, -1}, stream); !written) return written.error();
        TensorView<float const, 2, B> const scale(std::as_const(*scales).data(),
                                                  {scales->size() > 0 ? held : 0, extent_.kv_heads});
        StepRows<Cache, B> const k{{std::as_const(*keys).data(), {held, width}}, scale, 0};
        StepRows<Cache, B> const v{{std::as_const(*values).data(), {held, width}}, scale, 0};
        auto const wide = extent_.heads * extent_.head_dim;
        return timer_.seconds(probe_, [&] {
            return step_attention<Cache>(
                TensorView<float const, 2, B>(std::as_const(*in).data(), {sequences * rows, wide}), k, v,
                TensorView<float, 2, B>(out->data(), {sequences * rows, wide}), *table, options_, stream,
                space->view());
        });
    }

private:
    static constexpr std::int64_t page_rows = 16;

    template <class T>
    [[nodiscard]] Result<Buffer<T, B>> cleared(std::int64_t count) {
        auto made = Buffer<T, B>::allocate(timer_.context(), count);
        if (!made || count == 0) return made;
        timer_.stream().submit([&](typename Api::Stream native) {
            return Api::clear(made->data(), static_cast<std::size_t>(count) * sizeof(T), native);
        });
        return made;
    }

    DeviceTimer<Api>& timer_;
    RateProbe const& probe_;
    AttentionExtent const& extent_;
    AttentionOptions options_;
};

template <class Cache, class Api>
[[nodiscard]] Result<AttentionRate> measure_attention_of(DeviceTimer<Api>& timer, Dtype kv, std::int64_t context,
                                                         AttentionExtent const& extent, Bytes bytes, RateProbe probe) {
    probe.time /= 2;
    AttentionProbe<Api, Cache> attention(timer, extent, probe);
    auto const each = cache_bytes(kv, context, extent);
    auto const sequences = std::clamp<std::int64_t>(bytes.count() / each, 1, 64);
    auto const decode = attention.seconds(sequences, context, 1);
    if (!decode) return decode.error();
    auto const rows = std::min(extent.prompt, context);
    auto const prefill = attention.seconds(1, context, rows);
    if (!prefill) return prefill.error();
    auto const past = static_cast<double>(context - rows);
    auto const pairs = static_cast<double>(rows) * (past + (static_cast<double>(rows) + 1.0) / 2.0);
    // As op/ counts them: two products, and five operations for a score.
    auto const operations =
        pairs * static_cast<double>(extent.heads) * (4.0 * static_cast<double>(extent.head_dim) + 5.0);
    return AttentionRate{kv, context, static_cast<double>(sequences * each) / *decode, operations / *prefill};
}

}  // namespace detail

/// What attention of a device does with a cache of `kv` (f32, bf16 or i8) and sequences of `context` tokens: as many that decode as `bytes`
/// of keys and values are, one at least and 64 at most, and a prompt's last chunk.
///
/// Errors  unsupported for another element type; out_of_memory; deadline_exceeded; backend_failure
template <class Api>
[[nodiscard]] Result<AttentionRate> measure_attention(DeviceTimer<Api>& timer, Dtype kv, std::int64_t context,
                                                      AttentionExtent const& extent, Bytes bytes,
                                                      RateProbe const& probe) {
    if (kv == Dtype::f32) return detail::measure_attention_of<float>(timer, kv, context, extent, bytes, probe);
    if (kv == Dtype::bf16) return detail::measure_attention_of<Bfloat16>(timer, kv, context, extent, bytes, probe);
    if (kv == Dtype::i8) return detail::measure_attention_of<std::int8_t>(timer, kv, context, extent, bytes, probe);
    return Error{ErrorCode::unsupported}
        .in("calibrate")
        .at(traits(kv).short_name)
        .because("is no element type of a cache")
        .fix("use fp32, bf16 or int8");
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
