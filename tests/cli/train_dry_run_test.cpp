// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "training.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

using namespace shardwise;
using namespace shardwise::tests;

TEST_CASE("train: a dry run says what a run takes and leaves nothing; texts and JSON lines are tokenised once") {
    Training const training;
    training.model.add_tokenizer();
    std::string text;
    for (int i = 0; i < 200; ++i) text += "thequickbrownfoxjumpsoverthelazydog" + std::to_string(i % 9);
    std::string lines;
    for (int i = 0; i < 60; ++i)
        lines += R"({"prompt":"quickbrown","completion":"foxjumps"})"
                 "\n";
    auto const file = training.folder.write("text.txt", text);
    auto const json_lines = training.folder.write("pairs.jsonl", lines);
    auto const words = [&](std::string const& data, std::string const& name, std::vector<std::string> const& more) {
        std::vector<std::string> all{"train",     training.model.folder.path(),
                                     "--data",    data,
                                     "--out",     training.out(name),
                                     "--batch",   "4",
                                     "--context", "8",
                                     "--steps",   "3",
                                     "--json",    "--from-scratch",
                                     "--seed",    "5"};
        all.insert(all.end(), more.begin(), more.end());
        return all;
    };
    Answer const planned(tests::run(words(file, "text", {"--dry-run"})).out);
    CHECK(planned.integer("communication", "step_bytes") == 0);
    CHECK(planned.real("expected", "step_flops") > 0.0);
    CHECK(planned.real("expected", "total_s") == doctest::Approx(3.0 * planned.real("expected", "step_s")));
    CHECK_FALSE(exists(training.out("text")));
    CHECK(planned.text("stopped_by") == "dry-run");
    Answer const trained(tests::run(words(file, "text", {"--svg", training.out("curve.svg")})).out);
    CHECK(planned.integer("memory", "ranks", std::size_t{0}, "predicted") ==
          trained.integer("memory", "ranks", std::size_t{0}, "predicted"));
    CHECK(planned.integer("tokens") == trained.integer("tokens"));
    CHECK(trained.text("weights_hash").size() == 64);
    CHECK(read_text(training.out("curve.svg")).find("<polyline class=\"loss\"") != std::string::npos);
    CHECK(exists(training.out("text") + "/step-000003/tokenizer.json"));
    // Completions count alone: 8 letters and the end of each 19 tokens.
    auto const pairs = tests::run(words(json_lines, "pairs", {}));
    CHECK_MESSAGE(pairs.status == 0, pairs.err);
    auto const tokens = Answer(pairs.out).integer("tokens");
    CHECK(tokens > 0);
    CHECK(tokens < 3 * 4 * 8);
    // Of chats the letters of answers, which the template marks; the end token between them does not count.
    std::string chats;
    for (int i = 0; i < 60; ++i)
        chats += R"({"messages":[{"role":"user","content":"quickbrown"},{"role":"assistant","content":"foxjumps"}]})"
                 "\n";
    auto const chat_file = training.folder.write("chats.jsonl", chats);
    auto const without = tests::run(words(chat_file, "chats", {}));
    CHECK(without.status == 1);
    CHECK(without.says("chats.jsonl: line 1, byte 0: is a chat, and the model has no chat template"));
    (void)training.model.folder.write(
        "chat_template.jinja",
        "{% for m in messages %}{% if m.role == 'assistant' %}A{% generation %}"
        "{{ m.content }}{% endgeneration %}{% else %}U{{ m.content }}{% endif %}{% endfor %}");
    auto const chatted =
        tests::run({"train", training.model.folder.path(), "--data", chat_file, "--out", training.out("chats"),
                    "--batch", "40", "--context", "21", "--steps", "1", "--json", "--from-scratch"});
    CHECK_MESSAGE(chatted.status == 0, chatted.err);
    CHECK(Answer(chatted.out).integer("tokens") == 40 * 8);
    // A folder of text without a tokenizer, and ids beyond the vocabulary.
    auto const wide = training.folder.write("wide.u16", std::string(400, '\x3D'));
    auto const refused = tests::run(words(wide, "wide", {}));
    CHECK(refused.status == 1);
    CHECK(
        refused.says("wide.u16: byte 0: has an id that the vocabulary does not have (got 15677, expected at most 60)"));
}

TEST_CASE("train: the bytes of a step are those that a dry run predicts, and checkpoints add none") {
    Training const training;
    for (auto const* const zero : {"0", "1", "2", "3"}) {
        CAPTURE(zero);
        std::int64_t number = 0;
        auto const run = [&](std::vector<std::string> more) {
            more.insert(more.end(), {"--dp", "3", "--zero", zero});
            return training.train(std::string("run") + zero + std::to_string(++number), more);
        };
        auto const csv = training.out(std::string(zero) + ".csv");
        auto const two = run({"--steps", "2", "--csv", csv});
        // Every line says where its step's time went.
        std::istringstream lines(read_text(csv));
        std::string line;
        for (std::getline(lines, line); std::getline(lines, line);) {
            auto const cells = cells_of(line);
            REQUIRE(cells.size() == 11);
            for (std::size_t i = 7; i < cells.size(); ++i) CHECK(number_of(cells[i]) > 0.0);
        }
        auto const four = run({"--steps", "4"});
        auto const saving = run({"--steps", "2", "--save-every", "1"});
        auto const planned = run({"--steps", "4", "--dry-run"});
        for (auto const& [what, of_step] : {std::pair{"bytes", "step_bytes"}, std::pair{"messages", "step_messages"}}) {
            auto const predicted = planned.integer("communication", of_step);
            CHECK(predicted > 0);
            CHECK(four.integer("communication", what) - two.integer("communication", what) == 2 * predicted);
            CHECK(saving.integer("communication", what) == two.integer("communication", what));
        }
    }
}

TEST_CASE(
    "train: where a run does not fit, each change that is named fits, together where none does alone; nothing is "
    "left") {
    TemporaryFolder const folder;
    auto const data = folder.write("ids.u16", std::string(std::size_t{2} * 8200, '\0'));
    auto const config = [&](std::int64_t layers) {
        return folder.write(
            "config" + std::to_string(layers) + ".json",
            R"({"architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_size":1024,"intermediate_size":2816,)"
            R"("num_attention_heads":8,"num_key_value_heads":8,"vocab_size":64,"max_position_embeddings":8192,)"
            R"("rms_norm_eps":1e-5,"tie_word_embeddings":false,"num_hidden_layers":)" +
                std::to_string(layers) + "}");
    };
    auto const plan = [&](std::string const& model, std::vector<std::string> const& more) {
        std::vector<std::string> words{"train",   model, "--data",  data, "--out",  folder.path() + "/none",
                                       "--batch", "1",   "--steps", "1",  "--json", "--threads",
                                       "1"};
        words.insert(words.end(), more.begin(), more.end());
        return tests::run(words);
    };
    auto const small = plan(config(1), {"--context", "8", "--dry-run"});
    REQUIRE_MESSAGE(small.status == 0, small.err);
    // 205 MB of weights, gradients and state a layer: three times what there is.
    auto const large = config(Answer(small.out).integer("budget") / 60'000'000);
    struct Case {
        std::string context, expected;
    };
    for (auto const& one : {Case{"8", "--offload all"}, Case{"4096", "--recompute full --offload all"}}) {
        CAPTURE(one.context);
        auto const ran = plan(large, {"--context", one.context, "--dry-run"});
        CHECK(ran.status == 3);
        Answer const answer(ran.out);
        std::vector<std::string> flags;
        for (std::size_t i = 0; i < answer.size("fix"); ++i) {
            flags.push_back(answer.text("fix", i, "flags"));
            CHECK(answer.integer("fix", i, "bytes") <= answer.integer("budget"));
            std::vector<std::string> more{"--context", one.context, "--dry-run"};
            std::istringstream words(flags.back());
            for (std::string word; words >> word;) more.push_back(word);
            auto const fitting = plan(large, more);
            CHECK_MESSAGE(fitting.status == 0, fitting.err);
            CHECK(Answer(fitting.out).integer("memory", "ranks", std::size_t{0}, "predicted") ==
                  answer.integer("fix", i, "bytes"));
        }
        CHECK(flags == std::vector<std::string>{one.expected});
    }
    // What could not be written in the end is said at once.
    auto const part = plan(SHARDWISE_SOURCE_DIR "/tests/golden/configs/small-llava.json", {"--context", "8", "--dry-run"});
    CHECK(part.status == 1);
    CHECK_MESSAGE(part.says("is the text part of a model"), part.err);
    // Dropout that is asked for where this trainer does not look.
    auto text = read_text(config(1));
    text.insert(1, R"("attention_dropout":0.1,"embd_pdrop":0,)");
    auto const dropping = plan(folder.write("dropping.json", text), {"--context", "8", "--dry-run"});
    CHECK_MESSAGE(dropping.says("config.json has attention_dropout 0.10, by which other trainers"), dropping.err);
    CHECK(small.err.find("by which other trainers") == std::string::npos);
    auto const refused = plan(large, {"--context", "8"});
    CHECK(refused.status == 3);
    CHECK_MESSAGE(refused.says("use --offload all"), refused.err);
    CHECK_FALSE(exists(folder.path() + "/none"));
    // A folder of before stays, without what this run put there.
    REQUIRE(std::filesystem::create_directory(folder.path() + "/none"));
    CHECK(plan(large, {"--context", "8"}).status == 3);
    CHECK(std::filesystem::is_empty(folder.path() + "/none"));
    auto const file = tests::run({"train", config(1), "--data", data, "--out", data, "--batch", "1", "--context", "8"});
    CHECK(file.status == 1);
    CHECK_MESSAGE(file.says("--out: " + data + ": is a file, and checkpoints need a folder"), file.err);
}
