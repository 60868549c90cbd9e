// SPDX-License-Identifier: Apache-2.0
#include <shardwise/train/checkpoint/checkpoint_folders.hpp>

#include <doctest/doctest.h>

#include "program_signals.hpp"
#include "training.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <sstream>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <utility>
#include <vector>

using namespace shardwise;
using namespace shardwise::tests;

namespace {

using Words = std::vector<std::string>;

/// Runs that are ended at a call that writes below one folder, where checkpoints, CSV file and tokens lie; and the same run, whole.
class KilledRuns {
public:
    KilledRuns() {
        expected_ = training_.train("whole", flags(training_.out("whole.csv"), {"--keep", "9"})).text("weights_hash");
        auto const ran = run(0, "before");
        REQUIRE_MESSAGE(ran.status == 0, ran.err);
        calls_ = log();
        REQUIRE(calls_.size() > 200);
    }
    [[nodiscard]] std::size_t calls() const { return calls_.size(); }
    [[nodiscard]] bool is_write(std::size_t call) const { return calls_[call - 1].starts_with("pwrite "); }
    /// Ends a run at a call, looks at what is left, and goes on.
    void kill(std::size_t call, std::string const& how) {
        CAPTURE(call);
        CAPTURE(how);
        auto const ran = run(call, how);
        CHECK_MESSAGE(ran.status == -1, ran.err);
        auto const made = log();
        REQUIRE(made.size() >= call);
        CAPTURE(made[call - 1]);
        std::int64_t saved = 0;
        for (std::size_t i = 0; i + 1 < call; ++i)
            saved += made[i].starts_with("rename ") && made[i].find("/out/step-") != std::string::npos ? 1 : 0;
        auto const left = list_checkpoints(out());
        CHECK(static_cast<std::int64_t>(left.size()) >= std::min<std::int64_t>(saved, 2));
        CHECK((left.empty() ? 0 : left.front()) >= saved);
        for (auto const step : left) check_whole(step);
        auto const again = training_.run("killed/out", flags(csv(), {"--resume", "auto"}));
        REQUIRE_MESSAGE(again.status == 0, again.err);
        CHECK_MESSAGE(!again.says("the checkpoint before it is taken"), again.err);
        CHECK(Answer(again.out).text("weights_hash") == expected_);
        CHECK(list_checkpoints(out()) == std::vector<std::int64_t>{4, 3});
        check_whole(3);
        check_whole(4);
        CHECK(compared_lines(csv()) == compared_lines(training_.out("whole.csv")));
        for (auto const& name : shardwise::detail::entries_of(out()))
            CHECK_MESSAGE((name.starts_with("step-") || name == "tokens"), name);
        for (auto const& name : shardwise::detail::entries_of(folder()))
            CHECK_MESSAGE((name == "out" || name == "run.csv"), name);
    }

private:
    [[nodiscard]] static Words flags(std::string const& csv, Words const& more) {
        Words all{"--steps", "4", "--save-every", "1", "--dp", "2", "--csv", csv};
        all.insert(all.end(), more.begin(), more.end());
        return all;
    }
    [[nodiscard]] std::string folder() const { return training_.out("killed"); }
    [[nodiscard]] std::string out() const { return folder() + "/out"; }
    [[nodiscard]] std::string csv() const { return folder() + "/run.csv"; }
    [[nodiscard]] std::string log_path() const { return training_.out("calls"); }
    /// The calls of the last run.
    [[nodiscard]] Words log() const {
        std::istringstream text(read_text(log_path()));
        Words out;
        for (std::string line; std::getline(text, line);) out.push_back(line);
        return out;
    }
    /// From the beginning, with its end at a call.
    [[nodiscard]] Ran run(std::size_t call, std::string const& how) const {
        std::filesystem::remove_all(folder());
        std::filesystem::create_directory(folder());
        std::filesystem::remove(log_path());
        auto const library =
            std::filesystem::path(SHARDWISE_PROGRAM).parent_path() / "../tests/fakes/libwatched_files.so";
        return tests::run(training_.words("killed/out", flags(csv(), {})),
                          {{"LD_PRELOAD", library.string()},
                           {"ASAN_OPTIONS", "verify_asan_link_order=0"},
                           {"WATCHED_FOLDER", folder()},
                           {"WATCHED_LOG", log_path()},
                           {"KILLED_AT", std::to_string(call)},
                           {"KILLED", how}});
    }
    /// Whether a checkpoint has the bytes of the run that was not ended.
    void check_whole(std::int64_t step) const {
        auto const name = "/" + checkpoint_name(step);
        auto const files = shardwise::detail::entries_of(training_.out("whole") + name);
        CHECK(shardwise::detail::entries_of(out() + name) == files);
        for (auto const& file : files)
            CHECK_MESSAGE(read_text(out() + name + "/" + file) == read_text(training_.out("whole") + name + "/" + file),
                          file);
    }

    Training training_;
    std::string expected_;
    Words calls_;
};

}  // namespace

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
    CHECK_MESSAGE(other.says(": --seed: is 1, and was 0 when the run began"), other.err);
    auto from = flags;
    from.insert(from.end(), {"--resume", training.out("whole") + "/step-000004"});
    CHECK(training.train("elsewhere", from).text("weights_hash") == expected.text("weights_hash"));
}

TEST_CASE(
    "train: tensor-parallel ranks go on from one rank's checkpoint, and one rank from theirs, with the same weights") {
    Training const training;
    auto const hash = training.train("one", {"--steps", "4", "--save-every", "2"}).text("weights_hash");
    auto const shared = training.train("shared", {"--steps", "4", "--save-every", "2", "--tp", "2"});
    CHECK(shared.text("weights_hash") == hash);
    for (std::size_t rank = 0; rank < 2; ++rank)
        CHECK(shared.integer("memory", "ranks", rank, "peak") <= shared.integer("memory", "ranks", rank, "predicted"));
    for (auto const* const name : {"model.safetensors", "optimizer.safetensors", "trainer_state.json"})
        CHECK(read_text(training.out("one/step-000002/") + name) ==
              read_text(training.out("shared/step-000002/") + name));
    auto const on = [&](std::string const& name, std::string const& from, std::vector<std::string> more) {
        more.insert(more.end(), {"--steps", "4", "--resume", training.out(from)});
        return training.train(name, more).text("weights_hash");
    };
    CHECK(on("one_on", "shared/step-000002", {}) == hash);
    CHECK(on("shared_on", "one/step-000002", {"--tp", "2", "--dp", "2", "--zero", "2"}) == hash);
    auto const staged = training.train("staged", {"--steps", "4", "--save-every", "2", "--pp", "2"});
    CHECK(staged.text("weights_hash") == hash);
    for (auto const* const name : {"model.safetensors", "optimizer.safetensors", "trainer_state.json"})
        CHECK(read_text(training.out("one/step-000002/") + name) ==
              read_text(training.out("staged/step-000002/") + name));
    CHECK(on("one_on_staged", "staged/step-000002", {}) == hash);
    CHECK(on("staged_on", "shared/step-000002", {"--pp", "2", "--dp", "2"}) == hash);
}

TEST_CASE("train: fast sums give nearly the same losses in less memory, and belong to what a run goes on with") {
    Training const training;
    std::vector<std::string> const flags{"--steps", "4", "--save-every", "2", "--dp", "2"};
    auto fast = flags;
    fast.push_back("--fast");
    auto const expected = training.train("tree", flags);
    auto const answer = training.train("fast", fast);
    CHECK(answer.at("options", "fast")->boolean().value_or(false));
    CHECK_FALSE(expected.at("options", "fast")->boolean().value_or(true));
    CHECK(answer.text("weights_hash") != expected.text("weights_hash"));
    CHECK(answer.real("loss", "last") == doctest::Approx(expected.real("loss", "last")).epsilon(1e-5));
    for (std::size_t rank = 0; rank < 2; ++rank) {
        auto const predicted = answer.integer("memory", "ranks", rank, "predicted");
        CHECK(answer.integer("memory", "ranks", rank, "peak") <= predicted);
        CHECK(predicted < expected.integer("memory", "ranks", rank, "predicted"));
    }
    CHECK(answer.integer("communication", "step_bytes") * 4 <= answer.integer("communication", "bytes"));
    auto const from = [&](std::string const& name) {
        return std::vector<std::string>{"--steps", "4", "--dp", "2", "--resume", training.out(name) + "/step-000002"};
    };
    auto again = from("fast");
    auto const refused = training.run("again", again);
    CHECK(refused.status == 1);
    CHECK_MESSAGE(refused.says("fast: is not set, and was yes when the run began"), refused.err);
    again.push_back("--fast");
    CHECK(training.train("again", again).text("weights_hash") == answer.text("weights_hash"));
    auto other = from("tree");
    other.push_back("--fast");
    auto const changed = training.run("other", other);
    CHECK(changed.status == 1);
    CHECK_MESSAGE(changed.says(": --fast: is yes, and was not set when the run began"), changed.err);
}

TEST_CASE("train: a run that would remove checkpoints of another, or later ones, is refused and leaves all as it was") {
    Training const training;
    std::vector<std::string> const flags{"--steps", "4", "--save-every", "2"};
    REQUIRE(training.train("run", flags).size("checkpoints") == 2);
    auto const older = training.out("run") + "/step-000002";
    auto const newer = training.out("run") + "/step-000004";
    auto const weights = read_text(newer + "/model.safetensors");
    struct Refused {
        std::vector<std::string> more;
        std::string says;
    };
    std::string const fix = "; go on from it with --resume auto, or give another --out";
    for (auto const& refused : std::vector<Refused>{
             {{"--resume", "none"}, newer + ": would be removed by a run that begins at step 0" + fix},
             {{"--resume", "none", "--seed", "3"}, newer + ": would be removed by a run that begins at step 0" + fix},
             {{"--seed", "3"}, newer + ": --seed: is 3, and was 0 when the run began"},
             {{"--resume", "auto", "--seed", "3"}, newer + ": --seed: is 3, and was 0 when the run began"},
             {{"--resume", older},
              newer + ": would be removed by a run that goes on from an earlier step (got 2)" + fix}}) {
        CAPTURE(refused.more);
        auto words = flags;
        words.insert(words.end(), refused.more.begin(), refused.more.end());
        auto const ran = training.run("run", words);
        CHECK(ran.status == 1);
        CHECK_MESSAGE(ran.says(refused.says), ran.err);
        CHECK(list_checkpoints(training.out("run")) == std::vector<std::int64_t>{4, 2});
    }
    CHECK(read_text(newer + "/model.safetensors") == weights);
    // Elsewhere each of them runs; without the later one it goes on from the earlier one.
    auto words = flags;
    words.insert(words.end(), {"--resume", "none"});
    CHECK(training.train("other", words).size("checkpoints") == 2);
    std::filesystem::remove_all(newer);
    words = flags;
    words.insert(words.end(), {"--resume", older});
    (void)training.train("run", words);
    CHECK(read_text(newer + "/model.safetensors") == weights);
}

TEST_CASE("train: a signal ends a run after its step and a checkpoint, with 128 and its number") {
    Training const training;
    for (int const signal : {SIGTERM, SIGINT, SIGHUP}) {
        if (signal == SIGHUP && cli::ignores_hangup()) continue;
        auto const name = "run" + std::to_string(signal);
        auto const csv = training.out(name + ".csv");
        auto words = training.words(name, {"--steps", "1000000", "--save-every", "7", "--csv", csv});
        words.insert(words.begin(), SHARDWISE_PROGRAM);
        auto const ran = run_command_line(words, {}, [&](pid_t child) {
            for (int i = 0; i < 600 && compared_lines(csv).size() < 4; ++i)
                std::this_thread::sleep_for(std::chrono::milliseconds(50));
            ::kill(child, signal);
        });
        CHECK_MESSAGE(ran.status == 128 + signal, ran.err);
        Answer const answer(ran.out);
        CHECK(answer.text("stopped_by") == (signal == SIGINT ? "SIGINT" : signal == SIGHUP ? "SIGHUP" : "SIGTERM"));
        auto const lines = compared_lines(csv);
        CHECK(cells_of(lines.back()).front() == std::to_string(answer.integer("steps")));
        REQUIRE(answer.size("checkpoints") > 0);
        auto const last = answer.text("checkpoints", answer.size("checkpoints") - 1);
        CHECK(last.ends_with("/" + checkpoint_name(answer.integer("steps"))));
        CHECK(exists(last + "/trainer_state.json"));
    }
}

TEST_CASE("train: under nohup the end of the terminal does not end a run") {
    Training const training;
    auto const csv = training.out("run.csv");
    auto words = training.words("run", {"--steps", "1000000", "--csv", csv});
    std::vector<std::string> const ignoring{"sh", "-c", "trap '' HUP; exec \"$@\"", "sh", SHARDWISE_PROGRAM};
    words.insert(words.begin(), ignoring.begin(), ignoring.end());
    auto const ran = run_command_line(words, {}, [&](pid_t child) {
        auto const wait = [&](std::size_t lines) {
            for (int i = 0; i < 600 && compared_lines(csv).size() < lines; ++i)
                std::this_thread::sleep_for(std::chrono::milliseconds(50));
        };
        wait(4);
        ::kill(child, SIGHUP);
        wait(compared_lines(csv).size() + 2);
        ::kill(child, SIGTERM);
    });
    CHECK_MESSAGE(ran.status == 128 + SIGTERM, ran.err);
    CHECK(Answer(ran.out).text("stopped_by") == "SIGTERM");
}

TEST_CASE("train: a second signal ends a run at once, without a checkpoint") {
    Training const training;
    auto const csv = training.out("run.csv");
    auto words = training.words("run", {"--steps", "1000000", "--csv", csv});
    words.insert(words.begin(), SHARDWISE_PROGRAM);
    auto const ran = run_command_line(words, {}, [&](pid_t child) {
        for (int i = 0; i < 600 && compared_lines(csv).size() < 4; ++i)
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
        // Both are there when it goes on.
        for (int const signal : {SIGSTOP, SIGINT, SIGTERM, SIGCONT}) ::kill(child, signal);
    });
    CHECK_MESSAGE(ran.status == 128 + SIGTERM, ran.err);
    CHECK(ran.out.empty());
    CHECK(list_checkpoints(training.out("run")).empty());
}

TEST_CASE("train: checkpoints are written beside training, in the predicted memory, with the same bits") {
    Training const training;
    auto const expected = training.train("waited", {"--steps", "5"});
    for (auto const* const dp : {"1", "3"}) {
        CAPTURE(dp);
        auto const answer = training.train(std::string("beside") + dp, {"--steps", "5", "--save-every", "1", "--keep",
                                                                        "5", "--dp", dp, "--optimizer", "adamw"});
        CHECK(answer.text("weights_hash") == expected.text("weights_hash"));
        CHECK(answer.size("checkpoints") == 5);
        for (std::size_t rank = 0; rank < answer.size("memory", "ranks"); ++rank)
            CHECK(answer.integer("memory", "ranks", rank, "peak") ==
                  answer.integer("memory", "ranks", rank, "predicted"));
        CHECK(answer.size("warnings") == 0);
        auto const folder = training.out(std::string("beside") + dp);
        CHECK(read_text(folder + "/step-000005/optimizer.safetensors") ==
              read_text(training.out("waited") + "/step-000005/optimizer.safetensors"));
        // From each of them the rest is the same.
        std::filesystem::remove_all(folder + "/step-000005");
        std::filesystem::remove_all(folder + "/step-000004");
        CHECK(training.train(std::string("beside") + dp, {"--steps", "5"}).text("weights_hash") ==
              expected.text("weights_hash"));
    }
}

TEST_CASE("train: a disk that becomes full is a warning, and an error at the end, with the older checkpoints whole") {
    Training const training;
    auto const out = training.out("run");
    auto words = training.words("run", {"--steps", "1000000", "--save-every", "20", "--schedule", "constant"});
    words.insert(words.begin(), SHARDWISE_PROGRAM);
    std::vector<std::int64_t> before;
    std::string weights;
    auto const ran = run_command_line(words, {}, [&](pid_t child) {
        for (int i = 0; i < 600 && list_checkpoints(out).empty(); ++i)
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
        // No file may become longer than this: what stands for a full disk.
        rlimit const few{4096, RLIM_INFINITY};
        CHECK(::prlimit(child, RLIMIT_FSIZE, &few, nullptr) == 0);
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        before = list_checkpoints(out);
        REQUIRE_FALSE(before.empty());
        weights = read_text(out + "/" + checkpoint_name(before.front()) + "/model.safetensors");
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        ::kill(child, SIGTERM);
    });
    CHECK_MESSAGE(ran.status == 1, ran.err);
    auto const warning = ran.err.find("training goes on without this checkpoint");
    CHECK_MESSAGE(warning != std::string::npos, ran.err);
    CHECK(ran.err.find("training goes on without this checkpoint", warning + 1) == std::string::npos);
    CHECK(Answer(ran.out).text("schema") == "shardwise.error/1");
    CHECK(list_checkpoints(out) == before);
    CHECK(read_text(out + "/" + checkpoint_name(before.front()) + "/model.safetensors") == weights);
    // With space again it goes on from there.
    auto const last = before.front() + 3;
    (void)training.train("run", {"--steps", std::to_string(last), "--schedule", "constant"});
    CHECK(list_checkpoints(out).front() == last);
}

// A process that is killed at any call that changes a file, of all that a run makes.
TEST_CASE(
    "train: SIGKILL at a call that writes leaves whole checkpoints, from which a run goes on with the same bits") {
    KilledRuns runs;
    for (std::size_t call = 5; call <= runs.calls(); call += 53)
        runs.kill(call, runs.is_write(call) && call % 2 == 0 ? "within" : "before");
}

TEST_SUITE("long") {
    TEST_CASE(
        "train: SIGKILL at every call that writes leaves whole checkpoints, from which a run goes on with the same "
        "bits") {
        KilledRuns runs;
        for (std::size_t call = 1; call <= runs.calls(); ++call) {
            runs.kill(call, "before");
            runs.kill(call, runs.is_write(call) ? "within" : "after");
        }
    }
}
