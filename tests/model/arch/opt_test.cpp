// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/arch/opt.hpp>

#include <doctest/doctest.h>

#include "family.hpp"

using namespace shardwise;

namespace {

constexpr auto sized(std::int64_t hidden, std::int64_t layers, std::int64_t heads) {
    return [=](ModelConfig& config) {
        config.hidden_size = hidden;
        config.intermediate_size = 4 * hidden;
        config.layers = layers;
        config.heads = heads;
    };
}

constexpr auto projected = [](ModelConfig& config) {
    sized(1024, 24, 16)(config);
    config.own.set("word_embed_proj_dim", 512);
    config.own.set("do_layer_norm_before", 0);
};

}  // namespace

// Counts: facts/memory.md, from the published config.json of facebook/opt-*; 350m: tests/golden/families/opt-350m.json.
static_assert(family::parameters<Opt>(sized(768, 12, 12)) == 125'239'296);
static_assert(family::parameters<Opt>(sized(2048, 24, 32)) == 1'315'758'080);
static_assert(family::parameters<Opt>(sized(4096, 32, 32)) == 6'658'473'984);
static_assert(family::parameters<Opt>(sized(7168, 48, 56)) == 29'974'540'288);
static_assert(family::parameters<Opt>(projected) == 331'196'416);

TEST_CASE("opt: positions begin at row 2 of a table with two rows more") {
    auto const model = family::made<Opt>(family::unchanged);
    CHECK(find_tensor(model.tree, "model.decoder.embed_positions.weight")->shape == Shape{2050, 768});
    bool found = false;
    for (auto const& body : model.program.bodies()) {
        for (auto const& op : body.operations()) {
            if (op.kind != OpKind::embedding || op.table().index != TableIndex::position) continue;
            found = true;
            CHECK(op.table().first_row == 2);
            CHECK(op.in_features == 2050);
        }
    }
    CHECK(found);
}

TEST_CASE("opt: embeddings narrower than the model are projected in and out, and the final norm is gone") {
    auto const model = family::made<Opt>(projected);
    CHECK(find_tensor(model.tree, "model.decoder.project_in.weight")->shape == Shape{1024, 512});
    CHECK(find_tensor(model.tree, "model.decoder.project_out.weight")->shape == Shape{512, 1024});
    CHECK(find_tensor(model.tree, "lm_head.weight")->shape == Shape{50272, 512});
    CHECK(find_tensor(model.tree, "model.decoder.final_layer_norm.weight") == nullptr);
}

TEST_CASE("opt: impossible configs are refused under the keys of its config.json") {
    CHECK(family::refusal<Opt>([](ModelConfig& config) { config.intermediate_size = 0; }) == "invalid_field ffn_dim");
    CHECK(family::refusal<Opt>([](ModelConfig& config) { config.own.set("word_embed_proj_dim", -1); }) ==
          "invalid_field word_embed_proj_dim");
    CHECK(family::refusal<Opt>([](ModelConfig& config) { config.heads = 5; }) == "invalid_field hidden_size");
}
