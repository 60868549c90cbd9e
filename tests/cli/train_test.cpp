// SPDX-License-Identifier: Apache-2.0
#include <shardwise/backend/host/isa.hpp>
#include <shardwise/train/checkpoint/checkpoint_reader.hpp>
#include <shardwise/train/train_ranks.hpp>

#include <doctest/doctest.h>

#include "training.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace shardwise;
using namespace shardwise::tests;

namespace {

constexpr std::int64_t steps = 6;
constexpr auto batch = Training::batch;
constexpr auto context = Training::context;

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
        CHECK((answer.at("timing", key) && !answer.is_null("timing", key) && answer.real("timing", key) >= 0.0));
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
    CHECK(answer.is_null("options", "lora"));
    CHECK(answer.is_null("options", "momentum"));
    auto const ran = run({"run", checkpoint, "--prompt-ids", "3,10,17", "--max-new-tokens", "2", "--json"});
    CHECK_MESSAGE(ran.status == 0, ran.err);
    for (auto const& [key, value] :
         std::vector<std::pair<std::string, std::string>>{{"optimizer", "adamw"}, {"schedule", "cosine"}})
        CHECK(answer.text("options", key.c_str()) == value);
    CHECK(answer.real("options", "beta2") == 0.95);
    CHECK(answer.real("options", "min_lr") == doctest::Approx(3e-4));
    CHECK(answer.integer("options", "seed") == 0);
    CHECK(answer.integer("options", "bucket_mb") == 25);
    CHECK(answer.text("options", "resume") == "auto");
    CHECK(answer.is_null("options", "epochs"));
    for (auto const& [key, value] :
         {std::pair{"tune", false}, std::pair{"find_unused", true}, std::pair{"no_static_graph", false},
          std::pair{"no_bucket_view", true}, std::pair{"no_fallback", false}})
        CHECK(answer.at("options", key)->boolean() == value);
}

TEST_CASE("train: the same weights on any ranks, with any micro-batch, threads and stage of ZeRO") {
    Training const training;
    auto const hash = training.train("one", {"--steps", "4", "--save-every", "2"}).text("weights_hash");
    REQUIRE(hash.size() == 64);
    std::int64_t number = 0;
    for (auto const& more : std::vector<std::vector<std::string>>{
             {"--dp", "2"},
             {"--dp", "3", "--micro-batch", "1", "--zero", "1", "--recompute", "full"},
             {"--dp", "4", "--zero", "2"},
             {"--dp", "3", "--zero", "3", "--micro-batch", "1"},
             {"--dp", "2", "--zero", "1", "--offload", "optimizer", "--save-every", "2"},
             {"--offload", "all", "--save-every", "2"},
             {"--dp", "2", "--tp", "2", "--zero", "3", "--offload", "all"},
             {"--pp", "2", "--offload", "all"},
             {"--dp", "2", "--bucket-mb", "1", "--find-unused", "--no-static-graph", "--no-bucket-view"},
             {"--dp", "2", "--tune", "--ranks", "processes"},
             {"--dp", "2", "--tune"},
             {"--tp", "2", "--tune", "--micro-batch", "auto"},
             {"--tp", "4", "--micro-batch", "3"},
             {"--tp", "2", "--dp", "2", "--zero", "1", "--mode", "hybrid"},
             {"--pp", "2"},
             {"--pp", "2", "--dp", "2", "--tp", "2", "--zero", "2", "--pipeline", "gpipe", "--micro-batch", "1"},
             {"--pp", "2", "--dp", "2", "--zero", "3", "--pipeline", "zero_bubble"},
             {"--micro-batch", "3", "--recompute", "selective"}}) {
        auto words = more;
        words.insert(words.end(), {"--steps", "4"});
        auto const answer = training.train("run" + std::to_string(++number), words);
        CHECK(answer.text("weights_hash") == hash);
        auto const degree = [&](std::string const& flag) {
            auto const found = std::find(more.begin(), more.end(), flag);
            return found == more.end() ? 1 : std::stoll(*(found + 1));
        };
        auto const ranks = degree("--dp") * degree("--tp") * degree("--pp");
        bool const is_tuned = std::find(more.begin(), more.end(), "--tune") != more.end();
        CHECK((answer.text("plan", "reason").find("the fastest micro-batch of 1, 2") != std::string::npos) == is_tuned);
        CHECK(answer.integer("tokens") == 4 * Training::batch * Training::context);
        // However a rank's sequences are split.
        auto const share = (Training::batch + degree("--dp") - 1) / degree("--dp");
        auto const size = answer.integer("plan", "micro_batch");
        CHECK((size >= 1 && size <= share));
        CHECK(answer.integer("plan", "micro_batches") == (share + size - 1) / size);
        if (std::find(more.begin(), more.end(), "--save-every") != more.end()) {
            for (std::string const file : {"model.safetensors", "optimizer.safetensors", "trainer_state.json"})
                CHECK(read_text(training.out("run" + std::to_string(number) + "/step-000002/" + file)) ==
                      read_text(training.out("one/step-000002/" + file)));
        }
        if (words[2] == "--bucket-mb")
            CHECK(answer.integer("options", "bucket_mb") == 1);
        else
            CHECK(answer.integer("options", "bucket_mb") == 25);
        CHECK(answer.integer("plan", "dp") == degree("--dp"));
        CHECK(answer.integer("plan", "tp") == degree("--tp"));
        CHECK(answer.integer("plan", "pp") == degree("--pp"));
        CHECK(answer.size("memory", "ranks") == static_cast<std::size_t>(ranks));
        for (std::size_t rank = 0; rank < answer.size("memory", "ranks"); ++rank)
            CHECK(answer.integer("memory", "ranks", rank, "peak") <=
                  answer.integer("memory", "ranks", rank, "predicted"));
        CHECK((answer.integer("communication", "bytes") > 0) == (ranks > 1));
        // The parts of a step's time are all of it.
        double parts = 0.0;
        for (auto const* const part : {"data_s", "compute_s", "exposed_communication_s", "optimizer_s"}) {
            CHECK(answer.real("timing", part) >= 0.0);
            parts += answer.real("timing", part);
        }
        CHECK(parts == doctest::Approx(answer.real("timing", "step_s")).epsilon(1e-6));
        CHECK((answer.real("timing", "communication_s") > 0.0) == (ranks > 1));
    }
}

TEST_CASE(
    "train --precision: in 16 bits the same weights on any ranks and after a restart, in less memory than predicted "
    "for fp32") {
    Training const training;
    auto const single = training.train("fp32", {"--steps", "4", "--micro-batch", "4"});
    CHECK(single.text("options", "precision") == "fp32");
    auto const level = choose_isa();
    REQUIRE(level);
    auto const by_default = training.train("auto", {"--steps", "1", "--precision", "auto"});
    CHECK(by_default.text("options", "precision") == (has_bf16_unit(*level) ? "bf16" : "fp32"));
    auto const memory = [](Answer const& of, char const* what) {
        return of.integer("memory", "ranks", std::size_t{0}, what);
    };
    for (auto const* const precision : {"bf16", "fp16"}) {
        CAPTURE(precision);
        auto const with = [&](std::vector<std::string> words) {
            words.insert(words.end(), {"--steps", "4", "--precision", precision});
            return words;
        };
        auto const whole = training.train(precision, with({"--micro-batch", "4"}));
        CHECK(whole.text("options", "precision") == precision);
        CHECK(whole.text("weights_hash") != single.text("weights_hash"));
        CHECK(std::abs(whole.real("loss", "last") - single.real("loss", "last")) < 0.02);
        CHECK(memory(whole, "peak") <= memory(whole, "predicted"));
        CHECK(memory(whole, "predicted") < memory(single, "predicted"));
        auto const shared = std::string("shared-") + precision;
        CHECK(training.train(shared, with({"--dp", "2", "--tp", "2", "--zero", "1", "--save-every", "2"}))
                  .text("weights_hash") == whole.text("weights_hash"));
        auto const state = read_text(training.out(shared) + "/step-000004/trainer_state.json");
        bool const is_scaled = std::string_view(precision) == "fp16";
        CHECK((state.find("\"scale\": 65536") != std::string::npos) == is_scaled);
        REQUIRE(std::filesystem::remove_all(training.out(shared) + "/step-000004") > 0);
        CHECK(training.train(shared, with({})).text("weights_hash") == whole.text("weights_hash"));
        auto const other = training.run(shared, {"--steps", "4"});
        CHECK(other.status == 1);
        CHECK(other.says("precision"));
    }
}

TEST_CASE("train: weights in bf16 have a compensation in place of masters, on any ranks, and a run goes on with it") {
    Training training;
    auto const with = [&](std::vector<std::string> words) {
        words.insert(words.end(), {"--steps", "4", "--precision", "bf16", "--kahan-sum"});
        return words;
    };
    auto const wide = training.run("wide", with({}));
    CHECK(wide.status == 1);
    CHECK(wide.says("without float32 masters"));
    auto config = read_text(training.model.folder.path() + "/config.json");
    REQUIRE(config.find("dtype") == std::string::npos);
    config.insert(config.find('{') + 1, R"("dtype":"bfloat16",)");
    (void)training.model.folder.write("config.json", config);
    auto const whole = training.train("whole", with({"--micro-batch", "4"}));
    auto const hash = whole.text("weights_hash");
    CHECK(hash != training.train("masters", {"--steps", "4", "--precision", "bf16"}).text("weights_hash"));
    auto const saved = read_text(training.out("whole") + "/step-000004/optimizer.safetensors");
    CHECK(saved.find("kahan_comp.lm_head.weight") != std::string::npos);
    CHECK(saved.find("master.") == std::string::npos);
    for (auto const* const zero : {"1", "3", "0", "2"}) {
        CAPTURE(zero);
        // Without a stage of ZeRO the ranks share layers, with the second one they are stages.
        auto const* const degree = *zero == '0' ? "--tp" : *zero == '2' ? "--pp" : "--dp";
        auto const answer = training.train(zero, with({degree, "2", "--zero", zero, "--save-every", "2"}));
        CHECK(answer.text("weights_hash") == hash);
        for (std::size_t rank = 0; rank < 2; ++rank)
            CHECK(answer.integer("memory", "ranks", rank, "peak") <=
                  answer.integer("memory", "ranks", rank, "predicted"));
        for (auto const* const name : {"/model.safetensors", "/optimizer.safetensors", "/trainer_state.json"})
            CHECK(read_text(training.out(zero) + "/step-000004" + name) ==
                  read_text(training.out("whole") + "/step-000004" + name));
        REQUIRE(std::filesystem::remove_all(training.out(zero) + "/step-000004") > 0);
        CHECK(training.train(zero, with({"--dp", "3", "--zero", "3"})).text("weights_hash") == hash);
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
    for (auto const& [written, message] : std::vector<std::pair<std::string, std::string>>{
             {R"({"weight_deacy": 1})", "weight_deacy: is no option of train; did you mean weight-decay?"},
             {R"({"fast": 1})", "fast: is neither true nor false"},
             {R"({"beta1": [1]})", "beta1: is neither a text nor a number"},
             {R"({"min_lr": 0, "min-lr": 0.0001})", "min-lr: is given twice"},
             {R"([1])", "is no object of options"}}) {
        auto const& text = written;
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
    auto const expert_options = training.folder.write("ep.json", R"({"ep": 2})");
    for (auto const& one :
         std::vector<Refused>{{{"--tp", "5"}, 2, "--tp: is more than the query heads"},
                              {{"--tp", "2", "--mode", "data_parallel", "--dp", "2"}, 2, "--mode, --tp"},
                              {{"--tp", "2", "--mode", "single"}, 2, "--mode, --tp"},
                              {{"--pp", "3"}, 2, "--pp: is more than the model's"},
                              {{"--pp", "2", "--pipeline", "zero_buble"}, 2, "did you mean zero_bubble?"},
                              {{"--pp", "2", "--pipeline", "zero_bubble_v"}, 2, "2 chunks of a stage"},
                              {{"--pp", "2", "--mode", "single"}, 2, "--mode, --pp"},
                              {{"--precision", "fp17"}, 2, "did you mean fp16?"},
                              {{"--kahan-sum"}, 2, "--kahan-sum: is of weights in bf16"},
                              {{"--kahan-sum", "--precision", "bf16", "--lora", "4"}, 1, "--kahan-sum, --lora"},
                              {{"--kahan-sum", "--precision", "bf16", "--optimizer", "sgd"}, 1, "adamw alone"},
                              {{"--recompute", "fulll"}, 2, "did you mean full?"},
                              {{"--dropout", "1"}, 2, "--dropout: 1: is out of range"},
                              {{"--offload", "alll"}, 2, "did you mean all?"},
                              {{"--mode", "hybrid"}, 2, "--mode hybrid"},
                              {{"--mode", "distributed"}, 2, "--mode distributed: does not say how many ranks"},
                              {{"--mode", "distributed", "--dp", "2", "--ranks", "threads"}, 2, "--mode, --ranks"},
                              {{"--mode", "single", "--dp", "2"}, 2, "--mode, --dp"},
                              {{"--ranks", "fibers"}, 2, "threads, processes, mpi"},
                              {{"--lora", "1", "--tp", "2"}, 2, "--lora: rank"},
                              {{"--lora", "0"}, 2, "--lora"},
                              {{"--lora-alpha", "8"}, 2, "add --lora R"},
                              {{"--lora-dropout", "0.1"}, 2, "add --lora R"},
                              {{"--lora", "2", "--lora-dropout", "1"}, 2, "--lora-dropout: is out of range"},
                              {{"--lora", "8", "--lora-targets", "q_porj"}, 1, "did you mean q_proj?"},
                              {{"--quant", "nf4"}, 2, "--quant"},
                              {{"--tune", "--micro-batch", "2"}, 2, "--tune, --micro-batch"},
                              {{"--bucket-mb", "0"}, 2, "--bucket-mb"},
                              {{"--max-restarts", "1", "--min-ranks", "2"}, 2, "--min-ranks"},
                              {{"--devices", "cuda:0"}, 4, "--devices: cuda:0"},
                              {{"--dp", "5"}, 2, "--dp, --batch"},
                              {{"--optimizer", "adam"}, 2, "did you mean adamw?"},
                              {{"--optimizer", "muon"}, 1, "muon: does not run yet"},
                              {{"--ep", "2"}, 1, "--ep: does not train yet: routed experts have no gradient"},
                              {{"--cp=2"}, 1, "--cp: does not train yet"},
                              {{"--sequence-parallel"}, 1, "--sequence-parallel: does not train yet"},
                              {{"--attention-dropout", "0.1"}, 1, "use --dropout"},
                              {{"--max-memory", "cpu=1GiB"}, 1, "--max-memory: places layers of a run"},
                              {{"--comm", "nccl"}, 1, "--comm: does not train yet"},
                              {{"--pp", "2", "--pipeline", "interleaved"}, 2, "2 chunks of a stage"},
                              {{"--config", expert_options}, 1, "--ep: does not train"},
                              {{"--optimizer", "sgd", "--beta1", "0.5"}, 2, "--beta1, --optimizer sgd"},
                              {{"--momentum", "0.5"}, 2, "--momentum"},
                              {{"--warmup", "9", "--steps", "8"}, 2, "--warmup"},
                              {{"--steps", "1", "--epochs", "1"}, 2, "--steps, --epochs"},
                              {{"--min-lr", "1"}, 2, "--min-lr"},
                              {{"--valid-part", "1"}, 2, "--valid-part"},
                              {{"--valid-part", "0.0001"}, 2, "--valid-part: has too few tokens for a sequence"},
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
