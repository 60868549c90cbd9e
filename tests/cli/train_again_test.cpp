// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "terminal.hpp"
#include "training.hpp"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <string>
#include <unistd.h>
#include <vector>

using namespace shardwise;
using namespace shardwise::tests;

namespace {

using Words = std::vector<std::string>;

Words joined(Words first, Words const& more) {
    first.insert(first.end(), more.begin(), more.end());
    return first;
}

}  // namespace

TEST_CASE("train: a run goes on with the model that it began with, or an adapter with its base, and no other") {
    Training const training;
    auto const original = read_text(training.model.folder.path() + "/model.safetensors");
    // One bit of one weight.
    auto changed = original;
    changed.back() = static_cast<char>(changed.back() ^ 1);
    for (auto const& flags : {Words{}, Words{"--lora", "2"}}) {
        CAPTURE(flags.size());
        auto const name = "run" + std::to_string(flags.size());
        (void)training.train(name, joined({"--steps", "2"}, flags));
        (void)training.model.folder.write("model.safetensors", changed);
        auto const other = training.run(name, joined({"--steps", "2"}, flags));
        CHECK(other.status == 1);
        CHECK_MESSAGE(other.says("model: is "), other.err);
        CHECK_MESSAGE(other.says("when the run began"), other.err);
        (void)training.model.folder.write("model.safetensors", original);
        CHECK(training.train(name, joined({"--steps", "2"}, flags)).integer("steps") == 2);
    }
    // Nothing of its weights is used.
    (void)training.train("scratch", {"--steps", "1", "--from-scratch"});
    (void)training.model.folder.write("model.safetensors", changed);
    CHECK(training.train("scratch", {"--steps", "1", "--from-scratch"}).integer("steps") == 1);
}

TEST_CASE("train: steps that were skipped stay in the report of a run that goes on, and too many in a row end it") {
    Training const training;
    // The first step spoils the weights.
    auto const with_large_rate = [&training](std::string const& name, Words const& more) {
        auto words = training.words(name, joined({"--steps", "4", "--clip", "0", "--schedule", "constant"}, more));
        *std::find(words.begin(), words.end(), "3e-3") = "1e29";
        return run(words);
    };
    auto const first = with_large_rate("run", {});
    REQUIRE_MESSAGE(first.status == 0, first.err);
    Answer const answer(first.out);
    auto const skipped = answer.size("skipped_steps");
    REQUIRE(skipped > 0);
    auto const cause = answer.text("skipped_steps", std::size_t{0}, "cause");
    CHECK(cause.find("infinite or undefined") != std::string::npos);
    CHECK_MESSAGE(first.says("warning: a step was skipped: " + cause), first.err);
    auto const second = with_large_rate("run", {});
    REQUIRE_MESSAGE(second.status == 0, second.err);
    Answer const again(second.out);
    REQUIRE(again.size("skipped_steps") == skipped);
    for (std::size_t i = 0; i < skipped; ++i) {
        CHECK(again.integer("skipped_steps", i, "step") == answer.integer("skipped_steps", i, "step"));
        CHECK(again.is_null("skipped_steps", i, "cause"));
    }
    auto const ended = with_large_rate("ended", {"--max-skipped", "1"});
    CHECK(ended.status == 1);
    CHECK_MESSAGE(ended.says("infinite or undefined"), ended.err);
}

TEST_CASE("train: --check-gradients changes no bit where ranks agree, in each division of a model") {
    Training const training;
    auto const hash = training.train("one", {"--steps", "2"}).text("weights_hash");
    for (auto const& flags :
         {Words{"--dp", "2"}, Words{"--dp", "2", "--tp", "2"}, Words{"--dp", "2", "--pp", "2", "--zero", "1"}}) {
        CAPTURE(flags.back());
        auto const name = "run" + std::to_string(flags.size()) + flags.back();
        auto const answer = training.train(name, joined({"--steps", "2", "--check-gradients", "1"}, flags));
        CHECK(answer.text("weights_hash") == hash);
        CHECK(answer.integer("options", "check_gradients") == 1);
    }
}

TEST_CASE("train: --mode auto trains on one rank where others do not come, and says so; else it is an error") {
    Training const training;
    auto const hash = training.train("one", {"--steps", "2"}).text("weights_hash");
    auto const alone = [&](std::string const& name, Words const& more) {
        return run(training.words(name, joined({"--steps", "2", "--timeout", "2"}, more)),
                   {{"RANK", "0"},
                    {"WORLD_SIZE", "2"},
                    {"LOCAL_RANK", "0"},
                    {"LOCAL_WORLD_SIZE", "2"},
                    {"MASTER_ADDR", "127.0.0.1"},
                    {"MASTER_PORT", std::to_string(20000 + getpid() % 30000)}});
    };
    auto const fallen = alone("fallen", {"--mode", "auto"});
    REQUIRE_MESSAGE(fallen.status == 0, fallen.err);
    Answer const answer(fallen.out);
    CHECK(answer.text("plan", "mode") == "single");
    CHECK_FALSE(answer.is_null("plan", "fallback"));
    CHECK(answer.text("weights_hash") == hash);
    CHECK(fallen.err.find("trains on one rank") != std::string::npos);
    CHECK(alone("refused", {"--mode", "auto", "--no-fallback"}).status == 1);
    CHECK(alone("pinned", {"--mode", "auto", "--dp", "2"}).status == 1);
}

TEST_CASE("train: a terminal has one line that tells how far a run is, anything else a line every few steps") {
    Training const training;
    auto words = training.words(
        "shown", {"--steps", "40", "--dp", "2", "--valid-part", "0.1", "--valid-every", "20", "--color", "always"});
    words.erase(std::find(words.begin(), words.end(), "--json"));
    Terminal terminal(words);
    auto const last = terminal.read_until("step 40/40  loss ");
    // Each is drawn over the one before.
    CHECK(last.find("\r\x1b[Kstep 1/40  loss ") != std::string::npos);
    CHECK(last.find("step 39/40  loss ") != std::string::npos);
    for (auto const* const part : {"  validation ", " tokens/s  communication ", " %  ", " left\r"})
        CHECK_MESSAGE(last.find(part) != std::string::npos, part);
    CHECK(last.find('\n') == std::string::npos);
    CHECK(terminal.wait() == 0);
    auto const plain = training.run("plain", {"--steps", "40"});
    CHECK(plain.status == 0);
    CHECK(plain.err.starts_with("step 2/40  loss "));
    CHECK(std::count(plain.err.begin(), plain.err.end(), '\n') == 20);
    CHECK(plain.err.find('\r') == std::string::npos);
}

TEST_CASE("monitor -- shardwise train: the run is the same, and what it took is told after it") {
    Training const training;
    auto const hash = training.train("one", {"--steps", "20"}).text("weights_hash");
    auto const ran = run(joined({"monitor", "--interval", "0.05", "--", SHARDWISE_PROGRAM},
                                training.words("watched", {"--steps", "20"})));
    REQUIRE_MESSAGE(ran.status == 0, ran.err);
    CHECK(Answer(ran.out).text("weights_hash") == hash);
    auto const report = ran.err.find("shardwise ended with exit code 0 after ");
    CHECK(report != std::string::npos);
    CHECK(ran.err.find("step 20/20  loss ") < report);
}

TEST_CASE("train --svg: a run that goes on draws the steps before it, too") {
    Training const training;
    Words const steps{"--steps", "4", "--save-every", "2", "--svg"};
    (void)training.train("run", joined(steps, {training.out("whole.svg")}));
    auto const whole = read_text(training.out("whole.svg"));
    REQUIRE(std::filesystem::remove_all(training.out("run") + "/step-000004") > 0);
    (void)training.train("run", joined(steps, {training.out("again.svg")}));
    CHECK(whole.find("<polyline class=\"loss\"") != std::string::npos);
    CHECK(read_text(training.out("again.svg")) == whole);
}
