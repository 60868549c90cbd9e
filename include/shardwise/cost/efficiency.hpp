#pragma once

namespace shardwise::inline v0 {

/// What share of a device's or a link's peak real programs reach: one set of constants for every model, device and plan.
///
/// Source  calibrated against the published rows that bench/bench_cost.cpp marks as used, one set for all of them; each
///         constant's order of magnitude from what stands beside it
struct Efficiency {
    /// Of peak arithmetic, by a large matrix product.
    double product = 0.75;
    /// Rows (and columns, and summands) of a product that reaches half of that: tiles and pipelines that are not full.
    double half_extent = 128.0;
    /// Of a product's rate, what blocked attention reaches.
    ///
    /// Source  FlashAttention-2 (arXiv 2307.08691), figure 4: 50 to 73 % of an A100's peak forwards
    double attention = 0.7;
    /// Of peak bandwidth, by a kernel that streams weights, activations or the cache.
    double memory = 0.85;
    /// Of a link's bandwidth in one direction, by a collective or a message.
    double link = 0.75;
    /// Of a gradient's reduction, and of ZeRO's gathers, what runs behind the arithmetic at best.
    double overlap = 0.7;
    /// From one kernel's end to the next one's work, once launches are queued.
    double kernel_seconds = 3e-6;
    /// Of a step: sampling, scheduling, the host's part.
    double step_seconds = 200e-6;
};

inline constexpr Efficiency default_efficiency{};

}  // namespace shardwise::inline v0
