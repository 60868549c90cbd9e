// SPDX-License-Identifier: Apache-2.0
#include <shardwise/train/adam8bit.hpp>
#include <shardwise/train/choose_training.hpp>
#include <shardwise/train/train_ranks.hpp>

#include <doctest/doctest.h>

#include "checkpoint/checkpoint_cases.hpp"
#include "pair_sample.hpp"
#include "training_ways.hpp"

#include <cstdint>
#include <string>
#include <vector>

using namespace shardwise;
using namespace shardwise::testing;

namespace {

/// Two layers whose rows and columns four tensor-parallel ranks share by blocks of 256 elements: heads of 256, two of which read each
/// key-value head. Parts of tensors of 4,096 elements and more have fewer, and the embedding's 488 elements are cut anywhere.
std::string blocks_config(std::int64_t inner = 1024, std::string_view dtype = "float32") {
    return R"({"vocab_size":61,"hidden_size":8,"num_attention_heads":4,"num_key_value_heads":2,"head_dim":256,)"
           R"("num_hidden_layers":2,"max_position_embeddings":64,"attention_bias":true,"model_type":"llama",)"
           R"("architectures":["LlamaForCausalLM"],"intermediate_size":)" +
           std::to_string(inner) + R"(,"dtype":")" + std::string(dtype) + R"("})";
}

std::vector<std::int32_t> small_tokens(std::int64_t count) {
    std::vector<std::int32_t> out;
    for (std::int64_t i = 0; i < count; ++i) out.push_back(static_cast<std::int32_t>((7 * i + i * i / 11 + 3) % 61));
    return out;
}

}  // namespace

TEST_CASE(
    "Adam8bit: tensor-parallel ranks that share whole blocks give the bits of one, with ZeRO and stages, in the "
    "predicted memory and traffic") {
    WaySample sample;
    CurveData const data(61, small_tokens(CurveData::size));
    auto const config = blocks_config();
    auto const expected = train(config, data, 3, Adam8bit{}, {});
    CHECK_FALSE(expected == train(config, data, 3, AdamW{}, {}));
    for (std::int32_t const tp : {2, 4}) {
        for (auto const zero : {ZeroStage::none, ZeroStage::optimizer, ZeroStage::gradients, ZeroStage::weights}) {
            CAPTURE(tp);
            CAPTURE(static_cast<int>(zero));
            sample.check(expected, config, data, 3, Adam8bit{}, {.ranks = 2 * tp, .zero = zero, .tp = tp});
        }
        sample.check(expected, config, data, 3, Adam8bit{}, {.ranks = tp, .micro_batch = 3, .threads = 2, .tp = tp});
        sample.check(expected, config, data, 3, Adam8bit{}, {.ranks = 2 * tp, .tp = tp, .pp = 2});
    }
    sample.check(expected, config, data, 3, Adam8bit{}, {.ranks = 6, .zero = ZeroStage::gradients, .tp = 2});
    sample.check(expected, config, data, 3, Adam8bit{},
                 {.ranks = 8, .zero = ZeroStage::optimizer, .recompute = Recompute::full, .tp = 2, .pp = 2});
}

TEST_CASE("Adam8bit: a tensor-parallel rank keeps what the whole tensor is large enough for") {
    TrainedModel const whole(blocks_config());
    TrainedModel const part(blocks_config(), 1, {4, 1});
    Adam8bit const rule;
    for (std::size_t i = 0; i < part.program.layout().parameters().size(); ++i) {
        auto const& parameter = part.program.layout().parameters()[i];
        CAPTURE(parameter.name);
        CHECK(parameter.whole_elements == whole.program.layout().parameters()[i].elements);
        auto const kept = rule.state(parameter.whole_elements, {0, parameter.elements});
        CHECK(kept.arrays[0].dtype == (parameter.whole_elements < 4096 ? Dtype::f32 : Dtype::u8));
    }
    auto const at = part.program.layout().find("model.layers.0.mlp.down_proj.weight");
    REQUIRE(at);
    auto const& down = part.program.layout().parameters()[at->parameter];
    CHECK(down.elements == 2048);
    OptimizedParameter one{"down", {nullptr, {down.elements}}};
    one.parted = down.whole_elements;
    CHECK(ShardedOptimizer<Adam8bit>::array_bytes(rule, {&one, 1}, {}) == 2 * (2048 + 64));
    CHECK(ShardedOptimizer<Adam8bit>::array_bytes(rule, {&one, 1}, {2, 0}) == 2 * (1024 + 64));
    one.parted = 0;
    CHECK(ShardedOptimizer<Adam8bit>::array_bytes(rule, {&one, 1}, {}) == 2 * 4 * 2048);
}

TEST_CASE("Adam8bit: ranks that would cut a block are refused with the parameter, and others run") {
    CurveData const data(61, small_tokens(CurveData::size));
    // Two ranks have 544 of the last product's columns each, and rows of 17 blocks of what makes them.
    auto const config = blocks_config(1088);
    TrainedModel const one(config);
    CHECK(shardwise::detail::check_cut(Adam8bit{}, one.program.layout()));
    TrainedModel const part(config, 1, {2, 1});
    CHECK(shardwise::detail::check_cut(AdamW{}, part.program.layout()));
    auto const cut = shardwise::detail::check_cut(Adam8bit{}, part.program.layout());
    REQUIRE_FALSE(cut);
    CHECK(cut.error().code() == ErrorCode::unsupported);
    CHECK(cut.error().message() ==
          "adam8bit: model.layers.0.mlp.down_proj.weight: is cut by 2 tensor-parallel ranks within a block of the "
          "optimizer's state (got 544, expected a multiple of 256); use a tensor-parallel degree that shares whole "
          "blocks, data-parallel ranks, or adamw or sgd");
    TrainedModel run(config);
    auto const refused = train_ranks(
        run.context, run.model(),
        [&](HostContext& context, TrainingPlace const& place) {
            return TrainingWeights::load(
                context, TrainedModel::take(StoredParameters::open(run.files.source, run.model())), place);
        },
        Adam8bit{}, data.batches(), options_of({.ranks = 2, .tp = 2}), 2,
        [](Trainer<Adam8bit>&, HostStream&) { return Result<>{}; });
    REQUIRE_FALSE(refused);
    CHECK(refused.error().message().find("model.layers.0.mlp.down_proj.weight") != std::string::npos);
    TrainingMachines const machines{.ranks = 2, .memory = Bytes{std::int64_t{1} << 40U}};
    auto const batch = data.batches().options();
    TrainingSearch<Adam8bit> impossible(run.model(), {}, batch, {}, machines, {.tp = 2});
    auto const none = impossible.run();
    REQUIRE_FALSE(none);
    CHECK(none.error().place() == "model.layers.0.mlp.down_proj.weight");
    TrainedModel const whole_blocks(blocks_config());
    CHECK(TrainingSearch<Adam8bit>(whole_blocks.model(), {}, batch, {}, machines, {.tp = 2}).run());
    // Stages share no parameter.
    CHECK(train(config, data, 3, Adam8bit{}, {.ranks = 2, .pp = 2}) == train(config, data, 3, Adam8bit{}, {}));
}

TEST_CASE("Adam8bit: tensor-parallel ranks write the checkpoints of one, and any ranks go on from them") {
    PairSample sample("adam8bit checkpoint");
    for (std::string_view const dtype : {"float32", "bfloat16"}) {
        CAPTURE(dtype);
        SmallRun<Adam8bit> run(blocks_config(1024, dtype), {});
        TemporaryFolder const out;
        auto const [two, four] = save_twice(run, out);
        auto const from = out / "step-000002";
        CHECK(two.at("optimizer.safetensors") != four.at("optimizer.safetensors"));
        CHECK(two.at("optimizer.safetensors").find("exp_avg_absmax.model.layers.1.mlp.down_proj.weight") !=
              std::string::npos);
        for (auto const& ranks :
             {Ranks{2, 2}, Ranks{4, 4}, Ranks{4, 2, ZeroStage::gradients}, Ranks{8, 4, ZeroStage::optimizer},
              Ranks{4, 2, ZeroStage::weights}, Ranks{4, 2, ZeroStage::none, 2}}) {
            CAPTURE(ranks.all);
            CAPTURE(ranks.tp);
            if (!sample.takes({"tp " + std::to_string(ranks.tp), "ranks " + std::to_string(ranks.all)},
                              {std::string(dtype)}))
                continue;
            // There, and back to one rank.
            CHECK(trained_by(run, ranks, {}, 0, 2) == two);
            CHECK(trained_by(run, ranks, from, 2, 4) == four);
        }
        TemporaryFolder const shared;
        for (auto const& [name, text] : trained_by(run, {2, 2}, {}, 0, 2)) (void)shared.write(name, text);
        CHECK(trained_by(run, {1, 1}, shared.path(), 2, 4) == four);
        CHECK(trained_by(run, {3, 1, ZeroStage::optimizer}, shared.path(), 2, 4) == four);
    }
}
