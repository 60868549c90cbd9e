// SPDX-License-Identifier: Apache-2.0
#include <shardwise/train/checkpoint/checkpoint_reader.hpp>
#include <shardwise/train/train_ranks.hpp>

#include <doctest/doctest.h>

#include "program.hpp"
#include "small_llama.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <sys/stat.h>
#include <thread>
#include <utility>
#include <vector>

using namespace shardwise;
using namespace shardwise::tests;

namespace {

constexpr std::int64_t steps = 6;
constexpr std::int64_t batch = 4;
constexpr std::int64_t context = 8;

/// A small model, ids to train it with, and a folder for runs.
struct Training {
    SmallLlama model;
    TemporaryFolder folder;
    std::string data;

    explicit Training(std::int64_t tokens = 50 * batch * context) {
        std::string bytes;
        for (std::int64_t i = 0; i < tokens; ++i)
            bytes += {static_cast<char>((7 * i + i * i / 11 + i / 5 + 3) % 61), '\0'};
        data = folder.write("ids.u16", bytes);
    }

    [[nodiscard]] std::string out(std::string const& name) const { return folder.path() + "/" + name; }
    /// The words of a command line; those in `more` are added.
    [[nodiscard]] std::vector<std::string> words(std::string const& name, std::vector<std::string> const& more) const {
        std::vector<std::string> all{"train", model.folder.path(), "--data", data,     "--out", out(name), "--batch",
                                     "4",     "--context",         "8",      "--json", "--lr",  "3e-3",    "--threads",
                                     "1"};
        all.insert(all.end(), more.begin(), more.end());
        return all;
    }
    [[nodiscard]] Ran run(std::string const& name, std::vector<std::string> const& more) const {
        return tests::run(words(name, more));
    }
    /// The same, for a run that is to end well.
    [[nodiscard]] Answer train(std::string const& name, std::vector<std::string> const& more) const {
        auto const ran = run(name, more);
        CHECK_MESSAGE(ran.status == 0, ran.err);
        return Answer(ran.out);
    }
};

/// The columns that are compared, of each line.
std::vector<std::string> compared_lines(std::string const& path) {
    std::vector<std::string> out;
    auto const text = read_text(path);
    for (std::size_t at = 0; at < text.size();) {
        auto const end = std::min(text.find('\n', at), text.size());
        auto line = text.substr(at, end - at);
        for (int i = 0; i < 4; ++i) line.resize(line.rfind(','));
        out.push_back(line);
        at = end + 1;
    }
    return out;
}

std::vector<std::string> cells_of(std::string const& line) {
    std::vector<std::string> out{""};
    for (auto const letter : line) {
        if (letter == ',')
            out.emplace_back();
        else
            out.back() += letter;
    }
    return out;
}

double number_of(std::string const& text) {
    double value = -1.0;
    (void)std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
}

bool exists(std::string const& path) {
    struct stat status {};
    return ::stat(path.c_str(), &status) == 0;
}

/// What the library makes of the same model, data and options.
std::vector<TrainedStep> train_by_library(Training const& training) {
    auto files = OpenCheckpoint(*find_model(training.model.folder.path(), {}, HubCache(HubEnvironment{})));
    auto const checkpoint = read_checkpoint(files);
    REQUIRE(checkpoint);
    auto const& model = checkpoint->model;
    HostContext host({.threads = 1});
    auto const program = TrainingProgram::create(model);
    REQUIRE(program);
    auto const stored = StoredParameters::open(files, model);
    REQUIRE(stored);
    auto weights = TrainingWeights::load(host, *stored);
    REQUIRE(weights);
    std::vector<TokenFile> opened;
    opened.push_back(std::move(*TokenFile::open(training.data)));
    auto const dataset = TokenDataset::create(std::move(opened), model.config.vocab_size);
    REQUIRE(dataset);
    auto const batches = Batches::create(*dataset, {0, dataset->tokens()}, {.context = context, .batch = batch});
    REQUIRE(batches);
    TrainOptions options;
    options.steps = steps;
    options.schedule = {.learning_rate = 3e-3, .total = steps, .floor = 0.1};
    auto const done = train_ranks(host, *program, *weights, AdamW{}, *batches, options);
    REQUIRE_MESSAGE(done, (done ? "" : done.error().message()));
    return *done;
}

}  // namespace

TEST_CASE("train: losses and norms are the library's in every bit, the JSON is whole, the checkpoint a MODEL") {
    Training const training;
    auto const csv = training.out("curve.csv");
    auto const answer = training.train("run", {"--steps", "6", "--csv", csv});
    auto const expected = train_by_library(training);
    auto const lines = compared_lines(csv);
    REQUIRE(lines.size() == expected.size() + 1);
    CHECK(read_text(csv).starts_with(
        "step,tokens,loss,valid_loss,lr,grad_norm,skipped,tokens_per_s,compute_s,communication_s,"
        "exposed_s\n"));
    for (std::size_t i = 0; i < expected.size(); ++i) {
        auto const cells = cells_of(lines[i + 1]);
        REQUIRE(cells.size() == 7);
        CHECK(cells[0] == std::to_string(i + 1));
        CHECK(cells[1] == std::to_string((static_cast<std::int64_t>(i) + 1) * batch * context));
        CHECK(number_of(cells[2]) == expected[i].loss);
        CHECK(cells[3].empty());
        CHECK(number_of(cells[4]) == expected[i].learning_rate);
        CHECK(number_of(cells[5]) == expected[i].norm);
        CHECK(cells[6] == "0");
    }
    CHECK(answer.text("schema") == "shardwise.train/1");
    CHECK(answer.real("loss", "first") == expected.front().loss);
    CHECK(answer.real("loss", "last") == expected.back().loss);
    CHECK(answer.is_null("loss", "valid"));
    CHECK(answer.is_null("loss", "best_valid"));
    CHECK(answer.integer("steps") == steps);
    CHECK(answer.integer("tokens") == steps * batch * context);
    CHECK(answer.text("plan", "mode") == "single");
    for (auto const* const degree : {"dp", "tp", "pp"}) CHECK(answer.integer("plan", degree) == 1);
    CHECK(answer.integer("plan", "zero") == 0);
    CHECK(answer.integer("plan", "micro_batch") * answer.integer("plan", "micro_batches") == batch);
    CHECK(answer.is_null("plan", "fallback"));
    CHECK(answer.integer("parameters", "total") > 0);
    CHECK(answer.integer("parameters", "trained") == answer.integer("parameters", "total"));
    CHECK(answer.text("stopped_by") == "steps");
    for (auto const* const key : {"skipped_steps", "restarts"}) CHECK((answer.at(key) && answer.size(key) == 0));
    for (auto const* const key : {"step_s", "tokens_per_s", "compute_s", "communication_s", "exposed_communication_s",
                                  "optimizer_s", "data_s", "checkpoint_s"})
        CHECK(answer.at("timing", key));
    CHECK(answer.integer("communication", "bytes") == 0);
    CHECK(answer.at("communication", "by_collective"));
    // What is predicted is taken, and no more.
    REQUIRE(answer.size("memory", "ranks") == 1);
    auto const predicted = answer.integer("memory", "ranks", std::size_t{0}, "predicted");
    auto const peak = answer.integer("memory", "ranks", std::size_t{0}, "peak");
    CHECK(peak <= predicted);
    CHECK(predicted <= peak + peak / 20 + (1 << 20));
    REQUIRE(answer.size("checkpoints") == 1);
    auto const checkpoint = answer.text("checkpoints", std::size_t{0});
    CHECK(checkpoint == training.out("run") + "/step-000006");
    auto const hash = sha256_of_file(checkpoint + "/model.safetensors");
    REQUIRE(hash);
    CHECK(answer.text("weights_hash") == *hash);
    auto const ran = run({"run", checkpoint, "--prompt-ids", "3,10,17", "--max-new-tokens", "2", "--json"});
    CHECK_MESSAGE(ran.status == 0, ran.err);
    for (auto const& [key, value] :
         std::vector<std::pair<std::string, std::string>>{{"optimizer", "adamw"}, {"schedule", "cosine"}})
        CHECK(answer.text("options", key.c_str()) == value);
    CHECK(answer.real("options", "beta2") == 0.95);
    CHECK(answer.real("options", "min_lr") == doctest::Approx(3e-4));
    CHECK(answer.integer("options", "seed") == 0);
}

TEST_CASE("train: the same weights on any ranks, with any micro-batch, threads and stage of ZeRO") {
    Training const training;
    auto const hash = training.train("one", {"--steps", "4"}).text("weights_hash");
    REQUIRE(hash.size() == 64);
    std::int64_t number = 0;
    for (auto const& more : std::vector<std::vector<std::string>>{
             {"--dp", "2"},
             {"--dp", "3", "--micro-batch", "1", "--zero", "1", "--recompute", "full"},
             {"--dp", "4", "--zero", "2"},
             {"--micro-batch", "3", "--recompute", "selective"}}) {
        auto words = more;
        words.insert(words.end(), {"--steps", "4"});
        auto const answer = training.train("run" + std::to_string(++number), words);
        CHECK(answer.text("weights_hash") == hash);
        auto const ranks = more[0] == "--dp" ? std::stoll(more[1]) : 1;
        CHECK(answer.integer("plan", "dp") == ranks);
        CHECK(answer.size("memory", "ranks") == static_cast<std::size_t>(ranks));
        for (std::size_t rank = 0; rank < answer.size("memory", "ranks"); ++rank)
            CHECK(answer.integer("memory", "ranks", rank, "peak") <=
                  answer.integer("memory", "ranks", rank, "predicted"));
        CHECK((answer.integer("communication", "bytes") > 0) == (ranks > 1));
    }
}

TEST_CASE("train: a run that goes on from a checkpoint equals one that was never ended, its CSV file too") {
    Training const training;
    std::vector<std::string> const flags{"--steps",      "6",   "--save-every",  "2", "--keep",    "3",
                                         "--valid-part", "0.1", "--valid-every", "2", "--dropout", "0.1"};
    auto whole = flags;
    whole.insert(whole.end(), {"--csv", training.out("whole.csv")});
    auto const expected = training.train("whole", whole);
    REQUIRE(expected.size("checkpoints") == 3);
    // What a run that ended at step 3 or 5 leaves: checkpoints of before, and more lines than those.
    for (auto const* const last : {"step-000002", "step-000004"}) {
        CAPTURE(last);
        auto const name = std::string("cut-") + last;
        std::filesystem::copy(training.out("whole"), training.out(name), std::filesystem::copy_options::recursive);
        std::filesystem::copy_file(training.out("whole.csv"), training.out(name + ".csv"));
        for (auto const* const later : {"step-000004", "step-000006"}) {
            if (std::string(later) > last) std::filesystem::remove_all(training.out(name) + "/" + later);
        }
        auto again = flags;
        again.insert(again.end(),
                     {"--csv", training.out(name + ".csv"), "--resume", "auto", "--dp", "2", "--recompute", "full"});
        auto const answer = training.train(name, again);
        CHECK(answer.text("weights_hash") == expected.text("weights_hash"));
        for (auto const* const key : {"first", "last", "valid", "best_valid"})
            CHECK(answer.real("loss", key) == expected.real("loss", key));
        CHECK(answer.integer("tokens") == expected.integer("tokens"));
        CHECK(compared_lines(training.out(name + ".csv")) == compared_lines(training.out("whole.csv")));
        for (auto const* const file : {"optimizer.safetensors", "trainer_state.json"})
            CHECK(read_text(training.out(name) + "/step-000006/" + file) ==
                  read_text(training.out("whole") + "/step-000006/" + file));
    }
    // At its last step already: without any flag it goes on, and there is nothing to do.
    auto const again = training.train("whole", whole);
    CHECK(again.text("weights_hash") == expected.text("weights_hash"));
    CHECK(again.real("loss", "last") == expected.real("loss", "last"));
    CHECK(again.text("stopped_by") == "steps");
    CHECK(compared_lines(training.out("whole.csv")).size() == 7);
    // What changes the result is refused by name; a folder is taken as well.
    auto const other =
        training.run("whole", {"--steps", "6", "--valid-part", "0.1", "--resume", "auto", "--seed", "1"});
    CHECK(other.status == 1);
    CHECK_MESSAGE(other.says("seed: is 1, and was 0 when the run began"), other.err);
    auto from = flags;
    from.insert(from.end(), {"--resume", training.out("whole") + "/step-000004"});
    CHECK(training.train("elsewhere", from).text("weights_hash") == expected.text("weights_hash"));
}

TEST_CASE("train: a signal ends a run after its step and a checkpoint, with 128 and its number") {
    Training const training;
    for (int const signal : {SIGTERM, SIGINT}) {
        auto const name = "run" + std::to_string(signal);
        auto const csv = training.out(name + ".csv");
        auto words = training.words(name, {"--steps", "1000000", "--csv", csv});
        words.insert(words.begin(), SHARDWISE_PROGRAM);
        auto const ran = run_command_line(words, {}, [&](pid_t child) {
            for (int i = 0; i < 600 && compared_lines(csv).size() < 4; ++i)
                std::this_thread::sleep_for(std::chrono::milliseconds(50));
            ::kill(child, signal);
        });
        CHECK_MESSAGE(ran.status == 128 + signal, ran.err);
        Answer const answer(ran.out);
        CHECK(answer.text("stopped_by") == (signal == SIGINT ? "SIGINT" : "SIGTERM"));
        auto const lines = compared_lines(csv);
        CHECK(cells_of(lines.back()).front() == std::to_string(answer.integer("steps")));
        REQUIRE(answer.size("checkpoints") == 1);
        CHECK(exists(answer.text("checkpoints", std::size_t{0}) + "/model.safetensors"));
    }
}

TEST_CASE("train: options come from a file, flags win, and an unknown one is refused with the nearest") {
    Training const training;
    auto const expected = training.train("flags", {"--steps", "3", "--beta2", "0.99", "--weight-decay", "0.01"});
    auto const file =
        training.folder.write("options.json", R"({"steps": 5, "beta2": 0.99, "weight_decay": 0.01, "lr": 1})");
    auto const answer = training.train("file", {"--steps", "3", "--config", file});
    CHECK(answer.text("weights_hash") == expected.text("weights_hash"));
    // What a run reports of its options makes the same run again.
    auto const report = training.run("flags", {"--steps", "3", "--beta2", "0.99", "--weight-decay", "0.01"}).out;
    auto const begin = report.find("\"options\":") + 10;
    auto const options =
        training.folder.write("report.json", report.substr(begin, report.find('}', begin) + 1 - begin));
    auto const again =
        run({"train", training.model.folder.path(), "--config", options, "--out", training.out("again"), "--json"});
    CHECK_MESSAGE(again.status == 0, again.err);
    CHECK(Answer(again.out).text("weights_hash") == expected.text("weights_hash"));
    for (auto const& [text, message] : std::vector<std::pair<std::string, std::string>>{
             {R"({"weight_deacy": 1})", "weight_deacy: is no option of train; did you mean weight-decay?"},
             {R"({"fast": 1})", "fast: is neither true nor false"},
             {R"({"beta1": [1]})", "beta1: is neither a text nor a number"},
             {R"([1])", "is no object of options"}}) {
        CAPTURE(text);
        auto const ran = training.run("bad", {"--config", training.folder.write("bad.json", text)});
        CHECK(ran.status != 0);
        CHECK_MESSAGE(ran.says(message), ran.err);
    }
    for (auto const* const twice : {"--steps", "--json", "--data"}) {
        CAPTURE(twice);
        std::vector<std::string> more{"--steps", "3", twice};
        if (std::string(twice) != "--json") more.emplace_back(std::string(twice) == "--data" ? training.data : "3");
        auto const ran = training.run("twice", more);
        CHECK(ran.status == 2);
        CHECK(ran.says("was given more than once"));
    }
}

TEST_CASE("train: what does not run yet is refused by its flag, and nothing is written") {
    Training const training;
    struct Refused {
        std::vector<std::string> words;
        int status;
        std::string says;
    };
    for (auto const& one :
         std::vector<Refused>{{{"--tp", "2"}, 1, "--tp: 2"},
                              {{"--pp", "2"}, 1, "--pp: 2"},
                              {{"--zero", "3"}, 1, "--zero: 3"},
                              {{"--precision", "bf16"}, 1, "--precision: bf16"},
                              {{"--precision", "fp17"}, 2, "did you mean fp16?"},
                              {{"--recompute", "fulll"}, 2, "did you mean full?"},
                              {{"--dropout", "1"}, 2, "--dropout: 1: is out of range"},
                              {{"--offload", "all"}, 1, "--offload: all"},
                              {{"--mode", "hybrid"}, 1, "--mode: hybrid"},
                              {{"--mode", "single", "--dp", "2"}, 2, "--mode, --dp"},
                              {{"--ranks", "processes"}, 1, "--ranks: processes"},
                              {{"--lora", "8"}, 1, "--lora"},
                              {{"--quant", "nf4"}, 1, "--quant"},
                              {{"--fast"}, 1, "--fast"},
                              {{"--tune"}, 1, "--tune"},
                              {{"--bucket-mb", "1"}, 1, "--bucket-mb"},
                              {{"--max-restarts", "1"}, 1, "--max-restarts"},
                              {{"--devices", "cuda:0"}, 4, "--devices: cuda:0"},
                              {{"--dp", "5"}, 2, "--dp, --batch"},
                              {{"--optimizer", "adam"}, 2, "did you mean adamw?"},
                              {{"--optimizer", "sgd", "--beta1", "0.5"}, 2, "--beta1, --optimizer sgd"},
                              {{"--momentum", "0.5"}, 2, "--momentum"},
                              {{"--warmup", "9", "--steps", "8"}, 2, "--warmup"},
                              {{"--steps", "1", "--epochs", "1"}, 2, "--steps, --epochs"},
                              {{"--min-lr", "1"}, 2, "--min-lr"},
                              {{"--valid-part", "1"}, 2, "--valid-part"},
                              {{"--schedule", "cosin"}, 2, "did you mean cosine?"},
                              {{"--svg", "-"}, 2, "--svg"}}) {
        CAPTURE(one.words);
        auto const ran = training.run("none", one.words);
        CHECK_MESSAGE(ran.status == one.status, ran.err);
        CHECK_MESSAGE(ran.says(one.says), ran.err);
        CHECK(Answer(ran.out).text("schema") == "shardwise.error/1");
        CHECK_FALSE(exists(training.out("none") + "/step-000001"));
    }
    auto const beyond = tests::run({"train", training.model.folder.path(), "--data", training.data, "--out",
                                    training.out("none"), "--context", "65"});
    CHECK(beyond.status == 2);
    CHECK(beyond.says("--context: goes beyond the positions that the model has (got 65, expected at most 64)"));
    auto const gguf = tests::run({"train", "llama-3-8b", "--data", training.data, "--out", training.out("none")});
    CHECK(gguf.status == 1);
    CHECK(gguf.says("is a preset"));
}

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
    // A folder of text without a tokenizer, and ids beyond the vocabulary.
    auto const wide = training.folder.write("wide.u16", std::string(400, '\x3D'));
    auto const refused = tests::run(words(wide, "wide", {}));
    CHECK(refused.status == 1);
    CHECK(
        refused.says("wide.u16: byte 0: has an id that the vocabulary does not have (got 15677, expected at most 60)"));
}
