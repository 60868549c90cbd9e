#include <shardwise/comm/threads.hpp>
#include <shardwise/executor/rank_executor.hpp>
#include <shardwise/json/value.hpp>
#include <shardwise/model/files/checkpoint.hpp>

#include <doctest/doctest.h>

#include "formula.hpp"
#include "temporary_folder.hpp"

#include <chrono>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

namespace {

using namespace shardwise;
using namespace shardwise::testing;

/// What transformers computes with one small model.
struct Case {
    std::string name;
    std::string config;
    std::vector<std::int32_t> ids;
    /// Behind so many tokens, the logits.
    std::vector<std::pair<std::int64_t, std::vector<float>>> logits;
};

std::vector<Case> const& golden() {
    static std::vector<Case> const cases = [] {
        std::ifstream file(SHARDWISE_SOURCE_DIR "/tests/golden/executor/logits.json");
        std::stringstream text;
        text << file.rdbuf();
        auto const document = parse_json(text.str());
        std::vector<Case> out;
        REQUIRE(document);
        for (auto const entry : document->root()) {
            Case one{std::string(entry.key()), std::string(*entry.find("config")->string()), {}, {}};
            auto const ids = entry.find("ids");
            auto const logits = entry.find("logits");
            for (auto const id : *ids) one.ids.push_back(static_cast<std::int32_t>(*id.integer()));
            for (auto const row : *logits) {
                one.logits.push_back({std::stoll(std::string(row.key())), {}});
                for (auto const value : row) one.logits.back().second.push_back(static_cast<float>(*value.real()));
            }
            out.push_back(std::move(one));
        }
        return out;
    }();
    return cases;
}

/// A model on disk, as its files describe it.
struct OnDisk {
    TemporaryFolder folder;
    ModelSource source;
    std::optional<Checkpoint> checkpoint;

    explicit OnDisk(std::string const& config) {
        (void)folder.write("config.json", config);
        auto const only = find_model(folder / "config.json", {}, HubCache(HubEnvironment{}));
        REQUIRE(only);
        auto const described = read_checkpoint(*only);
        REQUIRE_MESSAGE(described, (described ? "" : described.error().message()));
        write_formula_model(described->model, folder / "model.safetensors");
        auto found = find_model(folder.path(), {}, HubCache(HubEnvironment{}));
        REQUIRE(found);
        source = *found;
        auto read = read_checkpoint(source);
        REQUIRE_MESSAGE(read, (read ? "" : read.error().message()));
        checkpoint.emplace(std::move(*read));
    }
};

/// The logits behind each of some numbers of tokens, computed in steps between them, the last ones a token at a time.
template <class Policy>
std::vector<std::vector<float>> compute(OnDisk const& model, Case const& one, std::int32_t ranks,
                                        StreamMode mode = StreamMode::immediate) {
    auto const parameters = StoredParameters::open(model.source, model.checkpoint->model);
    REQUIRE_MESSAGE(parameters, (parameters ? "" : parameters.error().message()));
    auto const vocabulary = model.checkpoint->model.config.vocab_size;
    std::vector<std::vector<float>> out;
    auto const done = run_threads(ranks, [&](Threads& comm) -> Result<> {
        HostContext context({.threads = 1, .streams = mode});
        auto stream = context.make_stream();
        auto executor = RankExecutor<Host, Policy>::create(context, model.checkpoint->model, *parameters,
                                                           {comm.size(), comm.rank()},
                                                           {.sequences = 2, .context = 32, .step_tokens = 16});
        if (!executor) return executor.error();
        CHECK(context.memory().current() ==
              executor->weight_bytes() + executor->cache_bytes() + executor->activation_bytes());
        auto const peak = context.memory().peak();
        std::vector<float> logits(static_cast<std::size_t>(vocabulary));
        TensorView<float, 2, Host> const view(logits.data(), {1, vocabulary});
        std::int64_t past = 0;
        for (auto const& [behind, expected] : one.logits) {
            auto const step = one.logits.size() > 1 && behind == one.logits.back().first ? 1 : behind - past;
            while (past < behind) {
                SequencePart const part{1, past, step};
                std::span<std::int32_t const> const ids(one.ids.data() + past, static_cast<std::size_t>(step));
                if (auto const ran = executor->forward(ids, {&part, 1}, view, comm, stream); !ran) return ran;
                if (auto const ended = stream.synchronize(Deadline::after(std::chrono::seconds(20))); !ended)
                    return ended;
                past += step;
            }
            if (comm.rank() == 0) out.push_back(logits);
        }
        // Nothing is allocated while it runs.
        CHECK(context.memory().peak() == peak);
        return {};
    });
    CHECK_MESSAGE(done, (done ? "" : done.error().message()));
    return out;
}

double worst(std::vector<float> const& got, std::vector<float> const& expected) {
    double most = got.size() == expected.size() ? 0.0 : 1e9;
    for (std::size_t i = 0; i < got.size() && i < expected.size(); ++i)
        most = std::max(most, std::abs(static_cast<double>(got[i]) - static_cast<double>(expected[i])));
    return most;
}

TEST_CASE("RankExecutor: logits of every family are transformers' within 1e-4, in chunks and a token at a time") {
    for (auto const& one : golden()) {
        CAPTURE(one.name);
        OnDisk const model(one.config);
        auto const logits = compute<Fast>(model, one, 1);
        REQUIRE(logits.size() == one.logits.size());
        for (std::size_t i = 0; i < logits.size(); ++i) {
            CAPTURE(one.logits[i].first);
            CHECK(worst(logits[i], one.logits[i].second) < 1e-4);
        }
    }
}

TEST_CASE("RankExecutor: Deterministic gives the same bits for any number of ranks, Fast the same within 1e-4") {
    for (auto const& one : golden()) {
        CAPTURE(one.name);
        OnDisk const model(one.config);
        auto const alone = compute<Deterministic>(model, one, 1);
        for (std::int32_t const ranks : {2, 3, 4, 6}) {
            if (ranks > 2 && one.name.find("qwen2") == std::string::npos && one.name.find("gpt") == std::string::npos)
                continue;
            CAPTURE(ranks);
            CHECK(compute<Deterministic>(model, one, ranks) == alone);
        }
        auto const fast = compute<Fast>(model, one, 2);
        for (std::size_t i = 0; i < fast.size(); ++i) CHECK(worst(fast[i], one.logits[i].second) < 1e-4);
    }
}

TEST_CASE("RankExecutor: a stream that queues its work gives the same bits") {
    auto const& one = golden().front();
    OnDisk const model(one.config);
    CHECK(compute<Fast>(model, one, 2, StreamMode::queued) == compute<Fast>(model, one, 2));
}

}  // namespace
