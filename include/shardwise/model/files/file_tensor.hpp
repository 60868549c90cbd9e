// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/dtype.hpp>
#include <shardwise/core/shape.hpp>

#include <cstdint>
#include <optional>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A tensor as any checkpoint file lists it.
struct FileTensor {
    std::string_view name;
    /// Nothing where only the name is known: an index without its shards.
    std::optional<Shape> shape;
    std::int64_t bytes = 0;
    /// Nothing for block formats.
    std::optional<Dtype> dtype;
    /// Of block formats: Tensor::stored_block.
    std::int32_t block = 1;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
