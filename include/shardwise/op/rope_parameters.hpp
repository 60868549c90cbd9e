// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The scaled-RoPE methods of transformers' `rope_scaling`; `unknown` is one that has a name but no description here.
enum class RopeKind : std::uint8_t { standard, linear, dynamic, llama3, yarn, longrope, unknown };

/// How positions are rotated; sizes do not depend on it, the executor does.
struct RopeParameters {
    RopeKind kind = RopeKind::standard;
    bool is_given = false;  // a config names the method, or says null for none
    double theta = 10000.0;
    double local_theta = 0.0;  // gemma3: sliding layers
    double factor = 1.0;
    bool has_factor = false;  // longrope: a config says it; else it is the context by the original one
    double alpha = 0.0;       // as configs have it
    bool has_alpha = false;   // hunyuan's dynamic: alpha stretches theta, whatever the sequence
    double low_frequency_factor = 1.0;
    double high_frequency_factor = 4.0;
    double attention_factor = 0.0;  // 0: derived from the others
    double beta_fast = 32.0;
    double beta_slow = 1.0;
    double mscale = 0.0;          // yarn; 0: absent
    double mscale_all_dim = 0.0;  // yarn; 0: absent
    double short_mscale = 0.0;    // phimoe: multiplies cosine and sine up to the original context; 0: absent
    double long_mscale = 0.0;     // and beyond it
    bool truncates = true;        // yarn: the ramp begins and ends at whole pairs
    double partial_rotary_factor = 1.0;
    std::int64_t original_max_positions = 0;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
