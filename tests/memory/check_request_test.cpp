// SPDX-License-Identifier: Apache-2.0
#include <shardwise/memory/check_request.hpp>

#include <doctest/doctest.h>

#include <string>

using namespace shardwise;

namespace {

ModelConfig config_of(std::int64_t experts = 0) {
    ModelConfig config;
    config.heads = 32;
    config.experts = experts;
    config.max_positions = 4096;
    return config;
}

std::string refusal(EstimateRequest const& request, std::int64_t experts = 0) {
    auto const checked = check_request(request, config_of(experts), 24);
    return checked ? "" : checked.error().message();
}

}  // namespace

TEST_CASE("request: a tensor-parallel degree up to the query heads is legal, whether it divides or not") {
    CHECK(refusal({.parallel = {.tp = 32}}) == "");
    CHECK(refusal({.parallel = {.tp = 7}}) == "");
    CHECK(refusal({.parallel = {.tp = 33}}) ==
          "tp: is more than the model has query heads (got 33, expected at most 32); legal are 1 to the number of query heads, "
          "whether they divide or not");
}

TEST_CASE("request: stages are no more than layers") {
    CHECK(refusal({.parallel = {.pp = 24}}) == "");
    CHECK(refusal({.parallel = {.pp = 25}}) ==
          "pp: is more than the model has layers (got 25, expected at most 24); legal are 1 to the number of layers");
}

TEST_CASE("request: expert parallelism needs experts") {
    CHECK(refusal({.parallel = {.ep = 8}}, 8) == "");
    CHECK(refusal({.parallel = {.ep = 3}}, 8) == "");
    CHECK(refusal({.parallel = {.ep = 9}}, 8) ==
          "ep: is more than the model has experts (got 9, expected at most 8); legal are 1 to the number of experts");
    CHECK(refusal({.parallel = {.ep = 2}}) ==
          "ep: splits experts, and the model has none (got 2, expected at most 1); legal is 1; tp splits dense layers");
}

TEST_CASE("request: degrees, batch and context below 1 are refused") {
    CHECK(refusal({.batch = 0}) != "");
    CHECK(refusal({.context = -1}) != "");
    CHECK(refusal({.parallel = {.tp = 0}}) != "");
    CHECK(refusal({.parallel = {.pp = -1}}) != "");
    CHECK(refusal({.parallel = {.ep = 0}}) != "");
    CHECK(refusal({.parallel = {.dp = 0}}) != "");
}

TEST_CASE("request: what would overflow is refused, not computed") {
    CHECK(refusal({.batch = INT64_MAX, .context = INT64_MAX}).find("more tokens than") != std::string::npos);
    CHECK(refusal({.batch = INT64_MAX}).find("more tokens than") != std::string::npos);
    CHECK(refusal({.context = max_tokens}) == "");
    CHECK(refusal({.parallel = {.dp = INT64_MAX}}).find("more ranks than") != std::string::npos);
    CHECK(refusal({.parallel = {.tp = 32, .pp = 24, .dp = 1000}}).find("more ranks than") != std::string::npos);
}

TEST_CASE("request: a context beyond the model's maximum is legal here") {
    CHECK(refusal({.context = 1'000'000}) == "");
}

TEST_CASE("request: training is checked too") {
    CHECK(refusal({.training = TrainingPlan{.zero = 9}}) != "");
    CHECK(refusal({.dtype = Dtype::f8_e4m3, .training = TrainingPlan{}}).find("packed weights") != std::string::npos);
}
