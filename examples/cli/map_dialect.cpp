// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/walk.hpp>
#include <shardwise/placement/dialect/accelerate.hpp>
#include <shardwise/placement/dialect/quantizer_names.hpp>
#include <shardwise/placement/dialect/transformers.hpp>

#include "map_plan.hpp"

#include <cstddef>

namespace shardwise::cli {

namespace {

[[nodiscard]] DialectStrategy dialect_strategy(MapStrategy strategy) {
    switch (strategy) {
        case MapStrategy::sequential:
            return DialectStrategy::sequential;
        case MapStrategy::balanced_low_0:
            return DialectStrategy::balanced_low_0;
        default:
            return DialectStrategy::balanced;
    }
}

/// The type that a quantiser of Python's libraries keeps its packed elements in; nothing for llama.cpp's formats.
[[nodiscard]] std::optional<Dtype> packed_dtype(QuantScheme const& scheme) {
    if (scheme.is_ggml()) return std::nullopt;
    if (scheme.method == QuantMethod::fp8) return Dtype::f8_e4m3;
    if (scheme.bits == 2) return Dtype::i2;
    return scheme.bits == 8 ? Dtype::i8 : Dtype::i4;
}

[[nodiscard]] bool is_bitsandbytes(QuantScheme const& scheme) {
    return traits(scheme.method).is_bitsandbytes;
}

[[nodiscard]] Result<std::optional<Dtype>> dtype_of_packed(MapRequest const& request) {
    if (!request.estimate.quant) return std::optional<Dtype>{};
    auto const dtype = packed_dtype(*request.estimate.quant);
    if (dtype) return dtype;
    auto const flags = "--quant, --dialect " + std::string(name_of(request.dialect));
    return Error{ErrorCode::invalid_argument}
        .in(flags)
        .because("that library knows no GGUF formats")
        .fix("use int8, int4, nf4, fp8, gptq or awq, or --dialect shardwise");
}

[[nodiscard]] DialectMap infer_accelerate(ExpandedTree const& tree, ModuleTree const& modules,
                                          std::span<std::string_view const> no_split, MapRequest const& request,
                                          std::optional<Dtype> packed) {
    AccelerateOptions options;
    options.strategy = dialect_strategy(request.strategy);
    options.dtype = request.estimate.dtype;
    options.no_split.assign(no_split.begin(), no_split.end());
    options.fallback_allocation = request.has_fallback;
    options.offload_buffers = request.offloads_buffers;
    if (!packed) return infer_accelerate_map(tree, request.max_memory, options);
    if (is_bitsandbytes(*request.estimate.quant)) {
        // accelerate's own loader prices everything as packed, but for what it leaves alone.
        options.dtype = packed;
        walk_tensors(modules, [&, kept = unpacked_names(modules), next = std::size_t{0}](std::string_view name,
                                                                                         Tensor const& tensor) mutable {
            if (next == kept.size() || kept[next] != name) return;
            options.special_dtypes.emplace_back(kept[next++], request.estimate.dtype.value_or(tensor.dtype));
        });
    } else {
        for (auto& name : packed_names(modules, *request.estimate.quant))
            options.special_dtypes.emplace_back(std::move(name), *packed);
    }
    return infer_accelerate_map(tree, request.max_memory, options);
}

[[nodiscard]] DialectMap infer_transformers(ExpandedTree const& tree, ModuleTree const& modules,
                                            std::span<std::string_view const> no_split, MapRequest const& request,
                                            std::optional<Dtype> packed) {
    TransformersOptions options;
    options.rules =
        request.dialect == MapDialect::transformers_5_0 ? TransformersRules::v5_0 : TransformersRules::v5_23;
    options.strategy = dialect_strategy(request.strategy);
    options.dtype = request.estimate.dtype;
    options.no_split.assign(no_split.begin(), no_split.end());
    options.offload_buffers = request.offloads_buffers;
    if (packed) {
        for (auto& name : packed_names(modules, *request.estimate.quant))
            options.element_bits.emplace_back(std::move(name), bits(*packed));
        // Its quantizer's adjust_max_memory leaves room for buffers that packing needs.
        if (is_bitsandbytes(*request.estimate.quant)) options.budget_share = 0.9;
    }
    return infer_transformers_map(tree, request.max_memory, options);
}

}  // namespace

Result<> plan_dialect_map(ModuleTree const& tree, std::span<std::string_view const> no_split, MapRequest const& request,
                          MapAnswer& answer) {
    auto const expanded = expand(tree);
    if (!expanded) return expanded.error();
    auto const packed = dtype_of_packed(request);
    if (!packed) return packed.error();
    auto map = request.dialect == MapDialect::accelerate
                   ? infer_accelerate(*expanded, tree, no_split, request, *packed)
                   : infer_transformers(*expanded, tree, no_split, request, *packed);
    answer.fits = true;
    for (auto& entry : map.entries) answer.device_map.push_back({std::move(entry.prefix), entry.device});
    for (auto const& held : map.devices) {
        AnswerDevice device;
        device.id = held.device;
        device.used = held.used;
        device.weights = held.used;
        if (request.strategy != MapStrategy::sequential && held.budget) device.budget = *held.budget;
        for (auto const& given : request.devices) {
            if (given.id != held.device) continue;
            device.name = given.name.view();
            if (given.id.kind != DeviceClass::disk) device.capacity = given.usable(request.estimate.utilization);
            if (given.id.kind != DeviceClass::disk) device.total = given.memory;
        }
        answer.devices.push_back(device);
    }
    for (auto& warning : map.warnings) answer.warnings.push_back(std::move(warning));
    return {};
}

}  // namespace shardwise::cli
