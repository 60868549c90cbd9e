#include "map_plan.hpp"

#include <shardwise/placement/dialect/accelerate.hpp>

#include <cstddef>

namespace shardwise::cli {

namespace {

[[nodiscard]] DialectStrategy dialect_strategy(MapStrategy strategy) {
    switch (strategy) {
        case MapStrategy::sequential: return DialectStrategy::sequential;
        case MapStrategy::balanced_low_0: return DialectStrategy::balanced_low_0;
        default: return DialectStrategy::balanced;
    }
}

[[nodiscard]] DialectMap infer_map(ExpandedTree const& tree, std::span<std::string_view const> no_split, MapRequest const& request) {
    AccelerateOptions options;
    options.strategy = dialect_strategy(request.strategy);
    options.dtype = request.estimate.dtype;
    options.no_split.assign(no_split.begin(), no_split.end());
    options.fallback_allocation = request.has_fallback;
    options.offload_buffers = request.offloads_buffers;
    return infer_accelerate_map(tree, request.max_memory, options);
}

}  // namespace

Result<> plan_dialect_map(ModuleTree const& tree, std::span<std::string_view const> no_split, MapRequest const& request,
                          MapAnswer& answer) {
    auto const expanded = expand(tree);
    if (!expanded) return expanded.error();
    auto map = infer_map(*expanded, no_split, request);
    answer.fits = true;
    for (auto& entry : map.entries) answer.device_map.push_back({std::move(entry.prefix), entry.device});
    for (auto const& held : map.devices) {
        AnswerDevice device;
        device.id = held.device;
        device.used = held.used;
        device.weights = held.used;
        for (auto const& given : request.devices) {
            if (given.id != held.device) continue;
            device.name = given.name.view();
            if (given.id.kind != DeviceClass::disk) device.capacity = given.memory;
        }
        answer.devices.push_back(device);
    }
    for (auto& warning : map.warnings) answer.warnings.push_back(std::move(warning));
    if (map.is_repaired) {
        answer.warnings.push_back(std::string(name_of(request.dialect)) + " itself raises an exception on this input; the map is valid all the same");
    }
    return {};
}

}  // namespace shardwise::cli
