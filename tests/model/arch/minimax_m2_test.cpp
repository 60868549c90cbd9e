// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/check_model.hpp>
#include <shardwise/model/files/config_json.hpp>
#include <shardwise/model/tree_totals.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <utility>

using namespace shardwise;

// sum(p.numel()) of what transformers 5.23.0 builds from these configurations on the meta device.
TEST_CASE("MiniMaxM2: as many parameters as transformers 5 counts; tree and program fit each other") {
    for (auto const& [name, parameters] :
         {std::pair{"minimax-m2", std::int64_t{228'689'748'992}}, std::pair{"small-minimax_m2", std::int64_t{34'364}},
          std::pair{"small-minimax_m2-tied", std::int64_t{35'400}},
          std::pair{"small-minimax_m2-model", std::int64_t{17'200}}}) {
        std::string const model_name(name);  // clang 14 captures no structured binding
        CAPTURE(model_name);
        auto const file =
            read_config_file(std::string(SHARDWISE_SOURCE_DIR "/tests/golden/configs/") + model_name + ".json");
        REQUIRE_MESSAGE(file, (file ? "" : file.error().message()));
        auto const model = describe(file->config);
        REQUIRE_MESSAGE(model, (model ? "" : model.error().message()));
        CHECK(count_parameters(model->tree) == parameters);
        auto const checked = check_model(*model);
        CHECK_MESSAGE(checked, (checked ? "" : checked.error().message()));
    }
}

TEST_CASE("MiniMaxM2: rotary_dim says how much of a head rotates, else partial_rotary_factor, else all does") {
    auto const rotates = [](std::string const& more) {
        auto const file = read_config(R"({"model_type": "minimax_m2", "head_dim": 16)" + more + "}", "config.json");
        REQUIRE_MESSAGE(file, (file ? "" : file.error().message()));
        return describe(file->config)->config.rotary_dim;
    };
    CHECK(rotates("") == 16);
    CHECK(rotates(R"(, "rotary_dim": 4)") == 4);
    CHECK(rotates(R"(, "rope_parameters": {"rope_type": "default", "rope_theta": 5e6, "partial_rotary_factor": 0.5})") ==
          8);
    CHECK(!read_config(R"({"model_type": "minimax_m2", "head_dim": 16, "rotary_dim": 18})", "config.json"));
}
