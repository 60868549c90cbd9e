// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/arch/t5.hpp>

#include <doctest/doctest.h>

#include "family.hpp"

using namespace shardwise;

namespace {

constexpr auto sized(std::int64_t hidden, std::int64_t width, std::int64_t layers, std::int64_t heads) {
    return [=](ModelConfig& config) {
        config.hidden_size = hidden;
        config.intermediate_size = width;
        config.layers = layers;
        config.heads = heads;
    };
}

constexpr auto flan_small = [](ModelConfig& config) {
    sized(512, 1024, 8, 6)(config);
    config.own.set("is_gated_act", 1);
    config.activation = ActivationKind::gelu_new;
    config.tie_word_embeddings = false;
};

}  // namespace

// Counts: facts/memory.md; flan-t5-small: tests/golden/families/flan-t5-small.json, from the published config.json.
static_assert(family::parameters<T5>(sized(512, 2048, 6, 8)) == 60'506'624);
static_assert(family::parameters<T5>(sized(768, 3072, 12, 12)) == 222'903'552);
static_assert(family::parameters<T5>(sized(1024, 4096, 24, 16)) == 737'668'096);
static_assert(family::parameters<T5>(flan_small) == 76'961'152);

TEST_CASE("t5: one table has three names in any case, and a fourth where the head is tied") {
    CHECK(family::made<T5>(family::unchanged).tree.ties().size() == 3);
    CHECK(family::made<T5>(flan_small).tree.ties().size() == 2);
    CHECK(family::made<T5>([](ModelConfig& config) { config.model_class = "T5EncoderModel"; }).tree.ties().size() == 1);
}

TEST_CASE("t5: only the first block of each stack has a table of relative positions, sharded by heads") {
    auto const model = family::made<T5>(family::unchanged);
    auto const* table = find_tensor(model.tree, "decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight");
    REQUIRE(table != nullptr);
    CHECK(table->shape == Shape{32, 8});
    CHECK(table->shard == ShardRule::units(1, 8));
    CHECK(find_tensor(model.tree, "decoder.block.1.layer.0.SelfAttention.relative_attention_bias.weight") == nullptr);
    CHECK(find_tensor(model.tree, "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight") == nullptr);
}

TEST_CASE("t5: the decoder caches its own keys and values and the encoder's, the encoder none") {
    constexpr std::int64_t width = 8 * 64;
    CHECK(family::cached_per_token(family::made<T5>(family::unchanged)) == 6 * 2 * 2 * width);
    CHECK(family::cached_per_token(
              family::made<T5>([](ModelConfig& config) { config.model_class = "T5EncoderModel"; })) == 0);
}

TEST_CASE("t5: cross-attention reads the encoder's output, which no operation of the block makes") {
    auto const model = family::made<T5>(family::unchanged);
    int cross = 0;
    for (auto const& block : model.program.blocks()) {
        auto const& body = model.program.body(block);
        for (auto const& op : body.operations()) {
            if (op.kind == OpKind::attention && op.attention().is_cross) ++cross;
            if (op.parameters[0] != "layer.1.EncDecAttention.k.weight") continue;
            CHECK(body.values()[static_cast<std::size_t>(op.inputs[0])].is_external);
        }
    }
    CHECK(cross == 2);  // the bodies of the first decoder block and of the others
}

TEST_CASE("t5: a stack of one block has no run of further blocks") {
    auto const model = family::made<T5>([](ModelConfig& config) {
        config.layers = 1;
        config.own.set("num_decoder_layers", 3);
    });
    int runs = 0;
    for (auto const& block : model.program.blocks()) runs += block.is_numbered ? 1 : 0;
    CHECK(runs == 3);
}

TEST_CASE("t5: impossible configs are refused under the keys of its config.json") {
    CHECK(family::refusal<T5>([](ModelConfig& config) { config.hidden_size = 0; }) == "invalid_field d_model");
    CHECK(family::refusal<T5>([](ModelConfig& config) { config.head_dim = 0; }) == "invalid_field d_kv");
    CHECK(family::refusal<T5>([](ModelConfig& config) { config.intermediate_size = 0; }) == "invalid_field d_ff");
    CHECK(family::refusal<T5>([](ModelConfig& config) { config.own.set("num_decoder_layers", 1025); }) ==
          "capacity_exceeded num_decoder_layers");
    CHECK(family::refusal<T5>([](ModelConfig& config) { config.position_buckets = 0; }) ==
          "invalid_field relative_attention_num_buckets");
    CHECK(family::refusal<T5>([](ModelConfig& config) { config.model_class = "T5WithLMHeadModel"; }) ==
          "unsupported architectures");
}
