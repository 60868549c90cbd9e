// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>

#include "formula_model.hpp"
#include "golden_json.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

/// Small models of many families, and what transformers computes with them.
namespace shardwise::testing {

/// What transformers computes with one small model.
struct GoldenCase {
    std::string name;
    std::string config;
    std::vector<std::int32_t> ids;
    /// After so many tokens, the logits.
    std::vector<std::pair<std::int64_t, std::vector<float>>> logits;
    std::uint64_t seed = 0;
};

/// The cases of one file of tests/golden/executor/.
inline void read_golden_cases(std::string const& name, std::vector<GoldenCase>& out) {
    auto const document = golden_json("executor/" + name + ".json");
    for (auto const entry : document.root()) {
        GoldenCase one{std::string(entry.key()), std::string(*entry.find("config")->string()), {}, {}};
        if (auto const seed = entry.find("seed")) one.seed = static_cast<std::uint64_t>(*seed->integer());
        auto const ids = entry.find("ids");
        auto const logits = entry.find("logits");
        for (auto const id : *ids) one.ids.push_back(static_cast<std::int32_t>(*id.integer()));
        for (auto const row : *logits) {
            one.logits.push_back({std::stoll(std::string(row.key())), {}});
            for (auto const value : row) one.logits.back().second.push_back(static_cast<float>(*value.real()));
        }
        out.push_back(std::move(one));
    }
}
[[nodiscard]] inline std::vector<GoldenCase> const& golden_cases() {
    static std::vector<GoldenCase> const cases = [] {
        std::vector<GoldenCase> out;
        for (auto const* const name : {"logits", "latent", "scaled", "classic", "experts"})
            read_golden_cases(name, out);
        return out;
    }();
    return cases;
}

/// The largest difference between values that should be equal.
[[nodiscard]] inline double worst(std::vector<float> const& got, std::vector<float> const& expected) {
    double most = got.size() == expected.size() ? 0.0 : 1e9;
    for (std::size_t i = 0; i < got.size() && i < expected.size(); ++i)
        most = std::max(most, std::abs(static_cast<double>(got[i]) - static_cast<double>(expected[i])));
    return most;
}

}  // namespace shardwise::testing
