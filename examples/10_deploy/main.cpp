// SPDX-License-Identifier: Apache-2.0
// How is a plan run by another engine? A plan as a line of docker, one as a manifest, and a refusal before anything starts.
#include <shardwise/deploy/formats/docker.hpp>
#include <shardwise/deploy/formats/kubernetes.hpp>
#include <shardwise/deploy/make_container.hpp>
#include <shardwise/deploy/shell_line.hpp>
#include <shardwise/deploy/take_plan.hpp>
#include <shardwise/hardware/spec.hpp>
#include <shardwise/plan/plan_parallel.hpp>
#include <shardwise/shardwise.hpp>

#include <cstdio>
#include <string>

namespace {

using namespace shardwise;

/// A server of Llama 3 70B for 16 sequences, by the plan over these devices.
Result<DeployRequest> request_for(Engine engine, std::string_view devices) {
    auto const model = describe(presets::llama_3_70b);
    if (!model) return model.error();
    auto const topology = parse_topology(devices);
    if (!topology) return topology.error();
    PlanRequest wanted;
    wanted.estimate = {.batch = 16, .context = 8192};
    // Engines cut heads evenly, and one container serves one copy of the model.
    wanted.is_even = true;
    wanted.pins.dp = 1;
    wanted.pins.ep = 1;
    auto const plan = plan_parallel(*model, *topology, wanted);
    if (!plan) return plan.error();

    DeployRequest request;
    request.engine = engine;
    request.model = "meta-llama/Meta-Llama-3-70B";
    request.config = presets::llama_3_70b;
    request.devices = container_devices(*topology);
    request.context = wanted.estimate.context;
    request.sequences = wanted.estimate.batch;
    take_plan(*plan, *topology, request);
    return request;
}

}  // namespace

int main() {
    // Degrees and the share of the devices' memory are the plan's.
    auto const request = request_for(Engine::vllm, "4xH100-80GB");
    if (!request) return std::puts(request.error().message().c_str()), 1;
    auto const container = make_container(*request);
    if (!container) return std::puts(container.error().message().c_str()), 1;
    std::printf("%s\n", shell_line(docker_command(*container)).c_str());

    // Over two nodes it is a group of pods.
    auto const wide = request_for(Engine::sglang, "2x(8xH100-80GB)");
    if (!wide) return std::puts(wide.error().message().c_str()), 1;
    auto const group = make_container(*wide);
    if (!group) return std::puts(group.error().message().c_str()), 1;
    auto const manifest = kubernetes_text(*group, false);
    std::printf("\n%s...\n", manifest.substr(0, manifest.find("    leaderTemplate")).c_str());

    // What the engine could not do is refused here, not after minutes in a container.
    auto wrong = *request;
    wrong.tp = 3;
    wrong.devices.pop_back();
    std::printf("\n%s\n", make_container(wrong).error().message().c_str());
}
