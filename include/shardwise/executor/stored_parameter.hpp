// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/packed_weight.hpp>
#include <shardwise/model/tensor.hpp>
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

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
