// SPDX-License-Identifier: Apache-2.0
#include <shardwise/backend/host/products.hpp>
#include <shardwise/executor/latent_attention.hpp>

#include <doctest/doctest.h>

#include "formula.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace shardwise;
using testing::formula;

/// Three heads with keys of 5 + 4 and values of 6 over a latent of 32 + 4.
constexpr AttentionShape shape{.heads = 3, .kv_heads = 3, .key_dim = 9, .value_dim = 6, .latent = 36, .rotary = 4};
constexpr std::int64_t context = 70;
constexpr float scale = 0.4F;

/// A weight as stored, and what its numbers are.
struct Weight {
    std::vector<std::byte> bytes;
    std::vector<float> values;
    WeightSource source;

    explicit Weight(WeightFormat format) {
        std::int64_t const rows = 3 * (5 + 6);
        auto const plain = formula("kv_b", {rows, 32});
        if (format == WeightFormat::f32) {
            auto const all = std::as_bytes(std::span<float const>(plain));
            bytes.assign(all.begin(), all.end());
        } else if (format == WeightFormat::bf16) {
            for (auto const value : plain) {
                auto const bits = std::bit_cast<std::uint32_t>(value);
                bytes.push_back(static_cast<std::byte>(bits >> 16U & 0xFFU));
                bytes.push_back(static_cast<std::byte>(bits >> 24U));
            }
        } else {
            // Q8_0: a scale of 1/256 in fp16, then 32 whole numbers.
            for (std::size_t i = 0; i < plain.size(); ++i) {
                if (i % 32 == 0) bytes.insert(bytes.end(), {std::byte{0x00}, std::byte{0x1C}});
                bytes.push_back(static_cast<std::byte>(static_cast<std::int8_t>(std::lround(plain[i] * 256.0F))));
            }
        }
        source = {.format = format, .outputs = rows, .inputs = 32, .data = bytes, .scales = {}};
        values.resize(plain.size());
        for (std::int64_t row = 0; row < rows; ++row)
            detail::decode_source(source, row, 0, 32, values.data() + row * 32);
    }
};

/// The definition: keys and values of every head are made of the latent, in double.
std::vector<double> expanded(std::vector<float> const& weight, std::vector<float> const& q,
                             std::vector<float> const& latents, std::int64_t past, std::int64_t tokens) {
    std::vector<double> out;
    auto const dot = [&](std::int64_t row, float const* latent) {
        double sum = 0.0;
        for (std::int64_t i = 0; i < 32; ++i)
            sum += static_cast<double>(weight[static_cast<std::size_t>(row * 32 + i)]) * static_cast<double>(latent[i]);
        return sum;
    };
    for (std::int64_t token = 0; token < tokens; ++token) {
        for (std::int64_t head = 0; head < 3; ++head) {
            auto const* query = q.data() + token * 27 + head * 9;
            std::vector<double> weights;
            double sum = 0.0;
            for (std::int64_t key = 0; key <= past + token; ++key) {
                auto const* latent = latents.data() + key * 36;
                double score = 0.0;
                for (std::int64_t i = 0; i < 5; ++i)
                    score += static_cast<double>(query[i]) * dot(head * 11 + i, latent);
                for (std::int64_t i = 0; i < 4; ++i)
                    score += static_cast<double>(query[5 + i]) * static_cast<double>(latent[32 + i]);
                weights.push_back(std::exp(score * static_cast<double>(scale)));
                sum += weights.back();
            }
            for (std::int64_t i = 0; i < 6; ++i) {
                double value = 0.0;
                for (std::size_t key = 0; key < weights.size(); ++key)
                    value += weights[key] / sum * dot(head * 11 + 5 + i, latents.data() + key * 36);
                out.push_back(value);
            }
        }
    }
    return out;
}

/// A step of some sequences, whose latents lie in pages of a cache.
struct LatentStep {
    struct Sequence {
        std::int64_t past;
        std::int64_t tokens;
    };
    static constexpr std::int64_t page_rows = 16;
    /// Of a sequence.
    static constexpr std::int64_t pages = 6;

    std::vector<Sequence> sequences;
    std::int64_t tokens = 0;
    std::vector<std::vector<std::int32_t>> lists;
    std::vector<float> cache;

    explicit LatentStep(std::vector<Sequence> of) : sequences(std::move(of)) {
        auto const count = static_cast<std::int64_t>(sequences.size());
        cache.resize(static_cast<std::size_t>(count * pages * page_rows * 36), 1e9F);
        for (std::int64_t i = 0; i < count; ++i) {
            auto const& one = sequences[static_cast<std::size_t>(i)];
            tokens += one.tokens;
            // Pages of sequences lie between each other.
            auto& list = lists.emplace_back();
            for (std::int64_t page = 0; page < pages; ++page)
                list.push_back(static_cast<std::int32_t>(page * count + i));
            auto const own = latents(i);
            for (std::int64_t row = 0; row < one.past + one.tokens; ++row) {
                auto const at = list[static_cast<std::size_t>(row / page_rows)] * page_rows + row % page_rows;
                std::copy_n(own.data() + row * 36, 36, cache.data() + at * 36);
            }
        }
    }
    [[nodiscard]] std::vector<float> latents(std::int64_t sequence) const {
        auto const& one = sequences[static_cast<std::size_t>(sequence)];
        return formula("latents" + std::to_string(sequence), {one.past + one.tokens, 36});
    }
    [[nodiscard]] Result<StepTable<Host>> table(HostContext& memory, HostStream& stream) const {
        auto const count = static_cast<std::int64_t>(sequences.size());
        auto made = StepTable<Host>::create(
            memory,
            {.tokens = tokens, .sequences = count, .wanted = 0, .groups = 1, .pages = pages, .page_rows = page_rows});
        if (!made) return made;
        std::vector<std::span<std::int32_t const>> spans(lists.begin(), lists.end());
        std::vector<StepSequence> shown;
        for (std::size_t i = 0; i < spans.size(); ++i)
            shown.push_back({sequences[i].past, sequences[i].tokens, {&spans[i], 1}});
        std::vector<std::int32_t> const ids(static_cast<std::size_t>(tokens), 1);
        if (auto const written = made->write({ids, shown}, stream); !written) return written.error();
        return made;
    }
    [[nodiscard]] StepRows<float, Host> rows() const {
        return {{cache.data(), {static_cast<std::int64_t>(cache.size()) / 36, 36}}, {}, 0};
    }
};

TEST_CASE(
    "LatentHeads: equals the definition with expanded keys and values, for any weight, heads and sequences of a step") {
    HostContext memory({.threads = 2});
    auto stream = memory.make_stream();
    LatentStep const steps[] = {LatentStep({{69, 1}}), LatentStep({{30, 40}}), LatentStep({{65, 5}, {0, 1}, {9, 1}}),
                                LatentStep({{40, 1}, {0, 64}, {3, 2}, {0, 30}})};
    for (auto const format : {WeightFormat::f32, WeightFormat::bf16, WeightFormat::q8_0}) {
        Weight const weight(format);
        for (auto const& step : steps) {
            auto const tokens = step.tokens;
            CAPTURE(tokens);
            auto q = formula("q", {tokens, 27});
            for (auto& value : q) value *= 8.0F;
            std::vector<double> expected;
            std::int64_t first = 0;
            for (std::size_t i = 0; i < step.sequences.size(); ++i) {
                auto const& one = step.sequences[i];
                std::vector<float> const own(q.begin() + first * 27, q.begin() + (first + one.tokens) * 27);
                auto const part =
                    expanded(weight.values, own, step.latents(static_cast<std::int64_t>(i)), one.past, one.tokens);
                expected.insert(expected.end(), part.begin(), part.end());
                first += one.tokens;
            }
            auto const table = step.table(memory, stream);
            REQUIRE(table);
            for (auto const own : {UnitRange{0, 3}, UnitRange{1, 2}, UnitRange{3, 3}}) {
                auto const before = memory.memory().current();
                auto const heads = LatentHeads<Host>::create(memory, weight.source, shape, own);
                REQUIRE(heads);
                CHECK(memory.memory().current() - before == *latent_weight_bytes<Host>(format, shape, own.size()));
                std::vector<float> out(static_cast<std::size_t>(tokens * own.size() * 6));
                std::vector<float> scratch(static_cast<std::size_t>(
                    latent_workspace<Host>(shape, own.size(), tokens, table->sequences(), context)));
                TensorView<float, 2, Host> const all(q.data(), {tokens, 27});
                auto const run = [&](std::int64_t floats) {
                    return heads->attend<float>(all.columns(own.begin * 9, own.size() * 9), step.rows(),
                                                {out.data(), {tokens, own.size() * 6}}, *table, scale,
                                                {scratch.data(), {floats}}, stream);
                };
                REQUIRE(run(static_cast<std::int64_t>(scratch.size())));
                // Queries and sums of at most 32 rows.
                auto const least = std::min<std::int64_t>(tokens, 32) * own.size() * (36 + 32);
                if (least > 0) CHECK(run(least - 1).error().code() == ErrorCode::shape_mismatch);
                REQUIRE(stream.synchronize(Deadline::after(std::chrono::seconds(20))));
                double worst = 0.0;
                for (std::int64_t i = 0; i < tokens * own.size() * 6; ++i) {
                    auto const token = i / (own.size() * 6);
                    auto const at = token * 18 + own.begin * 6 + i % (own.size() * 6);
                    worst = std::max(worst, std::abs(static_cast<double>(out[static_cast<std::size_t>(i)]) -
                                                     expected[static_cast<std::size_t>(at)]));
                }
                CHECK(worst < 2e-6);
            }
        }
    }
}

TEST_CASE("LatentHeads: a weight for other heads is refused") {
    HostContext memory({.threads = 1});
    Weight const weight(WeightFormat::f32);
    auto other = shape;
    other.value_dim = 7;
    auto const heads = LatentHeads<Host>::create(memory, weight.source, other, {0, 3});
    REQUIRE_FALSE(heads);
    CHECK(heads.error().code() == ErrorCode::shape_mismatch);
}

}  // namespace
