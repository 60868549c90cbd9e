// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>

#include "golden_json.hpp"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

/// Small models of an encoder and a decoder, and what transformers makes with them.
namespace shardwise::testing {

/// An encoder and its decoder: what follows the last token of each target, as transformers has it.
struct Translation {
    std::string name, config;
    std::uint64_t seed = 0;
    std::vector<std::vector<std::int32_t>> sources, targets;
    std::vector<float> logits;
    /// What transformers generates greedily of each source, the token that ends it included.
    std::vector<std::vector<std::int32_t>> tokens;
};

[[nodiscard]] inline std::vector<Translation> translations() {
    auto const document = golden_json("executor/seq2seq.json");
    std::vector<Translation> out;
    for (auto const entry : document.root()) {
        Translation one;
        one.name = entry.key();
        one.config = *entry.find("config")->string();
        one.seed = static_cast<std::uint64_t>(*entry.find("seed")->integer());
        auto const read = [&](char const* key, std::vector<std::vector<std::int32_t>>& to) {
            auto const lists = entry.find(key);
            for (auto const list : *lists) {
                to.emplace_back();
                for (auto const id : list) to.back().push_back(static_cast<std::int32_t>(*id.integer()));
            }
        };
        read("sources", one.sources);
        read("targets", one.targets);
        read("tokens", one.tokens);
        auto const logits = entry.find("logits");
        for (auto const row : *logits)
            for (auto const value : row) one.logits.push_back(static_cast<float>(*value.real()));
        out.push_back(std::move(one));
    }
    return out;
}

}  // namespace shardwise::testing
