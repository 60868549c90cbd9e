// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/tree_totals.hpp>

#include <doctest/doctest.h>

#include "golden_cases.hpp"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string>

using namespace shardwise;

namespace {

/// FNV-1a with 64 bits, as scripts/golden/random_configs.py writes it.
std::string fnv1a(golden::Lines const& lines) {
    std::uint64_t value = 0xCBF29CE484222325U;
    auto const take = [&](char letter) { value = (value ^ static_cast<unsigned char>(letter)) * 0x100000001B3U; };
    for (auto const& line : lines) {
        for (char const letter : line) take(letter);
        take('\n');
    }
    std::string digits(16, '0');
    for (std::size_t i = 16; i-- > 0; value >>= 4U) digits[i] = "0123456789abcdef"[value & 15U];
    return digits;
}

/// Everything that a case is compared by.
golden::Lines all_lines(ModuleTree const& tree) {
    auto lines = golden::lines_of(tree);
    golden::Lines ties;
    for (auto const& tie : tree.ties()) ties.push_back("T\t" + std::string(tie.first) + '\t' + std::string(tie.other));
    golden::Lines whole;
    for (auto const name : tree.no_split_classes()) whole.push_back("S\t" + std::string(name));
    std::sort(ties.begin(), ties.end());
    std::sort(whole.begin(), whole.end());
    lines.insert(lines.end(), ties.begin(), ties.end());
    lines.insert(lines.end(), whole.begin(), whole.end());
    return lines;
}

/// Compares every row of a file with the tree that we give; returns how many there were.
int compare_rows(std::string const& file_name) {
    std::ifstream file(golden::folder + file_name);
    std::string line;
    int cases = 0;
    while (std::getline(file, line)) {
        auto const row = golden::Json::parse(line);
        auto const name = row.at("case").get<std::string>();
        // On a difference: python scripts/golden/random_configs.py CASE (alias_configs.py CASE) prints what transformers has.
        CAPTURE(name);
        auto const config = read_config(row.at("config").dump(), name);
        REQUIRE_MESSAGE(config.has_value(), config.error().message());
        auto const model = describe(config->config);
        REQUIRE_MESSAGE(model.has_value(), model.error().message());
        auto const lines = all_lines(model->tree);
        CHECK(lines.size() == row.at("lines").get<std::size_t>());
        CHECK(count_parameters(model->tree) == row.at("parameters").get<std::int64_t>());
        CHECK(fnv1a(lines) == row.at("hash").get<std::string>());
        ++cases;
    }
    return cases;
}

}  // namespace

TEST_CASE("Random configurations of every family give the trees that transformers builds from them") {
    CHECK(compare_rows("random_configs.jsonl") >= 600);
}

TEST_CASE(
    "Values under second names of keys, and of keys that no constructor knows, give the trees that transformers builds "
    "from them") {
    CHECK(compare_rows("alias_configs.jsonl") == 59);
}
