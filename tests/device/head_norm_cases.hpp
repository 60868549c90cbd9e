// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backends.hpp"

#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

namespace shardwise::testing {

/// A norm of heads in one call has the bits of one call for each head.
template <class T, class B>
void check_head_norms(Bench<B>& bench, std::int64_t tokens, std::int64_t heads, std::int64_t width, bool in_place) {
    CAPTURE(tokens);
    CAPTURE(heads);
    CAPTURE(width);
    auto const values = numbers<T>(tokens * heads * width, 31);
    auto const factors = bench.send(numbers(heads * width, 32));
    TensorView<float const, 2, B> const weights(factors.data(), {heads, width});
    for (bool const is_layer : {false, true}) {
        CAPTURE(is_layer);
        auto const from = bench.send(values);
        auto apart = bench.send(std::vector<T>(values.size()));
        for (std::int64_t head = 0; head < heads; ++head) {
            auto const all = TensorView<T const, 2, B>(from.data(), {tokens, heads * width});
            auto const in = all.columns(head * width, width);
            auto const out = apart.matrix(tokens, heads * width).columns(head * width, width);
            TensorView<float const, 1, B> const own(factors.data() + head * width, {width});
            TensorView<float const, 1, B> const none;
            auto const done = is_layer ? layer_norm<T>(in, own, none, out, 1e-5F, bench.stream())
                                       : rms_norm<T>(in, own, out, 1e-5F, bench.stream(), 1.0F);
            REQUIRE(done);
        }
        auto const expected = bench.fetch(apart);

        auto own = bench.send(values);
        auto other = bench.send(std::vector<T>(values.size()));
        auto& target = in_place ? own : other;
        TensorView<T const, 2, B> const in(own.data(), {tokens * heads, width});
        auto const out = target.matrix(tokens * heads, width);
#if !defined(SHARDWISE_HAS_CUDA) && !defined(SHARDWISE_HAS_HIP)
        std::string const kernel = is_layer ? "layer_norm" : "rms_norm";
        auto const launches = FakeMachine::get().calls(kernel);
#endif
        auto const done = is_layer ? layer_norm<T>(in, weights, out, 1e-5F, bench.stream())
                                   : rms_norm<T>(in, weights, out, 1e-5F, bench.stream(), 1.0F);
        REQUIRE(done);
        auto const result = bench.fetch(target);
        CHECK(std::memcmp(result.data(), expected.data(), values.size() * sizeof(T)) == 0);
#if !defined(SHARDWISE_HAS_CUDA) && !defined(SHARDWISE_HAS_HIP)
        CHECK(FakeMachine::get().calls(kernel) == launches + (std::is_same_v<B, Host> ? 0 : 1));
#endif
    }
}

}  // namespace shardwise::testing

TEST_CASE_TEMPLATE("Norms of heads with weights of their own are one call, of the bits of a call for each head", B,
                   SHARDWISE_TEST_BACKENDS) {
    using namespace shardwise;
    auto const bench = testing::open_bench<B>();
    if (!bench) return;
    // Of whole packs, or not; a head alone.
    testing::check_head_norms<float>(*bench, 5, 3, 64, false);
    testing::check_head_norms<float>(*bench, 3, 5, 33, true);
    testing::check_head_norms<float>(*bench, 4, 1, 128, false);
    testing::check_head_norms<float>(*bench, 2, 2, 1021, true);
    if constexpr (!std::is_same_v<B, Host>) {
        testing::check_head_norms<Bfloat16>(*bench, 7, 8, 96, true);
        testing::check_head_norms<Bfloat16>(*bench, 3, 6, 63, false);
        testing::check_head_norms<Float16>(*bench, 3, 2, 24, true);
    }

    auto values = bench->send(std::vector<float>(24));
    auto const refused = [&](std::int64_t rows, TensorView<float const, 2, B> weights) {
        TensorView<float const, 2, B> const in(values.data(), {rows, 4});
        auto const out = TensorView<float, 2, B>(values.data(), {rows, 4});
        auto const norm = rms_norm<float>(in, weights, out, 0.0F, bench->stream());
        auto const layer = layer_norm<float>(in, weights, out, 0.0F, bench->stream());
        REQUIRE_FALSE(norm);
        REQUIRE_FALSE(layer);
        CHECK(norm.error().code() == ErrorCode::shape_mismatch);
        CHECK(layer.error().code() == ErrorCode::shape_mismatch);
        return norm.error().message();
    };
    CHECK(refused(5, {values.data(), {3, 4}}).find("weights: are not of the rows' heads") != std::string::npos);
    CHECK(refused(6, {values.data(), {3, 3}}).find("not as wide as a row") != std::string::npos);
    CHECK(refused(6, {values.data(), {2, 4}, 5}).find("have gaps between their rows") != std::string::npos);
    CHECK(refused(6, {values.data(), {0, 4}}).find("are of no head") != std::string::npos);
}
