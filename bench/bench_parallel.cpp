// SPDX-License-Identifier: Apache-2.0
// The search for parallel plans: jobs on clusters of up to 1,024 devices.

#include <shardwise/hardware/spec.hpp>
#include <shardwise/model/architectures.hpp>
#include <shardwise/model/presets.hpp>
#include <shardwise/plan/plan_parallel.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace shardwise;

struct Job {
    std::string name;
    std::string_view model;
    std::string_view devices;
    PlanRequest request;
    /// Milliseconds.
    double limit = 100.0;
    /// Where not, the time is that of finding what is closest and what would make it fit.
    bool has_plan = true;
};

std::vector<Job> jobs() {
    constexpr std::string_view cluster = "128x(8xH100-80GB)";
    constexpr std::string_view mixed = "512xRTX4090+512xA100-80GB";
    constexpr std::string_view nodes = "64x(8xH100-80GB)+64x(8xA100-40GB)";
    constexpr std::string_view three = "400xH100-80GB+300xA100-80GB+324xRTX4090";
    auto const training = TrainingPlan{.recompute = Recompute::full};
    auto const selective = TrainingPlan{.recompute = Recompute::selective};
    return {
        {"llama-3.1-405b, batch 1, 1,024 devices", "llama-3.1-405b", cluster, {}},
        {"llama-3.1-405b, batch 256, 1,024 devices", "llama-3.1-405b", cluster, {.estimate = {.batch = 256}}},
        {"deepseek-v3, batch 1, 1,024 devices", "deepseek-v3", cluster, {}},
        {"deepseek-v3, batch 1024, 1,024 devices", "deepseek-v3", cluster, {.estimate = {.batch = 1024}}},
        {"llama-3.1-405b, training, batch 1024, 1,024 devices",
         "llama-3.1-405b",
         cluster,
         {.estimate = {.batch = 1024, .training = training}, .is_recompute_fixed = true}},
        {"llama-3-70b, training, batch 1024, 1,024 devices",
         "llama-3-70b",
         cluster,
         {.estimate = {.batch = 1024, .training = TrainingPlan{}}}},
        {"deepseek-v3, training, batch 1024, 1,024 devices",
         "deepseek-v3",
         cluster,
         {.estimate = {.batch = 1024, .training = TrainingPlan{}}}},
        {"deepseek-v3, training, batch 1024, full recomputation, 1,024 devices",
         "deepseek-v3",
         cluster,
         {.estimate = {.batch = 1024, .training = training}, .is_recompute_fixed = true}},
        {"deepseek-v3, training, batch 4096, selective recomputation, 1,024 devices",
         "deepseek-v3",
         cluster,
         {.estimate = {.batch = 4096, .training = selective}, .is_recompute_fixed = true}},
        {"llama-3.1-405b, training without recomputation, batch 1024, 1,024 devices",
         "llama-3.1-405b",
         cluster,
         {.estimate = {.batch = 1024, .training = TrainingPlan{}}, .is_recompute_fixed = true}},
        {"mixtral-8x22b, training, batch 1024, 1,024 devices",
         "mixtral-8x22b",
         cluster,
         {.estimate = {.batch = 1024, .training = TrainingPlan{}}}},
        {"qwen3-235b-a22b, training, batch 1024, 1,024 devices",
         "qwen3-235b-a22b",
         cluster,
         {.estimate = {.batch = 1024, .training = TrainingPlan{}}}},
        {"deepseek-v3, throughput with a free batch, 1,024 devices",
         "deepseek-v3",
         cluster,
         {.estimate = {.batch = 0}, .objective = PlanObjective::throughput}},
        {"deepseek-v3, fewest devices, training, 1,024 devices",
         "deepseek-v3",
         cluster,
         {.estimate = {.batch = 256, .training = training}, .objective = PlanObjective::devices}},
        {"deepseek-v3, batch 64, 512 RTX4090 and 512 A100", "deepseek-v3", mixed, {.estimate = {.batch = 64}}},
        {"llama-3.1-405b, batch 64, 512 RTX4090 and 512 A100", "llama-3.1-405b", mixed, {.estimate = {.batch = 64}}},
        {"deepseek-v3, training, batch 1024, 512 RTX4090 and 512 A100",
         "deepseek-v3",
         mixed,
         {.estimate = {.batch = 1024, .training = TrainingPlan{}}}},
        {"llama-3.1-405b, training, batch 1024, 512 H100 and 512 A100",
         "llama-3.1-405b",
         nodes,
         {.estimate = {.batch = 1024, .training = TrainingPlan{}}}},
        {"llama-3.1-405b, throughput with a free batch, 512 H100 and 512 A100",
         "llama-3.1-405b",
         nodes,
         {.estimate = {.batch = 0}, .objective = PlanObjective::throughput}},
        {"deepseek-v3, training that fits nowhere, 1,024 T4",
         "deepseek-v3",
         "1024xT4",
         {.estimate = {.batch = 1024, .training = TrainingPlan{}}},
         100.0,
         false},
        {"deepseek-v3, batch 64, 400 H100, 300 A100 and 324 RTX4090",
         "deepseek-v3",
         three,
         {.estimate = {.batch = 64}}},
        {"llama-3.1-405b, batch 64, 400 H100, 300 A100 and 324 RTX4090",
         "llama-3.1-405b",
         three,
         {.estimate = {.batch = 64}}},
        {"deepseek-v3, training, batch 1024, 400 H100, 300 A100 and 324 RTX4090",
         "deepseek-v3",
         three,
         {.estimate = {.batch = 1024, .training = TrainingPlan{}}}},
        {"llama-3.1-405b, training, batch 1024, 400 H100, 300 A100 and 324 RTX4090",
         "llama-3.1-405b",
         three,
         {.estimate = {.batch = 1024, .training = TrainingPlan{}}}},
        {"llama-3.1-405b, training that fits nowhere, 128 devices",
         "llama-3.1-405b",
         "16x(8xH100-80GB)",
         {.estimate = {.batch = 1024, .training = TrainingPlan{}}},
         100.0,
         false},
        {"llama-3-70b, fewest devices, 1,024 devices",
         "llama-3-70b",
         cluster,
         {.estimate = {.batch = 64}, .objective = PlanObjective::devices}},
        {"llama-3-70b, batch 32, 16 devices", "llama-3-70b", "2x(8xH100-80GB)", {.estimate = {.batch = 32}}, 10.0},
    };
}

/// The median of some searches, in milliseconds; negative where the answer is not the expected one.
double time_search(Model const& model, Topology const& topology, PlanRequest const& request, bool has_plan,
                   ParallelPlan& plan) {
    constexpr int runs = 7;
    std::vector<double> times;
    for (int run = 0; run < runs; ++run) {
        auto const start = std::chrono::steady_clock::now();
        auto found = plan_parallel(model, topology, request);
        times.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
        if (found.has_value() != has_plan) return -1.0;
        if (found) plan = std::move(*found);
    }
    std::sort(times.begin(), times.end());
    return times[runs / 2];
}

}  // namespace

int main(int argc, char** argv) {
    bool const is_json = argc > 1 && std::string_view{argv[1]} == "--json";
    std::string rows;
    bool is_everything_met = true;
    for (auto const& job : jobs()) {
        auto const config = preset_config(job.model);
        auto const devices = parse_device_spec(job.devices);
        if (!config || !devices) return 1;
        auto const model = describe(*config);
        if (!model) return 1;
        ParallelPlan plan;
        auto const ours = time_search(*model, topology_of(*devices), job.request, job.has_plan, plan);
        bool const is_met = ours >= 0.0 && ours <= job.limit;
        is_everything_met = is_everything_met && is_met;
        char row[512];
        std::snprintf(row, sizeof row,
                      "%s{\"case\":\"%s\",\"ours\":%.3f,\"peer\":\"limit\",\"theirs\":%.3f,\"unit\":\"ms\",\"ratio\":%."
                      "3f,\"goal\":1,\"met\":%s}",
                      rows.empty() ? "" : ",", job.name.c_str(), ours, job.limit, ours > 0.0 ? job.limit / ours : 0.0,
                      is_met ? "true" : "false");
        rows += row;
        if (is_json) continue;
        std::printf("%-78s %8.2f ms (at most %.0f)  %s; %lld cuts examined\n", job.name.c_str(), ours, job.limit,
                    job.has_plan ? detail::degrees_text(plan.degrees).c_str() : "no plan",
                    static_cast<long long>(plan.examined));
    }
    if (is_json) std::printf("{\"schema\":\"shardwise.bench/1\",\"name\":\"parallel\",\"rows\":[%s]}\n", rows.c_str());
    return is_everything_met || is_json ? 0 : 1;
}
