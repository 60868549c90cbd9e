// SPDX-License-Identifier: Apache-2.0
// Plans a model over a cluster, and writes the batch script that starts the plan.
#include <shardwise/deploy/scripts/slurm_script.hpp>
#include <shardwise/deploy/scripts/torchrun_lines.hpp>
#include <shardwise/hardware/spec.hpp>
#include <shardwise/plan/plan_parallel.hpp>
#include <shardwise/shardwise.hpp>

#include <cstdio>
#include <string>

int main() {
    using namespace shardwise;
    auto const fail = [](Error const& error) { return std::puts(error.message().c_str()), 1; };

    auto const model = describe(presets::llama_3_70b);
    auto const cluster = parse_topology("2x(4xA100-80GB)");
    if (!model || !cluster) return 1;
    PlanRequest request;
    request.estimate = {.batch = 16, .context = 4096};
    request.pins = {.tp = 4, .pp = 2};
    auto const plan = plan_parallel(*model, *cluster, request);
    if (!plan) return fail(plan.error());

    // Which machines that takes, and what every rank of them runs.
    auto const layout = layout_of(*plan, *cluster);
    if (!layout) return fail(layout.error());
    JobRequest job;
    job.name = job_name_for("llama-3-70b");
    job.layout = *layout;
    job.command = {"python", "serve.py", "--title", "it's llama"};
    job.cpus = 8;
    job.device_type = "a100";
    auto const script = slurm_script(job);
    if (!script) return fail(script.error());
    std::printf("%s\n", script->c_str());

    // The same by another launcher, on machines that are known by name.
    job.hosts = {"node1", "node2"};
    auto const lines = torchrun_lines(job);
    if (!lines) return fail(lines.error());
    std::printf("%s\n", lines->c_str());

    // What a launcher cannot do is an error, not a script that fails on the cluster.
    job.hosts = {"node1"};
    std::printf("%s\n", torchrun_lines(job).error().message().c_str());
}
