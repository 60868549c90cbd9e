// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/dtype.hpp>
#include <shardwise/core/optional.hpp>
#include <shardwise/quant/method_grain.hpp>
#include <shardwise/quant/packed_bytes.hpp>
#include <shardwise/quant/quant_method.hpp>
#include <shardwise/quant/quant_scheme.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Which weights of a model a method packs.
enum class PackedWeights : std::uint8_t {
    modules,       // matrices of nn.Linear, routers too
    linear,        // linear weights of nn.Linear and of experts
    words,         // linear matrices inside blocks whose sides fill 32-bit words
    experts,       // of experts whose rows are whole blocks of 32
    of_file_type,  // what a mixture of llama.cpp quantises
    of_type,       // what llama-quantize --pure does
};

/// How the entries of a list of modules name them.
enum class NameRule : std::uint8_t {
    parts,     // fp8, awq: the module's last name, or any part of its path
    prefixes,  // bitsandbytes: the last name, the path, or a part of the path that a dot follows
    patterns,  // mxfp4: a regular expression at the path's beginning
    targets,   // compressed-tensors: the path, or "re:" and a regular expression at its beginning
};

/// All that is said of a method.
struct QuantMethodTraits {
    QuantMethod method = QuantMethod::int8;
    /// As --quant has it, before what follows; empty for GGUF, whose types have names.
    std::string_view name{};
    /// What the name alone means.
    QuantScheme usual{};
    /// What may follow: "-int3", "-g64", "-dq", "-block".
    bool has_bits = false;
    bool has_group = false;
    bool has_double = false;
    bool has_blocks = false;
    PackedWeights weights = PackedWeights::linear;
    /// Bytes of the tensors that hold a packed weight; null for GGUF.
    Optional<std::int64_t> (*bytes)(QuantScheme const& scheme, detail::PackedExtents const& of) = nullptr;
    /// The inputs of a packed weight that stay together where it is loaded; null: each stands alone.
    std::int64_t (*grain)(QuantScheme const& scheme, Weight const& weight) = nullptr;
    bool is_bitsandbytes = false;
    /// Words are filled by inputs, and not by outputs alone.
    bool packs_inputs = false;
    /// The dtype of what a checkpoint leaves unpacked where its config names none.
    ///
    /// Source  transformers 4.57 quantizers/quantizer_*.py update_dtype
    Optional<Dtype> float_dtype{};
    /// How its config names the modules that stay as they are.
    NameRule kept = NameRule::parts;
};

// clang-format off
/// Every method in the order of the enumeration.
inline constexpr std::array quant_method_table{
    QuantMethodTraits{.method = QuantMethod::int8, .name = "int8", .usual = QuantScheme::int8(),
                      .weights = PackedWeights::modules, .bytes = &detail::int8_bytes, .is_bitsandbytes = true,
                      .float_dtype = Dtype::f16, .kept = NameRule::prefixes},
    QuantMethodTraits{.method = QuantMethod::int4, .name = "int4", .usual = QuantScheme::int4(), .has_group = true,
                      .weights = PackedWeights::linear, .bytes = &detail::int4_bytes, .grain = &detail::int4_grain},
    QuantMethodTraits{.method = QuantMethod::nf4, .name = "nf4", .usual = QuantScheme::nf4(), .has_double = true,
                      .weights = PackedWeights::modules, .bytes = &detail::bnb_4bit_bytes,
                      .grain = &detail::nf4_grain, .is_bitsandbytes = true,
                      .float_dtype = Dtype::f16, .kept = NameRule::prefixes},
    QuantMethodTraits{.method = QuantMethod::fp4, .name = "fp4", .usual = QuantScheme::fp4(), .has_double = true,
                      .weights = PackedWeights::modules, .bytes = &detail::bnb_4bit_bytes, .is_bitsandbytes = true,
                      .float_dtype = Dtype::f16, .kept = NameRule::prefixes},
    QuantMethodTraits{.method = QuantMethod::fp8, .name = "fp8", .usual = QuantScheme::fp8(), .has_blocks = true,
                      .weights = PackedWeights::linear, .bytes = &detail::fp8_bytes},
    QuantMethodTraits{.method = QuantMethod::gptq, .name = "gptq", .usual = QuantScheme::gptq(), .has_bits = true,
                      .has_group = true, .weights = PackedWeights::words, .bytes = &detail::gptq_bytes,
                      .grain = &detail::gptq_grain, .packs_inputs = true, .float_dtype = Dtype::f16},
    QuantMethodTraits{.method = QuantMethod::awq, .name = "awq", .usual = QuantScheme::awq(), .has_group = true,
                      .weights = PackedWeights::words, .bytes = &detail::awq_bytes,
                      .grain = &detail::awq_grain, .float_dtype = Dtype::f16},
    QuantMethodTraits{.method = QuantMethod::mxfp4, .name = "mxfp4", .usual = QuantScheme::mxfp4(),
                      .weights = PackedWeights::experts, .bytes = &detail::mxfp4_bytes, .grain = &detail::mxfp4_grain,
                      .float_dtype = Dtype::bf16, .kept = NameRule::patterns},
    QuantMethodTraits{.method = QuantMethod::ggml_file, .weights = PackedWeights::of_file_type},
    QuantMethodTraits{.method = QuantMethod::ggml_pure, .weights = PackedWeights::of_type},
};
// clang-format on

namespace detail {

/// Whether a table has a row for each method, in the order of the enumeration.
template <class Rows>
[[nodiscard]] constexpr bool has_each_method(Rows const& rows) {
    if (rows.size() != quant_method_count) return false;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        if (static_cast<std::size_t>(rows[i].method) != i) return false;
    }
    return true;
}

}  // namespace detail

static_assert(detail::has_each_method(quant_method_table), "quant_method_table has one row for each method, in their order");

[[nodiscard]] constexpr QuantMethodTraits const& traits(QuantMethod method) {
    return quant_method_table[static_cast<std::size_t>(method)];
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
