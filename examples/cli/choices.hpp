// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/placed_stages.hpp>
#include <shardwise/memory/request.hpp>
#include <shardwise/op/product_activations.hpp>
#include <shardwise/placement/placement.hpp>
#include <shardwise/plan/parallel_plan.hpp>
#include <shardwise/session/pooling.hpp>
#include <shardwise/session/run_devices.hpp>
#include <shardwise/train/schedule.hpp>

#include "rank_kind.hpp"
#include "requests.hpp"
#include "values.hpp"

#include <array>
#include <cstddef>
#include <string_view>

/// The words that flags take, once: the readers of the command line give them their meaning, the table of options their
/// place in help texts, manual and completions.
namespace shardwise::cli {

inline constexpr std::array<Choice<WindowPolicy>, 2> window_choices{
    {{"window", WindowPolicy::window}, {"full", WindowPolicy::full}}};
inline constexpr std::array<Choice<MlaPolicy>, 2> mla_choices{
    {{"compressed", MlaPolicy::compressed}, {"full", MlaPolicy::full}}};

inline constexpr std::array<Choice<OptimizerKind>, 4> optimizer_choices{{{"adam", OptimizerKind::adam},
                                                                         {"sgd", OptimizerKind::sgd},
                                                                         {"adam8bit", OptimizerKind::adam8bit},
                                                                         {"adamw", OptimizerKind::adam}}};
inline constexpr std::array<std::string_view, 4> zero_words{"0", "1", "2", "3"};
inline constexpr std::array<Choice<Offload>, 3> offload_choices{
    {{"none", Offload::none}, {"optimizer", Offload::optimizer}, {"all", Offload::all}}};
inline constexpr std::array<Choice<CpuLayers>, 2> cpu_layers_choices{
    {{"stream", CpuLayers::stream}, {"compute", CpuLayers::compute}}};
inline constexpr std::array<Choice<Recompute>, 3> recompute_choices{
    {{"none", Recompute::none}, {"selective", Recompute::selective}, {"full", Recompute::full}}};
[[nodiscard]] constexpr std::string_view recompute_word(Recompute recompute) {
    return recompute_choices[static_cast<std::size_t>(recompute)].word;
}
inline constexpr std::array<Choice<AttentionKind>, 2> attention_choices{
    {{"blocked", AttentionKind::blocked}, {"eager", AttentionKind::eager}}};
inline constexpr std::array<Choice<MemoryConvention>, 6> convention_choices{
    {{"shardwise", MemoryConvention::shardwise},
     {"transformers", MemoryConvention::transformers},
     {"deepspeed", MemoryConvention::deepspeed},
     {"megatron", MemoryConvention::megatron},
     {"megatron-paper", MemoryConvention::megatron_paper},
     {"zero", MemoryConvention::zero}}};

/// The shardwise dialect's auto is optimal; the other dialects' is balanced.
inline constexpr std::array<Choice<MapStrategy>, 6> strategy_choices{{{"auto", MapStrategy::optimal},
                                                                      {"balanced", MapStrategy::balanced},
                                                                      {"balanced_low_0", MapStrategy::balanced_low_0},
                                                                      {"sequential", MapStrategy::sequential},
                                                                      {"optimal", MapStrategy::optimal},
                                                                      {"custom", MapStrategy::custom}}};
/// Those of `run`, whose own maps are given by --map.
inline constexpr std::array<Choice<MapStrategy>, 5> run_strategy_choices{
    {{"auto", MapStrategy::optimal},
     {"balanced", MapStrategy::balanced},
     {"balanced_low_0", MapStrategy::balanced_low_0},
     {"sequential", MapStrategy::sequential},
     {"optimal", MapStrategy::optimal}}};
inline constexpr std::array<Choice<MapDialect>, 4> dialect_choices{
    {{"shardwise", MapDialect::shardwise},
     {"accelerate", MapDialect::accelerate},
     {"transformers", MapDialect::transformers},
     {"transformers-5.0", MapDialect::transformers_5_0}}};
inline constexpr std::array<Choice<Objective>, 3> map_objective_choices{
    {{"load", Objective::load}, {"bottleneck", Objective::bottleneck}, {"latency", Objective::latency}}};
inline constexpr std::array<Choice<Inverse>, 4> inverse_choices{{{"context", Inverse::context},
                                                                 {"batch", Inverse::batch},
                                                                 {"devices", Inverse::devices},
                                                                 {"quant", Inverse::quant}}};

inline constexpr std::array<Choice<ColorMode>, 3> color_choices{
    {{"auto", ColorMode::automatic}, {"always", ColorMode::always}, {"never", ColorMode::never}}};

inline constexpr std::array<Choice<PlanObjective>, 3> plan_objective_choices{{{"latency", PlanObjective::latency},
                                                                              {"throughput", PlanObjective::throughput},
                                                                              {"devices", PlanObjective::devices}}};

inline constexpr std::array<Choice<RankKind>, 3> rank_kind_choices{
    {{"threads", RankKind::threads}, {"processes", RankKind::processes}, {"mpi", RankKind::mpi}}};

inline constexpr std::array<Choice<DeviceComm>, 4> device_comm_choices{{{"auto", DeviceComm::automatic},
                                                                        {"peers", DeviceComm::peers},
                                                                        {"staged", DeviceComm::staged},
                                                                        {"nccl", DeviceComm::nccl}}};

inline constexpr std::array<Choice<Dtype>, 3> activation_choices{
    {{"fp32", Dtype::f32}, {"bf16", Dtype::bf16}, {"fp16", Dtype::f16}}};

inline constexpr std::array<Choice<ProductActivations>, 3> product_activation_choices{
    {{"full", ProductActivations::full}, {"int8", ProductActivations::int8}, {"bf16", ProductActivations::bf16}}};

inline constexpr std::array<Choice<DeviceKind>, 4> prefer_choices{
    {{"cuda", DeviceKind::cuda}, {"hip", DeviceKind::hip}, {"metal", DeviceKind::metal}, {"cpu", DeviceKind::cpu}}};

/// Pooling as the checkpoint says, or one of the library's.
inline constexpr std::array<Choice<Optional<Pooling>>, 5> pooling_choices{{{"auto", std::nullopt},
                                                                           {"mean", Pooling::mean},
                                                                           {"cls", Pooling::cls},
                                                                           {"last", Pooling::last},
                                                                           {"none", Pooling::none}}};

// Those of `train`.
inline constexpr std::array<Choice<OptimizerKind>, 3> train_optimizer_choices{
    {{"adamw", OptimizerKind::adam}, {"sgd", OptimizerKind::sgd}, {"adam8bit", OptimizerKind::adam8bit}}};
inline constexpr std::array<std::string_view, 4> precision_words{"auto", "fp32", "bf16", "fp16"};
inline constexpr std::array<std::string_view, 5> train_mode_words{"auto", "single", "data_parallel", "distributed",
                                                                  "hybrid"};
inline constexpr std::array<std::string_view, 5> pipeline_words{"gpipe", "1f1b", "interleaved", "zero_bubble",
                                                                "zero_bubble_v"};
inline constexpr std::array<std::string_view, 1> micro_batch_words{"auto"};
inline constexpr std::array<std::string_view, 2> resume_words{"auto", "none"};

/// Quantisations worth offering; parse_quant_scheme takes more.
inline constexpr std::array<std::string_view, 24> quant_words{
    "int8",     "int4",   "nf4",  "nf4-dq", "fp4",    "fp8",    "fp8-block", "gptq-int4-g128",
    "awq-g128", "mxfp4",  "Q2_K", "Q3_K_S", "Q3_K_M", "Q3_K_L", "Q4_0",      "Q4_1",
    "Q4_K_S",   "Q4_K_M", "Q5_0", "Q5_K_S", "Q5_K_M", "Q6_K",   "Q8_0",      "IQ4_XS"};

/// What --prefill-chunk takes beside numbers.
inline constexpr std::array<std::string_view, 1> prefill_chunk_words{"none"};

/// The words of an array of choices.
template <auto const& choices>
inline constexpr auto words_of = [] {
    std::array<std::string_view, choices.size()> words{};
    for (std::size_t i = 0; i < words.size(); ++i) words[i] = choices[i].word;
    return words;
}();

}  // namespace shardwise::cli
