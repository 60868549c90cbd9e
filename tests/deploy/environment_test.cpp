// SPDX-License-Identifier: Apache-2.0
#include <shardwise/deploy/environment.hpp>

#include <doctest/doctest.h>

#include <string>

using namespace shardwise;

TEST_CASE("parse_environment: takes names, and values that say no secret") {
    CHECK(parse_environment("HF_TOKEN")->value == std::nullopt);
    for (auto const* const text :
         {"NCCL_DEBUG=INFO", "MAX_TOKENS=4096", "TOKENIZERS_PARALLELISM=false", "EMPTY=", "A=b=c", "SORT_KEY=true",
          "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", "HF_ENDPOINT=https://hub.example/x",
          "P=/opt/a1/b2/c3/d4/e5/f6"}) {
        auto const entry = parse_environment(text);
        REQUIRE_MESSAGE(entry.has_value(), text);
        CHECK(entry->name + "=" + *entry->value == text);
    }
}

TEST_CASE("parse_environment: refuses values that look like secrets and never repeats them") {
    for (auto const* const text :
         {"HF_TOKEN=canary", "hf_token=canary", "X=hf_canaryCANARY", "OPENAI_API_KEY=canary7", "X=sk-canary", "PASS=canary",
          "X=https://me:canary@host/", "X=eyJcanary", "X=canaryCANARY0123456789", "canary-no-name", "hf_canaryCANARY",
          "=canary", "1X=canary", "DB_PASSWORD=canary", "X=AKIAcanary"}) {
        auto const entry = parse_environment(text);
        REQUIRE_FALSE_MESSAGE(entry.has_value(), text);
        CHECK(entry.error().code() == ErrorCode::invalid_argument);
        CHECK_MESSAGE(entry.error().message().find("canary") == std::string::npos, entry.error().message());
    }
    CHECK(parse_environment("HF_TOKEN=x").error().message().find("write --env HF_TOKEN") != std::string::npos);
}
