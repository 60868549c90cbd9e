// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/dtype.hpp>
#include <shardwise/core/list.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/model/backward_program.hpp>

#include <cstddef>
#include <string>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Whether training computes in a dtype of 16 bits.
[[nodiscard]] constexpr bool is_half(Dtype precision) {
    return precision == Dtype::bf16 || precision == Dtype::f16;
}

/// Errors  invalid_argument for a dtype that training does not compute in
[[nodiscard]] inline Result<> check_precision(Dtype precision) {
    if (precision == Dtype::f32 || is_half(precision)) return {};
    return Error{ErrorCode::invalid_argument}
        .in("training")
        .at("precision")
        .because("is no dtype that training computes in: " + std::string(traits(precision).torch_name))
        .fix("use f32, bf16 or f16");
}

/// Which values and gradients of a block training in 16 bits rounds, by their numbers: in layers (blocks with attention) all but the
/// hidden state. That is the block's input, what is added to it, and the block's output: they stay float32, as do all other blocks.
[[nodiscard]] inline List<char> rounded_values(BackwardBody const& body) {
    List<char> out(body.values.size(), 0);
    auto const& operations = body.forward.operations();
    bool is_layer = false;
    for (auto const& op : operations) is_layer = is_layer || op.kind == OpKind::attention;
    if (!is_layer) return out;
    auto const at = [](ValueId id) { return static_cast<std::size_t>(id); };
    List<char> is_hidden(body.values.size(), 0);
    is_hidden[0] = 1;
    for (auto const& op : operations) {
        bool is_sum = false;
        for (auto const in : op.inputs) is_sum = is_sum || (in != no_value && is_hidden[at(in)] != 0);
        is_hidden[at(op.output)] = op.kind == OpKind::add && is_sum ? 1 : 0;
    }
    is_hidden[at(operations.back().output)] = 1;
    for (auto const& op : operations) out[at(op.output)] = is_hidden[at(op.output)] != 0 ? 0 : 1;
    for (auto i = body.forward.values().size(); i < out.size(); ++i) out[i] = out[at(body.value_of[i])];
    return out;
}

namespace detail {

/// Whether an operation reads its weight in 16 bits: what it makes is rounded.
[[nodiscard]] inline bool reads_half(List<char> const& rounded, Operation const& op) {
    return !rounded.empty() && rounded[static_cast<std::size_t>(op.output)] != 0;
}

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
