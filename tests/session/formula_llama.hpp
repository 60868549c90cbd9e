// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/session/generation.hpp>

#include "../executor/formula_model.hpp"

#include <string>
#include <vector>

namespace shardwise::testing {

/// A small llama.
struct FormulaLlama : FormulaModel {
    explicit FormulaLlama(char const* sizes = R"("hidden_size":24,"intermediate_size":40,"num_attention_heads":4,)"
                                              R"("num_key_value_heads":2,"max_position_embeddings":64)")
        : FormulaModel(R"({"model_type":"llama","vocab_size":61,"num_hidden_layers":2,)"
                       R"("architectures":["LlamaForCausalLM"],)" +
                       std::string(sizes) + "}") {}
};

/// Two prompts of its tokens.
[[nodiscard]] inline std::vector<GenerationRequest> two_requests() {
    GenerationRequest first;
    first.prompt = {5, 9, 2};
    first.max_new_tokens = 8;
    GenerationRequest second;
    second.prompt = {30, 31, 7, 7};
    second.max_new_tokens = 6;
    return {first, second};
}

}  // namespace shardwise::testing
