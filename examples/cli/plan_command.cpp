// SPDX-License-Identifier: Apache-2.0
#include <shardwise/plan/closest_cut.hpp>
#include <shardwise/plan/plan_parallel.hpp>

#include "choices.hpp"
#include "commands.hpp"
#include "device_choice.hpp"
#include "load_model.hpp"
#include "model_facts.hpp"
#include "plan_answer.hpp"
#include "progress.hpp"
#include "requests.hpp"
#include "svg_picture.hpp"
#include "values.hpp"

#include <optional>
#include <utility>

namespace shardwise::cli {

namespace {

[[nodiscard]] Result<PlanRequest> read_plan_request(Arguments const& arguments) {
    auto estimate = read_estimate_request(arguments);
    if (!estimate) return estimate.error();
    PlanRequest request;
    request.estimate = *std::move(estimate);
    request.is_zero_fixed = arguments.zero.has_value();
    request.is_recompute_fixed = arguments.recompute.has_value();
    request.is_sequence_parallel_fixed = arguments.sequence_parallel;
    if (arguments.objective) {
        auto const objective = choose<PlanObjective>("--objective", *arguments.objective, plan_objective_choices);
        if (!objective) return objective.error();
        request.objective = *objective;
    }
    bool const is_batch_free = !arguments.batch && !request.estimate.training;
    if (is_batch_free && request.objective == PlanObjective::throughput) request.estimate.batch = 0;
    auto const given = check_model_given(arguments, "shardwise plan llama-3-70b --devices 8xH100-80GB");
    if (!given) return given.error();
    if (!arguments.devices) {
        return Error{ErrorCode::invalid_argument}
            .in("--devices")
            .because("was not given")
            .fix("say on which devices: --devices 8xH100-80GB");
    }
    return request;
}

/// The cut that comes closest to fitting, where none fits; nothing where one does.
[[nodiscard]] std::optional<ClosestCut> closest_that_fails(PlanAnswer const& answer, PlanRequest const& request) {
    std::optional<ClosestCut> closest;
    for (auto const& smallest : smallest_variants(request)) {
        PlanSearch search(answer.loaded.model, answer.topology, smallest);
        auto cut = find_closest_cut(search);
        if (cut.fits()) return std::nullopt;
        if (!closest) closest = std::move(cut);
    }
    return closest;
}

/// Plans; not fitting is an answer with changes that would help.
[[nodiscard]] Result<> answer_plan(PlanAnswer& answer) {
    auto const& model = answer.loaded.model;
    answer.is_batch_chosen = answer.request.estimate.batch == 0;
    auto least = answer.request;
    if (answer.is_batch_chosen) least.estimate.batch = 1;
    if (auto const checked = detail::check_plan(model, answer.topology, least); !checked)
        return in_flags(checked.error());
    if (auto const cut = closest_that_fails(answer, least)) {
        answer.request = least;
        auto const where = "the fullest rank of the closest cut (" + describe_degrees(cut->degrees) + ")";
        answer.reason = Error{ErrorCode::out_of_memory}.in(where).needs(cut->needs).has(cut->has).message();
        answer.fixes = find_plan_fixes(answer);
        return {};
    }
    auto plan = plan_parallel(model, answer.topology, answer.request);
    if (!plan) return in_flags(plan.error());
    if (answer.is_batch_chosen) answer.request.estimate.batch = plan->batch;
    if (answer.request.estimate.training) answer.request.estimate.training->recompute = plan->recompute;
    answer.request.estimate.parallel.sequence_parallel = plan->is_sequence_parallel;
    answer.plan = *std::move(plan);
    return {};
}

[[nodiscard]] ExitCode print_plan(Arguments const& arguments, PlanRequest request, DeviceChoice devices,
                                  Style const& style) {
    auto const fail = [&](Error const& error) {
        bool const is_usage = error.code() == ErrorCode::invalid_argument || error.subject().substr(0, 2) == "--";
        return report(error, is_usage ? Stage::arguments : Stage::work, arguments.json);
    };
    auto const mode = *read_color(arguments);
    auto const loaded =
        with_progress(mode, [&](Observer const& observer) { return load_known_model(*arguments.model, observer); });
    if (!loaded) return fail(loaded.error());
    request.estimate = as_published(request.estimate, loaded->model.config);
    PlanAnswer answer{
        .loaded = *loaded, .request = request, .topology = std::move(devices.topology), .warnings = loaded->warnings};
    // A description file lists the machine's cpu, whether it is wanted or not.
    bool const asks_for_more = arguments.devices->find('+') != std::string::npos;
    auto const idle = answer.topology.devices.size() - answer.topology.accelerators().size();
    if (asks_for_more && idle > 0)
        answer.warnings.push_back("a parallel plan runs on accelerators only: cpu and disk are left out");
    for (auto& warning : devices.warnings) answer.warnings.push_back(std::move(warning));
    auto const answered = with_progress(mode, [&](Observer const& observer) {
        observer("planning", 0, 0);
        return answer_plan(answer);
    });
    if (!answered) return fail(answered.error());
    auto const& config = loaded->model.config;
    if (auto const warning = context_warning(config, context_of(request.estimate, config)); !warning.empty())
        answer.warnings.push_back(warning);
    if (auto const warning = quant_warning(*loaded, request.estimate); !warning.empty())
        answer.warnings.push_back(warning);
    if (arguments.svg) {
        if (auto const written = write_picture(*arguments.svg, plan_picture(answer)); !written)
            return fail(written.error());
    }
    print_warnings(answer.warnings);
    print_text(arguments.json ? plan_json(answer) : plan_text(answer, style));
    return answer.plan ? ExitCode::done : ExitCode::does_not_fit;
}

}  // namespace

ExitCode run_plan(Arguments const& arguments) {
    auto const color = read_color(arguments);
    if (!color) return report(color.error(), Stage::arguments, arguments.json);
    if (auto const checked = check_picture_path(arguments); !checked)
        return report(checked.error(), Stage::arguments, arguments.json);
    auto const request = read_plan_request(arguments);
    if (!request) return report(request.error(), Stage::arguments, arguments.json);
    auto devices = choose_devices(*arguments.devices);
    if (!devices) return report(devices.error(), Stage::arguments, arguments.json);
    return print_plan(arguments, *request, *std::move(devices), style_of_stdout(*color));
}

}  // namespace shardwise::cli
