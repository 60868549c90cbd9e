#pragma once

#include <shardwise/model/architectures.hpp>
#include <shardwise/model/files/config_json.hpp>

#include <doctest/doctest.h>

#include "golden_tree.hpp"

#include <fstream>
#include <sstream>
#include <string>
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

/// Calls visit(golden file, our model) for every golden case.
template <class Visit>
void for_each_case(Visit visit) {
    for (auto const& row : golden_cases()) {
        if (!is_registered(row.model_type)) continue;
        CAPTURE(row.name);
        auto const golden = read_golden(row.name);
        auto const model = describe_case(golden);
        REQUIRE_MESSAGE(model.has_value(), model.error().message());
        visit(golden, *model);
    }
}

}  // namespace golden
