// SPDX-License-Identifier: Apache-2.0
// A library that answers by its own version of shardwise and says nothing of it in its interface.
#include <shardwise/shardwise.hpp>

extern "C" char const* LIBRARY() {
    static std::string answer;
    auto const model = shardwise::describe(shardwise::presets::llama_3_8b);
    auto const estimate = shardwise::estimate_memory(*model, {.context = 8192});
    answer = std::to_string(SHARDWISE_VERSION_MAJOR) + ": " + shardwise::to_text(estimate->devices[0].terms.kv_cache);
    return answer.c_str();
}
