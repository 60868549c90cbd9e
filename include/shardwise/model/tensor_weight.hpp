// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/tensor.hpp>
#include <shardwise/quant/weight.hpp>

#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What a quantisation scheme sees of a tensor: by its module's class, whether it stands within a routed expert, and its
/// layer's number, -1 outside of the layers.
[[nodiscard]] constexpr Weight weight_of(Tensor const& tensor, std::string_view class_name, bool is_in_expert,
                                         std::int64_t layer) {
    Weight weight{.shape = tensor.shape,
                  .dtype = tensor.dtype,
                  .use = tensor.use,
                  .layer = layer < 0 ? 0 : layer,
                  .in_block = layer >= 0};
    weight.is_expert = is_in_expert || tensor.shard.experts > 0;
    weight.is_transposed = tensor.is_transposed || class_name == "Conv1D";
    weight.in_linear_module = class_name.empty() || is_linear_class(class_name);
    return weight;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
