// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/fixed_text.hpp>
#include <shardwise/core/optional.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/quant/ggml_file_type.hpp>
#include <shardwise/quant/ggml_type.hpp>
#include <shardwise/quant/quant_method.hpp>

#include <array>
#include <cstdint>
#include <string_view>

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

namespace detail {

/// Removes a prefix in any case and says whether it was there.
[[nodiscard]] constexpr bool take_prefix(std::string_view& text, std::string_view prefix) {
    if (text.size() < prefix.size() || !is_same_name(text.substr(0, prefix.size()), prefix)) return false;
    text.remove_prefix(prefix.size());
    return true;
}

/// Reads "-g64" or nothing; the result is empty where something else is left.
[[nodiscard]] constexpr Optional<std::int64_t> parse_group(std::string_view text, std::int64_t usual) {
    if (text.empty()) return usual;
    if (!take_prefix(text, "-g") || text.empty() || text.size() > 6) return std::nullopt;
    std::int64_t group = 0;
    for (char const digit : text) {
        if (digit < '0' || digit > '9') return std::nullopt;
        group = group * 10 + (digit - '0');
    }
    if (group == 0) return std::nullopt;
    return group;
}

[[nodiscard]] constexpr Optional<QuantScheme> parse_packed_scheme(std::string_view text) {
    if (is_same_name(text, "int8")) return QuantScheme::int8();
    if (is_same_name(text, "nf4")) return QuantScheme::nf4();
    if (is_same_name(text, "nf4-dq")) return QuantScheme::nf4(true);
    if (is_same_name(text, "fp4")) return QuantScheme::fp4();
    if (is_same_name(text, "fp4-dq")) return QuantScheme::fp4(true);
    if (is_same_name(text, "fp8")) return QuantScheme::fp8();
    if (is_same_name(text, "fp8-block")) return QuantScheme::fp8_blocks();
    if (is_same_name(text, "mxfp4")) return QuantScheme::mxfp4();
    if (auto rest = text; take_prefix(rest, "int4")) {
        if (auto const group = parse_group(rest, 128)) return QuantScheme::int4(*group);
    }
    if (auto rest = text; take_prefix(rest, "awq")) {
        if (auto const group = parse_group(rest, 128)) return QuantScheme::awq(*group);
    }
    if (auto rest = text; take_prefix(rest, "gptq")) {
        std::int64_t bits = 4;
        if (take_prefix(rest, "-int")) {
            auto const digit = rest.empty() ? '0' : rest[0];
            if (digit != '2' && digit != '3' && digit != '4' && digit != '8') return std::nullopt;
            bits = digit - '0';
            rest.remove_prefix(1);
        }
        if (auto const group = parse_group(rest, 128)) return QuantScheme::gptq(bits, *group);
    }
    return std::nullopt;
}

}  // namespace detail

/// What parse_quant_scheme takes, for messages and help texts.
inline constexpr std::string_view quant_scheme_names =
    "int8, int4, int4-g64, nf4, nf4-dq, fp4, fp4-dq, fp8, fp8-block, gptq-int4-g128, awq-g128, mxfp4, or a GGUF type: "
    "Q4_K_M, Q8_0, IQ4_XS, Q4_K, Q4_0-pure, ...";

/// Reads the name of a scheme in any case.
///
/// `int8`, `int4[-gN]`, `nf4[-dq]`, `fp4[-dq]`, `fp8`, `fp8-block`, `gptq[-intB][-gN]`, `awq[-gN]`, `mxfp4` (groups
/// default to 128); a name that llama-quantize gives a file (`Q4_K_M`, `Q4_0`, `Q6_K`, `F16`) is that file with its
/// mixture; the name of a block type that is no file type (`Q4_K`), or any type with `-pure`, packs every matrix alike.
///
/// Errors  unknown_name
[[nodiscard]] constexpr Result<QuantScheme> parse_quant_scheme(std::string_view text) {
    if (auto const packed = detail::parse_packed_scheme(text)) return *packed;
    if (auto const file_type = parse_ggml_file_type(text)) return QuantScheme::ggml(*file_type);
    constexpr std::string_view pure = "-pure";
    auto const head = text.substr(0, text.size() > pure.size() ? text.size() - pure.size() : 0);
    bool const is_pure = detail::is_same_name(text.substr(head.size()), pure);
    auto const type = parse_ggml_type(is_pure ? head : text);
    if (type && traits(*type).is_quantized) return QuantScheme::ggml_pure(*type);
    return Error{ErrorCode::unknown_name}
        .at(text)
        .because("there is no quantisation of this name")
        .fix(quant_scheme_names);
}

namespace detail {

/// Text put together within a fixed capacity.
class SchemeName {
public:
    constexpr SchemeName& add(std::string_view text) {
        for (char const c : text) {
            if (size_ < buffer_.size()) buffer_[size_++] = c;
        }
        return *this;
    }
    constexpr SchemeName& add(std::int64_t number) {
        std::array<char, 20> digits{};
        std::size_t count = 0;
        do {
            digits[count++] = static_cast<char>('0' + number % 10);
            number /= 10;
        } while (number > 0);
        while (count > 0) add(std::string_view{&digits[--count], 1});
        return *this;
    }
    constexpr SchemeName& add_group(std::int64_t group) { return group > 0 ? add("-g").add(group) : *this; }
    [[nodiscard]] constexpr FixedText<40> text() const { return std::string_view{buffer_.data(), size_}; }

private:
    std::array<char, 40> buffer_{};
    std::size_t size_ = 0;
};

}  // namespace detail

/// The name of a scheme as reports print it; parse_quant_scheme reads it back where the scheme has a name of its own.
[[nodiscard]] constexpr FixedText<40> name_of(QuantScheme const& scheme) {
    detail::SchemeName name;
    switch (scheme.method) {
        case QuantMethod::int8: name.add("int8"); break;
        case QuantMethod::int4: name.add("int4").add_group(scheme.group); break;
        case QuantMethod::nf4: name.add(scheme.double_quant ? "nf4-dq" : "nf4"); break;
        case QuantMethod::fp4: name.add(scheme.double_quant ? "fp4-dq" : "fp4"); break;
        case QuantMethod::fp8: name.add(scheme.block_rows > 0 ? "fp8-block" : "fp8"); break;
        case QuantMethod::gptq: name.add("gptq-int").add(scheme.bits).add_group(scheme.group); break;
        case QuantMethod::awq: name.add("awq").add_group(scheme.group); break;
        case QuantMethod::mxfp4: name.add("mxfp4"); break;
        case QuantMethod::ggml_file: name.add(name_of(scheme.file_type)); break;
        case QuantMethod::ggml_pure: {
            auto const type = name_of(scheme.type);
            bool const is_taken = parse_ggml_file_type(type) || detail::parse_packed_scheme(type);
            name.add(type).add(is_taken ? "-pure" : "");
            break;
        }
    }
    return name.text();
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
