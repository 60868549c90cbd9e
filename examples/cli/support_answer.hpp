// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "console.hpp"

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace shardwise::cli {

/// How far support goes, least first.
enum class SupportLevel {
    refused,  // no plan has it there
    none,     // nothing of it is there
    planned,  // estimates, maps and plans know it
    library,  // C++ programs can call it
    runs,     // `shardwise run` does it
};

[[nodiscard]] std::string_view name_of(SupportLevel level);

/// Of one thing on one back end.
struct Support {
    SupportLevel level = SupportLevel::none;
    /// Why it goes no further; empty where nothing is missing.
    std::string_view reason;
    /// Of a product whose kernels that are; empty where nothing was asked.
    std::string_view path{};
};

inline constexpr std::array<std::string_view, 4> support_backends{"cuda", "rocm", "metal", "cpu"};

/// A thing on every back end, in the order of support_backends.
struct SupportRow {
    std::string name;
    std::array<Support, support_backends.size()> backends;
};

/// A level of instructions of the host's products.
struct SupportedLevel {
    std::string_view name;
    bool is_here = false;
    bool is_executed_on_hardware = false;
};

/// What `support` has to say.
struct SupportAnswer {
    std::vector<SupportRow> strategies;
    std::vector<SupportRow> operations;
    /// Operations over rows of activations in bf16, and in fp16 (--activations).
    std::vector<SupportRow> bf16_operations;
    std::vector<SupportRow> fp16_operations;
    std::vector<SupportRow> weights;
    /// Products by format of the weights and element of the activations, "q4_0 by bf16", with the kernels that make them.
    std::vector<SupportRow> products;
    /// Formats of weights whose products take activations of eight bits (--product-activations int8).
    std::vector<SupportRow> int8_activations;
    /// Those whose products take activations of bf16 (--product-activations bf16).
    std::vector<SupportRow> bf16_activations;
    /// Parts of models, and whether `shardwise train` trains them.
    std::vector<SupportRow> training;
    /// What SHARDWISE_ISA takes.
    std::vector<SupportedLevel> levels;
};

[[nodiscard]] std::string support_json(SupportAnswer const& answer);
[[nodiscard]] std::string support_text(SupportAnswer const& answer, Style const& style);

}  // namespace shardwise::cli
