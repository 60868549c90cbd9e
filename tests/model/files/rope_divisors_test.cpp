// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/files/rope_divisors.hpp>

#include <doctest/doctest.h>

#include "temporary_folder.hpp"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace {

using namespace shardwise;

Result<RopeDivisors> read(std::string const& config) {
    testing::TemporaryFolder folder;
    (void)folder.write("config.json", config);
    ModelSource source;
    source.config = folder / "config.json";
    OpenCheckpoint files(source);
    return read_rope_divisors(files);
}

TEST_CASE("read_rope_divisors: longrope's lists, also of a part; nothing where there are none") {
    auto const plain = read(R"({"rope_scaling":{"type":"longrope","short_factor":[1,1.5],"long_factor":[2,9.25]}})");
    REQUIRE(plain);
    CHECK(plain->short_context == std::vector<double>{1.0, 1.5});
    CHECK(plain->long_context == std::vector<double>{2.0, 9.25});
    auto const part = read(R"({"text_config":{"rope_parameters":{"long_factor":[3]}}})");
    REQUIRE(part);
    CHECK(part->short_context.empty());
    CHECK(part->long_context == std::vector<double>{3.0});
    auto const none = read(R"({"rope_scaling":null})");
    REQUIRE(none);
    CHECK(none->long_context.empty());
    OpenCheckpoint nothing{ModelSource{}};
    REQUIRE(read_rope_divisors(nothing));
}

TEST_CASE("read_rope_divisors: a list of anything but numbers above 0 is refused by name") {
    for (std::string const list : {"[1,0]", "[-1]", "[\"1\"]", "[null]"}) {
        auto const got = read(R"({"rope_scaling":{"long_factor":)" + list + "}}");
        REQUIRE_FALSE(got);
        CHECK(got.error().code() == ErrorCode::invalid_field);
        CHECK(got.error().message().find("rope_scaling.long_factor") != std::string::npos);
    }
}

TEST_CASE("RopeDivisors: takes the tensors that llama.cpp writes, and no others") {
    RopeDivisors divisors;
    std::vector<float> const values{1.0F, 8.0F, 32.0F};
    auto const data = std::as_bytes(std::span(values));
    CHECK(divisors.take("rope_freqs.weight", data));
    CHECK(divisors.take("rope_factors_short.weight", data.first(4)));
    CHECK(divisors.take("rope_factors_long.weight", data.subspan(4)));
    CHECK_FALSE(divisors.take("output.weight", data));
    CHECK(divisors.any_context == std::vector<double>{1.0, 8.0, 32.0});
    CHECK(divisors.short_context == std::vector<double>{1.0});
    CHECK(divisors.long_context == std::vector<double>{8.0, 32.0});
    std::vector<float> frequencies{1.0F, 0.5F, 0.25F};
    REQUIRE(divisors.divide(frequencies));
    CHECK(frequencies == std::vector<float>{1.0F, 0.0625F, 0.0078125F});
    CHECK(divisors.divide(std::span(frequencies).first(2)).error().code() == ErrorCode::shape_mismatch);
    divisors.any_context[1] = 0.0;
    CHECK(divisors.divide(frequencies).error().code() == ErrorCode::invalid_field);
    CHECK(RopeDivisors{}.divide(frequencies));
}

}  // namespace
