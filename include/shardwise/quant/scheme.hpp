// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/fixed_text.hpp>
#include <shardwise/core/optional.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/quant/ggml_file_type.hpp>
#include <shardwise/quant/ggml_type.hpp>
#include <shardwise/quant/quant_method.hpp>
#include <shardwise/quant/quant_method_table.hpp>
#include <shardwise/quant/quant_scheme.hpp>

#include <array>
#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

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

/// What follows the name of a method: "-int3", "-g64", "-dq", "-block", as its row has them.
[[nodiscard]] constexpr Optional<QuantScheme> parse_variant(QuantMethodTraits const& row, std::string_view rest) {
    auto scheme = row.usual;
    if (rest.empty()) return scheme;
    if (row.has_double && is_same_name(rest, "-dq")) {
        scheme.double_quant = true;
        return scheme;
    }
    if (row.has_blocks && is_same_name(rest, "-block")) return QuantScheme::fp8_blocks();
    if (row.has_bits && take_prefix(rest, "-int")) {
        auto const digit = rest.empty() ? '0' : rest[0];
        if (digit != '2' && digit != '3' && digit != '4' && digit != '8') return std::nullopt;
        scheme.bits = digit - '0';
        rest.remove_prefix(1);
    }
    if (!row.has_group) return std::nullopt;
    auto const group = parse_group(rest, scheme.group);
    if (!group) return std::nullopt;
    scheme.group = *group;
    return scheme;
}

[[nodiscard]] constexpr Optional<QuantScheme> parse_packed_scheme(std::string_view text) {
    for (auto const& row : quant_method_table) {
        auto rest = text;
        if (row.name.empty() || !take_prefix(rest, row.name)) continue;
        if (auto const scheme = parse_variant(row, rest)) return scheme;
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
    if (scheme.method == QuantMethod::ggml_file) return name.add(name_of(scheme.file_type)).text();
    if (scheme.method == QuantMethod::ggml_pure) {
        auto const type = name_of(scheme.type);
        bool const is_taken = parse_ggml_file_type(type) || detail::parse_packed_scheme(type);
        return name.add(type).add(is_taken ? "-pure" : "").text();
    }
    auto const& row = traits(scheme.method);
    name.add(row.name);
    if (row.has_double && scheme.double_quant) name.add("-dq");
    if (row.has_blocks && scheme.block_rows > 0) name.add("-block");
    if (row.has_bits) name.add("-int").add(scheme.bits);
    if (row.has_group) name.add_group(scheme.group);
    return name.text();
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
