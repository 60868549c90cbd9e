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
#include "train_adapter.hpp"
#include "values.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>

namespace shardwise::cli {

namespace {

/// The degrees that the search keeps to; which are legal the model says.
[[nodiscard]] Result<PlanPins> read_pins(Arguments const& arguments) {
    PlanPins pins;
    auto const read = [](std::string_view flag, std::optional<std::string> const& word, auto& pin) -> Result<> {
        if (!word) return {};
        auto const number = read_number(flag, *word, INT32_MIN, INT32_MAX);
        if (!number) return number.error();
        pin = static_cast<typename std::remove_reference_t<decltype(pin)>::value_type>(*number);
        return {};
    };
    for (auto const& done :
         {read("--tp", arguments.tp, pins.tp), read("--pp", arguments.pp, pins.pp), read("--dp", arguments.dp, pins.dp),
          read("--ep", arguments.ep, pins.ep), read("--zero", arguments.zero, pins.zero),
          read("--micro-batches", arguments.micro_batches, pins.micro_batches)}) {
        if (!done) return done.error();
    }
    return pins;
}

/// Puts the limits of --max-memory in place of what the devices have.
[[nodiscard]] Result<> limit_memory(MaxMemory const& limits, DeviceChoice& choice) {
    for (auto const& [id, limit] : limits.limits()) {
        Device* found = nullptr;
        std::string known;
        for (auto& device : choice.topology.devices) {
            if (device.id == id) found = &device;
            known += (known.empty() ? "" : ", ") + device_key(device.id);
        }
        if (found == nullptr) {
            return Error{ErrorCode::no_such_device}
                .in("--max-memory")
                .at(device_key(id))
                .because("is none of --devices")
                .fix("their numbers are " + known.substr(0, 120));
        }
        if (found->available() < limit) {
            choice.warnings.push_back("--max-memory: device " + device_key(id) + " is to use " + to_text(limit) +
                                      " and has " + to_text(found->available()));
        }
        // No share of it is taken away.
        found->memory_free = limit;
        found->is_whole_memory = false;
    }
    return {};
}

[[nodiscard]] Result<PlanRequest> read_plan_request(Arguments const& arguments) {
    // What `estimate` reads as degrees, 1 by default, are pins here.
    auto others = arguments;
    others.tp = others.pp = others.dp = others.ep = others.micro_batches = std::nullopt;
    auto estimate = read_estimate_request(others);
    if (!estimate) return estimate.error();
    auto const pins = read_pins(arguments);
    if (!pins) return pins.error();
    PlanRequest request;
    request.estimate = *std::move(estimate);
    request.pins = *pins;
    request.is_even = arguments.even;
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
            .fix(arguments.max_memory ? "--max-memory limits what is used of them: --devices 8xH100-80GB"
                                      : "say on which devices: --devices 8xH100-80GB");
    }
    return request;
}

/// The cut that comes closest to fitting, where none fits; nothing where one does.
[[nodiscard]] std::optional<ClosestCut> closest_that_fails(PlanAnswer const& answer, PlanRequest const& request) {
    std::optional<ClosestCut> closest;
    for (auto const& smallest : smallest_variants(request)) {
        PlanSearch search(answer.model(), answer.topology, smallest);
        auto cut = find_closest_cut(search);
        if (cut.fits()) return std::nullopt;
        if (!closest) closest = std::move(cut);
    }
    return closest;
}

/// Plans; not fitting is an answer with changes that would help.
[[nodiscard]] Result<> answer_plan(PlanAnswer& answer) {
    auto const& model = answer.model();
    answer.is_batch_chosen = answer.request.estimate.batch == 0;
    auto least = answer.request;
    if (answer.is_batch_chosen) least.estimate.batch = smallest_batch(least.pins);
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
    if (!plan && plan.error().code() == ErrorCode::out_of_memory) {
        answer.request = least;
        answer.reason = Error{plan.error()}.fix({}).message();
        answer.fixes = find_plan_fixes(answer);
        return {};
    }
    if (!plan) return in_flags(plan.error());
    if (answer.is_batch_chosen) answer.request.estimate.batch = plan->batch;
    if (answer.request.estimate.training) answer.request.estimate.training->recompute = plan->recompute;
    answer.request.estimate.parallel.sequence_parallel = plan->is_sequence_parallel;
    answer.plan = *std::move(plan);
    return {};
}

[[nodiscard]] ExitCode print_plan(Arguments const& arguments, PlanRequest request, LowRankOptions low_rank,
                                  DeviceChoice devices, Style const& style) {
    auto const fail = [&](Error const& error) {
        bool const is_usage = error.code() == ErrorCode::invalid_argument || error.subject().substr(0, 2) == "--";
        return report(error, is_usage ? Stage::arguments : Stage::work, arguments.json);
    };
    auto const mode = *read_color(arguments);
    auto loaded =
        with_progress(mode, [&](Observer const& observer) { return load_known_model(*arguments.model, observer); });
    if (!loaded) return fail(loaded.error());
    request.estimate = as_published(request.estimate, loaded->model.config);
    auto const packing = quant_warning(*loaded, request.estimate);
    auto const accelerators = static_cast<std::int64_t>(devices.topology.accelerators().size());
    auto adapter = plan_adapter(*loaded, std::move(low_rank), accelerators, request);
    if (!adapter) return report(adapter.error(), Stage::work, arguments.json);
    PlanAnswer answer{
        .loaded = *loaded, .request = request, .topology = std::move(devices.topology), .warnings = loaded->warnings};
    answer.adapter = *std::move(adapter);
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
    if (!packing.empty()) answer.warnings.push_back(packing);
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
    auto const low_rank = read_low_rank(arguments);
    if (!low_rank) return report(low_rank.error(), Stage::arguments, arguments.json);
    if (auto const checked = check_adapter(*low_rank, request->estimate); !checked)
        return report(checked.error(), Stage::arguments, arguments.json);
    auto devices = choose_devices(*arguments.devices);
    if (!devices) return report(devices.error(), Stage::arguments, arguments.json);
    auto const limits = read_max_memory(arguments);
    if (!limits) return report(limits.error(), Stage::arguments, arguments.json);
    if (auto const limited = limit_memory(*limits, *devices); !limited)
        return report(limited.error(), Stage::arguments, arguments.json);
    return print_plan(arguments, *request, *low_rank, *std::move(devices), style_of_stdout(*color));
}

}  // namespace shardwise::cli
