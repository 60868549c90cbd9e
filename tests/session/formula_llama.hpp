#pragma once

#include <shardwise/model/files/checkpoint.hpp>

#include <doctest/doctest.h>

#include "../executor/formula.hpp"
#include "temporary_folder.hpp"

#include <optional>
#include <string>
#include <utility>

namespace shardwise::testing {

/// A small model whose weights are a formula.
struct FormulaModel {
    TemporaryFolder folder;
    ModelSource source;
    std::optional<Checkpoint> checkpoint;

    explicit FormulaModel(std::string const& config) {
        (void)folder.write("config.json", config);
        auto const only = find_model(folder / "config.json", {}, HubCache(HubEnvironment{}));
        REQUIRE(only);
        auto const described = read_checkpoint(*only);
        REQUIRE(described);
        write_formula_model(described->model, folder / "model.safetensors");
        source = *find_model(folder.path(), {}, HubCache(HubEnvironment{}));
        auto read = read_checkpoint(source);
        REQUIRE(read);
        checkpoint.emplace(std::move(*read));
    }
};

/// A small llama.
struct FormulaLlama : FormulaModel {
    explicit FormulaLlama(char const* sizes = R"("hidden_size":24,"intermediate_size":40,"num_attention_heads":4,)"
                                              R"("num_key_value_heads":2,"max_position_embeddings":64)")
        : FormulaModel(R"({"model_type":"llama","vocab_size":61,"num_hidden_layers":2,)"
                       R"("architectures":["LlamaForCausalLM"],)" +
                       std::string(sizes) + "}") {}
};

}  // namespace shardwise::testing
