// SPDX-License-Identifier: Apache-2.0
#include <shardwise/calibrate/calibrate.hpp>
#include <shardwise/calibrate/describe_machine.hpp>
#include <shardwise/hardware/description.hpp>
#include <shardwise/hardware/detect.hpp>

#include "calibrate_answer.hpp"
#include "calibrate_devices.hpp"
#include "commands.hpp"
#include "detect_options.hpp"
#include "progress.hpp"
#include "requests.hpp"
#include "run_device_words.hpp"
#include "values.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace shardwise::cli {

namespace {

[[nodiscard]] Result<CalibrationOptions> read_calibration_options(Arguments const& arguments) {
    CalibrationOptions options;
    if (!arguments.out || arguments.out->empty()) {
        return Error{ErrorCode::invalid_argument}
            .in("--out")
            .because(arguments.out ? "names no file" : "was not given")
            .fix("name the file to write: shardwise calibrate --out machine.json");
    }
    for (auto const& read : {read_count("--tp", arguments.tp, 64, options.ranks),
                             read_count("--threads", arguments.threads, 4096, options.threads)}) {
        if (!read) return read.error();
    }
    if (arguments.quick) {
        options.probe_bytes = Bytes{std::int64_t{32} << 20U};
        options.probe_time = std::chrono::milliseconds(40);
    }
    return options;
}

/// The devices to measure beside the processor.
[[nodiscard]] Result<RunDevices> read_calibrated_devices(Arguments const& arguments,
                                                         std::vector<std::string>& warnings) {
    auto devices = read_run_devices(arguments, warnings);
    if (devices && devices->empty() && arguments.devices) {
        return Error{ErrorCode::invalid_argument}
            .in("--devices")
            .at(*arguments.devices)
            .because("is no device that can be measured")
            .fix("write cuda:0,cuda:1 or hip:0");
    }
    return devices;
}

[[nodiscard]] Result<CalibrateAnswer> answer_calibrate(Arguments const& arguments, CalibrationOptions const& options,
                                                       RunDevices const& devices, ColorMode mode) {
    CalibrateAnswer answer;
    answer.out = *arguments.out;
    if (auto const checked = check_output_path(answer.out); !checked) return checked.error();
    auto detection = detect_devices(program_detection_options());
    if (!detection) return detection.error();
    answer.warnings = std::move(detection->warnings);
    answer.processor = detection->processor.name;
    // Devices first: where one cannot be had, nobody waits for the processor.
    if (!devices.empty()) {
        for (auto const number : devices.numbers) {
            auto const id = std::string(name_of(devices.vendor)) + ":" + std::to_string(number);
            if (auto const known = described_position(*detection, id); !known) return known.error();
        }
        auto found = with_progress(
            mode, [&](Observer const& observer) { return calibrate_devices(devices, arguments.quick, observer); });
        if (!found) return found.error();
        answer.devices = std::move(found->devices);
        answer.sums = std::move(found->all_reduce);
        answer.warnings.insert(answer.warnings.end(), found->warnings.begin(), found->warnings.end());
    }
    auto measured = with_progress(mode, [&](Observer const& observer) { return calibrate(options, observer); });
    if (!measured) return measured.error();
    answer.calibration = *std::move(measured);
    answer.machine = describe_machine(answer.calibration, *detection);
    if (answer.machine.devices.empty()) {
        return Error{ErrorCode::no_such_device}.in("calibrate").because("found no device whose memory is known");
    }
    for (auto const& device : answer.devices) {
        if (auto const added = add_measured(answer.machine, *detection, device); !added) return added.error();
    }
    answer.machine.all_reduce = answer.sums;
    for (auto const& device : answer.machine.devices) {
        if (device.measured != MeasuredRates{}) continue;
        answer.warnings.push_back(std::string(device.name.view()) +
                                  ": is described as published: --devices measures it");
    }
    if (arguments.quick)
        answer.warnings.push_back("--quick: probes fit in caches, so that rates may be too good to plan with");
    if (auto const written = write_topology_file(answer.out, answer.machine); !written) return written.error();
    return answer;
}

}  // namespace

ExitCode run_calibrate(Arguments const& arguments) {
    auto const color = read_color(arguments);
    if (!color) return report(color.error(), Stage::arguments, arguments.json);
    auto const options = read_calibration_options(arguments);
    if (!options) return report(options.error(), Stage::arguments, arguments.json);
    std::vector<std::string> warnings;
    auto const devices = read_calibrated_devices(arguments, warnings);
    if (!devices) return report(devices.error(), Stage::arguments, arguments.json);
    auto answer = answer_calibrate(arguments, *options, *devices, *color);
    if (!answer) return report(answer.error(), Stage::work, arguments.json);
    // Measuring looks for devices itself, and may warn of the same.
    for (auto& warning : warnings) {
        auto& all = answer->warnings;
        if (std::find(all.begin(), all.end(), warning) == all.end()) all.push_back(std::move(warning));
    }
    print_warnings(answer->warnings);
    print_text(arguments.json ? calibrate_json(*answer) : calibrate_text(*answer, style_of_stdout(*color)));
    return ExitCode::done;
}

}  // namespace shardwise::cli
