// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/architectures.hpp>
#include <shardwise/model/files/gguf_numbers.hpp>
#include <shardwise/model/files/open_checkpoint.hpp>

#include <doctest/doctest.h>

#include <string>

using namespace shardwise;

// tests/golden/gguf/apertus-q8_0.gguf, by llama.cpp's converter (scripts/golden/gguf_checkpoints.py).
TEST_CASE("read_gguf_numbers: a list over layers becomes a number of each layer, and one of another length is refused") {
    auto const path = std::string(SHARDWISE_SOURCE_DIR "/tests/golden/gguf/apertus-q8_0.gguf");
    auto const source = find_model(path, {}, HubCache(HubEnvironment{}));
    REQUIRE(source);
    OpenCheckpoint files(*source);
    auto const opened = files.named_gguf();
    REQUIRE(opened);
    auto const& metadata = (*opened)->header.metadata;
    auto const numbers = read_gguf_numbers(metadata, &family_of<Apertus>, 2, "a.gguf");
    REQUIRE(numbers);
    REQUIRE(numbers->size() == 8);
    CHECK((*numbers)[1].name == "model.layers.1.mlp.act_fn.alpha_p");
    // As the converter printed them.
    CHECK((*numbers)[0].value == 0.03650428354740143F);
    CHECK((*numbers)[1].value == 0.10197846591472626F);
    CHECK((*numbers)[7].value == 0.004056066274642944F);
    for (auto const layers : {1, 3}) {
        auto const other = read_gguf_numbers(metadata, &family_of<Apertus>, layers, "a.gguf");
        REQUIRE(!other);
        CHECK(other.error().code() == ErrorCode::invalid_field);
        CHECK(other.error().place() == "xielu.alpha_p");
    }
    CHECK(read_gguf_numbers(metadata, &family_of<Llama>, 2, "a.gguf")->empty());
    CHECK(read_gguf_numbers(metadata, nullptr, 2, "a.gguf")->empty());
}
