// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/adapter.hpp>
#include <shardwise/executor/held_format.hpp>
#include <shardwise/executor/load_options.hpp>
#include <shardwise/executor/stored_parameters.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// A parameter of a checkpoint with what an adapter makes of it.
struct AdaptedParameter {
    StoredParameter stored;
    /// What is added to it; null: nothing.
    LowRankDelta const* delta = nullptr;
    bool is_replaced = false;
};

[[nodiscard]] inline AdaptedParameter adapted(StoredParameter const& checkpoint, Adapter const* adapter) {
    if (adapter == nullptr) return {checkpoint};
    AdaptedParameter out{adapter->replaced(checkpoint), adapter->delta(checkpoint.name)};
    out.is_replaced = out.stored.data.data() != checkpoint.data.data();
    return out;
}

/// A parameter of a model, or a half of an adapter that is computed beside its product.
///
/// Errors  as StoredParameters::find
[[nodiscard]] inline Result<StoredParameter> find_adapted(StoredParameters const& parameters,
                                                          LoadOptions const& options, std::string const& name) {
    if (options.adapter != nullptr) {
        if (auto const* const half = options.adapter->half(name)) return *half;
    }
    return parameters.find(name);
}

/// Success where all bytes that loading has looked at so far were the files'.
///
/// Errors  file_unreadable with the file
[[nodiscard]] inline Result<> check_loaded(StoredParameters const& parameters, LoadOptions const& options) {
    if (options.adapter != nullptr) {
        if (auto const checked = options.adapter->check_file(); !checked) return checked;
    }
    return parameters.check_files();
}

/// Refuses to merge where what an adapter adds would be lost, or lies in other rows.
///
/// Errors  unsupported
[[nodiscard]] inline Result<> check_merge(AdaptedParameter const& parameter, HeldFormat const& held, bool is_gguf,
                                          LoadOptions const& options) {
    if (options.adapter == nullptr) return {};
    Error wrong{ErrorCode::unsupported};
    wrong.in(parameter.stored.name);
    auto const& to = traits(held.format);
    bool const is_float = to.block_elements == 1 && to.scales == ScalePlace::none;
    bool const is_changed = parameter.delta != nullptr || parameter.is_replaced;
    if (is_changed && is_gguf) {
        return wrong.because("is of a GGUF file, whose rows an adapter does not have")
            .fix("give the checkpoint that the adapter was trained on");
    }
    if (!is_changed || is_float || options.quant) return {};
    return wrong.at(name_of(held.format))
        .because("stays packed as in its file, and an adapter is merged into float weights")
        .fix("hold the weights as floats with --dtype bf16, or pack them again with --quant");
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
