// expect: GivesBlockProgram
#include <shardwise/model/arch/llama.hpp>

struct Treelike {
    static constexpr std::string_view name = "treelike";
    static constexpr std::string_view gguf_name = "treelike";
    static constexpr auto fields = shardwise::Llama::fields;
    static constexpr auto aliases = shardwise::Llama::aliases;
    static constexpr shardwise::Result<> complete(shardwise::ModelConfig& config) { return shardwise::Llama::complete(config); }
    static constexpr shardwise::ModuleTree tree(shardwise::ModelConfig const& config) { return shardwise::Llama::tree(config); }
#ifdef SHARDWISE_FIXED
    static constexpr shardwise::BlockProgram program(shardwise::ModelConfig const& config, shardwise::ModuleTree const& tree) {
        return shardwise::Llama::program(config, tree);
    }
#endif
};

static_assert(shardwise::ModelArchitecture<Treelike>);
