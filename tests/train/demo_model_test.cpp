// SPDX-License-Identifier: Apache-2.0
#include <shardwise/core/files/text_file.hpp>
#include <shardwise/core/sha256.hpp>
#include <shardwise/model/files/checkpoint.hpp>
#include <shardwise/model/walk.hpp>
#include <shardwise/tokenizer/files/load_tokenizer.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <filesystem>
#include <string>

using namespace shardwise;

TEST_SUITE("large") {
    // share/shardwise/demo; scripts/make_demo_data.py made it.
    TEST_CASE(
        "demo model: its text has the tokens that tokenizers gives it, its sizes are what they were promised to be") {
        std::string const folder = SHARDWISE_SOURCE_DIR "/share/shardwise/demo";
        auto const source = find_model(folder + "/config.json", {}, HubCache(HubEnvironment{}));
        REQUIRE(source);
        auto const read = read_checkpoint(*source);
        REQUIRE(read);
        std::int64_t parameters = 0;
        walk_tensors(read->model.tree, [&](std::string_view name, Tensor const& tensor) {
            bool is_tied = false;
            for (auto const& tie : read->model.tree.ties()) is_tied = is_tied || tie.other == name;
            if (tensor.is_parameter() && !is_tied) parameters += tensor.shape.elements();
        });
        CHECK(parameters == 935'040);
        CHECK(parameters <= 1'100'000);
        std::uintmax_t bytes = 4 * static_cast<std::uintmax_t>(parameters);
        for (auto const& entry : std::filesystem::directory_iterator(folder)) {
            if (entry.path().extension() != ".safetensors") bytes += entry.file_size();
        }
        CHECK(bytes < 5'000'000);

        auto const whole = find_model(folder, {}, HubCache(HubEnvironment{}));
        REQUIRE(whole);
        auto const tokenizer = load_tokenizer(*whole);
        REQUIRE(tokenizer);
        CHECK(static_cast<std::int64_t>(tokenizer->tokenizer.size()) == read->model.config.vocab_size);
        auto const text = read_text_file(folder + "/shakespeare.txt", 1'300'000);
        REQUIRE(text);
        auto const ids = tokenizer->tokenizer.encode(*text);
        REQUIRE(ids);
        std::string words;
        for (auto const id : *ids) {
            words += static_cast<char>(id & 0xFF);
            words += static_cast<char>(id >> 8);
        }
        // By tokenizers 0.23.3: the ids as u16, little-endian.
        CHECK(ids->size() == 485'894);
        CHECK(sha256_hex(words) == "4a2a59b42895b74cbbe05b3b3273ac3dfd37449a21a65c5ed4767c17e3af5b84");
        CHECK(tokenizer->tokenizer.decode(*ids).value_or("") == *text);
    }
}
