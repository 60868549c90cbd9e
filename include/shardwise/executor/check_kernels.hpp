// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/row_element.hpp>
#include <shardwise/backend/device_weight.hpp>
#include <shardwise/core/dtype.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/executor/executor_limits.hpp>
#include <shardwise/executor/latent_attention.hpp>
#include <shardwise/executor/parameter_name.hpp>
#include <shardwise/executor/pipeline_stage.hpp>
#include <shardwise/executor/predict_memory.hpp>
#include <shardwise/kernels/device/compiled_kernels.hpp>
#include <shardwise/model/architecture.hpp>
#include <shardwise/model/block_path.hpp>
#include <shardwise/op/work.hpp>
#include <shardwise/quant/weight_format.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// What a model needs of a list that lacks it.
[[nodiscard]] inline Error not_compiled(std::string_view backend, std::string_view name, std::string const& what) {
    return Error{ErrorCode::unsupported}
        .in(backend)
        .at(name)
        .because(what + ", whose kernels were left out of this build")
        .fix("configure CMake with " + std::string(name) + " in SHARDWISE_KERNELS, or with all");
}

[[nodiscard]] inline Result<> check_format_kernels(KernelList const& kernels, std::string_view backend,
                                                   WeightFormat format, std::string const& parameter) {
    if (kernels.has(format)) return {};
    return not_compiled(backend, name_of(format), parameter + " is held in this format");
}

/// Of one operation, its first parameter's formats: values are held of int4 by groups that devices do not read, and what latent
/// attention turns round is held as turned_format says.
[[nodiscard]] inline Result<> check_operation_kernels(KernelList const& kernels, std::string_view backend,
                                                      Operation const& op, std::string const& prefix,
                                                      FormatOf const& format_of) {
    bool const is_attention = op.kind == OpKind::attention;
    bool const is_latent = is_attention && op.attention().latent > 0;
    if (is_attention) {
        auto const& shape = op.attention();
        auto const widest = is_latent ? shape.latent : std::max(shape.key_dim, shape.value_dim);
        auto const width = widest <= 64 ? 64 : widest <= 128 ? 128 : 256;
        // Of wider heads the body is in every build.
        if (widest <= 256 && !kernels.has_heads(width)) {
            return not_compiled(backend, heads_name(width),
                                "attention has heads of " + std::to_string(widest) + " elements");
        }
    }
    bool const has_weight = is_latent || weights_of(op.kind) != OpWeights::none;
    if (!has_weight || op.parameters[0].empty()) return {};
    auto const name = parameter_name(prefix, op.parameters[0], 0);
    auto const held = format_of(name);
    if (!held) return held.error();
    auto format = held->format;
    bool const is_grouped = traits(format).scales == ScalePlace::group;
    if (is_grouped && device_group(op.in_features, held->group) == 0) format = WeightFormat::f32;
    auto const checked = check_format_kernels(kernels, backend, format, name);
    return checked && is_latent ? check_format_kernels(kernels, backend, turned_format(format), name) : checked;
}

}  // namespace detail

/// Whether a list has the kernels that a rank calls for its blocks of a model: by the formats of its weights, the type of its
/// activations and the widths of its heads. Asked before anything is loaded, of builds that SHARDWISE_KERNELS leaves kernels out of.
///
/// Errors  unsupported, which names what the list lacks and the option; those of `format_of`
[[nodiscard]] inline Result<> check_kernels(detail::KernelList const& kernels, std::string_view backend,
                                            Model const& model, FormatOf const& format_of, ExecutorLimits const& limits,
                                            StageBlocks const& stage) {
    struct Element {
        Dtype dtype;
        detail::RowElement element;
    };
    // check_activations takes no others.
    for (auto const& one :
         {Element{Dtype::f32, detail::RowElement::f32}, Element{Dtype::bf16, detail::RowElement::bf16},
          Element{Dtype::f16, detail::RowElement::f16}}) {
        if (one.dtype != limits.activations || kernels.has(one.element)) continue;
        return detail::not_compiled(backend, detail::element_name(one.element), "activations are of this type");
    }
    std::int64_t number = 0;
    for (auto const& block : model.program.blocks()) {
        if (block.role == ModuleRole::head && !limits.has_head) break;
        for (std::int32_t i = 0; i < block.count; ++i, ++number) {
            if (!stage.has(number)) continue;
            auto const prefix = block_path(block, i);
            for (auto const& op : model.program.body(block).operations()) {
                auto const checked = detail::check_operation_kernels(kernels, backend, op, prefix, format_of);
                if (!checked) return checked;
            }
        }
    }
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
