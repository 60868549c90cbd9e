// SPDX-License-Identifier: Apache-2.0
#include <shardwise/train/checkpoint/checkpoint_saver.hpp>

#include <doctest/doctest.h>

#include "../ranks.hpp"
#include "checkpoint_cases.hpp"

#include <atomic>
#include <cerrno>
#include <string>
#include <thread>
#include <vector>

using namespace shardwise;
using namespace shardwise::testing;

namespace {

/// A disk that is full while `is_full`, and slow to write while `is_held`.
struct HeldCalls : FileCalls {
    inline static std::atomic<bool> is_full{false};
    inline static std::atomic<bool> is_held{false};

    static int allocate(int descriptor, std::int64_t bytes) {
        if (is_full) return errno = ENOSPC, -1;
        return FileCalls::allocate(descriptor, bytes);
    }
    static int sync(int descriptor) {
        while (is_held) std::this_thread::yield();
        return FileCalls::sync(descriptor);
    }
};

}  // namespace

TEST_CASE(
    "CheckpointSaver: what changes after the start is not in the checkpoint, which has the bytes of one that was "
    "waited for") {
    SmallRun<AdamW> run("bfloat16");
    run.train(0, 2);
    TemporaryFolder const waited;
    REQUIRE(run.save(waited.path(), 2));
    auto const expected = files_of(waited / "step-000002");
    std::vector<float> kept;
    for (std::size_t i = 0; i < run.trained.weights.layout().parameters().size(); ++i) {
        auto const values = run.trained.weights.values(i);
        kept.insert(kept.end(), values.data(), values.data() + values.elements());
    }
    for (std::int32_t const ranks : {1, 2, 4}) {
        CAPTURE(ranks);
        TemporaryFolder const out;
        std::atomic<int> started{0};
        auto const done = on_threads(ranks, [&](Threads& comm) -> Result<> {
            auto parts = checkpoint_parts(*run.layout, run.trained.weights, run.trainer->optimizer(),
                                          {comm.size(), comm.rank()});
            if (!parts) return parts.error();
            Span<CheckpointPart const> const all(parts->data(), parts->size());
            HostContext context({.threads = 2});
            auto saver = CheckpointSaver<HeldCalls>::create(context, run.target(out.path()), all);
            if (!saver) return saver.error();
            CHECK(context.memory().current() == CheckpointSaver<>::staging_bytes(all));
            if (auto const begun = saver->start(comm, run.state(2), all); !begun) return begun;
            ++started;
            while (started < ranks) std::this_thread::yield();
            // Training goes on.
            if (comm.rank() == 0) {
                for (std::size_t i = 0; i < run.trained.weights.layout().parameters().size(); ++i) {
                    auto const values = run.trained.weights.values(i);
                    std::fill_n(values.data(), values.elements(), 7.0F);
                }
            }
            while (saver->is_in_flight()) {
                if (auto const looked = saver->poll(comm); !looked) return looked;
            }
            CHECK(saver->saved() == std::vector<std::int64_t>{2});
            return saver->finish(comm);
        });
        for (auto const& one : done) REQUIRE_MESSAGE(one, (one ? "" : one.error().message()));
        CHECK(files_of(out / "step-000002") == expected);
        auto const* from = kept.data();
        for (std::size_t i = 0; i < run.trained.weights.layout().parameters().size(); ++i) {
            auto const values = run.trained.weights.values(i);
            std::copy_n(from, values.elements(), values.data());
            from += values.elements();
        }
    }
}

TEST_CASE_TEMPLATE("CheckpointSaver: its memory is known before there are weights, with the state whole or by shares",
                   Rule, AdamW, Adam8bit, Sgd) {
    for (auto const* const dtype : {"float32", "bfloat16"}) {
        SmallRun<Rule> run(dtype);
        auto& optimizer = run.trainer->optimizer();
        for (std::int32_t const ranks : {1, 2, 3, 7}) {
            for (std::int32_t rank = 0; rank < ranks; ++rank) {
                TensorPlace const place{ranks, rank};
                auto sharded = TrainedModel::take(
                    ShardedOptimizer<Rule>::create(run.trained.context, run.rule, optimizer.parameters(), place));
                for (auto* const held : {&optimizer, &sharded}) {
                    auto const parts =
                        TrainedModel::take(checkpoint_parts(*run.layout, run.trained.weights, *held, place));
                    Span<CheckpointPart const> const all(parts.data(), parts.size());
                    CHECK(CheckpointSaver<>::staging_bytes(all) ==
                          CheckpointSaver<>::staging_bytes(run.trained.weights.layout(), run.rule, place));
                }
            }
        }
    }
}

TEST_CASE(
    "CheckpointSaver: one checkpoint is in flight; a step does not wait for the disk; a destroyed one leaves nothing") {
    SmallRun<AdamW> run;
    TemporaryFolder const out;
    auto const group = ThreadsGroup::create(1);
    auto comm = group->join(0);
    auto const parts = TrainedModel::take(checkpoint_parts(*run.layout, run.trained.weights, run.trainer->optimizer()));
    Span<CheckpointPart const> const all(parts.data(), parts.size());
    {
        auto saver =
            TrainedModel::take(CheckpointSaver<HeldCalls>::create(run.trained.context, run.target(out.path(), 3), all));
        // The copied files are synced at once; the rest is held.
        REQUIRE(saver.start(*comm, run.state(1), all));
        REQUIRE(saver.start(*comm, run.state(2), all));
        CHECK(list_checkpoints(out.path()) == std::vector<std::int64_t>{1});
        while (saver.is_in_flight()) REQUIRE(saver.poll(*comm));
        CHECK(list_checkpoints(out.path()) == std::vector<std::int64_t>{2, 1});
        REQUIRE(saver.poll(*comm));
        REQUIRE(saver.start(*comm, run.state(3), all));
    }
    CHECK(shardwise::detail::entries_of(out.path()) == std::vector<std::string>{"step-000001", "step-000002"});
}

TEST_CASE(
    "CheckpointSaver: a full disk ends no step; the last one's error is given at the end, older checkpoints stay") {
    SmallRun<AdamW> run;
    TemporaryFolder const out;
    auto const done = on_threads(2, [&](Threads& comm) -> std::string {
        auto const parts =
            checkpoint_parts(*run.layout, run.trained.weights, run.trainer->optimizer(), {comm.size(), comm.rank()});
        Span<CheckpointPart const> const all(parts->data(), parts->size());
        HostContext context({.threads = 1});
        auto saver = CheckpointSaver<HeldCalls>::create(context, run.target(out.path()), all);
        auto const save = [&](std::int64_t step, bool is_full) {
            HeldCalls::is_full = is_full;
            bool is_well = barrier(comm).has_value();
            is_well = is_well && saver->start(comm, run.state(step), all);
            is_well = is_well && saver->poll(comm);
            auto const ended = saver->finish(comm);
            is_well = is_well && barrier(comm).has_value();
            return !is_well ? "failed" : ended ? std::string() : ended.error().message();
        };
        auto const first = save(1, false);
        auto const second = save(2, true);
        auto const third = save(3, false);
        auto const fourth = save(4, true);
        return first + "|" + second + "|" + third + "|" + fourth;
    });
    auto const full = [&](std::string const& step) {
        return out / step + "/config.json: the disk is full; free space, or write elsewhere";
    };
    CHECK(done[0] == "|" + full("step-000002") + "||" + full("step-000004"));
    CHECK(done[1] == done[0]);
    CHECK(shardwise::detail::entries_of(out.path()) == std::vector<std::string>{"step-000001", "step-000003"});
}
