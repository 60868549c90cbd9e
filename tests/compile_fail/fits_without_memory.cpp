// expect: failed
// expect: the model no longer fits
#include <shardwise/hardware/presets.hpp>
#include <shardwise/model/presets_llama.hpp>
#include <shardwise/placement/device_map.hpp>
#include <shardwise/placement/sequential.hpp>

using namespace shardwise;

// Not fitting is an answer: the assertion fails by its own text.
#ifdef SHARDWISE_FIXED
static_assert(!fits<Sequential>(presets::llama_3_70b, presets::three_a100_40gb, {.context = 8192}), "the model no longer fits");
#else
static_assert(fits<Sequential>(presets::llama_3_70b, presets::three_a100_40gb, {.context = 8192}), "the model no longer fits");
#endif
