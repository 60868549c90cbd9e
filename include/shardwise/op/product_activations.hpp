// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>

#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What products by weights of some formats make of activations while they multiply; the activations themselves keep their type.
enum class ProductActivations : std::uint8_t {
    full,  // 24 bits
    int8,  // 8 bits: whole numbers of a 127th of the largest magnitude in each block of 32, by weights of whole numbers
    bf16,  // 8 bits of a float: rounded to bf16, by weights of bf16
};

[[nodiscard]] constexpr std::string_view name_of(ProductActivations activations) {
    switch (activations) {
        case ProductActivations::full:
            return "full";
        case ProductActivations::int8:
            return "int8";
        case ProductActivations::bf16:
            return "bf16";
    }
    return "unknown";
}

/// A policy by its name.
///
/// Errors  invalid_argument, which lists the names
[[nodiscard]] constexpr Result<ProductActivations> parse_product_activations(std::string_view name) {
    for (auto const activations : {ProductActivations::full, ProductActivations::int8, ProductActivations::bf16}) {
        if (name == name_of(activations)) return activations;
    }
    return Error{ErrorCode::invalid_argument}
        .in("product activations")
        .at(name)
        .because("is not what products round activations to")
        .fix("use full, int8 or bf16");
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
