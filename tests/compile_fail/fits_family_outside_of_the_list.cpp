// expect: family_is_not_in_the_list
#include <shardwise/hardware/presets.hpp>
#include <shardwise/placement/device_map.hpp>
#include <shardwise/placement/sequential.hpp>

using namespace shardwise;

constexpr ModelConfig config = [] {
    ModelConfig made;
    made.model_type = "mistral";
    made.dtype = Dtype::bf16;
    made.vocab_size = 32000;
    made.hidden_size = 4096;
    made.layers = 32;
    made.heads = 32;
    made.kv_heads = 8;
    made.intermediate_size = 14336;
    made.max_positions = 32768;
    return made;
}();

#ifdef SHARDWISE_FIXED
using Families = ArchitectureList<Llama, Mistral>;
#else
using Families = ArchitectureList<Llama>;
#endif
static_assert(fits<Sequential, Families>(config, presets::four_a100_40gb));
