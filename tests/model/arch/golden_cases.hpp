// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/architectures.hpp>
#include <shardwise/model/files/config_json.hpp>

#include <doctest/doctest.h>

#include "golden_tree.hpp"

#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

/// The golden configurations of tests/golden/families, each with the model that we make of it.
namespace golden {

struct Case {
    std::string name;
    std::string model_type;
};

inline std::string const folder = std::string(SHARDWISE_SOURCE_DIR) + "/tests/golden/";

/// The rows of families/index.tsv.
inline std::vector<Case> golden_cases() {
    std::ifstream file(folder + "families/index.tsv");
    std::vector<Case> cases;
    std::string line;
    std::getline(file, line);
    while (std::getline(file, line)) {
        std::istringstream columns(line);
        Case row;
        std::getline(columns, row.name, '\t');
        std::getline(columns, row.model_type, '\t');
        cases.push_back(row);
    }
    return cases;
}

inline bool is_registered(std::string const& model_type) {
    return shardwise::Architectures::with(model_type, [](auto) {});
}

inline Json read_golden(std::string const& name) {
    std::ifstream file(folder + "families/" + name + ".json");
    return Json::parse(file);
}

inline shardwise::Result<shardwise::Model> describe_case(Json const& golden) {
    auto const file = shardwise::read_config_file(folder + golden.at("config").get<std::string>());
    if (!file) return file.error();
    return shardwise::describe(file->config);
}

/// A golden file and the model that we make of its configuration.
struct DescribedCase {
    std::string name;
    Json golden;
    shardwise::Result<shardwise::Model> model;
};

/// Every case of a known family, read once per program: trees of thousands of experts take their time.
inline std::vector<DescribedCase> const& described_cases() {
    static auto const cases = [] {
        std::vector<DescribedCase> described;
        for (auto const& row : golden_cases()) {
            if (!is_registered(row.model_type)) continue;
            auto golden = read_golden(row.name);
            auto model = describe_case(golden);
            described.push_back({row.name, std::move(golden), std::move(model)});
        }
        return described;
    }();
    return cases;
}

/// Calls visit(golden file, our model) for every golden case.
template <class Visit>
void for_each_case(Visit visit) {
    for (auto const& described : described_cases()) {
        CAPTURE(described.name);
        REQUIRE_MESSAGE(described.model.has_value(), described.model.error().message());
        visit(described.golden, *described.model);
    }
}

}  // namespace golden
