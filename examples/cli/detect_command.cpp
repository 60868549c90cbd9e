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

#include <utility>

namespace shardwise::cli {

namespace {

[[nodiscard]] Result<DeviceWish> read_wish(Arguments const& arguments) {
    DeviceWish wish;
    if (arguments.prefer) {
        auto const kind = choose<DeviceKind>("--prefer", *arguments.prefer, prefer_choices);
        if (!kind) return kind.error();
        wish.prefer = *kind;
    }
    return wish;
}

/// What a model takes on one device, with all that runs it.
[[nodiscard]] Result<Bytes> needed_for(LoadedModel const& loaded, EstimateRequest request) {
    if (!loaded.has_program) {
        return Error{ErrorCode::unsupported}
            .in(loaded.name)
            .because("has an architecture that this version does not know, so that only its weights are known")
            .fix("use shardwise map --devices auto, which places any checkpoint");
    }
    apply_stored_quantisation(loaded, request);
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
    auto const answer = answer_detect(arguments, *request, *wish);
    if (!answer) return report(answer.error(), Stage::work, arguments.json);
    print_warnings(answer->warnings);
    print_text(arguments.json ? detect_json(*answer) : detect_text(*answer, style_of_stdout(*color)));
    return answer->all_available() ? ExitCode::done : ExitCode::no_such_device;
}

}  // namespace shardwise::cli
