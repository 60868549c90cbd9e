// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/files/checkpoint.hpp>

#include <doctest/doctest.h>

#include "../executor/formula.hpp"
#include "temporary_folder.hpp"

#include <string>

namespace shardwise::tests {

/// A small llama on disk, whose weights are a formula.
struct SmallLlama {
    testing::TemporaryFolder folder;

    explicit SmallLlama(std::string const& more = R"("max_position_embeddings":64,"eos_token_id":60)") {
        (void)folder.write("config.json",
                           R"({"model_type":"llama","vocab_size":61,"hidden_size":24,"intermediate_size":40,)"
                           R"("num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":2,)"
                           R"("architectures":["LlamaForCausalLM"],)" +
                               more + "}");
        auto const only = find_model(folder / "config.json", {}, HubCache(HubEnvironment{}));
        REQUIRE(only);
        auto const described = read_checkpoint(*only);
        REQUIRE(described);
        testing::write_formula_model(described->model, folder / "model.safetensors");
    }

    /// Gives it a tokenizer: each letter and digit is a token.
    void add_tokenizer() const {
        std::string const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ012345678";
        std::string vocabulary;
        for (std::size_t id = 0; id < letters.size(); ++id)
            vocabulary += (id == 0 ? "\"" : ",\"") + letters.substr(id, 1) + "\":" + std::to_string(id);
        (void)folder.write("tokenizer.json",
                           R"({"version":"1.0","added_tokens":[],"normalizer":null,"pre_tokenizer":null,)"
                           R"("post_processor":null,"decoder":{"type":"Fuse"},"model":{"type":"BPE","vocab":{)" +
                               vocabulary + R"(},"merges":[],"unk_token":"a"}})");
    }
};

}  // namespace shardwise::tests
