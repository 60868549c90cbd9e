// SPDX-License-Identifier: Apache-2.0
#include "run_placement.hpp"

#include <shardwise/comm/agree_on.hpp>
#include <shardwise/executor/placed_stages.hpp>
#include <shardwise/placement/custom.hpp>
#include <shardwise/placement/max_memory.hpp>
#include <shardwise/placement/placement_task.hpp>
#include <shardwise/session/run_on_vendor.hpp>

#include "choices.hpp"
#include "custom_map.hpp"
#include "map_plan.hpp"
#include "requests.hpp"
#include "run_device_words.hpp"
#include "run_ranks.hpp"
#include "values.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace shardwise::cli {

namespace {

/// What --strategy finds; an error where nothing fits.
[[nodiscard]] Result<PlacedModules> find_placement(Arguments const& arguments, PlacementTask const& task,
                                                   ExecutorLimits const& limits, RunOptions const& options,
                                                   NeedOfRun const& need) {
    auto const& log = options.log;
    auto words = arguments;
    // The degrees cut what a stage computes, not what devices hold.
    words.tp = words.pp = words.ep = std::nullopt;
    auto request = read_map_request(words);
    if (!request) return request.error();
    request->estimate.context = limits.context;
    request->estimate.prefill_chunk = options.step_tokens;
    // What a rank allocates, whatever the model's own element type is.
    request->estimate.kv_dtype = options.kv_dtype;
    MapAnswer answer;
    auto planned = plan_map(task, *request, {}, answer, options.activations, need);
    if (planned && !answer.fits) {
        auto const help = answer.fixes.empty() ? std::string("name more or larger devices, or +cpu:64GiB")
                                               : sentence(answer.fixes.front(), answer);
        Error error{ErrorCode::out_of_memory};
        error.in(arguments.model.value_or("the model"))
            .because("does not fit on " + arguments.devices.value_or("the devices") + ": " + answer.reason);
        return error.fix(help);
    }
    if (!log.hears(LogLevel::debug)) return planned;
    auto const& strategy = arguments.strategy.value_or("auto");
    auto const reason = answer.certificate ? " (" + certificate_text(*answer.certificate) + ")" : std::string{};
    for (auto const& entry : answer.device_map) {
        log(LogLevel::debug, 0,
            entry.prefix + " is placed on " + device_key(entry.device) + ": the strategy " + strategy +
                " puts it there" + reason);
    }
    return planned;
}

/// Room without end on every device that a map names.
[[nodiscard]] Budgets budgets_of_map(List<MapEntry> const& entries) {
    Budgets budgets;
    for (auto const& entry : entries) {
        bool is_known = false;
        for (auto const& budget : budgets) is_known = is_known || budget.id == entry.device;
        if (!is_known) budgets.push_back({entry.device, Bytes{INT64_MAX / 2}});
    }
    return budgets;
}

/// What --map says.
[[nodiscard]] Result<PlacedModules> read_placement(std::string const& file, PlacementTask const& task,
                                                   std::int64_t context) {
    auto entries = read_custom_map(file);
    if (!entries) return entries.error();
    EstimateRequest request;
    request.context = context;
    PlacedModules placed{task.sequence(request, Granularity::modules), budgets_of_map(*entries), {}};
    auto placement = Custom{.entries = *std::move(entries)}(placed.modules, placed.budgets);
    if (!placement) return placement.error();
    placed.placement = *std::move(placement);
    return placed;
}

/// Says which device of --devices each rank of the placed stages computes on, or the processor. A map calls devices as their runtime does,
/// a strategy by `placed_on`.
///
/// Errors  invalid_argument for a device of the map that is not among them
[[nodiscard]] Result<> name_devices(Budgets const& budgets, Placement const& placement, PlacedStages const& stages,
                                    CpuLayers cpu_layers, std::vector<OwnAccelerator> const& placed_on,
                                    RunOptions& options) {
    auto const named = std::exchange(options.devices.numbers, {});
    auto const number_of = [&](DeviceId id) {
        for (std::size_t i = 0; i < placed_on.size(); ++i) {
            if (placed_on[i].id == id) return named[i];
        }
        return id.index;
    };
    // Those that hold no layer, too.
    for (auto const device : placement.device_of) {
        auto const id = budgets[static_cast<std::size_t>(device)].id;
        if (!id.is_accelerator() || std::find(named.begin(), named.end(), number_of(id)) != named.end()) continue;
        return Error{ErrorCode::invalid_argument}
            .in("--map")
            .at(std::to_string(id.index))
            .because("is no device of --devices")
            .fix("name it there: --devices " + std::string(name_of(options.devices.vendor)) + ":" +
                 std::to_string(id.index));
    }
    std::int64_t stage = 0;
    for (auto const id : stages.devices) {
        auto number = number_of(id);
        // No device is in the map: all layers are fetched to the first one, or none leaves the processor.
        if (id.kind == DeviceClass::cpu)
            number = cpu_layers == CpuLayers::stream ? named.front() : RunDevices::processor;
        options.devices.numbers.insert(options.devices.numbers.end(), static_cast<std::size_t>(options.tp), number);
        auto const vendor = std::string(name_of(options.devices.vendor));
        options.log(LogLevel::debug, 0,
                    "stage " + std::to_string(stage++) + " computes on " +
                        (number == RunDevices::processor ? "the processor" : vendor + ":" + std::to_string(number)));
    }
    return {};
}

[[nodiscard]] Result<CpuLayers> read_cpu_layers(Arguments const& arguments) {
    return choose<CpuLayers>("--offload", arguments.cpu_layers.value_or("stream"), cpu_layers_choices);
}

}  // namespace

bool has_placement(Arguments const& arguments) {
    return arguments.map || arguments.strategy || (arguments.devices && !lists_run_devices(arguments));
}

std::string_view placement_flag(Arguments const& arguments) {
    if (arguments.map) return "--map";
    return arguments.strategy ? "--strategy" : "--devices";
}

Result<> check_placement_flags(Arguments const& arguments, RunDevices const& devices) {
    Error error{ErrorCode::invalid_argument};
    // With devices of this machine --map says which layers are where.
    if (arguments.map && (arguments.strategy || (arguments.devices && devices.empty()))) {
        return error.in("--map")
            .because("says already what --strategy would find")
            .fix("give --map FILE, or --strategy NAME --devices SPEC");
    }
    if (arguments.cpu_layers && (!has_placement(arguments) || devices.empty())) {
        return error.in("--offload")
            .because("says what becomes of layers that --map or --strategy puts on the cpu beside devices")
            .fix("give --map FILE --devices cuda:0");
    }
    if (auto const known = read_cpu_layers(arguments); !known) return known.error();
    if (arguments.strategy && !arguments.devices)
        return error.in("--strategy").because("needs devices to place on").fix("name them: --devices 2xgpu:24GiB");
    if (arguments.strategy == "custom")
        return error.in("--strategy").at("custom").because("is what --map gives").fix("use --map FILE");
    return {};
}

Result<> place_run(Arguments const& arguments, LoadedModel& model, ExecutorLimits const& limits, bool are_threads,
                   RunOptions& options) {
    auto const classes = model.model.tree.no_split_classes();
    PlacementTask const task(model.model, classes);
    auto const cpu_layers = read_cpu_layers(arguments);
    if (!cpu_layers) return cpu_layers.error();
    DeviceChoice choice;
    // Each stage has a device: no other one cuts it, but --tp.
    if (!options.devices.empty() && !arguments.tp) options.tp = 1;
    if (!options.devices.empty() && !arguments.map) {
        auto found = choose_devices(*arguments.devices);
        if (!found) return found.error();
        choice = *std::move(found);
        auto devices = runtime_devices(choice.accelerators);
        if (!devices) return devices.error();
        options.devices = *std::move(devices);
    }
    // What a placement makes of the options.
    auto const take = [&](Budgets const& budgets, Placement const& placement, PlacedStages const& stages,
                          RunOptions& own) -> Result<> {
        own.pp = stages.size();
        own.stage_begins = stages.begins;
        own.layer_homes = stages.homes;
        if (own.devices.empty()) return {};
        return name_devices(budgets, placement, stages, *cpu_layers, choice.accelerators, own);
    };
    auto const need = [&](ModuleSequence const& modules, Budgets const& budgets,
                          Placement const& placement) -> Result<List<Bytes>> {
        auto const stages = stages_of_placement(modules, budgets, placement, *cpu_layers);
        if (!stages) return stages.error();
        auto own = options;
        own.log = {};
        if (auto const taken = take(budgets, placement, *stages, own); !taken) return taken.error();
        auto const ranks = detail::predict_on_vendor(*model.files, model.model, limits, own, are_threads);
        if (!ranks) return ranks.error();
        return needs_of_stages(budgets, *stages, *ranks, own.tp, *cpu_layers);
    };
    // Without the devices' back end nothing is allocated: where it runs says so.
    bool const allocates = !options.devices.empty() && detail::has_vendor(options.devices.vendor);
    auto const placed = arguments.map
                            ? read_placement(*arguments.map, task, limits.context)
                            : find_placement(arguments, task, limits, options, allocates ? need : NeedOfRun{});
    if (!placed) return placed.error();
    auto stages = stages_of_placement(placed->modules, placed->budgets, placed->placement, *cpu_layers);
    if (!stages) return stages.error();
    if (arguments.pp && options.pp != stages->size()) {
        return Error{ErrorCode::invalid_argument}
            .in("--pp")
            .because("is another number of stages than the devices that hold layers")
            .got(options.pp)
            .expected(stages->size())
            .fix("leave it out");
    }
    return take(placed->budgets, placed->placement, *stages, options);
}

Result<> share_placement(Arguments const& arguments, HostCommunicator& world, RunOptions& options) {
    std::vector<std::int32_t> told;
    for (auto const begin : options.stage_begins) told.push_back(static_cast<std::int32_t>(begin));
    for (auto const home : options.layer_homes) told.push_back(static_cast<std::int32_t>(home));
    told.insert(told.end(), options.devices.numbers.begin(), options.devices.numbers.end());
    auto const own = told.size();
    auto shared = share_ids(world, told);
    if (shared && told.size() != own) {
        shared = Error{ErrorCode::invalid_argument}
                     .in(placement_flag(arguments))
                     .because("found another placement than the first rank did, whose devices had other memory free")
                     .fix("try again, or write the placement down: shardwise map, and --map FILE");
    }
    if (auto const agreed = agree_on(world, shared); !agreed) return agreed;
    auto next = told.begin();
    for (auto& begin : options.stage_begins) begin = *next++;
    for (auto& home : options.layer_homes) home = static_cast<LayerHome>(*next++);
    for (auto& number : options.devices.numbers) number = *next++;
    return {};
}

}  // namespace shardwise::cli
