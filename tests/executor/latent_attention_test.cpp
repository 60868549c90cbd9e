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

TEST_CASE(
    "LatentHeads: equals the definition with expanded keys and values, for any weight, heads and number of tokens") {
    HostContext memory({.threads = 2});
    auto stream = memory.make_stream();
    auto latents = formula("latents", {context, 36});
    for (auto const format : {WeightFormat::f32, WeightFormat::bf16, WeightFormat::q8_0}) {
        Weight const weight(format);
        for (std::int64_t const tokens : {1, 5, 40}) {
            CAPTURE(tokens);
            auto const past = context - tokens;
            auto q = formula("q", {tokens, 27});
            for (auto& value : q) value *= 8.0F;
            auto const expected = expanded(weight.values, q, latents, past, tokens);
            for (auto const own : {UnitRange{0, 3}, UnitRange{1, 2}, UnitRange{3, 3}}) {
                auto const before = memory.memory().current();
                auto const heads = LatentHeads<Host>::create(memory, weight.source, shape, own);
                REQUIRE(heads);
                CHECK(memory.memory().current() - before == *latent_weight_bytes<Host>(format, shape, own.size()));
                std::vector<float> out(static_cast<std::size_t>(tokens * own.size() * 6));
                std::vector<float> scratch(static_cast<std::size_t>(heads->workspace(tokens, context)));
                TensorView<float, 2, Host> const all(q.data(), {tokens, 27});
                auto const done = heads->attend<float>(
                    all.columns(own.begin * 9, own.size() * 9),
                    CachedRows<float, Host>({latents.data(), {context, 36}}), {out.data(), {tokens, own.size() * 6}},
                    past, scale, {scratch.data(), {static_cast<std::int64_t>(scratch.size())}}, stream);
                REQUIRE(done);
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
