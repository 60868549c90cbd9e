// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/product/pack_dense.hpp>
#include <shardwise/backend/host/product/panel.hpp>
#include <shardwise/backend/host/product/quant_codes.hpp>
#include <shardwise/backend/weight_source.hpp>
#include <shardwise/op/product_activations.hpp>
#include <shardwise/quant/weight_format.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// How the host multiplies by a format.
enum class HostProduct : std::uint8_t {
    refused,    // not at all: it is refused by name where a weight is held
    elements,   // elements without scales, in tiles (product/dense_*.hpp)
    integers,   // scales times whole numbers (product/quant_*.hpp)
    looked_up,  // scales times floats of a table
};

/// What the scales of a quantised format are, in the order of its panels (product/quant_layout.hpp).
enum class ScaleForm : std::uint8_t {
    none,
    single,    // a float
    half,      // a half
    pair,      // two halves, scale and minimum
    exponent,  // a power of two, as a byte
    k,         // of Q4_K and Q5_K: for 8 blocks, two halves by which six bits for each are multiplied
    q6_k,      // for 8 blocks, a half by which signed bytes are multiplied, two for each
};

/// What a code stands for, before it is scaled.
enum class CodeValue : std::uint8_t {
    itself,  // without the offset
    nf4,     // a place in nf4_values
    e2m1,    // a float of four bits
};

/// What the host makes of a format: the other half of its row in quant/weight_format.hpp.
struct HostFormat {
    WeightFormat format = WeightFormat::f32;
    HostProduct product = HostProduct::refused;
    /// Writes panels [first, last), where there are elements without scales.
    void (*pack)(WeightSource const& source, std::byte* packed, std::int64_t first, std::int64_t last) = nullptr;
    /// Inputs of an output that lie beside each other in a panel of such elements.
    std::int64_t together = 1;
    /// Reads the codes of 32 inputs.
    void (*read)(WeightSource const& source, std::int64_t row, std::int64_t block, std::uint8_t* codes) = nullptr;
    ScaleForm scales = ScaleForm::none;
    CodeValue value = CodeValue::itself;
    /// A code's number is code - offset. Of e2m1, where twice a value is an integer of -12 to 12, it makes the lookup unsigned.
    int offset = 0;
    /// Scales for a block of 32.
    int parts = 1;
    bool has_minimum = false;
};

// clang-format off
/// Every format in the order of the enumeration.
inline constexpr std::array host_format_table{
    HostFormat{.format = WeightFormat::f32, .product = HostProduct::elements, .pack = &pack_f32_panels},
    HostFormat{.format = WeightFormat::bf16, .product = HostProduct::elements, .pack = &pack_bf16_panels, .together = 2},
    HostFormat{.format = WeightFormat::f16, .product = HostProduct::elements, .pack = &pack_f16_panels},
    HostFormat{.format = WeightFormat::int8, .product = HostProduct::integers, .read = &read_int8,
               .scales = ScaleForm::single, .offset = 128},
    HostFormat{.format = WeightFormat::int4, .product = HostProduct::integers, .read = &read_nibbles<false>,
               .scales = ScaleForm::half, .offset = 8},
    HostFormat{.format = WeightFormat::nf4, .product = HostProduct::looked_up, .read = &read_nibbles<true>,
               .scales = ScaleForm::single, .value = CodeValue::nf4},
    HostFormat{.format = WeightFormat::mxfp4, .product = HostProduct::integers, .read = &read_nibbles<false>,
               .scales = ScaleForm::exponent, .value = CodeValue::e2m1, .offset = 12},
    HostFormat{.format = WeightFormat::q4_0, .product = HostProduct::integers, .read = &read_halves<2>,
               .scales = ScaleForm::half, .offset = 8},
    HostFormat{.format = WeightFormat::q4_1, .product = HostProduct::integers, .read = &read_halves<4>,
               .scales = ScaleForm::pair, .has_minimum = true},
    HostFormat{.format = WeightFormat::q5_0, .product = HostProduct::integers, .read = &read_fifths<6>,
               .scales = ScaleForm::half, .offset = 16},
    HostFormat{.format = WeightFormat::q5_1, .product = HostProduct::integers, .read = &read_fifths<8>,
               .scales = ScaleForm::pair, .has_minimum = true},
    HostFormat{.format = WeightFormat::q8_0, .product = HostProduct::integers, .read = &read_q8_0,
               .scales = ScaleForm::half, .offset = 128},
    HostFormat{.format = WeightFormat::q4_k, .product = HostProduct::integers, .read = &read_q4_k,
               .scales = ScaleForm::k, .has_minimum = true},
    HostFormat{.format = WeightFormat::q5_k, .product = HostProduct::integers, .read = &read_q5_k,
               .scales = ScaleForm::k, .has_minimum = true},
    HostFormat{.format = WeightFormat::q6_k, .product = HostProduct::integers, .read = &read_q6_k,
               .scales = ScaleForm::q6_k, .offset = 32, .parts = 2},
};
// clang-format on
static_assert(has_each_format(host_format_table), "host_format_table says of each format what the host makes of it");

[[nodiscard]] constexpr HostFormat const& host_format(WeightFormat format) {
    return host_format_table[static_cast<std::size_t>(format)];
}

[[nodiscard]] constexpr bool is_quantised(WeightFormat format) {
    auto const product = host_format(format).product;
    return product == HostProduct::integers || product == HostProduct::looked_up;
}

/// Whether products by a format round activations where the policy asks for it: those of whole numbers to int8, those of bf16 to
/// bf16.
[[nodiscard]] constexpr bool rounds_activations(WeightFormat format, ProductActivations activations) {
    switch (activations) {
        case ProductActivations::full:
            return false;
        case ProductActivations::int8:
            return host_format(format).product == HostProduct::integers;
        case ProductActivations::bf16:
            return format == WeightFormat::bf16;
    }
    return false;
}

}  // namespace detail

/// Whether products by a format take activations of eight bits under ProductActivations::int8; all others take them in full.
[[nodiscard]] constexpr bool has_int8_product(WeightFormat format) {
    return detail::rounds_activations(format, ProductActivations::int8);
}

/// Whether products by a format take activations of bf16 under ProductActivations::bf16; all others take them in full.
[[nodiscard]] constexpr bool has_bf16_product(WeightFormat format) {
    return detail::rounds_activations(format, ProductActivations::bf16);
}

/// Whether the host multiplies by a format; it refuses the others where a weight is held.
[[nodiscard]] constexpr bool has_host_product(WeightFormat format) {
    return detail::host_format(format).product != detail::HostProduct::refused;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
