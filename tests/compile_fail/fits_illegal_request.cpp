// expect: request_is_not_legal
#include <shardwise/hardware/presets.hpp>
#include <shardwise/model/presets_llama.hpp>
#include <shardwise/placement/device_map.hpp>
#include <shardwise/placement/sequential.hpp>

using namespace shardwise;

#ifdef SHARDWISE_FIXED
constexpr EstimateRequest request{.batch = 3};
#else
constexpr EstimateRequest request{.batch = -3};
#endif
static_assert(fits<Sequential>(presets::llama_3_70b, presets::four_a100_40gb, request));
