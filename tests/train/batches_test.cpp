// SPDX-License-Identifier: Apache-2.0
#include <shardwise/hardware/system/process_memory.hpp>
#include <shardwise/train/batches.hpp>

#include <doctest/doctest.h>

#include "temporary_folder.hpp"

#include <set>
#include <thread>
#include <vector>

using namespace shardwise;
using namespace shardwise::testing;

namespace {

/// The ids 0, 1, 2, ... so that a window shows where it lies.
TokenDataset counted(TemporaryFolder const& folder, std::int64_t tokens) {
    std::string text;
    for (std::int64_t i = 0; i < tokens; ++i) text += {static_cast<char>(i & 0xFF), static_cast<char>(i >> 8)};
    std::vector<TokenFile> files;
    files.push_back(std::move(*TokenFile::open(folder.write("a.u16", text))));
    return std::move(*TokenDataset::create(std::move(files), 65'536));
}

struct Read {
    std::vector<std::int32_t> tokens;
    std::vector<std::int32_t> targets;
};

Read read_all(Batches& batches, std::int64_t position, UnitRange sequences) {
    auto const context = batches.options().context;
    auto const size = static_cast<std::size_t>(sequences.size() * context);
    Read out{std::vector<std::int32_t>(size), std::vector<std::int32_t>(size)};
    REQUIRE(batches.read(position, sequences, {out.tokens.data(), {sequences.size(), context}},
                         {out.targets.data(), {sequences.size(), context}}));
    return out;
}

}  // namespace

TEST_CASE("Batches: windows of context + 1 tokens, context apart, the rest dropped") {
    TemporaryFolder const folder;
    auto const dataset = counted(folder, 47);
    auto batches = Batches::create(dataset, {2, 47}, {.context = 4, .batch = 3, .shuffles = false, .seed = 0});
    REQUIRE(batches);
    // 45 tokens: 11 windows, of which 3 batches of 3 are taken.
    CHECK(batches->samples() == 11);
    CHECK(batches->batches_per_epoch() == 3);
    auto const second = read_all(*batches, 3, {1, 3});
    CHECK(second.tokens == std::vector<std::int32_t>{18, 19, 20, 21, 22, 23, 24, 25});
    CHECK(second.targets == std::vector<std::int32_t>{19, 20, 21, 22, 23, 24, 25, 26});
    // The next epoch begins where the full batches end.
    CHECK(read_all(*batches, 9, {0, 1}).tokens == std::vector<std::int32_t>{2, 3, 4, 5});
}

TEST_CASE("Batches: an epoch is the sampler's order, and any position is read without those before") {
    TemporaryFolder const folder;
    auto const dataset = counted(folder, 1000);
    BatchOptions const options{.context = 7, .batch = 8, .shuffles = true, .seed = 21};
    auto walked = Batches::create(dataset, {0, 1000}, options);
    REQUIRE(walked);
    auto const sampler = DistributedSampler::create(142, {.seed = 21});
    for (std::int64_t step = 0; step < 40; ++step) {
        auto const order = *sampler->order(step / 17);
        auto const samples = *walked->samples_at(8 * step);
        for (std::size_t i = 0; i < 8; ++i) CHECK(samples[i] == order[static_cast<std::size_t>(step % 17) * 8 + i]);
        auto resumed = Batches::create(dataset, {0, 1000}, options);
        auto const here = read_all(*walked, 8 * step, {0, 8});
        CHECK(read_all(*resumed, 8 * step, {0, 8}).tokens == here.tokens);
        // Ranks read their sequences alone.
        auto const part = read_all(*resumed, 8 * step, {3, 5});
        CHECK(std::equal(part.targets.begin(), part.targets.end(), here.targets.begin() + 21));
        CHECK(here.tokens[0] == samples[0] * 7);
        // What is expected, or is not there to be, changes nothing.
        for (auto const position : {8 * (step + 1), 8 * step + 3, std::int64_t{-8}, std::int64_t{1} << 60U}) {
            walked->expect(position, {0, 8});
            walked->expect(position, {-1, 9});
        }
    }
    // Two epochs differ.
    CHECK_FALSE(*walked->samples_at(0) == *walked->samples_at(17 * 8));
}

TEST_CASE("Batches: what does not fill a batch, and positions within one, are refused") {
    TemporaryFolder const folder;
    auto const dataset = counted(folder, 33);
    CHECK(Batches::create(dataset, {0, 33}, {.context = 8, .batch = 5}).error().message() ==
          "batches: batch: has more sequences than the data have samples (got 5, expected at most 4); give more data, "
          "a smaller "
          "batch or a smaller context");
    CHECK(Batches::create(dataset, {0, 33}, {.context = 8, .batch = 4}));
    CHECK_FALSE(Batches::create(dataset, {0, 32}, {.context = 8, .batch = 4}));
    CHECK_FALSE(Batches::create(dataset, {0, 0}, {.context = 8, .batch = 1}));
    CHECK_FALSE(Batches::create(dataset, {0, 34}, {.context = 8, .batch = 1}));
    CHECK_FALSE(Batches::create(dataset, {0, 33}, {.context = 0, .batch = 1}));
    CHECK_FALSE(Batches::create(dataset, {0, 33}, {.context = 8, .batch = 0}));
    auto batches = Batches::create(dataset, {0, 33}, {.context = 8, .batch = 2});
    CHECK(batches->samples_at(3).error().message() ==
          "batches: position: is not where a batch begins (got 3, expected a multiple of 2)");
    CHECK_FALSE(batches->samples_at(-2));
    std::vector<std::int32_t> ids(16);
    CHECK(batches->read(0, {0, 3}, {ids.data(), {2, 8}}, {ids.data(), {2, 8}}).error().code() ==
          ErrorCode::invalid_argument);
    CHECK(batches->read(0, {0, 1}, {ids.data(), {2, 8}}, {ids.data(), {2, 8}}).error().code() ==
          ErrorCode::shape_mismatch);
    CHECK(batches->read(0, {0, 2}, {nullptr, {2, 8}}, {ids.data(), {2, 8}}).error().code() ==
          ErrorCode::invalid_argument);
}

TEST_SUITE("large") {
    TEST_CASE("Batches: copies that threads read share an epoch's order, and samples that are not shuffled need none") {
        TemporaryFolder const folder;
        // An order of 40 MB: the C library gives what is larger than 32 MB memory of its own, and none that was freed before.
        constexpr std::int64_t samples = 5'000'000;
        auto const dataset = counted(folder, samples + 1);
        auto const held = [] { return read_process_memory()->resident.count(); };
        auto const one = 8 * samples;
        for (bool const shuffles : {false, true}) {
            CAPTURE(shuffles);
            auto const before = held();
            auto const first =
                Batches::create(dataset, {0, samples + 1}, {.context = 1, .batch = 8, .shuffles = shuffles, .seed = 3});
            REQUIRE(first);
            std::vector<Batches> copies(6, *first);
            std::vector<std::vector<std::int64_t>> taken(copies.size());
            // The last batch of an epoch, and the first of the next one.
            for (auto const position : {samples - 8, samples}) {
                std::vector<std::thread> threads;
                for (std::size_t i = 0; i < copies.size(); ++i) {
                    threads.emplace_back([&, i] {
                        auto const at = copies[i].samples_at(position);
                        if (at) taken[i].insert(taken[i].end(), at->begin(), at->end());
                    });
                }
                for (auto& thread : threads) thread.join();
            }
            CHECK(taken[0].size() == 16);
            for (auto const& each : taken) CHECK(each == taken[0]);
            auto const more = held() - before;
            CAPTURE(more);
            // Six copies would be six orders; what else the process takes meanwhile is no order.
            CHECK(more < (shuffles ? 2 * one : one / 2));
            if (shuffles) CHECK(more > one / 2);
        }
    }
}
