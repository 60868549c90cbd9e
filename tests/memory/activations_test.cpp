// SPDX-License-Identifier: Apache-2.0
#include <shardwise/memory/activations.hpp>
#include <shardwise/model/architectures.hpp>
#include <shardwise/model/presets.hpp>

#include <doctest/doctest.h>

#include <string>

using namespace shardwise;

namespace {

Model model_of(ModelConfig const& config) {
    return *describe(config);
}

BlockBody const& layer_of(Model const& model) {
    for (auto const& block : model.program.blocks()) {
        if (block.is_numbered) return model.program.body(block);
    }
    return model.program.bodies().front();
}

BlockBody const& head_of(Model const& model) {
    return model.program.body(model.program.blocks().back());
}

}  // namespace

TEST_CASE("activations: a llama layer peaks where residual, normed input, gate and up live at once") {
    auto const model = model_of(presets::llama_3_70b);
    EstimateRequest const request{.context = 8192};
    // [8192 tokens] x (8192 + 8192 + 28672 + 28672) columns of 2 bytes
    CHECK(activation_peak(layer_of(model), request, model.config) == Bytes{8192LL * 73728 * 2});
    auto const peaks = activation_peaks(layer_of(model), request, model.config);
    CHECK(peaks.decode == Bytes{73728LL * 2});
    CHECK(peaks.larger() == Phase::prefill);
}

TEST_CASE("activations: tensor-parallel ranks hold their columns, the residual whole") {
    auto const model = model_of(presets::llama_3_70b);
    EstimateRequest const request{.context = 8192, .parallel = {.tp = 4}};
    CHECK(activation_peak(layer_of(model), request, model.config) == Bytes{8192LL * (16384 + 57344 / 4) * 2});
    EstimateRequest const sequence{.context = 8192, .parallel = {.tp = 4, .sequence_parallel = true}};
    CHECK(activation_peak(layer_of(model), sequence, model.config) <
          activation_peak(layer_of(model), request, model.config));
}

TEST_CASE(
    "activations: prompts are computed in chunks of all sequences, whole where N says so or tokens attend both ways") {
    for (auto const& config :
         {presets::llama_3_8b, presets::qwen3_30b_a3b, presets::deepseek_v3, presets::gemma_2_27b}) {
        auto const model = model_of(config);
        for (auto const& body : model.program.bodies()) {
            auto const peak = [&](std::int64_t batch, std::int64_t context, std::int64_t chunk) {
                return activation_peak(body, {.batch = batch, .context = context, .prefill_chunk = chunk}, config);
            };
            // One sequence: those of its first tokens.
            CHECK(peak(1, 100000, 8192) == peak(1, 8192, 0));
            CHECK(peak(1, 5000, 8192) == peak(1, 5000, 0));
            // Several: as if each had its share of the chunk, also where that does not divide.
            CHECK(peak(32, 4096, 8192) == peak(32, 256, 0));
            CHECK(peak(3, 4096, 300) == peak(3, 100, 0));
            CHECK(peak(3, 4096, 301) >= peak(3, 100, 0));
            CHECK(peak(3, 4096, 301) <= peak(3, 101, 0));
            // More sequences than the chunk has tokens: no pass computes a token of each.
            CHECK(peak(1000, 4096, 8) == peak(8, 1, 0));
            CHECK(peak(32, 4096, 0) >= peak(32, 4096, 8192));
        }
        auto const layer = [&](std::int64_t context, std::int64_t chunk) {
            return activation_peak(layer_of(model), {.batch = 3, .context = context, .prefill_chunk = chunk}, config);
        };
        CHECK(layer(4096, 301) > layer(100, 0));
        CHECK(layer(4096, 301) < layer(101, 0));
        CHECK(prefill_request(model, {}).prefill_chunk == 8192);
        CHECK(prefill_request(model, {.training = TrainingPlan{}}).prefill_chunk == 0);
    }
    for (auto const& config : {presets::bert_base, presets::t5_base})
        CHECK(prefill_request(model_of(config), {}).prefill_chunk == 0);
}

TEST_CASE("activations: the head has fp32 logits of each sequence's last token") {
    auto const model = model_of(presets::llama_3_8b);
    EstimateRequest const request{.batch = 16, .context = 2};
    auto const peaks = activation_peaks(head_of(model), request, model.config);
    // Decode: the last tokens' hidden states and the logits of 16 sequences.
    CHECK(peaks.decode == Bytes{16LL * (4096 * 2 + 128256 * 4)});
}

TEST_CASE("activations: a mixture of experts holds tokens * k routed rows, not one row per expert") {
    auto const model = model_of(presets::qwen3_30b_a3b);
    EstimateRequest const request{.context = 1000};
    auto const peak = activation_peak(layer_of(model), request, model.config).count();
    // 8 of 128 experts of 768 columns: gate and up of the routed rows beside residual and normed input.
    auto const routed = 1000LL * 8 * 2 * 768 * 2;
    auto const dense = 1000LL * 128 * 2 * 768 * 2;
    CHECK(peak > routed);
    CHECK(peak < dense / 4);
    // The widest moment is the experts' output, [tokens * 8, 2048], before it is combined.
    CHECK(peak >= 1000LL * 8 * (2048 + 768) * 2);
    CHECK(peak <= 1000LL * (8 * (2048 + 768) + 4 * 2048) * 2);
}

TEST_CASE("activations: every operation's workspace has a place of its own while it runs") {
    BodyBuilder body(64);
    auto const routes = body.route(body.linear(body.input(), "router", "router", 8), 8, 2);
    auto const made = body.experts(body.input(), routes, "out", "w", 64, Routing{8, 2}, Spread::partial);
    (void)body.combine(made, routes, Routing{8, 2});
    auto const mixture = std::move(body).finish();
    auto const context = op_context(mixture, {.batch = 1, .new_tokens = 5, .context = 5, .dtype = Dtype::f32});
    auto const plan = plan_activations(mixture, context);
    REQUIRE(plan.workspace_of.size() == 4);
    CHECK(plan.workspace_of[0] == -1);
    CHECK(plan.workspace_of[1] == -1);
    auto const table = plan.items[static_cast<std::size_t>(plan.workspace_of[2])];
    CHECK(table.birth == 3);
    CHECK(table.death == 3);
    CHECK(table.size == Bytes{4 * (5 * 2 + 8 + 1)});
    CHECK(plan.workspace_of[3] > plan.workspace_of[2]);
}

TEST_CASE("activations: what lives at once in any published model's blocks is what the arena takes, within alignment") {
    std::string above;
    for (auto const& preset : model_presets) {
        auto const model = model_of(*preset.config);
        for (auto const& body : model.program.bodies()) {
            for (auto const phase : {Phase::prefill, Phase::decode}) {
                auto const plan = plan_activations(body, op_context(body, step_of(phase, {}, model.config)));
                auto const bound = arena_lower_bound(plan.items).count();
                auto const slack = static_cast<std::int64_t>(plan.items.size()) * 64;
                if (plan.layout.peak.count() > bound + slack) above += std::string{preset.name} + " ";
            }
        }
    }
    CHECK(above == "");
}

TEST_CASE("activations: an addition writes over its input when nothing reads that later") {
    BodyBuilder body(64);
    auto const a = body.linear(body.input(), "a", "a", 64);
    auto const b = body.linear(body.input(), "b", "b", 64);
    auto const sum = body.add(a, b);
    auto const finished = std::move(body).finish();
    auto const plan = plan_activations(finished, op_context(finished, {.batch = 1, .new_tokens = 8, .context = 8}));
    CHECK(plan.item_of[static_cast<std::size_t>(sum)] == plan.item_of[static_cast<std::size_t>(a)]);
    CHECK(plan.layout.peak == Bytes{3 * 8 * 64 * 2});
}

TEST_CASE("activations: an input that is read later is not written over") {
    BodyBuilder body(64);
    auto const a = body.linear(body.input(), "a", "a", 64);
    auto const sum = body.add(a, body.input());
    (void)body.add(sum, a);
    auto const finished = std::move(body).finish();
    auto const plan = plan_activations(finished, op_context(finished, {.batch = 1, .new_tokens = 8, .context = 8}));
    // The block's input dies at the first sum, which may take its place; `a` does not.
    CHECK(plan.item_of[static_cast<std::size_t>(sum)] == plan.item_of[0]);
    CHECK(plan.item_of[static_cast<std::size_t>(a)] != plan.item_of[static_cast<std::size_t>(sum)]);
    CHECK(plan.layout.peak == Bytes{2 * 8 * 64 * 2});
}

TEST_CASE("activations: a value that the block does not own lives throughout") {
    BodyBuilder body(64);
    auto const outside = body.external("encoder", 256);
    auto const a = body.linear(body.input(), "a", "a", 64);
    (void)body.add(a, a);
    auto const finished = std::move(body).finish();
    auto const plan = plan_activations(finished, op_context(finished, {.batch = 1, .new_tokens = 8, .context = 8}));
    auto const& item = plan.items[static_cast<std::size_t>(plan.item_of[static_cast<std::size_t>(outside)])];
    CHECK(item.birth == 0);
    CHECK(item.death == 3);
    CHECK(plan.layout.peak == Bytes{(256 + 64 + 64) * 8 * 2});
}

TEST_CASE("activations: token ids take four bytes each") {
    auto const model = model_of(presets::llama_3_8b);
    auto const& embedding = model.program.body(model.program.blocks().front());
    auto const plan = plan_activations(embedding, op_context(embedding, {.batch = 2, .new_tokens = 10, .context = 10}));
    CHECK(plan.items[0].size == Bytes{20 * 4});
    CHECK(plan.items[1].size == Bytes{20 * 4096 * 2});
}

TEST_CASE("activations: what is alive at once is found without a layout, and no layout is below it") {
    for (auto const* config : {&presets::llama_3_8b, &presets::deepseek_v3}) {
        auto const model = model_of(*config);
        for (auto const& body : model.program.bodies()) {
            for (auto const tp : {1, 3}) {
                auto const context = op_context(body, {.batch = 2, .new_tokens = 100, .context = 100}, {.tp = tp});
                auto const plan = plan_activations(body, context);
                CHECK(min_activations(body, context) == arena_lower_bound(plan.items));
                CHECK(min_activations(body, context) <= plan.layout.peak);
            }
        }
    }
}
