// SPDX-License-Identifier: Apache-2.0
#include <shardwise/deploy/scripts/kubernetes_job.hpp>
#include <shardwise/deploy/scripts/mpirun_line.hpp>
#include <shardwise/deploy/scripts/planned_run.hpp>
#include <shardwise/deploy/scripts/slurm_script.hpp>
#include <shardwise/deploy/scripts/torchrun_lines.hpp>
#include <shardwise/plan/read_plan.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    using namespace shardwise;
    auto const plan = parse_plan({reinterpret_cast<char const*>(data), size}, "plan.json");
    if (!plan) {
        if (plan.error().message().empty()) std::abort();
        return 0;
    }
    auto const layout = layout_of(*plan);
    auto const run = planned_run(*plan);
    if (!layout || !run) return 0;
    if (layout->total() != plan->degrees.ranks()) std::abort();
    JobRequest request;
    request.name = job_name_for(plan->model);
    request.layout = *layout;
    request.command = *run;
    request.image = "image";
    if (!is_job_name(request.name)) std::abort();
    for (auto const& text : {slurm_script(request), mpirun_line(request), torchrun_lines(request), kubernetes_job(request)}) {
        if (text ? text->empty() : text.error().message().empty()) std::abort();
    }
    return 0;
}
