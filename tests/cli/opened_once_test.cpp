// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "opened_files.hpp"
#include "program.hpp"
#include "small_llama.hpp"

#include <filesystem>
#include <string>
#include <vector>

using namespace shardwise;
using namespace shardwise::tests;

TEST_CASE("run, embed, map: a process looks at the first bytes of a GGUF file, then opens it once; config.json once") {
    testing::TemporaryFolder const folder;
    auto const gguf = folder / "gemma.gguf";
    std::filesystem::copy_file(SHARDWISE_SOURCE_DIR "/tests/golden/gguf/gemma-f32.gguf", gguf);
    testing::OpenedFile const file(gguf);
    REQUIRE(file.is_watched());
    for (std::vector<std::string> const& words :
         {std::vector<std::string>{"run", gguf, "--prompt-ids", "2,5", "--max-new-tokens", "1", "--tp", "2"},
          {"map", gguf, "--devices", "2xgpu:24GiB"},
          {"estimate", gguf}}) {
        auto const ran = run(words);
        CHECK_MESSAGE(ran.status == 0, ran.err);
        CHECK(file.count() == 2);
    }
    SmallLlama const model;
    model.add_tokenizer();
    testing::OpenedFile const config(model.folder / "config.json");
    testing::OpenedFile const weights(model.folder / "model.safetensors");
    auto const ran = run({"run", model.folder.path(), "--prompt", "abc", "--max-new-tokens", "1", "--tp", "2"});
    CHECK_MESSAGE(ran.status == 0, ran.err);
    CHECK(config.count() == 1);
    CHECK(weights.count() == 2);  // its header, and to be mapped
    CHECK(run({"embed", model.folder.path(), "--text", "abc"}).status == 0);
    CHECK(config.count() == 1);
    CHECK(weights.count() == 2);
    CHECK(run({"tokenize", model.folder.path(), "--text", "abc"}).status == 0);
    CHECK(config.count() + weights.count() == 0);
}
