// SPDX-License-Identifier: Apache-2.0
#include <shardwise/op/rope_frequencies.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

using namespace shardwise;

namespace {

/// A line of tests/golden/rope_frequencies.txt.
struct Golden {
    std::string name;
    RopeParameters rope;
    RopeExtent extent;
    std::vector<double> short_factors;
    std::vector<double> long_factors;
    double attention_factor = 0.0;
    std::vector<double> frequencies;
};

std::vector<double> numbers(std::string const& text, char separator) {
    std::vector<double> values;
    std::istringstream stream(text);
    for (std::string word; std::getline(stream, word, separator);) {
        if (!word.empty()) values.push_back(std::strtod(word.c_str(), nullptr));
    }
    return values;
}

std::vector<Golden> golden() {
    std::map<std::string, RopeKind> const kinds{{"default", RopeKind::standard}, {"linear", RopeKind::linear},
                                                {"dynamic", RopeKind::dynamic},  {"llama3", RopeKind::llama3},
                                                {"yarn", RopeKind::yarn},        {"longrope", RopeKind::longrope}};
    std::ifstream file(std::string(SHARDWISE_SOURCE_DIR) + "/tests/golden/rope_frequencies.txt");
    std::vector<Golden> all;
    for (std::string line; std::getline(file, line);) {
        if (line.empty() || line[0] == '#') continue;
        auto const first = line.find(" | ");
        auto const second = line.find(" | ", first + 1);
        Golden row;
        std::istringstream words(line.substr(0, first));
        std::string kind;
        words >> row.name >> kind;
        row.rope.kind = kinds.at(kind);
        std::map<std::string, double*> const members{{"theta", &row.rope.theta},
                                                     {"factor", &row.rope.factor},
                                                     {"low_frequency_factor", &row.rope.low_frequency_factor},
                                                     {"high_frequency_factor", &row.rope.high_frequency_factor},
                                                     {"attention_factor", &row.rope.attention_factor},
                                                     {"beta_fast", &row.rope.beta_fast},
                                                     {"beta_slow", &row.rope.beta_slow},
                                                     {"mscale", &row.rope.mscale},
                                                     {"mscale_all_dim", &row.rope.mscale_all_dim},
                                                     {"partial_rotary_factor", &row.rope.partial_rotary_factor}};
        std::int64_t head_dim = 0;
        for (std::string word; words >> word;) {
            auto const key = word.substr(0, word.find('='));
            auto const values = numbers(word.substr(word.find('=') + 1), ',');
            auto const whole = static_cast<std::int64_t>(values[0]);
            if (key == "head_dim")
                head_dim = whole;
            else if (key == "max_positions")
                row.extent.max_positions = whole;
            else if (key == "sequence")
                row.extent.sequence = whole;
            else if (key == "original_max_positions")
                row.rope.original_max_positions = whole;
            else if (key == "truncates")
                row.rope.truncates = whole != 0;
            else if (key == "short_factor")
                row.short_factors = values;
            else if (key == "long_factor")
                row.long_factors = values;
            else {
                *members.at(key) = values[0];
                row.rope.has_factor = row.rope.has_factor || key == "factor";
            }
        }
        row.extent.rotary = rotary_elements(row.rope, head_dim);
        row.attention_factor = numbers(line.substr(first + 3, second - first - 3), ' ')[0];
        row.frequencies = numbers(line.substr(second + 3), ' ');
        all.push_back(std::move(row));
        all.back().extent.short_factors = all.back().short_factors;
        all.back().extent.long_factors = all.back().long_factors;
    }
    return all;
}

}  // namespace

TEST_CASE("rope_frequencies: are transformers' own for every method") {
    auto const cases = golden();
    REQUIRE(cases.size() == 17);
    for (auto const& row : cases) {
        CAPTURE(row.name);
        auto const got = rope_frequencies(row.rope, row.extent);
        REQUIRE(got);
        REQUIRE(got->per_pair.size() == row.frequencies.size());
        CHECK(got->attention_factor == static_cast<float>(row.attention_factor));
        // torch's power in float is within one unit in the last place, ours within half; the reciprocal and a product round
        // again. Where llama3 blends, a difference of the periods moves the blend, against a term that is `factor` smaller.
        auto const units = row.rope.kind == RopeKind::llama3 ? 2.0 * row.rope.factor : 4.0;
        int wrong = 0;
        for (std::size_t i = 0; i < row.frequencies.size(); ++i) {
            auto const difference = std::abs(static_cast<double>(got->per_pair[i]) - row.frequencies[i]);
            if (!(difference <= units * 0x1p-23 * row.frequencies[i])) ++wrong;
        }
        CHECK(wrong == 0);
    }
}

TEST_CASE("rope_frequencies: yarn falls back to its defaults where values are 0, and never divides by an empty ramp") {
    RopeParameters yarn{.kind = RopeKind::yarn, .factor = 4.0, .original_max_positions = 4096};
    auto const usual = rope_frequencies(yarn, {.rotary = 64});
    yarn.beta_fast = 0.0;
    yarn.beta_slow = 0.0;
    auto const same = rope_frequencies(yarn, {.rotary = 64});
    REQUIRE(usual);
    REQUIRE(same);
    CHECK(usual->per_pair == same->per_pair);
    yarn.beta_fast = yarn.beta_slow = 1e9;
    auto const empty = rope_frequencies(yarn, {.rotary = 2});
    REQUIRE(empty);
    CHECK(std::isfinite(empty->per_pair[0]));
    CHECK(yarn_magnitude(1.0) == 1.0);
    CHECK(yarn_magnitude(std::exp(1.0), 0.5) == doctest::Approx(1.05).epsilon(1e-12));
}

TEST_CASE("rope_frequencies: refuses what cannot be turned, and says which value") {
    auto const message = [](RopeParameters const& rope, RopeExtent const& extent) {
        auto const result = rope_frequencies(rope, extent);
        return result ? std::string{} : result.error().message();
    };
    CHECK(message({}, {.rotary = 7}) == "rope: rotary: the elements that turn are no pairs (got 7)");
    CHECK(message({.theta = 0.0}, {.rotary = 8}).find("theta") != std::string::npos);
    CHECK(message({.theta = std::nan("")}, {.rotary = 8}).find("theta") != std::string::npos);
    CHECK(message({.kind = RopeKind::unknown}, {.rotary = 8}).find("rope_type") != std::string::npos);
    CHECK(message({.kind = RopeKind::linear, .factor = 0.0}, {.rotary = 8}).find("factor") != std::string::npos);
    CHECK(message({.kind = RopeKind::dynamic, .factor = 2.0}, {.rotary = 8}).find("max_positions") !=
          std::string::npos);
    CHECK(message({.kind = RopeKind::dynamic}, {.rotary = 2, .max_positions = 9}).find("two pairs") !=
          std::string::npos);
    CHECK(message({.kind = RopeKind::llama3, .factor = 8.0}, {.rotary = 8}).find("original") != std::string::npos);
    CHECK(message({.kind = RopeKind::llama3, .low_frequency_factor = 4.5, .original_max_positions = 8}, {.rotary = 8})
              .find("high_frequency_factor") != std::string::npos);
    CHECK(message({.kind = RopeKind::yarn}, {.rotary = 8}).find("max_positions") != std::string::npos);
    CHECK(message({.kind = RopeKind::longrope}, {.rotary = 8, .max_positions = 4, .sequence = 5}) ==
          "rope: long_factor: needs a divisor per pair (got 0, expected 4)");
    CHECK(rope_frequencies({}, {})->per_pair.empty());
}
