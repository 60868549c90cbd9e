// SPDX-License-Identifier: Apache-2.0
// The compiler decides whether the model fits: a wrong deployment does not build.
#include <shardwise/shardwise.hpp>

#include <cstdio>

namespace {

using namespace shardwise;

constexpr EstimateRequest bf16{.context = 8192};
constexpr EstimateRequest int4{.quant = QuantScheme::int4(), .context = 8192};

static_assert(fits<Sequential>(presets::llama_3_70b, presets::four_a100_40gb, bf16));
static_assert(!fits<Sequential>(presets::llama_3_70b, presets::three_a100_40gb, bf16));
static_assert(!fits<Sequential>(presets::llama_3_70b, presets::four_rtx4090, bf16));
static_assert(fits<Balanced>(presets::llama_3_70b, presets::four_rtx4090, int4));

// Estimates are constants, too.
constexpr Bytes llama_70b_cache = MemoryEstimator<Llama>::estimate(presets::llama_3_70b, bf16)->terms.kv_cache;
static_assert(llama_70b_cache == 8192 * Bytes{327'680});

}  // namespace

int main() {
    std::printf("checked by the compiler; the 8k cache takes %s\n", to_text(llama_70b_cache).c_str());
}
