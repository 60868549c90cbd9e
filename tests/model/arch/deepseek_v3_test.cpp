// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/arch/deepseek_v3.hpp>

#include <doctest/doctest.h>

#include "family.hpp"

using namespace shardwise;

// DeepSeek-V3: facts/memory.md.
static_assert(family::parameters<DeepseekV3>(family::unchanged) == 671'026'404'352);

TEST_CASE("deepseek_v3: the routers' corrections are buffers that files store, beside the parameters") {
    auto const model = family::made<DeepseekV3>(family::unchanged);
    auto const stored_buffers = sum_tensors(model.tree, [](Tensor const& tensor) {
        return tensor.kind == TensorKind::buffer ? tensor.shape.elements() : std::int64_t{0};
    });
    CHECK(stored_buffers == 14'848);
}

TEST_CASE("deepseek_v3: a token takes 70,272 bytes of compressed cache, 4,997,120 without compression") {
    auto const model = family::made<DeepseekV3>(family::unchanged);
    CHECK(2 * family::cached_per_token(model, true) == 70'272);  // facts/memory.md, 16 bits
    CHECK(2 * family::cached_per_token(model, false) == 4'997'120);
}

TEST_CASE("deepseek_v3: what the cache holds is on every rank, what is made of it is sharded by heads") {
    auto const model = family::made<DeepseekV3>(family::unchanged);
    auto const rule = [&](std::string_view name) {
        auto const* weight = find_tensor(model.tree, "model.layers.60.self_attn." + std::string(name) + ".weight");
        REQUIRE(weight != nullptr);
        return weight->shard;
    };
    CHECK(rule("kv_a_proj_with_mqa") == ShardRule{});
    CHECK(rule("q_a_proj") == ShardRule{});
    CHECK(rule("kv_b_proj") == ShardRule::units(0, 128));
    CHECK(rule("q_b_proj") == ShardRule::units(0, 128));
    CHECK(rule("o_proj") == ShardRule::units(1, 128));
}

TEST_CASE("deepseek_v3: kv_b reads the latent part of the cached value only") {
    auto const model = family::made<DeepseekV3>(family::unchanged);
    bool found = false;
    for (auto const& body : model.program.bodies()) {
        for (auto const& op : body.operations()) {
            if (op.parameters[0] != "self_attn.kv_b_proj.weight") continue;
            found = true;
            CHECK(op.in_features == 512);
            CHECK(body.values()[static_cast<std::size_t>(op.inputs[0])].width == 576);
        }
    }
    CHECK(found);
}

TEST_CASE("deepseek_v3: three dense layers, then 58 with experts, as two runs") {
    auto const model = family::made<DeepseekV3>(family::unchanged);
    List<std::int32_t> runs;
    for (auto const& block : model.program.blocks()) {
        if (block.is_numbered) runs.push_back(block.count);
    }
    CHECK(runs == List<std::int32_t>{3, 58});
}

TEST_CASE("deepseek_v3: sizes whose products overflow are refused") {
    CHECK(family::refusal<DeepseekV3>([](ModelConfig& config) {
              config.hidden_size = std::int64_t{1} << 31U;
          }).substr(0, 13) == "size_overflow");
    CHECK(family::refusal<DeepseekV3>([](ModelConfig& config) {
              config.heads = std::int64_t{1} << 30U;
          }).substr(0, 13) == "size_overflow");
}
