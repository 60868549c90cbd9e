// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/parallel/weight_slice.hpp>

#include "parallel_cases.hpp"

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace shardwise::testing {

/// Random bytes of every format that decode to finite numbers, with bytes that cannot be told from the format's own.
struct Stored {
    std::vector<std::byte> data;
    std::vector<std::byte> scales;
    WeightSource source;

    Stored(WeightFormat format, std::int64_t outputs, std::int64_t inputs) {
        std::mt19937 random(static_cast<unsigned>(format) + 1U);
        source = {.format = format, .outputs = outputs, .inputs = inputs, .data = {}, .scales = {}};
        if (format == WeightFormat::int4) source.group = 32;
        data.resize(index(outputs * detail::data_bytes(format, inputs)));
        // Low bytes: no exponent that leaves the finite numbers, whatever they are read as.
        for (auto& byte : data) byte = static_cast<std::byte>(random() % 0x38U);
        auto const row_scales = detail::scale_bytes(format, inputs, source.group);
        scales.resize(index(outputs * row_scales));
        for (auto& byte : scales) byte = static_cast<std::byte>(random() % 0x38U);
        source.data = data;
        source.scales = scales;
    }
};

inline constexpr WeightFormat all_weight_formats[] = {
    WeightFormat::f32,  WeightFormat::bf16,  WeightFormat::f16,  WeightFormat::int8, WeightFormat::int4,
    WeightFormat::nf4,  WeightFormat::mxfp4, WeightFormat::q4_0, WeightFormat::q4_1, WeightFormat::q5_0,
    WeightFormat::q5_1, WeightFormat::q8_0,  WeightFormat::q4_k, WeightFormat::q5_k, WeightFormat::q6_k};

}  // namespace shardwise::testing
