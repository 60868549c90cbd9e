// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What share of a device's or a link's peak real programs reach: one set of constants for every model, device and
/// plan.
///
/// Source  calibrated against the rows of bench/bench_cost.cpp that it does not hold out, then rounded; what stands
///         beside a constant is where its order of magnitude is known from besides
struct Efficiency {
    /// Of peak arithmetic, by a matrix product.
    double product = 0.75;
    /// Of a product's rate, what blocked attention reaches.
    ///
    /// Source  FlashAttention-2 (arXiv 2307.08691), abstract: 50 to 73 % of an A100's peak; FlashAttention-3 (arXiv
    ///         2407.08608), abstract: 35 % of an H100's
    double attention = 0.45;
    /// Of peak bandwidth, by a kernel that streams weights or the cache.
    ///
    /// Source  gpt-fast's README: an A100 of 2039 GB/s gives about 1700
    double memory = 0.85;
    /// Of that, by norms, activations and additions: short kernels, and values that are kept in 32 bits on the way.
    double vectors = 0.4;
    /// Of the shorter of arithmetic and memory, what the longer one does not hide: tiles that wait for their operands.
    double unhidden = 0.1;
    /// Operations of the vector units for each packed weight that no matrix unit takes as it is.
    double unpack_operations = 3.5;
    /// Of a link's bandwidth in one direction, by a collective or a message.
    double link = 0.7;
    /// Of a gradient's reduction and of ZeRO's gathers, what overlaps with the arithmetic.
    double overlap = 0.4;
    /// From one kernel's end to the next one's work, with launches queued or captured.
    double kernel_seconds = 3.5e-6;
    /// Of a step: sampling, scheduling, the host's part.
    double step_seconds = 100e-6;
};

inline constexpr Efficiency default_efficiency{};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
