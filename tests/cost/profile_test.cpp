// SPDX-License-Identifier: Apache-2.0
#include <shardwise/cost/profile_json.hpp>

#include <doctest/doctest.h>

#include "temporary_folder.hpp"

#include <string>
#include <string_view>

namespace {

using namespace shardwise;

constexpr std::string_view two_devices = R"({"schema": "shardwise.profile/1", "model": "llama-3-8b", "later": [1, {}],
 "devices": [
  {"device": "RTX4090", "batch": 2, "context": 512, "repeat": 20, "modules": {
    "model.embed_tokens": {"prefill": 4e-5, "decode": 0},
    "model.layers.0": {"prefill": 0.0123, "decode": 0.00041, "later": "x"}}},
  {"device": "cpu", "modules": {"model.layers.0": {"decode": 1}, "": {"prefill": 3, "decode": null}}}]})";

/// The document with `from` replaced, or appended to nothing.
std::string changed(std::string_view from, std::string_view to) {
    std::string text{two_devices};
    auto const at = text.find(from);
    REQUIRE(at != std::string::npos);
    return text.replace(at, from.size(), to);
}

struct Refusal {
    std::string_view from;
    std::string_view to;
    ErrorCode code;
    std::string_view says;
};

}  // namespace

TEST_CASE("read_profile: reads devices, conditions and both phases; what is not known is left out") {
    auto const profile = read_profile(two_devices, "p.json");
    REQUIRE(profile.has_value());
    CHECK(profile->model == "llama-3-8b");
    REQUIRE(profile->devices.size() == 2);
    auto const& first = profile->devices[0];
    CHECK(first.device == "RTX4090");
    CHECK(first.batch == 2);
    CHECK(first.context == 512);
    CHECK(first.repeat == 20);
    REQUIRE(first.modules.size() == 2);
    CHECK(first.modules[1].module == "model.layers.0");
    CHECK(first.modules[1].prefill == 0.0123);
    CHECK(first.modules[1].decode == 0.00041);
    auto const& second = profile->devices[1];
    CHECK(second.batch == 1);
    CHECK(second.repeat == 1);
    CHECK(second.modules[0].prefill < 0.0);
    CHECK(second.modules[1].decode < 0.0);
}

TEST_CASE("write_profile: what is written reads back the same") {
    auto const profile = read_profile(two_devices, "p.json");
    auto const text = write_profile(*profile);
    auto const again = read_profile(text, "again.json");
    REQUIRE(again.has_value());
    CHECK(write_profile(*again) == text);
    CHECK(again->devices[0].modules[1].decode == 0.00041);
}

TEST_CASE("read_profile: refusals name the file and the field") {
    Refusal const refusals[] = {
        {"shardwise.profile/1", "shardwise.profile/2", ErrorCode::unsupported, "schema: is of another version"},
        {"shardwise.profile/1", "shardwise.map/1", ErrorCode::invalid_field, "schema: is not that of a profile"},
        {R"("schema": "shardwise.profile/1",)", "", ErrorCode::missing_field, "schema: is missing"},
        {R"("model": "llama-3-8b")", R"("model": 3)", ErrorCode::invalid_field, "model: is no string"},
        {R"("devices": [)", R"("devices": [7,)", ErrorCode::invalid_field, "devices.0: is no JSON object"},
        {R"("devices": [)", R"("devices": [], "other": [)", ErrorCode::invalid_field, "devices: is empty"},
        {R"("devices": [)", R"("other": [)", ErrorCode::missing_field, "devices: is missing"},
        {R"("device": "cpu",)", "", ErrorCode::missing_field, "devices.1.device: is missing"},
        {R"("device": "cpu")", R"("device": "")", ErrorCode::invalid_field, "devices.1.device: is empty"},
        {R"("batch": 2)", R"("batch": 0)", ErrorCode::invalid_field, "devices.0.batch: is out of range (got 0)"},
        {R"("batch": 2)", R"("batch": 99999999999)", ErrorCode::invalid_field, "devices.0.batch: is out of range"},
        {R"("context": 512)", R"("context": 1.5)", ErrorCode::invalid_field, "devices.0.context: is no whole number"},
        {R"("repeat": 20)", R"("repeat": "20")", ErrorCode::invalid_field, "devices.0.repeat: is no whole number"},
        {R"({"decode": 1})", "0.5", ErrorCode::invalid_field, "devices.1.modules.model.layers.0: is not like"},
        {R"({"decode": 1})", "{}", ErrorCode::missing_field, "devices.1.modules.model.layers.0.decode: is missing"},
        {R"({"decode": 1})", R"({"decode": -1})", ErrorCode::invalid_field,
         "layers.0.decode: is not between 0 and 1000"},
        {R"({"decode": 1})", R"({"decode": 1e300})", ErrorCode::invalid_field, "is not between 0 and 1000 seconds"},
        {R"({"decode": 1})", R"({"decode": true})", ErrorCode::invalid_field, "is no number of seconds"},
        {R"({"decode": 1}, "": {"prefill": 3, "decode": null})", R"({"decode": 1}, "model.layers.0": {"decode": 2})",
         ErrorCode::malformed_file, "model.layers.0: occurs twice"},
        {R"({"model.layers.0": {"decode": 1}, "": {"prefill": 3, "decode": null}})", "{}", ErrorCode::invalid_field,
         "devices.1.modules: is empty"},
        {R"("later": [1, {}])", R"("later": [1, {])", ErrorCode::malformed_file, "is not JSON"},
    };
    for (auto const& refusal : refusals) {
        CAPTURE(refusal.to);
        auto const profile = read_profile(changed(refusal.from, refusal.to), "p.json");
        REQUIRE(!profile.has_value());
        CHECK(name_of(profile.error().code()) == name_of(refusal.code));
        auto const message = profile.error().message();
        CAPTURE(message);
        CHECK(message.find("p.json: ") == 0);
        CHECK(message.find(refusal.says) != std::string::npos);
    }
    CHECK(!read_profile("[]", "p.json").has_value());
    CHECK(!read_profile(changed("model.layers.0", std::string(600, 'a')), "p.json").has_value());
}

TEST_CASE("read_profile_file: a file that is missing or too large is named") {
    testing::TemporaryFolder const folder;
    CHECK(read_profile_file(folder.write("p.json", two_devices)).has_value());
    auto const absent = read_profile_file(folder.path() + "/none.json");
    REQUIRE(!absent.has_value());
    CHECK(absent.error().code() == ErrorCode::file_not_found);
    auto const large = read_profile_file(folder.write("large.json", std::string((std::size_t{16} << 20U) + 1, ' ')));
    REQUIRE(!large.has_value());
    CHECK(large.error().code() == ErrorCode::capacity_exceeded);
}
