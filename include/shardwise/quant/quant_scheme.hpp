// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/quant/ggml_file_type.hpp>
#include <shardwise/quant/ggml_type.hpp>
#include <shardwise/quant/quant_method.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A quantisation of a whole model: what `--quant` names and what a checkpoint's `quantization_config` describes.
///
/// Example  QuantScheme::gptq(4, 128), *parse_quant_scheme("q4_k_m")
struct QuantScheme {
    QuantMethod method = QuantMethod::int8;
    /// Bits of one packed element; GPTQ: 2, 3, 4, 8.
    std::int64_t bits = 8;
    /// Elements of a row that share a scale; -1: the whole row.
    std::int64_t group = -1;
    /// nf4, fp4: the scales are themselves stored in eight bits.
    bool double_quant = false;
    /// fp8: extents of the blocks of a matrix that share a scale; 0: the whole matrix.
    std::int64_t block_rows = 0;
    std::int64_t block_columns = 0;
    /// fp8: the scale of the activations is stored too (activation_scheme "static").
    bool static_activations = false;
    /// gptq: columns were ordered by their activations, so that g_idx is not monotonous.
    bool desc_act = false;
    /// gptq: zero points are in the middle (they are stored all the same).
    bool symmetric = true;
    /// gptq: what files subtract from a zero point; 0 in GPTQModel's format "gptq_v2".
    std::int64_t zero_offset = 1;
    GgmlFileType file_type = GgmlFileType::all_f32;
    GgmlType type = GgmlType::f32;

    [[nodiscard]] static constexpr QuantScheme int8() { return {.method = QuantMethod::int8, .bits = 8}; }
    [[nodiscard]] static constexpr QuantScheme int4(std::int64_t group = 128) {
        return {.method = QuantMethod::int4, .bits = 4, .group = group};
    }
    [[nodiscard]] static constexpr QuantScheme nf4(bool double_quant = false) {
        return {.method = QuantMethod::nf4, .bits = 4, .group = 64, .double_quant = double_quant};
    }
    [[nodiscard]] static constexpr QuantScheme fp4(bool double_quant = false) {
        return {.method = QuantMethod::fp4, .bits = 4, .group = 64, .double_quant = double_quant};
    }
    /// One scale for each matrix.
    [[nodiscard]] static constexpr QuantScheme fp8() { return {.method = QuantMethod::fp8, .bits = 8}; }
    /// One scale for each block of a matrix (`weight_block_size`).
    [[nodiscard]] static constexpr QuantScheme fp8_blocks(std::int64_t rows = 128, std::int64_t columns = 128) {
        return {.method = QuantMethod::fp8, .bits = 8, .block_rows = rows, .block_columns = columns};
    }
    [[nodiscard]] static constexpr QuantScheme gptq(std::int64_t bits = 4, std::int64_t group = 128) {
        return {.method = QuantMethod::gptq, .bits = bits, .group = group};
    }
    [[nodiscard]] static constexpr QuantScheme awq(std::int64_t group = 128) {
        return {.method = QuantMethod::awq, .bits = 4, .group = group};
    }
    [[nodiscard]] static constexpr QuantScheme mxfp4() {
        return {.method = QuantMethod::mxfp4, .bits = 4, .group = 32};
    }
    [[nodiscard]] static constexpr QuantScheme ggml(GgmlFileType file_type) {
        return {.method = QuantMethod::ggml_file, .bits = 0, .file_type = file_type};
    }
    [[nodiscard]] static constexpr QuantScheme ggml_pure(GgmlType type) {
        return {.method = QuantMethod::ggml_pure, .bits = 0, .type = type};
    }

    [[nodiscard]] constexpr bool is_ggml() const {
        return method == QuantMethod::ggml_file || method == QuantMethod::ggml_pure;
    }

    friend constexpr bool operator==(QuantScheme const&, QuantScheme const&) = default;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
