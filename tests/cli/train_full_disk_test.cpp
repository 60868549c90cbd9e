// SPDX-License-Identifier: Apache-2.0
#include <shardwise/core/bytes.hpp>
#include <shardwise/train/checkpoint/checkpoint_folders.hpp>

#include <doctest/doctest.h>

#include "small_disk.hpp"
#include "training.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

using namespace shardwise;
using namespace shardwise::tests;

namespace {

using Words = std::vector<std::string>;

/// What the files of a folder are together, in bytes.
std::int64_t size_of(std::string const& folder) {
    std::int64_t sum = 0;
    for (auto const& entry : std::filesystem::directory_iterator(folder))
        sum += static_cast<std::int64_t>(entry.file_size());
    return sum;
}
/// Beyond the files: what is not known of trainer_state.json before it is written.
std::int64_t enough_for(std::int64_t checkpoints, std::int64_t bytes) {
    return checkpoints * bytes + checkpoints * bytes / 8;
}

}  // namespace

TEST_CASE(
    "train: a disk without space for two checkpoints is named before the first step, with what is needed and free; a "
    "run that goes on needs space for one, and one that is over for none") {
    Training const training;
    Words const flags{"--steps", "4", "--save-every", "2"};
    auto const hash = training.train("whole", flags).text("weights_hash");
    auto const one = size_of(training.out("whole/step-000004"));
    auto const with_free = [&](std::string const& name, std::int64_t bytes, Words more = {}) {
        auto const library =
            std::filesystem::path(SHARDWISE_PROGRAM).parent_path() / "../tests/fakes/libwatched_files.so";
        more.insert(more.begin(), flags.begin(), flags.end());
        return tests::run(training.words(name, more), {{"LD_PRELOAD", library.string()},
                                                       {"ASAN_OPTIONS", "verify_asan_link_order=0"},
                                                       {"WATCHED_FOLDER", training.out(name)},
                                                       {"WATCHED_FREE", std::to_string(bytes)}});
    };
    auto const check_refused = [&](Ran const& ran, std::string const& name, std::int64_t bytes,
                                   std::string const& what) {
        CHECK(ran.status == 1);
        CHECK_MESSAGE(ran.says("shardwise: " + training.out(name) + " needs "), ran.err);
        CHECK_MESSAGE(ran.says(" but only " + to_text(Bytes{bytes}) + " are available: for " + what + "; free some"),
                      ran.err);
        CHECK(ran.err.find("are available") == ran.err.rfind("are available"));
        CHECK_FALSE(ran.says("step 1/"));
        CHECK_FALSE(ran.says("step 3/"));
        CHECK(Answer(ran.out).text("schema") == "shardwise.error/1");
        CHECK(Answer(ran.out).text("error", "code") == "file_unwritable");
    };
    auto const too_few = 2 * one - 1;
    for (auto const& more : std::vector<Words>{{}, {"--dp", "2", "--ranks", "processes"}}) {
        auto const csv = training.out("refused.csv");
        auto words = more;
        words.insert(words.end(), {"--csv", csv});
        check_refused(with_free("refused", too_few, words), "refused", too_few, "2 checkpoints");
        CHECK(list_checkpoints(training.out("refused")).empty());
        CHECK_FALSE(exists(csv));
    }
    auto const taken = with_free("taken", enough_for(2, one));
    REQUIRE_MESSAGE(taken.status == 0, taken.err);
    // Of its two checkpoints the last is lost, or all is done.
    auto const older = training.out("taken/step-000002");
    std::filesystem::remove_all(training.out("taken/step-000004"));
    check_refused(with_free("taken", one - 1), "taken", one - 1, "a checkpoint");
    check_refused(with_free("other", enough_for(1, one), {"--resume", older}), "other", enough_for(1, one),
                  "2 checkpoints");
    CHECK(list_checkpoints(training.out("taken")) == std::vector<std::int64_t>{2});
    for (auto const bytes : {enough_for(1, one), std::int64_t{0}}) {
        auto const ran = with_free("taken", bytes);
        REQUIRE_MESSAGE(ran.status == 0, ran.err);
        CHECK(Answer(ran.out).text("weights_hash") == hash);
    }
}

TEST_CASE("train: a disk that becomes full is told once, and at the end; with some space again the run goes on") {
    Training const training;
    Words const flags{"--steps", "10", "--save-every", "1", "--csv"};
    auto const with_csv = [&](std::string const& name, Words const& more) {
        auto words = flags;
        words.push_back(training.out(name + ".csv"));
        words.insert(words.end(), more.begin(), more.end());
        return words;
    };
    auto const expected = training.train("whole", with_csv("whole", {"--keep", "10"}));
    // Two checkpoints and a half, each file of whole pages.
    auto const one = size_of(training.out("whole/step-000010"));
    SmallDisk const disk(5 * (one + 4 * 4096) / 2);
    if (!disk.missing().empty()) {
        MESSAGE("not checked: no file system of its own can be mounted: " << disk.missing());
        return;
    }
    auto const out = disk.path() + "/run";
    auto const run = [&](Words const& more) {
        auto words = training.words("run", with_csv("run", more));
        words[5] = out;
        return tests::run(words);
    };
    auto const full = run({"--dp", "2", "--ranks", "processes"});
    CHECK(full.status == 1);
    auto const warning = full.err.find("the disk is full; free space, or write elsewhere; training goes on without");
    CHECK_MESSAGE(warning != std::string::npos, full.err);
    CHECK(full.err.find("goes on without", warning + 80) == std::string::npos);
    CHECK(full.err.find("shardwise: warning: " + out + "/step-000003/") != std::string::npos);
    CHECK(Answer(full.out).text("error", "code") == "file_unwritable");
    CHECK(Answer(full.out).text("error", "message").find(out + "/step-000010/") == 0);
    CHECK(compared_lines(training.out("run.csv")) == compared_lines(training.out("whole.csv")));
    CHECK(shardwise::detail::entries_of(out) == Words{checkpoint_name(1), checkpoint_name(2), "tokens"});
    for (auto const step : {1, 2}) {
        auto const name = "/" + checkpoint_name(step) + "/";
        for (auto const* const file : {"model.safetensors", "optimizer.safetensors", "trainer_state.json"})
            CHECK(read_text(out + name + file) == read_text(training.out("whole") + name + file));
    }
    // Space for the one that is written, beside the one that stays.
    std::filesystem::remove_all(out + "/" + checkpoint_name(1));
    auto const again = run({"--keep", "1"});
    REQUIRE_MESSAGE(again.status == 0, again.err);
    CHECK(Answer(again.out).text("weights_hash") == expected.text("weights_hash"));
    CHECK(Answer(again.out).size("warnings") == 0);
    CHECK(compared_lines(training.out("run.csv")) == compared_lines(training.out("whole.csv")));
    CHECK(list_checkpoints(out) == std::vector<std::int64_t>{10});
}
