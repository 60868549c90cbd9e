// SPDX-License-Identifier: Apache-2.0
#include <shardwise/memory/weights.hpp>
#include <shardwise/model/architectures.hpp>
#include <shardwise/model/presets.hpp>
#include <shardwise/model/tree_totals.hpp>

#include <doctest/doctest.h>

using namespace shardwise;

namespace {

/// The whole model on one rank, ties not taken out.
std::int64_t whole(Model const& model, EstimateRequest const& request = {}, RankPlace const& place = {}) {
    return body_bytes(model.tree, model.tree.root(), root_position(model.config, model.tree, model.family), request, place).count();
}

Tensor const weight{.name = "weight", .shape = {4096, 1024}, .dtype = Dtype::bf16, .use = TensorUse::linear};

}  // namespace

TEST_CASE("weights: a tensor takes what its dtype says, or what its file stores") {
    CHECK(weight_bytes(weight, {}, {}) == Bytes{4096 * 1024 * 2});
    auto stored = weight;
    stored.stored_bytes = 1234567;
    CHECK(weight_bytes(stored, {}, {}) == Bytes{1234567});
}

TEST_CASE("weights: --dtype recasts floating tensors; integers and bools keep theirs") {
    EstimateRequest const fp32{.dtype = Dtype::f32};
    CHECK(weight_bytes(weight, {}, fp32) == Bytes{4096 * 1024 * 4});
    CHECK(weight_bytes(weight, {}, {.dtype = Dtype::i4}) == Bytes{4096 * 1024 / 2});
    auto ids = weight;
    ids.dtype = Dtype::i64;
    CHECK(weight_bytes(ids, {}, fp32) == Bytes{4096 * 1024 * 8});
    auto mask = weight;
    mask.dtype = Dtype::boolean;
    mask.kind = TensorKind::buffer;
    CHECK(weight_bytes(mask, {}, fp32) == Bytes{4096 * 1024});
}

TEST_CASE("weights: buffers that checkpoints do not store take none, persistent ones count") {
    auto buffer = weight;
    buffer.kind = TensorKind::transient_buffer;
    CHECK(weight_bytes(buffer, {}, {}) == 0_B);
    buffer.kind = TensorKind::buffer;
    CHECK(weight_bytes(buffer, {}, {}) == Bytes{4096 * 1024 * 2});
}

TEST_CASE("weights: a rank's share of a plain tensor is its rows, of a packed one its share of the bytes") {
    auto dealt = weight;
    dealt.shard = ShardRule::units(0, 4096);
    EstimateRequest const three{.parallel = {.tp = 3}};
    CHECK(shard_bytes(dealt, {}, three, {.tp = 0}) == Bytes{1366 * 1024 * 2});
    CHECK(shard_bytes(dealt, {}, three, {.tp = 2}) == Bytes{1365 * 1024 * 2});
    auto stored = dealt;
    stored.stored_bytes = 1000;
    CHECK(shard_bytes(stored, {}, three, {.tp = 0}) == Bytes{334});
    CHECK(shard_bytes(stored, {}, {.parallel = {.tp = 1}}, {}) == Bytes{1000});
}

// facts/memory.md, "Quantised sizes": Llama-3.1-8B F16 14.96 GiB, Q8_0 7.95 GiB, Q6_K 6.14 GiB
TEST_CASE("weights: GGUF sizes of Llama-3.1-8B are the published ones") {
    auto const model = *describe(presets::llama_3_1_8b);
    auto const gib = [&](std::string_view name) {
        EstimateRequest const request{.quant = *parse_quant_scheme(name)};
        return static_cast<double>(whole(model, request)) / (1024.0 * 1024.0 * 1024.0);
    };
    CHECK(gib("F16") == doctest::Approx(14.96).epsilon(0.0005));
    CHECK(gib("Q8_0") == doctest::Approx(7.95).epsilon(0.0007));
    CHECK(gib("Q6_K") == doctest::Approx(6.14).epsilon(0.0008));
}

TEST_CASE("weights: NF4 costs half a bit per parameter of scales, an eighth with double quantisation") {
    Tensor const big{.name = "weight", .shape = {8192, 8192}, .dtype = Dtype::bf16, .use = TensorUse::linear};
    LayerPosition position{.layer = 0, .layers = 1};
    position.class_name = "Linear";
    auto const elements = 8192.0 * 8192.0;
    auto const bits_of = [&](QuantScheme const& scheme) {
        return 8.0 * static_cast<double>(weight_bytes(big, position, {.quant = scheme}).count()) / elements;
    };
    CHECK(bits_of(QuantScheme::nf4()) == doctest::Approx(4.5).epsilon(0.0001));
    CHECK(bits_of(QuantScheme::nf4(true)) == doctest::Approx(4.127).epsilon(0.0001));
}

TEST_CASE("weights: mixtures by layer see the layer's number and what a product does") {
    EstimateRequest const mixed{.quant = *parse_quant_scheme("Q4_K_M")};
    CHECK(depends_on_layer(mixed));
    CHECK_FALSE(depends_on_layer({.quant = QuantScheme::nf4()}));
    CHECK_FALSE(depends_on_layer({}));
    // Q4_K_M gives ffn_down and attn_v six bits in the first eighth of the layers, four in the tenth layer of 32.
    Tensor down{.name = "weight", .shape = {4096, 14336}, .dtype = Dtype::bf16, .use = TensorUse::ffn_down};
    LayerPosition position{.layer = 0, .layers = 32, .heads_per_kv_head = 4};
    position.class_name = "Linear";
    CHECK(weight_bytes(down, position, mixed) == Bytes{4096 * 14336 / 256 * 210});
    position.layer = 4;
    CHECK(weight_bytes(down, position, mixed) == Bytes{4096 * 14336 / 256 * 144});
    position.layer = 0;
    down.use = TensorUse::ffn_up;
    CHECK(weight_bytes(down, position, mixed) == Bytes{4096 * 14336 / 256 * 144});
}

TEST_CASE("weights: tensor-parallel ranks together hold the model, what is replicated on each") {
    auto const model = *describe(presets::llama_3_8b);
    std::int64_t sum = 0;
    for (std::int64_t rank = 0; rank < 8; ++rank) sum += whole(model, {.parallel = {.tp = 8}}, {.tp = rank});
    // 65 norms of 4096.
    CHECK(sum == 2 * (8030261248 + 7 * 65 * 4096));
}

TEST_CASE("weights: expert-parallel ranks shard the experts and hold the rest whole") {
    auto const model = *describe(presets::mixtral_8x7b);
    std::int64_t const experts = 32LL * 8 * 3 * 4096 * 14336;
    auto const rest = 46702792704 - experts;
    CHECK(whole(model, {.parallel = {.ep = 8}}, {.ep = 3}) == 2 * (rest + experts / 8));
    // 8 experts over 3 ranks: 3, 3, 2.
    CHECK(whole(model, {.parallel = {.ep = 3}}, {.ep = 0}) == 2 * (rest + experts / 8 * 3));
    CHECK(whole(model, {.parallel = {.ep = 3}}, {.ep = 2}) == 2 * (rest + experts / 8 * 2));
}

TEST_CASE("weights: shares of large numbers do not overflow") {
    constexpr auto tera = std::int64_t{1} << 40U;
    CHECK(detail::share_of(tera, tera / 3, tera) == tera / 3);
    CHECK(detail::share_of(10, 1, 3) == 4);
    CHECK(detail::share_of(9, 1, 3) == 3);
    auto const share = detail::share_of((std::int64_t{1} << 60U) + 7, tera - 1, tera);
    CHECK(share <= (std::int64_t{1} << 60U) + 7);
    CHECK(share >= (std::int64_t{1} << 60U) - (std::int64_t{1} << 20U));
}
