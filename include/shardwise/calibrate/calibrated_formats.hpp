// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/hardware/device.hpp>
#include <shardwise/quant/weight_format.hpp>

#include <array>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A format whose products are measured, and what a description calls their rate.
struct CalibratedFormat {
    WeightFormat format;
    double PeakRates::*rate;
};
inline constexpr std::array<CalibratedFormat, 6> calibrated_formats{{{WeightFormat::f32, &PeakRates::fp32},
                                                                     {WeightFormat::bf16, &PeakRates::bf16},
                                                                     {WeightFormat::f16, &PeakRates::fp16},
                                                                     {WeightFormat::int8, &PeakRates::int8},
                                                                     {WeightFormat::int4, &PeakRates::int4},
                                                                     {WeightFormat::mxfp4, &PeakRates::fp4}}};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
