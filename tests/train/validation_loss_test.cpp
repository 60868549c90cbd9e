// SPDX-License-Identifier: Apache-2.0
#include <shardwise/comm/threads.hpp>
#include <shardwise/train/validation_loss.hpp>

#include <doctest/doctest.h>

#include "../executor/training/training_cases.hpp"

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

using namespace shardwise;
using namespace shardwise::testing;

namespace {

constexpr std::int64_t samples = 7;
constexpr std::chrono::seconds patience(60);

struct ValidationData {
    TemporaryFolder folder;
    std::optional<TokenDataset> dataset;

    ValidationData() {
        std::string bytes;
        // Some tokens more, which fill no sample.
        for (auto const id : golden_tokens(samples * golden_context + 5)) bytes += {static_cast<char>(id), '\0'};
        std::vector<TokenFile> files;
        files.push_back(std::move(*TokenFile::open(folder.write("valid.u16", bytes))));
        dataset.emplace(std::move(*TokenDataset::create(std::move(files), 97)));
    }
    [[nodiscard]] Batches batches(BatchOptions const& options) const {
        return TrainedModel::take(Batches::create(*dataset, {0, dataset->tokens()}, options));
    }
    [[nodiscard]] Batches ones() const { return batches({.context = golden_context, .batch = 1, .shuffles = false}); }
};

std::string golden_config() {
    return golden_trainings().front().config;
}

/// The mean on each of so many ranks.
std::vector<TokenMean> means_of(ValidationData const& data, std::int32_t ranks, std::int64_t sequences) {
    std::vector<TokenMean> out(static_cast<std::size_t>(ranks));
    std::mutex mutex;
    auto const done = run_threads(
        ranks,
        [&](Threads& comm) -> Result<> {
            // doctest's checks are for one thread at a time.
            std::unique_lock lock(mutex);
            TrainedModel trained(golden_config());
            auto pass = TrainedModel::take(TrainingPass::create(trained.context, trained.program,
                                                                {.sequences = sequences, .context = golden_context}));
            auto batches = data.ones();
            lock.unlock();
            auto stream = trained.context.make_stream();
            auto const mean = validation_loss(pass, trained.weights, batches, comm, stream, patience);
            if (!mean) return mean.error();
            out[static_cast<std::size_t>(comm.rank())] = *mean;
            return {};
        },
        {.timeout = patience});
    REQUIRE_MESSAGE(done, (done ? "" : done.error().message()));
    return out;
}

}  // namespace

TEST_CASE("validation_loss: the mean over all samples' tokens, each once, with the same bits on any ranks and at any number at a time") {
    ValidationData const data;
    // Sample by sample, added up here.
    TrainedModel trained(golden_config());
    auto pass = TrainedModel::take(
        TrainingPass::create(trained.context, trained.program, {.sequences = 1, .context = golden_context}));
    auto stream = trained.context.make_stream();
    double sum = 0.0;
    auto const all = golden_tokens(samples * golden_context + 1);
    for (std::int64_t i = 0; i < samples; ++i) {
        auto const* const first = all.data() + i * golden_context;
        std::vector<float> losses(golden_context);
        REQUIRE(pass.forward(trained.weights, {first, {1, golden_context}}, stream));
        REQUIRE(pass.losses(trained.weights, 0, {first + 1, {golden_context}}, {losses.data(), {golden_context}}, stream));
        REQUIRE(stream.synchronize(soon()));
        for (auto const loss : losses) sum += static_cast<double>(loss);
    }
    auto const expected = means_of(data, 1, 1).front();
    CHECK(expected.tokens() == samples * golden_context);
    CHECK(expected.mean() == doctest::Approx(sum / (samples * golden_context)).epsilon(1e-9));
    for (auto const& [ranks, sequences] : std::vector<std::pair<std::int32_t, std::int64_t>>{{1, 4}, {2, 1}, {3, 2}, {8, 1}}) {
        CAPTURE(ranks);
        for (auto const& mean : means_of(data, ranks, sequences)) CHECK(mean == expected);
    }
}

TEST_CASE("validation_loss: samples that come several at a time or in another order are refused") {
    ValidationData const data;
    TrainedModel trained(golden_config());
    auto pass = TrainedModel::take(
        TrainingPass::create(trained.context, trained.program, {.sequences = 1, .context = golden_context}));
    auto stream = trained.context.make_stream();
    for (auto const& options : {BatchOptions{.context = golden_context, .batch = 2, .shuffles = false},
                                BatchOptions{.context = golden_context, .batch = 1, .shuffles = true}}) {
        auto batches = data.batches(options);
        auto comm = TrainedModel::take(ThreadsGroup::create(1)->join(0));
        auto const mean = validation_loss(pass, trained.weights, batches, comm, stream, patience);
        REQUIRE_FALSE(mean);
        CHECK(mean.error().message().find("validation: samples: are not batches of one, in order") != std::string::npos);
    }
}
