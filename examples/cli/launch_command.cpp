// SPDX-License-Identifier: Apache-2.0
#include <shardwise/hardware/detect.hpp>
#include <shardwise/hardware/system/processor.hpp>
#include <shardwise/launch/devices_of_ranks.hpp>
#include <shardwise/launch/launch_ranks.hpp>

#include "commands.hpp"
#include "console.hpp"
#include "detect_options.hpp"
#include "launch_request.hpp"
#include "launch_scripts.hpp"
#include "program_signals.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace shardwise::cli {

namespace {

/// Gives each rank its device, where it is to be masked or bound.
[[nodiscard]] Result<> add_devices(LaunchRequest& request) {
    if (!request.is_masked && !request.is_bound) return {};
    auto const found = detect_devices(program_detection_options());
    if (!found) return found.error();
    auto devices = devices_of_ranks(*found, request.options.processes, request.is_masked, request.is_bound);
    if (!devices) return devices.error();
    print_warnings(devices->warnings);
    request.options.devices = std::move(devices->devices);
    return {};
}

/// Starts the ranks of this machine.
[[nodiscard]] ExitCode launch_here(Arguments const& arguments) {
    auto request = read_launch_request(arguments);
    if (!request) return report(request.error(), Stage::arguments, arguments.json);
    // Before any thread is made.
    ProgramSignals const signals(false);
    if (auto const added = add_devices(*request); !added) return report(added.error(), Stage::work, arguments.json);
    SystemFiles const files(program_detection_options().root);
    auto& options = request->options;
    options.threads = std::max(1, read_processor(files).usable_threads);
    options.signals = signals.before();
    options.takes_orphans = true;
    StopSignals stops;
    stops.descriptor = signals.descriptor();
    stops.next = [&signals]() -> std::optional<int> {
        while (auto const info = signals.next()) {
            if (ProgramSignals::is_end(*info)) return static_cast<int>(info->ssi_signo);
        }
        return std::nullopt;
    };
    auto const end = RankLaunch(options, std::move(stops), files).run();
    if (!end) return report(end.error(), Stage::work, arguments.json);
    // What failed in a rank has been said, in the order of its output.
    if (end->problem && end->signal == 0) (void)report(*end->problem, Stage::work, arguments.json);
    return static_cast<ExitCode>(end->exit_code());
}

}  // namespace

ExitCode run_launch(Arguments const& arguments) {
    return is_launch_script(arguments) ? launch_scripts_command(arguments) : launch_here(arguments);
}

}  // namespace shardwise::cli
