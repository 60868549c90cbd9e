// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/arch/bloom.hpp>

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

// Counts: tests/golden/families/bloom-*.json, from the published config.json of bigscience/bloom*.
static_assert(family::parameters<Bloom>(sized(1024, 24, 16)) == 559'214'592);
static_assert(family::parameters<Bloom>(sized(4096, 30, 32)) == 7'069'016'064);
static_assert(family::parameters<Bloom>(sized(14336, 70, 112)) == 176'247'271'424);

TEST_CASE("bloom: there are no positions to look up, nor to rotate") {
    auto const model = family::made<Bloom>(family::unchanged);
    CHECK(family::find_operation(model, OpKind::rope) == nullptr);
    int tables = 0;
    for (auto const& body : model.program.bodies()) {
        for (auto const& op : body.operations()) tables += op.kind == OpKind::embedding ? 1 : 0;
    }
    CHECK(tables == 1);
    CHECK(model.config.alibi);
}

TEST_CASE("bloom: the residual may leave after the norms") {
    auto const residual = [](bool is_after) {
        auto const model = family::made<Bloom>(
            [=](ModelConfig& config) { config.own.set("apply_residual_connection_post_layernorm", is_after ? 1 : 0); });
        auto const* sum = family::find_operation(model, OpKind::add);
        REQUIRE(sum != nullptr);
        return sum->inputs[0];
    };
    CHECK(residual(false) == 0);
    CHECK(residual(true) == 1);  // the output of input_layernorm
}

TEST_CASE("bloom: impossible configs are refused under the keys of its config.json") {
    CHECK(family::refusal<Bloom>([](ModelConfig& config) { config.heads = 0; }) == "invalid_field n_head");
    CHECK(family::refusal<Bloom>([](ModelConfig& config) { config.layers = 1025; }) == "capacity_exceeded n_layer");
    CHECK(family::refusal<Bloom>([](ModelConfig& config) { config.model_class = "BloomForQuestionAnswering"; }) ==
          "unsupported architectures");
}
