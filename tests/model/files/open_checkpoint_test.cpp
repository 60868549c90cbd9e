// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/files/checkpoint.hpp>
#include <shardwise/model/files/end_tokens.hpp>
#include <shardwise/model/files/open_checkpoint.hpp>
#include <shardwise/model/files/rope_divisors.hpp>

#include <doctest/doctest.h>

#include "checkpoint_fixtures.hpp"
#include "opened_files.hpp"

#include <filesystem>
#include <string>
#include <type_traits>
#include <utility>

namespace {

using namespace shardwise;
using namespace shardwise::testing;

static_assert(std::is_move_constructible_v<OpenCheckpoint> && !std::is_copy_constructible_v<OpenCheckpoint>);

OpenCheckpoint open(std::string const& path) {
    auto source = find_model(path, {}, HubCache(HubEnvironment{}));
    REQUIRE_MESSAGE(source, (source ? "" : source.error().message()));
    return OpenCheckpoint(*std::move(source));
}
/// Everything that reads what describes a model.
void read_all(OpenCheckpoint& files) {
    auto const checkpoint = read_checkpoint(files);
    REQUIRE_MESSAGE(checkpoint, (checkpoint ? "" : checkpoint.error().message()));
    CHECK(end_tokens(files));
    CHECK(begin_token(files));
    CHECK(read_rope_divisors(files));
}

}  // namespace

TEST_CASE("OpenCheckpoint: each file of a folder is opened once, whoever reads it and how often") {
    TemporaryFolder const folder;
    write_model(folder, tiny_tensors());
    folder.write("generation_config.json", R"({"eos_token_id":[5,6]})");
    OpenedFile const config(folder / "config.json");
    OpenedFile const generation(folder / "generation_config.json");
    OpenedFile const weights(folder / "model.safetensors");
    REQUIRE(config.is_watched());
    auto files = open(folder.path());
    CHECK(config.count() + generation.count() + weights.count() == 0);
    read_all(files);
    read_all(files);
    CHECK(*end_tokens(files) == std::vector<std::int32_t>{5, 6});
    CHECK(config.count() == 1);
    CHECK(generation.count() == 1);
    CHECK(weights.count() == 1);
    // Opened for each, they are read again.
    for (int i = 0; i < 2; ++i) CHECK(read_checkpoint(files.source()));
    CHECK(config.count() == 2);
    CHECK(weights.count() == 2);
}

TEST_CASE("OpenCheckpoint: a GGUF file is opened once, and what was read is there when its name has gone") {
    TemporaryFolder const folder;
    auto const path = folder / "model.gguf";
    std::filesystem::copy_file(SHARDWISE_SOURCE_DIR "/tests/golden/checkpoints/mixtral/model.gguf", path);
    auto files = open(path);
    OpenedFile const file(path);
    REQUIRE(file.is_watched());
    CHECK(files.named_gguf());
    read_all(files);
    CHECK(file.count() == 1);
    std::filesystem::remove(path);
    auto moved = std::move(files);
    read_all(moved);
    CHECK(read_checkpoint(moved.source()).error().code() == ErrorCode::file_not_found);
}

TEST_CASE("OpenCheckpoint: what nobody asks for may be broken or absent, and what failed is read again") {
    TemporaryFolder const folder;
    write_model(folder, tiny_tensors());
    folder.write("model.safetensors", "broken");
    auto files = open(folder.path());
    CHECK(end_tokens(files)->empty());
    CHECK(read_rope_divisors(files));
    CHECK(files.generation_config().value() == nullptr);
    CHECK(read_checkpoint(files).error().code() == ErrorCode::malformed_file);
    write_model(folder, tiny_tensors());
    CHECK(read_checkpoint(files));

    std::filesystem::remove(folder / "config.json");
    auto bare = open(folder.path());
    CHECK(bare.config().value() == nullptr);
    OpenCheckpoint nothing{ModelSource{}};
    CHECK(nothing.named_gguf().error().code() == ErrorCode::invalid_argument);
}

TEST_CASE("OpenCheckpoint: a model on standard input is read from its text") {
    ModelSource source;
    source.kind = SourceKind::config;
    source.config = "standard input";
    source.config_text = tiny_llama;
    OpenCheckpoint files(std::move(source));
    CHECK(read_checkpoint(files));
    CHECK(files.config().value()->path == "standard input");
}

TEST_CASE("OpenCheckpoint: notes on the files come with each reading") {
    TemporaryFolder const folder;
    write_model(folder, tiny_tensors());
    folder.write("model.safetensors.index.json",
                 R"({"metadata":{"total_size":1},"weight_map":{"model.norm.weight":"model.safetensors"}})");
    auto files = open(folder.path());
    auto const first = read_checkpoint(files);
    auto const second = read_checkpoint(files);
    REQUIRE(first);
    REQUIRE(second);
    REQUIRE(first->warnings.size() == 1);
    CHECK(first->warnings == second->warnings);
}
