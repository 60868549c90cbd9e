// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "dialect_cases.hpp"

#include <algorithm>
#include <fstream>
#include <map>
#include <string>

namespace {

using namespace shardwise;

using Map = std::map<std::string, std::string>;

Map as_map(DialectMap const& map) {
    Map out;
    for (auto const& entry : map.entries) out[entry.prefix] = device_key(entry.device);
    return out;
}

Map as_map(JsonValue object) {
    Map out;
    for (auto const entry : object) {
        out[std::string(entry.key())] =
            entry.is_string() ? std::string(*entry.string()) : std::to_string(*entry.integer());
    }
    return out;
}

Map budgets_of(DialectMap const& map) {
    Map out;
    for (auto const& device : map.devices) {
        if (device.budget) out[device_key(device.device)] = std::to_string(device.budget->count());
    }
    return out;
}

/// The first parameter that no entry of the map covers.
std::string uncovered_parameter(ExpandedTree const& tree, DialectMap const& map) {
    auto const entries = as_map(map);
    for (ExpandedTree::Index i = 0; i < tree.tensor_count(); ++i) {
        if (!tree.tensor(i).is_parameter()) continue;
        auto const path = tree.tensor_path(i);
        auto prefix = path;
        while (!prefix.empty() && entries.count(prefix) == 0) {
            auto const dot = prefix.rfind('.');
            prefix.resize(dot == std::string::npos ? 0 : dot);
        }
        if (prefix.empty() && entries.count("") == 0) return path;
    }
    return {};
}

template <class Infer>
void compare_all(std::string const& name, std::size_t cases, Infer infer) {
    std::ifstream file(std::string(SHARDWISE_SOURCE_DIR "/tests/golden/accelerate/") + name);
    REQUIRE(file.good());
    std::string line;
    std::string next_tree;
    std::string tree_text;
    std::size_t count = 0;
    while (std::getline(file, line) && std::getline(file, next_tree)) {
        ++count;
        if (!next_tree.empty()) tree_text = next_tree;  // an empty line: the same tree as before
        CAPTURE(line);
        CAPTURE(tree_text);
        auto const document = parse_json(line);
        REQUIRE(document);
        auto const source = read_tree(tree_text, "golden case");
        REQUIRE(source);
        auto const tree = expand(source->tree);
        REQUIRE(tree);
        auto const expect = document->root().find("expect");
        REQUIRE(expect);
        auto const map = infer(*tree, dialect_cases::read_question(document->root()));
        CHECK(uncovered_parameter(*tree, map) == "");
        if (auto const raises = expect->find("raises")) {
            bool const needs_repair = *raises->string() == "IndexError" || *raises->string() == "KeyError" ||
                                      *raises->string() == "ValueError";
            CHECK(map.is_repaired >= needs_repair);
            continue;
        }
        CHECK_FALSE(map.is_repaired);
        CHECK(as_map(map) == as_map(*expect->find("map")));
        CHECK(budgets_of(map) == as_map(*expect->find("budgets")));
        CHECK(dialect_cases::warns_of_buffers(map) == *expect->find("warns")->boolean());
    }
    CHECK(count == cases);
}

TEST_CASE("accelerate's maps come out equal on random trees, and valid where it raises") {
    compare_all("maps.jsonl", 600, [](ExpandedTree const& tree, dialect_cases::Question const& question) {
        return infer_accelerate_map(tree, question.max_memory, question.accelerate);
    });
}

TEST_CASE("accelerate's maps come out equal in every case of its own tests") {
    compare_all("own_tests.jsonl", 30, [](ExpandedTree const& tree, dialect_cases::Question const& question) {
        return infer_accelerate_map(tree, question.max_memory, question.accelerate);
    });
}

DialectMap infer_newest(ExpandedTree const& tree, dialect_cases::Question const& question) {
    return infer_transformers_map(tree, question.max_memory, question.transformers);
}

TEST_CASE("transformers' maps come out equal on random trees, and valid where it raises") {
    compare_all("transformers.jsonl", 250, infer_newest);
}

TEST_CASE("transformers' maps come out equal for models of real families and for its own regression case") {
    compare_all("families.jsonl", 216, infer_newest);
}

TEST_CASE("the maps of transformers 5.0 come out equal by its own rules") {
    compare_all("transformers_5_0.jsonl", 250, [](ExpandedTree const& tree, dialect_cases::Question const& question) {
        auto options = question.transformers;
        options.rules = TransformersRules::v5_0;
        return infer_transformers_map(tree, question.max_memory, options);
    });
}

}  // namespace
