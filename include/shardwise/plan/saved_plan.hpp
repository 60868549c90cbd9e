// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/bytes.hpp>
#include <shardwise/core/device_id.hpp>
#include <shardwise/hardware/device.hpp>
#include <shardwise/memory/estimate.hpp>
#include <shardwise/memory/request.hpp>
#include <shardwise/plan/parallel_plan.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The form of saved plans that this version writes and reads.
inline constexpr std::string_view plan_schema = "shardwise.plan/1";

/// One rank of a saved plan: its place in the groups, the device that runs it, and what it holds there.
///
/// Units  bytes
struct SavedRank {
    RankPlace place{};
    DeviceId device{};
    std::string device_name;
    DeviceKind kind = DeviceKind::cuda;
    std::int32_t node = 0;
    MemoryTerms terms{};
    /// What may be used of the device.
    Bytes capacity{};
    /// What the device has.
    Bytes total{};
};

/// A plan as `shardwise plan --json` wrote it: what whoever starts it needs to know.
struct SavedPlan {
    std::string model;
    /// What to load: a path, absolute where the writer knew it, or "org/name"; "" for presets, which name no files.
    std::string source;
    /// The class or family; "" where the writer did not know it.
    std::string architecture;
    std::int64_t parameters = 0;

    std::string objective;
    /// The devices as a SPEC.
    std::string devices;
    std::int64_t context = 0;
    /// Sequences of the whole job.
    std::int64_t batch = 1;
    /// "" where the weights stay as they are stored.
    std::string dtype;
    std::string quant;
    std::string kv_dtype;
    /// Nothing: prompts are computed whole.
    std::optional<std::int64_t> prefill_chunk{};
    /// A plan for training, by this optimizer; "" for inference.
    std::string optimizer;

    PlanDegrees degrees{};
    bool is_even = false;
    std::vector<PlanStage> stages;
    /// In the order of their numbers.
    std::vector<SavedRank> ranks;
    /// Of one step, all terms.
    ///
    /// Units  seconds
    double step = 0.0;

    [[nodiscard]] bool is_training() const { return !optimizer.empty(); }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
