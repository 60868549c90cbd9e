// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/tokenizer/files/tokenizer_json.hpp>

#include <doctest/doctest.h>

#include <string>
#include <utility>

namespace shardwise::testing {

/// A tokenizer whose 61 tokens are letters.
[[nodiscard]] inline Tokenizer letters() {
    std::string const all = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ012345678";
    std::string vocabulary;
    for (std::size_t id = 0; id < all.size(); ++id)
        vocabulary += (id == 0 ? "\"" : ",\"") + all.substr(id, 1) + "\":" + std::to_string(id);
    auto tokenizer = parse_tokenizer_json(R"({"version":"1.0","added_tokens":[],"decoder":{"type":"Fuse"},"model":)"
                                          R"({"type":"BPE","vocab":{)" +
                                              vocabulary + R"(},"merges":[],"unk_token":"a"}})",
                                          "letters");
    REQUIRE(tokenizer);
    return *std::move(tokenizer);
}

}  // namespace shardwise::testing
