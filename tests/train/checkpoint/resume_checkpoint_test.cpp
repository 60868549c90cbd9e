// SPDX-License-Identifier: Apache-2.0
#include <shardwise/train/checkpoint/resume_checkpoint.hpp>

#include <doctest/doctest.h>

#include "checkpoint_cases.hpp"

#include <string>
#include <vector>

using namespace shardwise;
using namespace shardwise::testing;

namespace {

/// A run of 20 steps without a break, and one that is begun anew from a checkpoint after each step, by other objects.
template <class Rule>
void compare_resumed(std::string_view dtype) {
    SmallRun<Rule> whole(dtype);
    auto const losses = whole.train(0, run_steps);
    TemporaryFolder const out;
    std::vector<double> resumed;
    std::string bits;
    for (std::int64_t step = 0; step < run_steps; ++step) {
        SmallRun<Rule> run(dtype);
        auto const point = run.newest(out.path());
        REQUIRE_MESSAGE(point, (point ? "" : point.error().message()));
        CHECK(point->is_beginning() == (step == 0));
        CHECK(point->state.step == step);
        if (!point->is_beginning()) run.load(point->folder);
        auto const some = run.train(step, step + 1);
        resumed.insert(resumed.end(), some.begin(), some.end());
        REQUIRE(run.save(out.path(), step + 1));
        bits = run.bits();
    }
    CHECK(resumed == losses);
    CHECK(bits == whole.bits());
    // Saved by the run without a break, the last checkpoint has the same bytes.
    TemporaryFolder const other;
    REQUIRE(whole.save(other.path(), run_steps));
    CHECK(files_of(other / "step-000020") == files_of(out / "step-000020"));
}

/// Two checkpoints of a run, of which the newer one can be damaged.
struct TwoCheckpoints {
    SmallRun<AdamW> run;
    TemporaryFolder out;

    TwoCheckpoints() {
        run.train(0, 1);
        REQUIRE(run.save(out.path(), 1));
        run.train(1, 2);
        REQUIRE(run.save(out.path(), 2));
    }
    [[nodiscard]] std::string newer(std::string_view file) const { return out / "step-000002/" + std::string(file); }
};

}  // namespace

TEST_CASE("newest_checkpoint: a run that is resumed after each of 20 steps has the bits of one without a break") {
    SUBCASE("adamw") {
        compare_resumed<AdamW>("float32");
    }
    SUBCASE("adamw, weights in bfloat16 with masters") {
        compare_resumed<AdamW>("bfloat16");
    }
    SUBCASE("sgd") {
        compare_resumed<Sgd>("float32");
    }
    SUBCASE("adam8bit") {
        compare_resumed<Adam8bit>("float16");
    }
}

// A checkpoint whose bytes were damaged.
TEST_CASE(
    "newest_checkpoint: a flipped bit in any file names the tensor or the file, and the checkpoint before is taken") {
    TwoCheckpoints two;
    auto const whole = two.run.newest(two.out.path());
    REQUIRE(whole);
    CHECK(whole->folder == two.out / "step-000002");
    CHECK(whole->warnings.empty());
    auto const check = [&](std::string const& path, std::string_view named) {
        auto const point = two.run.newest(two.out.path());
        REQUIRE_MESSAGE(point, (point ? "" : point.error().message()));
        CHECK(point->folder == two.out / "step-000001");
        CHECK(point->state.step == 1);
        REQUIRE(point->warnings.size() == 1);
        CHECK(point->warnings[0].find(path) == 0);
        CHECK(point->warnings[0].find(named) != std::string::npos);
    };
    for (auto const& file : two.run.layout->files()) {
        auto const path = two.newer(file.file());
        for (auto const& tensor : file.tensors()) {
            // One in the first and one in the last byte, each time another bit.
            std::int64_t bit = 0;
            for (auto const at : {tensor.offset, tensor.offset + tensor.bytes() - 1}) {
                auto const which = static_cast<unsigned>((bit += 3 + tensor.offset % 5) % 8);
                flip_bit(path, static_cast<std::size_t>(at), which);
                check(path, ": " + tensor.name + ": has changed since it was written");
                flip_bit(path, static_cast<std::size_t>(at), which);
            }
        }
        flip_bit(path, 20, 1);
        check(path, "another list of tensors");
        flip_bit(path, 20, 1);
    }
    auto const config = two.newer("config.json");
    flip_bit(config, 3, 0);
    check(config, "has changed since it was written");
    flip_bit(config, 3, 0);
    auto const state = two.newer("trainer_state.json");
    flip_bit(state, 300, 0);
    check(state, "has changed since it was written");
    flip_bit(state, 300, 0);
    CHECK(two.run.newest(two.out.path())->folder == two.out / "step-000002");

    // Files that are shorter, longer or gone.
    auto const model = two.newer("model.safetensors");
    auto const size = std::filesystem::file_size(model);
    std::filesystem::resize_file(model, size - 1);
    check(model, "is not as long as it was written");
    std::filesystem::remove(model);
    check(model, "does not exist");
}

TEST_CASE("newest_checkpoint: no folder and no checkpoint begin at step 0; where all are damaged it says so") {
    TwoCheckpoints two;
    auto const absent = two.run.newest(two.out / "absent");
    REQUIRE(absent);
    CHECK(absent->is_beginning());
    TemporaryFolder const empty;
    CHECK(two.run.newest(empty.path())->is_beginning());
    for (auto const* const step : {"step-000001", "step-000002"})
        std::filesystem::remove(two.out / step + "/trainer_state.json");
    auto const none = two.run.newest(two.out.path());
    REQUIRE_FALSE(none);
    CHECK(none.error().subject() == two.newer("trainer_state.json"));
    CHECK(none.error().advice().find("none in this one is whole") != std::string_view::npos);
}

TEST_CASE("compare_runs: a setting that changes the result and differs is refused by name") {
    TwoCheckpoints two;
    auto const refused = [&](RunSettings const& settings) {
        auto const point = newest_checkpoint(two.out.path(), *two.run.layout, two.run.files, settings);
        REQUIRE_FALSE(point);
        CHECK(point.error().code() == ErrorCode::invalid_argument);
        CHECK_FALSE(resume_from(two.out / "step-000001", *two.run.layout, two.run.files, settings));
        return point.error().message();
    };
    for (auto const& one : two.run.settings.all()) {
        auto changed = two.run.settings;
        changed.add(one.name, "other");
        CHECK(refused(changed).find(": " + one.name + ": is other, and was " + one.value) != std::string::npos);
    }
    auto more = two.run.settings;
    more.add("dropout", 0.1);
    CHECK(refused(more).find(": dropout: is 0.1, and was not set when the run began") != std::string::npos);
    CHECK(refused({}).find(": is not set, and was ") != std::string::npos);

    auto files = two.run.files;
    files.put("config.json", files.files[0].text + " ");
    auto const point = newest_checkpoint(two.out.path(), *two.run.layout, files, two.run.settings);
    REQUIRE_FALSE(point);
    CHECK(point.error().place() == "config.json");
}

TEST_CASE("resume_from: takes the checkpoint that is named, and refuses a damaged one") {
    TwoCheckpoints two;
    auto const resume = [&](std::string const& folder) {
        return resume_from(folder, *two.run.layout, two.run.files, two.run.settings);
    };
    auto const older = resume(two.out / "step-000001/");
    REQUIRE(older);
    CHECK(older->state == two.run.state(1));
    flip_bit(two.newer("optimizer.safetensors"),
             static_cast<std::size_t>(two.run.layout->files()[1].tensors()[0].offset), 0);
    auto const damaged = resume(two.out / "step-000002");
    REQUIRE_FALSE(damaged);
    CHECK(damaged.error().place() == two.run.layout->files()[1].tensors()[0].name);
    CHECK_FALSE(resume(two.out / "step-000003"));
}

TEST_CASE(
    "check_run_folder: a run that would remove checkpoints of another, or later ones, is refused with their names") {
    TwoCheckpoints two;
    auto const refused = [&](ResumePoint const& from, RunSettings const& settings) {
        auto const checked = check_run_folder(two.out.path(), from, two.run.files, settings);
        return checked ? std::string() : checked.error().message();
    };
    auto const& settings = two.run.settings;
    auto const newer = *two.run.newest(two.out.path());
    auto const older = *resume_from(two.out / "step-000001", *two.run.layout, two.run.files, settings);
    CHECK(refused(newer, settings).empty());
    CHECK(refused({}, settings).starts_with(two.out / "step-000002: would be removed by a run that begins at step 0"));
    CHECK(refused(older, settings)
              .starts_with(two.out / "step-000002: would be removed by a run that goes on from an earlier step"));
    auto other = settings;
    other.add("seed", 6);
    CHECK(refused(newer, other).starts_with(two.out / "step-000002: seed: is 6, and was 5"));
    TemporaryFolder const empty;
    CHECK(check_run_folder(empty.path(), {}, two.run.files, settings));
    CHECK(check_run_folder(empty / "absent", older, two.run.files, settings));
    // What is damaged is none of a run, unless nobody has looked at it.
    flip_bit(two.newer("trainer_state.json"), 200, 0);
    auto const whole = two.run.newest(two.out.path());
    REQUIRE(whole);
    CHECK(whole->damaged == std::vector<std::int64_t>{2});
    CHECK(refused(*whole, settings).empty());
    CHECK_FALSE(refused(older, settings).empty());
}

TEST_CASE("RunFolderLock: a folder is for one run at a time") {
    TemporaryFolder const folder;
    auto const out = folder / "not/yet/there";
    {
        auto const lock = RunFolderLock::take(out);
        REQUIRE(lock);
        auto const other = RunFolderLock::take(out);
        REQUIRE_FALSE(other);
        CHECK(other.error().message() ==
              out + ": is written to by another run; wait until it has ended, or give this one a folder of its own");
        CHECK(RunFolderLock::take(folder / "another"));
    }
    CHECK(RunFolderLock::take(out));
    CHECK_FALSE(RunFolderLock::take(folder.write("file", "") + "/run"));
}

TEST_CASE_TEMPLATE("load_checkpoint: ranks take their shares of a state that one rank wrote", Rule, AdamW, Adam8bit) {
    SmallRun<Rule> run("bfloat16");
    run.train(0, 3);
    TemporaryFolder const out;
    REQUIRE(run.save(out.path(), 3));
    auto& whole = run.trainer->optimizer();
    auto const bits = run.bits();
    for (std::int64_t const ranks : {2, 3, 4}) {
        for (std::int64_t rank = 0; rank < ranks; ++rank) {
            CAPTURE(rank);
            auto own = TrainedModel::take(
                ShardedOptimizer<Rule>::create(run.trained.context, run.rule, whole.parameters(),
                                               {static_cast<std::int32_t>(ranks), static_cast<std::int32_t>(rank)}));
            auto const loaded = load_checkpoint(out / "step-000003", *run.layout, run.trained.weights, own);
            REQUIRE_MESSAGE(loaded, (loaded ? "" : loaded.error().message()));
            for (std::size_t i = 0; i < whole.parameters().size(); ++i) {
                auto const elements = whole.parameters()[i].weights.elements();
                auto const before = run.rule.state(elements, {0, own.share(i).begin});
                for (std::size_t array = 0; array < own.state(i).count; ++array) {
                    auto const mine = own.state_memory(i, array);
                    auto const width = static_cast<std::size_t>(shardwise::bits(own.state(i).arrays[array].dtype) / 8);
                    auto const* const expected = whole.state_memory(i, array).data() +
                                                 static_cast<std::size_t>(before.arrays[array].elements) * width;
                    CHECK(std::equal(mine.begin(), mine.end(), expected));
                }
            }
        }
    }
    // The weights are the same again, from their masters.
    CHECK(run.bits() == bits);
}

TEST_CASE("check_checkpoint_space: a disk without the room is refused with what is needed") {
    SmallRun<AdamW> run;
    TemporaryFolder const out;
    CHECK(check_checkpoint_space(out / "not/yet/there", *run.layout, run.files));
    auto const refused = check_checkpoint_space(out.path(), *run.layout, run.files, std::int64_t{1} << 40U);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code() == ErrorCode::file_unwritable);
    CHECK(refused.error().needed() > refused.error().available());
    CHECK_FALSE(check_checkpoint_space("/dev/null/x", *run.layout, run.files));
}

TEST_CASE("add_settings: the number of steps counts where the learning rate depends on it") {
    RunSettings falling;
    add_settings(falling, Schedule{.kind = ScheduleKind::cosine, .total = 50});
    CHECK(*falling.find("steps") == "50");
    RunSettings level;
    add_settings(level, Schedule{.kind = ScheduleKind::constant, .total = 50});
    CHECK(level.find("steps") == nullptr);
}
