// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/packed_weight.hpp>
#include <shardwise/model/family.hpp>
#include <shardwise/model/tensor.hpp>
#include <shardwise/op/operation.hpp>
#include <shardwise/quant/weight_format.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// One parameter of a model as its file stores it.
///
/// Shapes  the model's, outermost extent first
struct StoredParameter {
    Tensor const* tensor = nullptr;
    /// The name under which it counts: of tied parameters the first.
    std::string name;
    /// The format in which it is held unless LoadOptions ask for another: the file's, or the nearest that loses nothing.
    WeightFormat format = WeightFormat::f32;
    /// As WeightSource has them; empty where `packed` says where the values are.
    std::span<std::byte const> data;
    std::span<std::byte const> scales;
    std::int64_t group = 0;
    /// True where the file's matrix is [outputs, inputs] although the model's tensor is [inputs, outputs]: GGUF's form of
    /// gpt2's Conv1D, packed experts of gpt_oss.
    bool is_turned = false;
    /// Where no product takes the file's own form: the packed weight, or two whose rows alternate (gate and up in one).
    std::vector<PackedWeight> packed;
    /// True where the packed weights' rows follow each other instead, as GgufForm::last_rows says.
    bool is_in_sequence = false;
    /// True of what holds the last rows, until the others are there.
    bool has_last_rows = false;

    /// A packed weight and a row of it.
    struct PackedRow {
        PackedWeight const& weight;
        std::int64_t row = 0;
    };
    /// Where a row of the parameter is, of which `packed` has as many.
    [[nodiscard]] PackedRow packed_row(std::int64_t row) const {
        auto const count = static_cast<std::int64_t>(packed.size());
        if (!is_in_sequence) return {packed[static_cast<std::size_t>(row % count)], row / count};
        std::size_t at = 0;
        for (; row >= packed[at].outputs; ++at) row -= packed[at].outputs;
        return {packed[at], row};
    }

    /// Takes the rows of a second tensor of a GGUF file: those that alternate with the first one's, or the last ones. False where the
    /// two are no such pair. Blocks of two types are held in fp32.
    [[nodiscard]] bool join(StoredParameter const& second, GgufForm const& form) {
        bool const is_pair =
            packed.size() == 1 && second.packed.size() == 1 && packed[0].inputs == second.packed[0].inputs;
        bool const alternates = form.splits_gate_and_up && format == second.format && is_pair &&
                                packed[0].outputs == second.packed[0].outputs;
        is_in_sequence = is_pair && has_last_rows != second.has_last_rows;
        if (!is_in_sequence && !alternates) return false;
        if (format != second.format) format = WeightFormat::f32;
        packed.insert(has_last_rows ? packed.begin() : packed.end(), second.packed[0]);
        return true;
    }

    /// The i-th of `count` equal parts: one expert of a stacked tensor.
    [[nodiscard]] StoredParameter part(std::int64_t i, std::int64_t count) const {
        auto const cut = [i, count](std::span<std::byte const> bytes) {
            auto const size = bytes.size() / static_cast<std::size_t>(count);
            return bytes.subspan(static_cast<std::size_t>(i) * size, size);
        };
        auto out = *this;
        out.data = cut(data);
        out.scales = cut(scales);
        for (auto& each : out.packed) {
            each.outputs /= count;
            each.data = cut(each.data);
            each.scales = cut(each.scales);
        }
        return out;
    }
};

/// What a file's weight of a norm is more than what the model's own files store: llama.cpp's norms only multiply, and its converter adds
/// the one that such norms add (gemma, nemotron).
[[nodiscard]] constexpr float stored_norm_offset(NormKind kind, bool is_gguf) {
    return has_offset(kind) && is_gguf ? 1.0F : 0.0F;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
