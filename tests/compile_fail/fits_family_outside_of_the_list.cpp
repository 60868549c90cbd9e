// expect: family_is_not_in_the_list
#include <shardwise/hardware/presets.hpp>
#include <shardwise/placement/device_map.hpp>
#include <shardwise/placement/sequential.hpp>

using namespace shardwise;

constexpr ModelConfig config = [] {
    ModelConfig config;
    config.model_type = "mistral";
    config.dtype = Dtype::bf16;
    config.vocab_size = 32000;
    config.hidden_size = 4096;
    config.layers = 32;
    config.heads = 32;
    config.kv_heads = 8;
    config.intermediate_size = 14336;
    config.max_positions = 32768;
    return config;
}();

#ifdef SHARDWISE_FIXED
using Families = ArchitectureList<Llama, Mistral>;
#else
using Families = ArchitectureList<Llama>;
#endif
static_assert(fits<Sequential, Families>(config, presets::four_a100_40gb));
