// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/compute_backend.hpp>
#include <shardwise/backend/detail/row_element.hpp>
#include <shardwise/core/dtype.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/executor/count_operation.hpp>
#include <shardwise/executor/executor_limits.hpp>
#include <shardwise/executor/load_options.hpp>
#include <shardwise/executor/parameter_name.hpp>
#include <shardwise/executor/pipeline_stage.hpp>
#include <shardwise/executor/predict_memory.hpp>
#include <shardwise/executor/stored_parameters.hpp>
#include <shardwise/kernels/device/compiled_kernels.hpp>
#include <shardwise/model/architecture.hpp>
#include <shardwise/model/block_path.hpp>
#include <shardwise/parallel/place.hpp>
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

/// The widths of heads that an attention needs kernels for.
[[nodiscard]] inline Result<> check_head_kernels(KernelList const& kernels, std::string_view backend,
                                                 AttentionShape const& shape) {
    auto const widest = shape.latent > 0 ? shape.latent : std::max(shape.key_dim, shape.value_dim);
    auto const width = widest <= 64 ? 64 : widest <= 128 ? 128 : 256;
    // Of wider heads the body is in every build.
    if (widest > 256 || kernels.has_heads(width)) return {};
    return not_compiled(backend, heads_name(width), "attention has heads of " + std::to_string(widest) + " elements");
}

/// A block as the rank will hold it: by the formats that counting its memory finds.
template <ComputeBackend Backend, ReductionPolicy Policy>
[[nodiscard]] Result<> check_block_kernels(KernelList const& kernels, CountedRank const& rank, BlockBody const& body,
                                           std::string const& prefix) {
    auto const cut = cut_block<Policy>(rank, body, prefix);
    if (!cut) return cut.error();
    auto const block = rank.block(body, *cut);
    for (auto const& op : body.operations()) {
        if (op.kind == OpKind::attention) {
            auto const checked = check_head_kernels(kernels, Backend::name, op.attention());
            if (!checked) return checked;
        }
        MemoryTally tally;
        if (auto const done = count_operation<Backend, Policy>(tally, rank, block, op, prefix); !done) return done;
        for (auto const format : tally.formats) {
            if (kernels.has(format)) continue;
            auto const name = parameter_name(prefix, op.parameters[0], own_experts(op, rank.experts).begin);
            return not_compiled(Backend::name, name_of(format), name + " is held in this format");
        }
    }
    return {};
}

}  // namespace detail

/// Whether a list has the kernels that a rank calls for its blocks of a model: by the formats in which it holds its share of the weights,
/// the type of its activations and the widths of its heads. Asked before anything is loaded, of builds that SHARDWISE_KERNELS leaves
/// kernels out of.
///
/// Errors  unsupported, which names what the list lacks and the option; those of predict_memory
template <ComputeBackend Backend, ReductionPolicy Policy>
[[nodiscard]] Result<> check_kernels(detail::KernelList const& kernels, Model const& model, FormatOf const& format_of,
                                     TensorPlace place, ExecutorLimits const& limits, TensorPlace experts,
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
        return detail::not_compiled(Backend::name, detail::element_name(one.element), "activations are of this type");
    }
    // Devices hold the same whatever the processor's instructions are.
    detail::CountedRank const rank{model, format_of, place, experts, limits, IsaLevel::portable};
    std::int64_t number = 0;
    for (auto const& block : model.program.blocks()) {
        if (block.role == ModuleRole::head && !limits.has_head) break;
        for (std::int32_t i = 0; i < block.count; ++i, ++number) {
            if (!stage.has(number)) continue;
            auto const checked = detail::check_block_kernels<Backend, Policy>(kernels, rank, model.program.body(block),
                                                                              block_path(block, i));
            if (!checked) return checked;
        }
    }
    return {};
}

/// Whether the program has been linked with the kernels that a rank calls; the host's are always there.
///
/// Errors  those of check_kernels
template <ComputeBackend Backend, ReductionPolicy Policy>
[[nodiscard]] Result<> check_linked_kernels(Model const& model, StoredParameters const& parameters, TensorPlace place,
                                            ExecutorLimits const& limits, TensorPlace experts,
                                            LoadOptions const& options, StageBlocks const& stage) {
    if constexpr (requires { typename Backend::VendorApi; }) {
        auto const kernels = detail::compiled_kernels<typename Backend::VendorApi>();
        auto const formats = formats_of(parameters, options);
        return check_kernels<Backend, Policy>(kernels, model, formats, place, limits, experts, stage);
    } else {
        return {};
    }
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
