// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/quant/ggml_type.hpp>
#include <shardwise/quant/scheme.hpp>

#include <cstdint>
#include <optional>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The keys of config.json's `quantization_config` that decide sizes, as a reader found them; absent keys stay empty.
struct QuantizationConfig {
    std::string_view quant_method{};
    std::optional<bool> load_in_8bit{};
    std::optional<bool> load_in_4bit{};
    std::string_view bnb_4bit_quant_type{};
    std::optional<bool> bnb_4bit_use_double_quant{};
    std::optional<std::int64_t> bits{};
    std::optional<std::int64_t> group_size{};
    std::optional<bool> desc_act{};
    std::optional<bool> sym{};
    std::string_view checkpoint_format{};  // gptq
    std::string_view version{};            // awq
    std::optional<std::int64_t> block_rows{};  // weight_block_size
    std::optional<std::int64_t> block_columns{};
    std::string_view activation_scheme{};
};

namespace detail {

[[nodiscard]] constexpr Result<QuantScheme> bitsandbytes_scheme(QuantizationConfig const& config) {
    if (config.load_in_8bit.value_or(false)) return QuantScheme::int8();
    if (!config.load_in_4bit.value_or(false)) {
        return Error{ErrorCode::missing_field}.in("quantization_config").at("load_in_8bit").because(
            "bitsandbytes needs load_in_8bit or load_in_4bit to be true");
    }
    bool const is_double = config.bnb_4bit_use_double_quant.value_or(false);
    if (config.bnb_4bit_quant_type == "nf4") return QuantScheme::nf4(is_double);
    // transformers' default
    if (config.bnb_4bit_quant_type.empty() || config.bnb_4bit_quant_type == "fp4") return QuantScheme::fp4(is_double);
    return Error{ErrorCode::invalid_field}.in("quantization_config").at("bnb_4bit_quant_type").because(
        "it is neither \"nf4\" nor \"fp4\"");
}

[[nodiscard]] constexpr Result<QuantScheme> grouped_scheme(QuantizationConfig const& config, bool is_gptq) {
    auto const bits = config.bits.value_or(is_gptq ? 0 : 4);
    bool const is_known = bits == 4 || (is_gptq && (bits == 2 || bits == 3 || bits == 8));
    if (!is_known) {
        auto error = Error{config.bits ? ErrorCode::invalid_field : ErrorCode::missing_field};
        error.in("quantization_config").at("bits");
        error.because(is_gptq ? "GPTQ packs 2, 3, 4 or 8 bits" : "AWQ packs 4 bits");
        if (config.bits) error.got(*config.bits);
        return error;
    }
    auto const group = config.group_size.value_or(128);
    if (group < -1 || group == 0) {
        return Error{ErrorCode::invalid_field}.in("quantization_config").at("group_size").because(
            "a group has at least one element, -1 means the whole row").got(group);
    }
    if (!is_gptq && !config.version.empty() && !is_same_name(config.version, "gemm")) {
        return Error{ErrorCode::unsupported}.in("quantization_config").at("version").because(
            "only AWQ's gemm layout is known");
    }
    auto scheme = is_gptq ? QuantScheme::gptq(bits, group) : QuantScheme::awq(group);
    if (is_gptq) {
        scheme.desc_act = config.desc_act.value_or(false);
        scheme.symmetric = config.sym.value_or(true);
        scheme.zero_offset = config.checkpoint_format == "gptq_v2" ? 0 : 1;
    }
    return scheme;
}

[[nodiscard]] constexpr Result<QuantScheme> fp8_scheme(QuantizationConfig const& config) {
    auto scheme = QuantScheme::fp8();
    if (config.block_rows || config.block_columns) {
        auto const rows = config.block_rows.value_or(0);
        auto const columns = config.block_columns.value_or(0);
        if (rows <= 0 || columns <= 0) {
            return Error{ErrorCode::invalid_field}.in("quantization_config").at("weight_block_size").because(
                "it is not two positive numbers").got(rows <= 0 ? rows : columns);
        }
        scheme = QuantScheme::fp8_blocks(rows, columns);
    }
    scheme.static_activations = config.activation_scheme == "static";
    return scheme;
}

}  // namespace detail

/// The scheme that a checkpoint's `quantization_config` describes (compressed-tensors has several: compressed_tensors.hpp).
///
/// Errors  missing_field, invalid_field; unsupported for another quant_method, which it names
/// Source  transformers 4.57 utils/quantization_config.py
[[nodiscard]] constexpr Result<QuantScheme> checkpoint_scheme(QuantizationConfig const& config) {
    auto const method = config.quant_method;
    // Old bitsandbytes configurations have no quant_method.
    if (method.empty() && (config.load_in_8bit || config.load_in_4bit)) return detail::bitsandbytes_scheme(config);
    if (method.empty()) return Error{ErrorCode::missing_field}.in("quantization_config").at("quant_method");
    if (detail::is_same_name(method, "bitsandbytes") || detail::is_same_name(method, "bitsandbytes_8bit") ||
        detail::is_same_name(method, "bitsandbytes_4bit")) {
        return detail::bitsandbytes_scheme(config);
    }
    if (detail::is_same_name(method, "gptq")) return detail::grouped_scheme(config, true);
    if (detail::is_same_name(method, "awq")) return detail::grouped_scheme(config, false);
    if (detail::is_same_name(method, "fp8")) return detail::fp8_scheme(config);
    if (detail::is_same_name(method, "mxfp4")) return QuantScheme::mxfp4();
    return Error{ErrorCode::unsupported}.in("quantization_config").at(method).because(
        "this quant_method is not known").fix("known are bitsandbytes, gptq, awq, fp8, mxfp4 and compressed-tensors");
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
