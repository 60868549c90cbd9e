// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/files/checkpoint.hpp>
#include <shardwise/model/files/config_json.hpp>
#include <shardwise/model/files/model_source.hpp>

#include <doctest/doctest.h>

#include "temporary_folder.hpp"

#include <array>
#include <csignal>
#include <cstddef>
#include <fcntl.h>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace shardwise;
using shardwise::testing::TemporaryFolder;

namespace {

constexpr std::array<std::string_view, 2> presets{"llama-3-70b", "gpt2"};

Result<ModelSource> find(std::string const& model, std::string const& cache = "/nowhere") {
    return find_model(model, presets, HubCache(cache));
}

}  // namespace

TEST_CASE("HubCache: HF_HUB_CACHE is before HF_HOME, before the home folder") {
    CHECK(HubCache(HubEnvironment{"/a", "/b", "/home/me"}).folder() == "/a");
    CHECK(HubCache(HubEnvironment{"", "/b", "/home/me"}).folder() == "/b/hub");
    CHECK(HubCache(HubEnvironment{"", "", "/home/me"}).folder() == "/home/me/.cache/huggingface/hub");
    CHECK(HubCache(HubEnvironment{"~/cache", "", "/home/me"}).folder() == "/home/me/cache");
}

TEST_CASE("HubCache: only names that the hub allows reach the file system") {
    for (auto const* name : {"org/name", "gpt2", "meta-llama/Llama-3.1-8B", "a_b/c-d.e"}) {
        CAPTURE(name);
        CHECK(HubCache::is_repository_name(name));
    }
    for (auto const* name : {"", "/name", "org/", "a/b/c", "..", "../x", "org/..", "org/.hidden", "a b", "a\\b",
                             "org//x", "-x", "org/a..b"}) {
        CAPTURE(name);
        CHECK_FALSE(HubCache::is_repository_name(name));
    }
}

TEST_CASE("HubCache: refs/main names the snapshot") {
    TemporaryFolder const at;
    at.write("models--org--name/refs/main", "abc123\n");
    at.write("models--org--name/snapshots/abc123/config.json", "{}");
    at.write("models--org--name/snapshots/older/config.json", "{}");
    at.write("models--org--bad/refs/main", "../../../etc");
    at.write("models--org--one/snapshots/only/config.json", "{}");
    at.write("models--org--two/snapshots/a/config.json", "{}");
    at.write("models--org--two/snapshots/b/config.json", "{}");
    HubCache const cache(at.path());
    CHECK(*cache.snapshot("org/name") == at / "models--org--name/snapshots/abc123");
    CHECK(cache.snapshot("org/bad").error().code() == ErrorCode::malformed_file);
    CHECK(*cache.snapshot("org/one") == at / "models--org--one/snapshots/only");
    CHECK(cache.snapshot("org/two").error().code() == ErrorCode::file_not_found);
    CHECK(cache.snapshot("org/none").error().code() == ErrorCode::file_not_found);
    CHECK(cache.snapshot("../x").error().code() == ErrorCode::invalid_argument);
    CHECK(cache.repositories() == std::vector<std::string>{"org/bad", "org/name", "org/one", "org/two"});
}

TEST_CASE("find_model: knows presets in any case") {
    CHECK(find("llama-3-70b")->kind == SourceKind::preset);
    CHECK(find("Llama-3-70B")->name == "llama-3-70b");
}

TEST_CASE("find_model: any existing .json is a configuration") {
    TemporaryFolder const at;
    auto const path = at.write("my-model.json", R"({"model_type": "llama"})");
    auto const source = find(path);
    REQUIRE(source);
    CHECK(source->kind == SourceKind::config);
    CHECK(source->config == path);
    CHECK(source->name == "my-model.json");
    CHECK(read_config_file(*source->open(source->config)).has_value());
}

TEST_CASE("find_model: files of tensors bring the config.json beside them along") {
    TemporaryFolder const at;
    auto const gguf = at.write("a.gguf", "GGUF");
    auto const unnamed = at.write("sha256-abcdef", "GGUF....");
    auto const alone = at.write("alone/b.safetensors", "x");
    auto const together = at.write("both/b.safetensors", "x");
    at.write("both/config.json", "{}");
    CHECK(find(gguf)->kind == SourceKind::gguf);
    CHECK(find(unnamed)->kind == SourceKind::gguf);
    CHECK(find(alone)->kind == SourceKind::safetensors);
    CHECK(find(alone)->config.empty());
    CHECK(find(together)->config == at / "both/config.json");
    CHECK(find(together)->weights == std::vector<std::string>{together});
}

TEST_CASE("find_model: of a folder takes the index, one file, several, or GGUF, in this order") {
    TemporaryFolder const at;
    auto const files = [&at](std::string const& folder, std::vector<std::string> const& names) {
        for (auto const& name : names) at.write(folder + "/" + name, "x");
        auto const source = find(at / folder);
        REQUIRE_MESSAGE(source, (source ? "" : source.error().message()));
        return *source;
    };
    auto const indexed = files("a", {"config.json", "model-1.safetensors", "model.safetensors.index.json"});
    CHECK(indexed.kind == SourceKind::safetensors);
    CHECK(indexed.index == "model.safetensors.index.json");
    CHECK(indexed.config == "config.json");
    CHECK(indexed.weights.empty());
    CHECK(indexed.name == "a");
    CHECK(files("b", {"model.safetensors", "other.safetensors", "x.gguf"}).weights ==
          std::vector<std::string>{"model.safetensors"});
    CHECK(files("c", {"b.safetensors", "a.safetensors", "consolidated.safetensors"}).weights ==
          std::vector<std::string>{"a.safetensors", "b.safetensors"});
    CHECK(files("d", {"consolidated.safetensors"}).weights.size() == 1);
    CHECK(files("e", {"config.json"}).kind == SourceKind::config);
    auto const split = files("f", {"m-00002-of-00002.gguf", "m-00001-of-00002.gguf"});
    CHECK(split.kind == SourceKind::gguf);
    CHECK(split.weights == std::vector<std::string>{"m-00001-of-00002.gguf", "m-00002-of-00002.gguf"});
    auto const pickled = files("g", {"config.json", "pytorch_model.bin"});
    CHECK(pickled.kind == SourceKind::config);
    CHECK(pickled.warnings == std::vector<std::string>{"pytorch_model.bin is not read; sizes come from config.json"});
    CHECK(find(at / "a/")->name == "a");
}

TEST_CASE("find_model: a folder that holds no model, or more than one, is refused with what to do") {
    TemporaryFolder const at;
    at.write("empty/readme.md", "x");
    at.write("many/a.gguf", "x");
    at.write("many/b.gguf", "x");
    at.write("pickled/pytorch_model.bin", "x");
    CHECK(find(at / "empty").error().code() == ErrorCode::file_not_found);
    CHECK(find(at / "empty").error().message() ==
          at / "empty: has no config.json, no .safetensors and no .gguf file; name the folder of a model");
    CHECK(find(at / "many").error().advice() == "name one of them, such as a.gguf");
    CHECK(find(at / "pickled").error().code() == ErrorCode::unsupported);
    CHECK(find(at / "empty/readme.md").error().code() == ErrorCode::unsupported);
}

TEST_CASE("find_model: finds org/name in the cache, and opens its files through their links") {
    TemporaryFolder const at;
    at.write("models--org--name/refs/main", "abc");
    at.write("models--org--name/blobs/1", R"({"model_type": "llama", "num_hidden_layers": 3})");
    at.link("models--org--name/snapshots/abc/config.json", "../../blobs/1");
    auto const source = find("org/name", at.path());
    REQUIRE(source);
    CHECK(source->name == "org/name");
    CHECK(source->kind == SourceKind::config);
    auto const file = source->open(source->config);
    REQUIRE(file);
    CHECK(read_config_file(*file)->config.layers == 3);
    CHECK(source->open("../x").error().code() == ErrorCode::unsafe_path);
}

TEST_CASE("find_model: links in a folder that the user named are followed, a shard that an index names stays inside") {
    TemporaryFolder const at;
    at.write("store/abc.json", R"({"model_type": "llama", "num_hidden_layers": 3})");
    at.link("m/config.json", "../store/abc.json");
    auto const source = find(at / "m");
    REQUIRE(source);
    auto const file = source->open(source->config);
    REQUIRE(file);
    CHECK(read_config_file(*file)->config.layers == 3);
    CHECK(source->open_named("config.json").error().code() == ErrorCode::unsafe_path);
    CHECK(source->open("../store/abc.json").error().code() == ErrorCode::unsafe_path);
}

TEST_CASE("find_model: devices, and pipes that are to be weights, are refused without blocking") {
    TemporaryFolder const at;
    REQUIRE(::mkfifo((at / "model.gguf").c_str(), 0600) == 0);
    REQUIRE(::mkfifo((at / "model.safetensors").c_str(), 0600) == 0);
    CHECK(find(at / "model.gguf").error().reason() == "is a pipe, not a file");
    CHECK(find(at / "model.safetensors").error().reason() == "is a pipe, not a file");
    CHECK(find("/dev/zero").error().reason() == "is a device, not a file");
}

TEST_CASE("find_model: a pipe gives a config.json once, and nothing else") {
    TemporaryFolder const at;
    auto const pipe = at / "pipe";
    REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
    auto const piped = [&pipe](std::string const& text) {
        std::thread writer([&] {
            int const end = ::open(pipe.c_str(), O_WRONLY);
            for (std::size_t done = 0; done < text.size();) {
                auto const count = ::write(end, text.data() + done, text.size() - done);
                if (count <= 0) break;
                done += static_cast<std::size_t>(count);
            }
            ::close(end);
        });
        // The reader leaves before the end of what is too long.
        auto* const before = std::signal(SIGPIPE, SIG_IGN);
        auto out = find(pipe);
        writer.join();
        std::signal(SIGPIPE, before);
        return out;
    };
    auto const source = piped(R"({"model_type": "llama", "num_hidden_layers": 3})");
    REQUIRE(source);
    CHECK(source->kind == SourceKind::config);
    CHECK(source->name == "pipe");
    auto const checkpoint = read_checkpoint(*source);
    REQUIRE(checkpoint);
    CHECK(checkpoint->model.config.layers == 3);
    // Errors name the pipe as they name a file.
    auto const broken = piped(R"({"model_type": "llama", "num_hidden_layers": "3"})");
    REQUIRE(broken);
    CHECK(read_checkpoint(*broken).error().subject() == pipe);
    CHECK(read_checkpoint(*broken).error().place() == "num_hidden_layers");

    auto const refused = [&](std::string const& text) {
        auto const out = piped(text);
        REQUIRE_FALSE(out);
        CHECK(out.error().subject() == pipe);
        return std::string(name_of(out.error().code())) + ": " + std::string(out.error().reason());
    };
    CHECK(refused("") == "malformed_file: is empty");
    CHECK(refused(" \r\n\t ") == "malformed_file: is empty");
    CHECK(refused("GGUF\x03") == "unsupported: gives a GGUF file, which is read by its name only");
    CHECK(refused("GGUF" + std::string(max_config_file, '\0')) ==
          "unsupported: gives a GGUF file, which is read by its name only");
    CHECK(refused(std::string("\x10\0\0\0\0\0\0\0{}", 10)) ==
          "unsupported: gives a safetensors file, which is read by its name only");
    CHECK(refused("{" + std::string(max_config_file, ' ')) ==
          "capacity_exceeded: gives more bytes than a config.json may have");
}

TEST_CASE("find_model: a wrong name is answered with the nearest preset, file or cached repository") {
    TemporaryFolder const at;
    at.write("models/SmolLM2.gguf", "x");
    at.write("cache/models--Qwen--Qwen3-8B/refs/main", "x");
    auto const advice = [&at](std::string const& model) {
        auto const source = find(model, at / "cache");
        REQUIRE_FALSE(source);
        CHECK(source.error().code() == ErrorCode::unknown_name);
        return std::string(source.error().advice());
    };
    CHECK(advice("lama-3-70b") == "did you mean llama-3-70b?");
    CHECK(advice("Qwen/Qwen3-8b-") == "did you mean Qwen/Qwen3-8B?");
    CHECK(advice(at / "models/SmolLM.gguf").find("SmolLM2.gguf?") != std::string::npos);
    CHECK(advice("zzzzzz").find("name a preset") != std::string::npos);
    CHECK(find("").error().code() == ErrorCode::invalid_argument);
    CHECK(find(std::string("a\0b", 3)).error().code() == ErrorCode::unknown_name);
    CHECK_FALSE(find(std::string(100'000, 'x')));
}
