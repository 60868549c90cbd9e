// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/placed_stages.hpp>
#include <shardwise/placement/model_sequence.hpp>
#include <shardwise/placement/place_by_need.hpp>
#include <shardwise/placement/sequential.hpp>
#include <shardwise/session/predict_rank.hpp>

#include "backends.hpp"
#include "expert_model_cases.hpp"
#include "model_cases.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

// Models whose layers do not all stay on a device, or are not all computed there.

namespace shardwise::testing {

inline constexpr auto deep_llama =
    R"({"model_type":"llama","architectures":["LlamaForCausalLM"],"vocab_size":61,"hidden_size":32,)"
    R"("intermediate_size":48,"num_hidden_layers":5,"num_attention_heads":4,"num_key_value_heads":2,)"
    R"("max_position_embeddings":64})";
inline constexpr auto deep_mixtral =
    R"({"model_type":"mixtral","architectures":["MixtralForCausalLM"],"vocab_size":61,"hidden_size":32,)"
    R"("intermediate_size":24,"num_hidden_layers":4,"num_attention_heads":4,"num_key_value_heads":2,)"
    R"("num_local_experts":4,"num_experts_per_tok":2,"max_position_embeddings":64})";
inline constexpr auto deep_deepseek =
    R"({"model_type":"deepseek_v2","architectures":["DeepseekV2ForCausalLM"],"vocab_size":61,"hidden_size":32,)"
    R"("intermediate_size":36,"num_hidden_layers":4,"num_attention_heads":4,"num_key_value_heads":4,)"
    R"("q_lora_rank":null,"kv_lora_rank":32,"qk_nope_head_dim":16,"qk_rope_head_dim":8,"v_head_dim":16,)"
    R"("first_k_dense_replace":1,"n_routed_experts":4,"num_experts_per_tok":2,"moe_intermediate_size":16,)"
    R"("max_position_embeddings":64})";

/// Tokens and logits are those of the model whose weights all stay, bit for bit, and memory is what was predicted.
template <class B>
void check_offload(ModelCase of) {
    FormulaModel const model(of.config);
    auto const requests = model_requests(of);
    auto const homes = std::exchange(of.homes, {});
    ModelLogits theirs;
    auto const resident = run_model<B>(model, of, requests, &theirs);
    REQUIRE_MESSAGE(resident, (resident ? "" : resident.error().message()));
    of.homes = homes;
    ModelLogits ours;
    auto const fetched = run_model<B>(model, of, requests, &ours);
    REQUIRE_MESSAGE(fetched, (fetched ? "" : fetched.error().message()));
    for (std::size_t i = 0; i < requests.size(); ++i)
        CHECK(fetched->generations[i].tokens == resident->generations[i].tokens);
    CHECK(ours == theirs);
    for (std::size_t i = 0; i < fetched->ranks.size(); ++i) {
        auto const& rank = fetched->ranks[i];
        CHECK(rank.peak <= rank.predicted);
        CHECK(rank.pinned == rank.predicted_pinned);
        CHECK((rank.pinned > Bytes{0}) == !HasHostMemory<B>);
        if (HasHostMemory<B>) continue;
        CHECK(rank.held == rank.predicted);
        // Two slots hold two layers.
        if (of.pp == 1) CHECK(rank.weights < resident->ranks[i].weights);
    }
    CHECK(fetched->graphs.captured == 0);
    if (!HasHostMemory<B> && of.has_graphs)
        CHECK(fetched->graphs.reason == "weights are fetched while a step computes");
}

}  // namespace shardwise::testing

TEST_CASE_TEMPLATE("Models: layers that are kept in the host's memory and in a file have the bits of those that stay",
                   B, SHARDWISE_TEST_BACKENDS) {
    using namespace shardwise;
    using enum LayerHome;
    if (!testing::open_bench<B>()) return;
    testing::check_offload<B>(
        {.config = testing::deep_llama, .step_tokens = 32, .new_tokens = 2, .homes = {cpu, resident, disk, cpu, disk}});
    testing::check_offload<B>(
        {.config = testing::deep_mixtral, .step_tokens = 32, .new_tokens = 2, .homes = {cpu, disk, cpu, cpu}});
}

TEST_CASE_TEMPLATE("Models: layers that do not stay, over ranks, of latent attention and under Deterministic" *
                       doctest::test_suite("long"),
                   B, SHARDWISE_TEST_BACKENDS) {
    using namespace shardwise;
    using enum LayerHome;
    if (!testing::open_bench<B>()) return;
    for (auto const* const config : {testing::deep_llama, testing::deep_mixtral, testing::deep_deepseek}) {
        CAPTURE(std::string(config));
        for (bool const is_deterministic : {false, true}) {
            testing::check_offload<B>({.config = config,
                                       .tp = 2,
                                       .is_deterministic = is_deterministic,
                                       .comm = DeviceComm::staged,
                                       .homes = {cpu, disk, disk, cpu}});
        }
        testing::check_offload<B>(
            {.config = config, .load = testing::held_in(Dtype::bf16), .pp = 2, .homes = {cpu, cpu, disk, cpu}});
    }
}

TEST_CASE("Models: stages on the processor and on devices make the host's tokens together") {
    using namespace shardwise;
    using enum LayerHome;
    using testing::TestDevice;
    if (!testing::open_bench<TestDevice>()) return;
    constexpr auto processor = RunDevices::processor;
    testing::ModelCase of{.config = testing::deep_llama};
    testing::FormulaModel const model(of.config);
    auto const requests = testing::model_requests(of);
    testing::ModelLogits theirs;
    auto const expected = testing::run_model<Host>(model, of, requests, &theirs);
    REQUIRE_MESSAGE(expected, (expected ? "" : expected.error().message()));
    for (auto const& devices :
         {std::vector<std::int32_t>{processor, 0}, {0, processor, 0}, {processor, processor, 0, 0}}) {
        of.devices = devices;
        of.tp = devices.size() == 4 ? 2 : 1;
        of.pp = static_cast<std::int32_t>(devices.size()) / of.tp;
        of.homes = devices.size() == 3 ? std::vector<LayerHome>{} : std::vector<LayerHome>(5, cpu);
        CAPTURE(devices.size());
        testing::ModelLogits ours;
        auto const found = testing::run_model<TestDevice>(model, of, requests, &ours);
        REQUIRE_MESSAGE(found, (found ? "" : found.error().message()));
        for (std::size_t i = 0; i < requests.size(); ++i)
            CHECK(found->generations[i].tokens == expected->generations[i].tokens);
        CHECK(testing::worst_difference(ours, theirs, requests.size()) <= of.tolerance);
        for (std::size_t rank = 0; rank < devices.size(); ++rank) {
            auto const& memory = found->ranks[rank];
            CHECK(memory.peak <= memory.predicted);
            if (devices[rank] == processor) continue;
            CHECK(memory.held == memory.predicted);
            CHECK(memory.pinned == memory.predicted_pinned);
        }
    }
    of.tp = 2;
    of.pp = 1;
    of.devices = {processor, 0};
    auto const mixed = testing::run_model<TestDevice>(model, of, requests, nullptr);
    REQUIRE_FALSE(mixed);
    CHECK(mixed.error().code() == ErrorCode::invalid_argument);
    CHECK(mixed.error().message().find("stage 0") != std::string::npos);
}

TEST_CASE("Models: a conversation over stages on the processor and on devices is the host's, and its caches stay") {
    using namespace shardwise;
    using testing::TestDevice;
    if (!testing::open_bench<TestDevice>()) return;
    constexpr auto processor = RunDevices::processor;
    testing::FormulaModel const model(testing::deep_llama);
    auto const& described = model.checkpoint->model;
    OpenCheckpoint files(model.source);
    RunOptions options;
    options.threads = 1;
    options.context = 40;
    options.step_tokens = 6;
    options.limit = std::chrono::minutes(4);
    testing::FakeRoom const room(2);
    auto const said = testing::talk([&](auto const& next, auto const& take) {
        return serve_on_backend<Host>(files, described, options, next, take);
    });
    for (auto const& devices : {std::vector<std::int32_t>{processor, 0}, {0, processor}, {0, processor, 0}}) {
        CAPTURE(devices.size());
        CAPTURE(devices[0]);
        options.devices.numbers = devices;
        options.pp = static_cast<std::int32_t>(devices.size());
        options.layer_homes.assign(devices.size() == 2 ? 5 : 0, LayerHome::cpu);
        std::int64_t steps = 0;
        options.on_logits = [&](std::int64_t, std::span<float const>) { ++steps; };
        CHECK(testing::talk([&](auto const& next, auto const& take) {
                  return serve_on_backend<TestDevice>(files, described, options, next, take);
              }) == said);
        CHECK(steps == 6);
    }
    options.activations = Dtype::bf16;
    auto const refused = serve_on_backend<TestDevice>(
        files, described, options, [] { return std::optional<GenerationRequest>{}; }, [](auto const&) {});
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code() == ErrorCode::unsupported);
    CHECK(refused.error().subject() == "activations");
}

TEST_CASE("place_by_need: what a strategy says fits a device is what is allocated there, at each limit") {
    using namespace shardwise;
    using testing::TestDevice;
    if (!testing::open_bench<TestDevice>()) return;
    testing::ModelCase of{.config = testing::deep_llama, .sequences = 1, .new_tokens = 2};
    testing::FormulaModel const model(of.config);
    auto const& described = model.checkpoint->model;
    std::vector<GenerationRequest> requests(1);
    requests[0].prompt = {5, 9, 30};
    requests[0].max_new_tokens = of.new_tokens;
    RunOptions options;
    options.activations = Dtype::f32;
    options.step_tokens = of.step_tokens;
    options.devices.numbers = {0};
    auto const limits = detail::limits_for(requests, described, options, Dtype::f32);
    EstimateRequest const request{
        .dtype = Dtype::f32, .kv_dtype = Dtype::f32, .context = limits.context, .prefill_chunk = limits.step_tokens};
    auto const modules = build_sequence(described, request);
    OpenCheckpoint files(model.source);
    PlacedStages stages;
    auto const predict = [&]() -> Result<Bytes> {
        options.stage_begins = stages.begins;
        options.layer_homes = stages.homes;
        auto const ranks = predict_on_devices<TestDevice>(files, described, limits, options);
        if (!ranks) return ranks.error();
        return ranks->front();
    };
    auto const place = [&](std::int64_t limit) {
        Budgets budgets;
        budgets.push_back({DeviceId::gpu(0), Bytes{limit}});
        budgets.push_back({DeviceId::cpu(), Bytes{std::int64_t{1} << 40U}});
        auto const fill = [&](Budgets const& offered) { return Sequential{}(modules, offered); };
        return place_by_need(modules, budgets, fill, [&](Placement const& placement) -> Result<List<Bytes>> {
            auto const found = stages_of_placement(modules, budgets, placement);
            if (!found) return found.error();
            stages = *found;
            auto const rank = predict();
            if (!rank) return rank.error();
            return needs_of_stages(budgets, stages, {*rank}, 1, CpuLayers::stream);
        });
    };
    // With the last layers in the host's memory.
    std::vector<std::int64_t> needed;
    for (std::size_t away = 0; away <= 5; ++away) {
        stages.begins = {0, 5};
        stages.homes.assign(5, LayerHome::resident);
        std::fill_n(stages.homes.rbegin(), away, LayerHome::cpu);
        auto const rank = predict();
        REQUIRE_MESSAGE(rank, (rank ? "" : rank.error().message()));
        needed.push_back(rank->count());
    }
    // Two slots hold what one and two layers away would have left.
    CHECK(needed[1] == needed[0]);
    CHECK(needed[2] == needed[0]);
    CHECK(needed[3] < needed[2]);
    CHECK(needed[5] < needed[4]);
    for (auto const away : std::vector<std::size_t>{0, 3, 4, 5}) {
        CAPTURE(away);
        of.free_bytes = needed[away];
        REQUIRE(place(needed[away]));
        CHECK(std::count(stages.homes.begin(), stages.homes.end(), LayerHome::cpu) ==
              static_cast<std::ptrdiff_t>(away));
        of.homes = stages.homes;
        auto const ran = testing::run_model<TestDevice>(model, of, requests, nullptr);
        REQUIRE_MESSAGE(ran, (ran ? "" : ran.error().message()));
        CHECK(ran->ranks[0].predicted == Bytes{needed[away]});
        CHECK(ran->ranks[0].peak == ran->ranks[0].predicted);
        auto const less = place(needed[away] - 1);
        CHECK(bool(less) == (away < 5));
        if (less) {
            CHECK(std::count(stages.homes.begin(), stages.homes.end(), LayerHome::cpu) ==
                  static_cast<std::ptrdiff_t>(std::max<std::size_t>(away + 1, 3)));
        } else {
            CHECK(less.error().code() == ErrorCode::out_of_memory);
            CHECK(less.error().needed() == Bytes{needed[away]});
            CHECK(less.error().available() == Bytes{needed[away] - 1});
        }
#if !defined(SHARDWISE_HAS_CUDA) && !defined(SHARDWISE_HAS_HIP)
        of.free_bytes = needed[away] - 1;
        CHECK_FALSE(testing::run_model<TestDevice>(model, of, requests, nullptr));
#endif
    }
}

#if !defined(SHARDWISE_HAS_CUDA) && !defined(SHARDWISE_HAS_HIP)
TEST_CASE(
    "Models: a call of the vendor that fails ends a run whose layers do not stay with an error, and nothing stays" *
    doctest::test_suite("long")) {
    using namespace shardwise;
    using enum LayerHome;
    auto& machine = testing::FakeMachine::get();
    testing::ModelCase const of{.config = testing::deep_llama, .new_tokens = 2, .homes = {cpu, disk, disk, cpu, cpu}};
    testing::FormulaModel const model(of.config);
    std::vector<GenerationRequest> requests(1);
    requests[0].prompt = {5, 9};
    requests[0].max_new_tokens = of.new_tokens;
    for (std::string const call :
         {"allocate", "allocate_pinned", "create_stream", "create_event", "hold_back", "copy"}) {
        for (int after = 0;; after = 2 * after + 1) {
            CAPTURE(call);
            CAPTURE(after);
            auto const before = machine.calls(call);
            machine.fail(call, after);
            auto const ran = testing::run_model<testing::TestDevice>(model, of, requests, nullptr);
            machine.mend();
            CHECK(machine.is_empty());
            auto const code = ran ? ErrorCode::backend_failure : ran.error().code();
            CHECK((code == ErrorCode::backend_failure || code == ErrorCode::out_of_memory));
            if (machine.calls(call) - before <= after) {
                CHECK(ran);
                break;
            }
            CHECK_FALSE(ran);
        }
    }
}
#endif
