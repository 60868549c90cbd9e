// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/arch/gpt2.hpp>

#include <doctest/doctest.h>

#include "family.hpp"

using namespace shardwise;

namespace {

constexpr auto sized(std::int64_t hidden, std::int64_t layers, std::int64_t heads) {
    return [=](ModelConfig& config) {
        config.hidden_size = hidden;
        config.layers = layers;
        config.heads = heads;
    };
}

}  // namespace

// Counts: facts/memory.md, from the published config.json of openai-community/gpt2*.
static_assert(family::parameters<Gpt2>(sized(768, 12, 12)) == 124'439'808);
static_assert(family::parameters<Gpt2>(sized(1024, 24, 16)) == 354'823'168);
static_assert(family::parameters<Gpt2>(sized(1280, 36, 20)) == 774'030'080);

TEST_CASE("gpt2: Conv1D weights are [in, out], and their outputs are sharded along the second dimension") {
    auto const model = family::made<Gpt2>(family::unchanged);
    auto const* packed = find_tensor(model.tree, "transformer.h.3.attn.c_attn.weight");
    REQUIRE(packed != nullptr);
    CHECK(packed->shape == Shape{768, 2304});
    CHECK(packed->shard == ShardRule::qkv(1, 12, 12));
    auto const* bias = find_tensor(model.tree, "transformer.h.3.attn.c_attn.bias");
    REQUIRE(bias != nullptr);
    CHECK(bias->shard == ShardRule::qkv(0, 12, 12));
    auto const* down = find_tensor(model.tree, "transformer.h.3.mlp.c_proj.weight");
    REQUIRE(down != nullptr);
    CHECK(down->shape == Shape{3072, 768});
    CHECK(down->shard == ShardRule::units(0, 3072));
}

TEST_CASE("gpt2: the causal mask is a buffer of every layer that no file stores") {
    auto const model = family::made<Gpt2>(family::unchanged);
    auto const* mask = find_tensor(model.tree, "transformer.h.0.attn.bias");
    REQUIRE(mask != nullptr);
    CHECK(mask->kind == TensorKind::transient_buffer);
    CHECK(mask->bytes() == Bytes{1024 * 1024});
}

TEST_CASE("gpt2: keys and values of all heads are cached") {
    CHECK(family::cached_per_token(family::made<Gpt2>(family::unchanged)) == 12 * 2 * 768);
}

TEST_CASE("gpt2: impossible configs are refused under the keys of its config.json") {
    CHECK(family::refusal<Gpt2>([](ModelConfig& config) { config.heads = 7; }) == "invalid_field n_embd");
    CHECK(family::refusal<Gpt2>([](ModelConfig& config) { config.layers = 0; }) == "invalid_field n_layer");
    CHECK(family::refusal<Gpt2>([](ModelConfig& config) { config.layers = 5000; }) == "capacity_exceeded n_layer");
    CHECK(family::refusal<Gpt2>([](ModelConfig& config) { config.max_positions = 0; }) == "invalid_field n_positions");
    CHECK(family::refusal<Gpt2>([](ModelConfig& config) { config.hidden_size = std::int64_t{1} << 62U; }) ==
          "invalid_field n_embd");
    CHECK(family::refusal<Gpt2>([](ModelConfig& config) { config.model_class = "GPT2DoubleHeadsModel"; }) ==
          "unsupported architectures");
}
