// SPDX-License-Identifier: Apache-2.0
#include <shardwise/core/version.hpp>
#include <shardwise/deploy/scripts/kubernetes_job.hpp>
#include <shardwise/deploy/scripts/mpirun_line.hpp>
#include <shardwise/deploy/scripts/planned_run.hpp>
#include <shardwise/deploy/scripts/slurm_script.hpp>
#include <shardwise/deploy/scripts/torchrun_lines.hpp>
#include <shardwise/plan/read_plan.hpp>

#include "commands.hpp"
#include "console.hpp"
#include "launch_scripts.hpp"
#include "launch_scripts_choices.hpp"
#include "requests.hpp"
#include "values.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace shardwise::cli {

namespace {

[[nodiscard]] bool is_given(Option const& option, Arguments const& arguments) {
    if (option.word != nullptr) return (arguments.*option.word).has_value();
    if (option.words != nullptr) return !(arguments.*option.words).empty();
    return option.is_set != nullptr && arguments.*option.is_set;
}

/// The launcher's word and flags that only go with one.
[[nodiscard]] bool is_script_option(Option const& option) {
    for (auto const& group : {launcher_argument(), launch_script_options()}) {
        for (auto const& own : group.options) {
            if (own.flag == option.flag) return true;
        }
    }
    return false;
}

/// The first flag of starting ranks here, which says nothing to a launcher; empty where none is given.
[[nodiscard]] std::string_view other_flag(Arguments const& arguments) {
    std::string_view found;
    find_command("launch")->for_each_option([&](Option const& option) {
        if (found.empty() && !is_script_option(option) && is_given(option, arguments)) found = option.flag;
    });
    return found;
}

/// What was asked for, before the plan is looked at.
[[nodiscard]] Result<ScriptLauncher> read_launcher(Arguments const& arguments) {
    if (!arguments.launcher) {
        return Error{ErrorCode::invalid_argument}
            .in("LAUNCHER")
            .because("was not given")
            .fix("name one: shardwise launch slurm --plan plan.json");
    }
    auto const launcher = choose<ScriptLauncher>("LAUNCHER", *arguments.launcher, script_launcher_choices);
    if (!launcher) return launcher.error();
    if (auto const flag = other_flag(arguments); !flag.empty()) {
        return Error{ErrorCode::invalid_argument}
            .in(flag)
            .because("has no meaning for " + *arguments.launcher + ", which is told what the plan says")
            .fix("leave it out");
    }
    if (!arguments.plan) {
        return Error{ErrorCode::invalid_argument}
            .in("--plan")
            .because("was not given")
            .fix("write a plan first: shardwise plan MODEL --devices SPEC --json > plan.json");
    }
    struct Use {
        std::string_view flag;
        bool is_given;
        bool is_used;
    };
    for (auto const& use : {Use{"--image", arguments.image.has_value(), *launcher == ScriptLauncher::kubernetes},
                            Use{"--gpu-type", arguments.gpu_type.has_value(), *launcher == ScriptLauncher::slurm},
                            Use{"--hosts", arguments.hosts.has_value(), *launcher != ScriptLauncher::kubernetes}}) {
        if (!use.is_given || use.is_used) continue;
        return Error{ErrorCode::invalid_argument}
            .in(use.flag)
            .because("has no meaning for " + *arguments.launcher)
            .fix("leave it out");
    }
    return launcher;
}

/// The command after --, or the planned run with the flags after it.
[[nodiscard]] Result<> set_command(Arguments const& arguments, SavedPlan const& plan, JobRequest& request) {
    auto const& words = arguments.command_line;
    request.is_run = words.empty() || words.front().substr(0, 1) == "-";
    if (!request.is_run) {
        request.command = words;
        return {};
    }
    auto run = planned_run(plan);
    if (!run) return run.error();
    request.command = *std::move(run);
    request.command.insert(request.command.end(), words.begin(), words.end());
    // A path, not "org/name".
    if (plan.source.front() == '/') request.mount = plan.source;
    return {};
}

[[nodiscard]] Result<JobRequest> read_job(Arguments const& arguments, SavedPlan const& plan) {
    JobRequest request;
    auto layout = layout_of(plan);
    if (!layout) {
        auto error = layout.error();
        return error.in(*arguments.plan);
    }
    request.layout = *std::move(layout);
    request.name = arguments.name.value_or(job_name_for(plan.model));
    if (arguments.hosts) {
        request.hosts = split_at_commas(*arguments.hosts);
        if (request.hosts.empty())
            return Error{ErrorCode::invalid_argument}.in("--hosts").because("is empty").fix("leave it out");
    }
    request.device_type = arguments.gpu_type.value_or("");
    if (arguments.gpu_type && request.device_type.empty())
        return Error{ErrorCode::invalid_argument}.in("--gpu-type").because("is empty").fix("leave it out");
    std::int32_t cpus = 1;
    if (auto const read = read_count("--cpus-per-task", arguments.cpus_per_task, 4096, cpus); !read) return read.error();
    if (arguments.cpus_per_task) request.cpus = cpus;
    request.image = arguments.image.value_or("shardwise:" + std::to_string(library_version.major_number) + "." +
                                             std::to_string(library_version.minor_number) + "." +
                                             std::to_string(library_version.patch_number));
    if (auto const command = set_command(arguments, plan, request); !command) return command.error();
    return request;
}

[[nodiscard]] Result<std::string> write_job(ScriptLauncher launcher, JobRequest const& request) {
    switch (launcher) {
        case ScriptLauncher::slurm: return slurm_script(request);
        case ScriptLauncher::mpirun: return mpirun_line(request);
        case ScriptLauncher::torchrun: return torchrun_lines(request);
        case ScriptLauncher::kubernetes: return kubernetes_job(request);
    }
    return Error{ErrorCode::invalid_argument}.in("LAUNCHER").because("is none");
}

/// The library's field as the program's flag.
[[nodiscard]] Error in_job_flags(Error error) {
    auto const field = std::string(error.subject());
    if (field == "name" || field == "hosts" || field == "image") return error.in("--" + field);
    if (field == "device_type") return error.in("--gpu-type");
    if (field == "command") return error.in("COMMAND");
    return error;
}

}  // namespace

bool is_launch_script(Arguments const& arguments) {
    for (auto const& group : {launcher_argument(), launch_script_options()}) {
        for (auto const& option : group.options) {
            if (is_given(option, arguments)) return true;
        }
    }
    return false;
}

ExitCode launch_scripts_command(Arguments const& arguments) {
    auto const launcher = read_launcher(arguments);
    if (!launcher) return report(launcher.error(), Stage::arguments, arguments.json);
    auto const plan = read_plan(*arguments.plan);
    if (!plan) return report(plan.error(), Stage::work, arguments.json);
    auto const request = read_job(arguments, *plan);
    if (!request) return report(request.error(), Stage::arguments, arguments.json);
    auto const text = write_job(*launcher, *request);
    if (!text) return report(in_job_flags(text.error()), Stage::arguments, arguments.json);
    print_text(*text);
    return ExitCode::done;
}

}  // namespace shardwise::cli
