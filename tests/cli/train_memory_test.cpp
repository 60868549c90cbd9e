// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "training.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <unistd.h>
#include <vector>

using namespace shardwise;
using namespace shardwise::tests;

namespace {

using Words = std::vector<std::string>;

std::string config_of(std::int64_t width, std::int64_t layers, std::int64_t vocabulary) {
    auto const number = [](std::int64_t value) { return std::to_string(value); };
    return R"({"model_type":"llama","architectures":["LlamaForCausalLM"],"max_position_embeddings":64,)"
           R"("num_attention_heads":4,"num_key_value_heads":4,"hidden_size":)" +
           number(width) + R"(,"intermediate_size":)" + number(2 * width) + R"(,"num_hidden_layers":)" +
           number(layers) + R"(,"vocab_size":)" + number(vocabulary) + "}";
}

/// Of a file, what is touched before it is given back.
constexpr std::int64_t pages_of_file = std::int64_t{4} << 20U;

/// What a run has taken.
struct Taken {
    Answer answer;
    /// The process at most (VmHWM), and of that what is no file's.
    std::int64_t process = 0;
    std::int64_t own = 0;
    /// Of all ranks, as predicted.
    std::int64_t predicted = 0;
    std::int64_t peak = 0;
};

/// The words of a command line; the first of the flags is the number of steps.
Words words_of(Training const& training, std::string const& config, std::string const& name, Words const& flags) {
    Words words{"train",  config,          "--data", training.data, "--out", training.out(name),
                "--json", "--micro-batch", "1",      "--steps"};
    words.insert(words.end(), flags.begin(), flags.end());
    return words;
}

/// Trains a model from scratch in a process of its own.
Taken take(Training const& training, std::string const& config, std::string const& name, Words const& flags) {
    std::int64_t most = 0;
    std::int64_t own = 0;
    auto const watch = [&](pid_t process) {
        auto const path = "/proc/" + std::to_string(process) + "/status";
        while (true) {
            auto const text = read_text(path);
            auto const of = [&](std::string const& key) {
                auto const at = text.find(key);
                return at == std::string::npos ? -1 : 1024 * std::atoll(text.c_str() + at + key.size());
            };
            // Nothing is left of one that has ended.
            if (of("VmHWM:") < 0) return;
            if (text.substr(0, text.find('\n')).find("shardwise") != std::string::npos) {
                most = std::max<std::int64_t>(most, of("VmHWM:"));
                own = std::max<std::int64_t>(own, of("RssAnon:") + of("RssShmem:"));
            }
            ::usleep(1000);
        }
    };
    auto words = words_of(training, config, name, flags);
    words.insert(words.begin(), SHARDWISE_PROGRAM);
    auto const ran = run_command_line(words, {}, watch);
    REQUIRE_MESSAGE(ran.status == 0, ran.err);
    Taken out{Answer(ran.out), most, own};
    for (std::size_t rank = 0; rank < out.answer.size("memory", "ranks"); ++rank) {
        out.predicted += out.answer.integer("memory", "ranks", rank, "predicted");
        out.peak += out.answer.integer("memory", "ranks", rank, "peak");
    }
    CHECK(out.peak <= out.predicted);
    return out;
}

/// A process takes what is predicted, and beside it its program's pages and a few MiB of its own.
void check_near(Taken const& taken) {
    CAPTURE(taken.predicted);
    CAPTURE(taken.process);
    CAPTURE(taken.own);
    CHECK(taken.own >= taken.peak - taken.peak / 50);
    CHECK(taken.own <= taken.predicted + taken.predicted / 50);
    // The pages of the program are its file's: 15 MB where it is not optimised.
    CHECK(taken.process <= taken.own + (std::int64_t{20} << 20U));
    // What is told of the process counts them, too.
    auto const told = [&](char const* key) {
        return static_cast<double>(taken.answer.integer("memory", "process", key));
    };
    auto const process = static_cast<double>(taken.process);
    CAPTURE(told("predicted"));
    CHECK(told("predicted") == told("program") + static_cast<double>(taken.predicted));
    CHECK(process < 1.05 * told("predicted"));
    CHECK(process > 0.95 * told("predicted"));
    // It was looked at before the last things were done.
    CHECK(told("peak") <= process);
    CHECK(told("peak") > 0.98 * process);
}

}  // namespace

TEST_CASE("train: a process of 200 MB takes what is predicted of it within 5 %, in a dry run too") {
    testing::TemporaryFolder const folder;
    auto const config = folder.write("config.json", config_of(336, 4, 2560));
    Training const training;
    Words const flags{"1", "--threads", "1", "--batch", "16", "--context", "8"};
    auto const taken = take(training, config, "run", flags);
    CHECK(taken.predicted > 200'000'000);
    check_near(taken);
    auto dry = flags;
    dry.push_back("--dry-run");
    auto const planned = run(words_of(training, config, "dry", dry));
    REQUIRE_MESSAGE(planned.status == 0, planned.err);
    Answer const answer(planned.out);
    CHECK(answer.is_null("memory", "process", "peak"));
    auto const predicted = static_cast<double>(answer.integer("memory", "process", "predicted"));
    CHECK(static_cast<double>(taken.process) < 1.05 * predicted);
    CHECK(static_cast<double>(taken.process) > 0.95 * predicted);
}

TEST_SUITE("long") {
    TEST_CASE("train --offload: the process takes what is predicted, and with all of the model two layers alone") {
        testing::TemporaryFolder const folder;
        auto const config = folder.write("config.json", config_of(256, 8, 512));
        Training const training;
        auto const train = [&](std::string const& offload) {
            return take(training, config, offload,
                        {"2", "--threads", "1", "--batch", "4", "--context", "8", "--offload", offload});
        };
        auto const none = train("none");
        auto const all = train("all");
        CHECK(all.answer.text("weights_hash") == none.answer.text("weights_hash"));
        // Weights, sums of gradients and two moments.
        auto const model = 4 * all.answer.integer("parameters", "total");
        CHECK(none.predicted - all.predicted > 5 * model);
        // Beside what is predicted a process takes the program itself, and of weights, gradients and two moments what one part of a step
        // touches: less than the model.
        auto const program = none.process - none.predicted;
        CHECK(program > 0);
        CAPTURE(model);
        CHECK(model > 5 * pages_of_file);
        CAPTURE(all.predicted);
        CAPTURE(all.process);
        CHECK(all.process < all.predicted + program + 4 * pages_of_file);
        // Of the two moments what one parameter's step touches.
        auto const optimizer = train("optimizer");
        CHECK(optimizer.answer.text("weights_hash") == none.answer.text("weights_hash"));
        CHECK(none.predicted - optimizer.predicted > 2 * model - pages_of_file);
        CAPTURE(optimizer.predicted);
        CAPTURE(optimizer.process);
        CHECK(optimizer.process < optimizer.predicted + program + 2 * pages_of_file);
    }

    TEST_CASE("train: 20 MB of text take no more than 64 MB beside the training") {
        testing::TemporaryFolder const folder;
        auto const config = folder.write("config.json", config_of(32, 1, 1024));
        std::string const demo = SHARDWISE_SOURCE_DIR "/share/shardwise/demo";
        auto const plays = read_text(demo + "/shakespeare.txt");
        std::string text;
        while (text.size() < 20'000'000) text += plays;
        Training training;
        training.data = folder.write("plays.txt", text);
        auto const taken = take(training, config, "run",
                                {"1", "--threads", "1", "--batch", "2", "--context", "32", "--tokenizer", demo});
        CAPTURE(taken.predicted);
        CAPTURE(taken.process);
        CHECK(taken.process < taken.predicted + 64'000'000);
    }

    TEST_CASE("train: the high-water mark of a process is within 5 % of what is predicted") {
        testing::TemporaryFolder const folder;
        auto const config = folder.write("config.json", config_of(512, 5, 2048));
        Training const training;
        int number = 0;
        for (auto const& flags :
             std::vector<Words>{{"16", "--context", "8", "--threads", "1"},
                                {"16", "--context", "8", "--threads", "2"},
                                {"8", "--context", "8", "--threads", "2", "--dp", "2", "--zero", "1"},
                                {"8", "--context", "8", "--threads", "2", "--dp", "2", "--zero", "2"},
                                {"8", "--context", "8", "--threads", "2", "--tp", "2"},
                                {"8", "--context", "64", "--threads", "1", "--recompute", "full"},
                                {"16", "--context", "8", "--threads", "1", "--optimizer", "adam8bit"}}) {
            CAPTURE(flags);
            Words all{"2", "--batch"};
            all.insert(all.end(), flags.begin(), flags.end());
            auto const taken = take(training, config, "run" + std::to_string(number++), all);
            CHECK(taken.predicted > 340'000'000);
            check_near(taken);
            // Also without the program's pages.
            CHECK(static_cast<double>(taken.process) < 1.05 * static_cast<double>(taken.predicted));
            CHECK(static_cast<double>(taken.process) > 0.95 * static_cast<double>(taken.predicted));
        }
    }
}
