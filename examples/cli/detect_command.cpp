// SPDX-License-Identifier: Apache-2.0
#include <shardwise/hardware/description.hpp>
#include <shardwise/hardware/detect.hpp>
#include <shardwise/memory/estimator.hpp>

#include "choices.hpp"
#include "commands.hpp"
#include "detect_answer.hpp"
#include "detect_options.hpp"
#include "load_model.hpp"
#include "model_facts.hpp"
#include "requests.hpp"
#include "values.hpp"

#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

namespace shardwise::cli {

namespace {

[[nodiscard]] Result<DeviceWish> read_wish(Arguments const& arguments) {
    DeviceWish wish;
    if (arguments.prefer) {
        // ROCm is the platform of the kind hip, and the name by which people know it.
        auto const word = equal_ignoring_case(*arguments.prefer, "rocm") ? "hip" : std::string_view{*arguments.prefer};
        auto const kind = choose<DeviceKind>("--prefer", word, prefer_choices);
        if (!kind) return kind.error();
        wish.prefer = *kind;
    }
    return wish;
}

[[nodiscard]] Result<> check_device_list(Arguments const& arguments) {
    if (!arguments.devices || arguments.devices->find_first_not_of(' ') != std::string::npos) return {};
    return Error{ErrorCode::invalid_argument}
        .in("--devices")
        .because("names no device")
        .fix("write devices like cuda:0,cuda:1");
}

/// Says on stderr which devices of --devices may not be used, so that an exit status of 4 is explained there too.
void print_refusals(DetectAnswer const& answer) {
    if (!answer.checked) return;
    for (auto const& one : *answer.checked) {
        if (one.is_available) continue;
        auto const word = one.word.empty() ? std::string("\"\"") : escaped(one.word);
        auto const reason = one.reason.empty() ? std::string("is not available") : escaped(one.reason);
        std::fprintf(stderr, "shardwise: %s: %s\n", word.c_str(), reason.c_str());
    }
}

/// What a model takes on one device, with all that runs it.
[[nodiscard]] Result<Bytes> needed_for(LoadedModel const& loaded, EstimateRequest request) {
    if (!loaded.has_program()) {
        auto error = *loaded.not_described;
        return error.fix("use shardwise map --devices auto, which places any checkpoint");
    }
    auto const estimate = estimate_memory(loaded.model, request);
    if (!estimate) return estimate.error();
    return estimate->total;
}

[[nodiscard]] Result<DetectAnswer> answer_detect(Arguments const& arguments, EstimateRequest const& request,
                                                 DeviceWish wish) {
    DetectAnswer answer;
    if (arguments.model) {
        auto const loaded = load_model(*arguments.model);
        if (!loaded) return loaded.error();
        auto const needed = needed_for(*loaded, request);
        if (!needed) return needed.error();
        answer.model = loaded->name;
        answer.warnings = loaded->warnings;
        wish.needed = answer.needed = *needed;
    }
    auto detection = detect_devices(program_detection_options());
    if (!detection) return detection.error();
    answer.detection = *std::move(detection);
    for (auto const& warning : answer.detection.warnings) answer.warnings.push_back(warning);
    answer.recommendation = recommend_devices(answer.detection.devices, wish);
    if (arguments.devices) answer.checked = check_devices(answer.detection.devices, *arguments.devices);
    if (arguments.out) {
        auto const written = write_topology_file(*arguments.out, topology_of(answer.detection));
        if (!written) return written.error();
    }
    return answer;
}

}  // namespace

ExitCode run_detect(Arguments const& arguments) {
    auto const color = read_color(arguments);
    if (!color) return report(color.error(), Stage::arguments, arguments.json);
    auto const request = read_estimate_request(arguments);
    if (!request) return report(request.error(), Stage::arguments, arguments.json);
    auto const wish = read_wish(arguments);
    if (!wish) return report(wish.error(), Stage::arguments, arguments.json);
    if (auto const checked = check_device_list(arguments); !checked)
        return report(checked.error(), Stage::arguments, arguments.json);
    auto const answer = answer_detect(arguments, *request, *wish);
    if (!answer) return report(answer.error(), Stage::work, arguments.json);
    print_warnings(answer->warnings);
    print_refusals(*answer);
    print_text(arguments.json ? detect_json(*answer) : detect_text(*answer, style_of_stdout(*color)));
    return answer->all_available() ? ExitCode::done : ExitCode::no_such_device;
}

}  // namespace shardwise::cli
