// SPDX-License-Identifier: Apache-2.0
#include <shardwise/memory/stage_memory.hpp>
#include <shardwise/model/architectures.hpp>
#include <shardwise/model/presets.hpp>

#include <doctest/doctest.h>

using namespace shardwise;

namespace {

HeldMemory whole_of(Model const& model, EstimateRequest const& request, RankPlace const& place) {
    HeldMemory sum;
    for (auto const& part : find_parts(model).parts) sum += part.count * held_memory(model, part, request, place);
    return sum;
}

}  // namespace

TEST_CASE("Held memory: an adapter's halves are trained, and its base is frozen") {
    auto config = presets::llama_3_8b;
    config.layers = 2;
    auto const model = *describe(config);
    EstimateRequest const plain{.training = TrainingPlan{}};
    auto const all = whole_of(model, plain, {});
    CHECK(all.parameters == count_parameters(model.tree));
    CHECK(all.states == Bytes{8 * all.parameters});
    CHECK(all.frozen == Bytes{0});
    EstimateRequest adapted = plain;
    adapted.training->has_adapter = true;
    auto const base = whole_of(model, adapted, {});
    CHECK(base.frozen + base.buffers == base.weights);
    CHECK(base.parameters == 0);
    CHECK(base.states == Bytes{0});
    // Without training nothing is kept beside the weights.
    CHECK(whole_of(model, {}, {}) == HeldMemory{.weights = all.weights, .parameters = all.parameters});
}

TEST_CASE("Held memory: over tensor-parallel ranks shards add up to the whole") {
    auto config = presets::llama_3_8b;
    config.layers = 1;
    auto const model = *describe(config);
    EstimateRequest request{.training = TrainingPlan{}};
    auto const parts = find_parts(model);
    for (std::int64_t const tp : {2, 3, 8}) {
        request.parallel.tp = tp;
        for (auto const& tensor : model.tree.tensors()) {
            HeldMemory sum;
            for (std::int64_t rank = 0; rank < tp; ++rank) sum += held_memory(tensor, {}, request, {.tp = rank});
            EstimateRequest const one{.training = TrainingPlan{}};
            auto const expected = (tensor.shard.is_shared() ? 1 : tp) * held_memory(tensor, {}, one, {});
            // Key-value heads are copied where ranks are more than they.
            if (tensor.shard.has_kv_heads() && config.kv_heads % tp != 0) continue;
            CHECK(sum == expected);
        }
    }
}

TEST_CASE("Stage rule: what is kept, and where it comes to stand") {
    auto config = presets::llama_3_8b;
    config.layers = 4;
    auto const model = *describe(config);
    StageNeeds const needs{.held = {.weights = 160_B, .buffers = 10_B, .states = 600_B, .parameters = 75},
                           .saved = 7_B,
                           .working = {30_B, 30_B},
                           .communication = 5_B,
                           .layers = 1};
    EstimateRequest request{.dtype = Dtype::bf16, .context = 8, .parallel = {.pp = 4}, .training = TrainingPlan{}};
    StageRule const rule(model, request, 0);
    auto const at = [&](std::int64_t stage, std::int64_t dp, std::int32_t zero) {
        return rule.memory(needs, stage, dp, zero);
    };
    // Stage 0 of 4 has four micro-batches in flight, the last one.
    CHECK(at(0, 1, 0).terms.activations == Bytes{4 * 7 + 30});
    CHECK(at(3, 1, 0).terms.activations == Bytes{7 + 30});
    // A message arrives on every stage but the first: 8 tokens of the hidden size in bf16.
    CHECK(at(1, 1, 0).communication - at(0, 1, 0).communication == Bytes{8 * config.hidden_size * 2});
    CHECK(at(0, 1, 0).communication == 5_B);
    // Weights and gradients in bf16, a copy of the 75 elements in fp32 beside the states.
    CHECK(at(0, 1, 0).terms.weights == 160_B);
    CHECK(at(0, 1, 0).terms.gradients == 150_B);
    CHECK(at(0, 1, 0).terms.optimizer == 900_B);
    CHECK(at(0, 2, 3).terms.weights == 85_B);
    CHECK(at(0, 2, 3).terms.optimizer == 450_B);
    // No more are in flight than there are.
    request.micro_batches = 2;
    CHECK(StageRule(model, request, 0).memory(needs, 0, 1, 0).terms.activations == Bytes{2 * 7 + 30});
    request.training = std::nullopt;
    auto const serving = StageRule(model, request, 0).memory(needs, 0, 1, 0);
    CHECK(serving.terms.activations == 30_B);
    CHECK(serving.terms.overhead == 5_B + runtime_overhead(request.device));
}
