// SPDX-License-Identifier: Apache-2.0
#include <shardwise/comm/threads.hpp>
#include <shardwise/executor/pipeline_stage.hpp>
#include <shardwise/executor/rank_executor.hpp>
#include <shardwise/model/tree_totals.hpp>

#include <doctest/doctest.h>

#include "golden_json.hpp"
#include "golden_models.hpp"
#include "translations.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace shardwise;
using namespace shardwise::testing;

/// An encoder's states and results as transformers gives them, sequences one after another.
struct EncoderCase {
    std::string name, config;
    std::uint64_t seed = 0;
    std::vector<std::vector<std::int32_t>> sequences;
    std::vector<float> hidden, output;
};

std::vector<EncoderCase> encoders() {
    auto const document = golden_json("executor/encoders.json");
    std::vector<EncoderCase> out;
    for (auto const entry : document.root()) {
        EncoderCase one;
        one.name = entry.key();
        one.config = *entry.find("config")->string();
        one.seed = static_cast<std::uint64_t>(*entry.find("seed")->integer());
        auto const sequences = entry.find("sequences");
        for (auto const sequence : *sequences) {
            one.sequences.emplace_back();
            for (auto const id : sequence) one.sequences.back().push_back(static_cast<std::int32_t>(*id.integer()));
        }
        auto const read = [&](char const* key, std::vector<float>& to) {
            auto const values = entry.find(key);
            for (auto const value : *values) to.push_back(static_cast<float>(*value.real()));
        };
        read("hidden", one.hidden);
        read("output", one.output);
        out.push_back(std::move(one));
    }
    return out;
}

/// One step over whole sequences.
struct EncoderStep {
    std::vector<std::int32_t> ids;
    std::vector<SequencePart> parts;

    explicit EncoderStep(std::vector<std::vector<std::int32_t>> const& sequences) {
        for (auto const& sequence : sequences) {
            parts.push_back({static_cast<std::int64_t>(parts.size()), 0, static_cast<std::int64_t>(sequence.size())});
            ids.insert(ids.end(), sequence.begin(), sequence.end());
        }
    }

    /// What a rank's executor makes of it, [parts or tokens, width]; `links` to the stages beside it, if there are.
    template <class Executor, class Comm, class... Links>
    Result<std::vector<float>> run(Executor& executor, Comm& comm, Host::Stream& stream, Links const&... links) const {
        auto const& made = executor.output();
        auto const rows = made.rows == Rows::tokens ? ids.size() : parts.size();
        std::vector<float> values(rows * static_cast<std::size_t>(made.width));
        TensorView<float, 2, Host> const view(values.data(), {static_cast<std::int64_t>(rows), made.width});
        if (auto const ran = executor.forward(ids, parts, view, comm, stream, links...); !ran) return ran.error();
        if (auto const ended = stream.synchronize(Deadline::after(std::chrono::seconds(20))); !ended)
            return ended.error();
        return values;
    }
};

/// What an encoder makes of some sequences in one step.
template <class Policy>
std::vector<float> encode(FormulaModel const& model, std::vector<std::vector<std::int32_t>> const& sequences,
                          bool has_head, std::int32_t ranks) {
    auto const parameters = StoredParameters::open(model.source, model.checkpoint->model);
    REQUIRE(parameters);
    EncoderStep const step(sequences);
    std::vector<float> out;
    auto const done = run_threads(ranks, [&](Threads& comm) -> Result<> {
        HostContext context({.threads = 1});
        auto stream = context.make_stream();
        auto executor = RankExecutor<Host, Policy>::create(
            context, model.checkpoint->model, *parameters, {comm.size(), comm.rank()},
            {.sequences = 3, .context = 20, .step_tokens = 24, .has_head = has_head});
        if (!executor) return executor.error();
        // Only decoders look back.
        CHECK((executor->cache_bytes().count() > 0) == !is_bidirectional(model.checkpoint->model));
        auto values = step.run(*executor, comm, stream);
        if (!values) return values.error();
        if (comm.rank() == comm.size() - 1) out = *std::move(values);
        return {};
    });
    CHECK_MESSAGE(done, (done ? "" : done.error().message()));
    return out;
}

TEST_CASE("RankExecutor: states, pooled and masked results of encoders are transformers' within 1e-4, over any ranks") {
    for (auto const& one : encoders()) {
        CAPTURE(one.name);
        FormulaModel const model(one.config, one.seed);
        for (std::int32_t const ranks : {1, 2, 3})
            CHECK(worst(encode<Fast>(model, one.sequences, false, ranks), one.hidden) < 1e-4);
        CHECK(worst(encode<Fast>(model, one.sequences, true, 3), one.output) < 1e-4);
        auto const alone = encode<Deterministic>(model, one.sequences, true, 1);
        CHECK(worst(alone, one.output) < 1e-4);
        for (std::int32_t const ranks : {2, 3, 4})
            CHECK(encode<Deterministic>(model, one.sequences, true, ranks) == alone);
    }
}

/// The same over two stages of a pipeline, a rank each.
std::vector<float> encode_in_stages(FormulaModel const& model, std::vector<std::vector<std::int32_t>> const& sequences,
                                    bool has_head) {
    auto const& described = model.checkpoint->model;
    auto const parameters = StoredParameters::open(model.source, described);
    REQUIRE(parameters);
    auto const begins = even_stages(described, 1, 2);
    REQUIRE(begins);
    auto const stages = blocks_of_stages(described.program, *begins);
    EncoderStep const step(sequences);
    std::vector<float> out;
    auto const done = run_threads(2, [&](Threads& world) -> Result<> {
        auto const rank = world.rank();
        auto group = world.split(rank);
        if (!group) return group.error();
        StageLinks<Threads> const links{&world, rank - 1, rank == 0 ? 1 : -1};
        HostContext context({.threads = 1});
        auto stream = context.make_stream();
        auto executor =
            RankExecutor<Host, Fast>::create(context, described, *parameters, {1, 0},
                                             {.sequences = 3, .context = 20, .step_tokens = 24, .has_head = has_head},
                                             {}, {}, stages[static_cast<std::size_t>(rank)]);
        if (!executor) return executor.error();
        auto values = step.run(*executor, *group, stream, links);
        if (!values) return values.error();
        if (rank == 1) out = *std::move(values);
        return {};
    });
    CHECK_MESSAGE(done, (done ? "" : done.error().message()));
    return out;
}

TEST_CASE("RankExecutor: encoders in two stages of a pipeline give transformers' results within 1e-4") {
    int staged = 0;
    for (auto const& one : encoders()) {
        CAPTURE(one.name);
        FormulaModel const model(one.config, one.seed);
        // A layer alone is no two stages.
        if (model.checkpoint->model.config.layers < 2) continue;
        ++staged;
        CHECK(worst(encode_in_stages(model, one.sequences, false), one.hidden) < 1e-4);
        CHECK(worst(encode_in_stages(model, one.sequences, true), one.output) < 1e-4);
    }
    CHECK(staged > 20);
}

TEST_CASE("RankExecutor: an encoder takes its sequences whole") {
    auto const one = encoders().front();
    FormulaModel const model(one.config, one.seed);
    auto const parameters = StoredParameters::open(model.source, model.checkpoint->model);
    REQUIRE(parameters);
    auto const done = run_threads(1, [&](Threads& comm) -> Result<> {
        HostContext context({.threads = 1});
        auto stream = context.make_stream();
        auto executor = RankExecutor<Host, Fast>::create(context, model.checkpoint->model, *parameters, {1, 0},
                                                         {.sequences = 1, .context = 8, .step_tokens = 8});
        if (!executor) return executor.error();
        std::vector<float> values(36);
        TensorView<float, 2, Host> const view(values.data(), {1, 36});
        SequencePart const part{0, 2, 2};
        std::int32_t const ids[] = {1, 2};
        return executor->forward(ids, {&part, 1}, view, comm, stream);
    });
    REQUIRE_FALSE(done);
    CHECK(done.error().code() == ErrorCode::invalid_argument);
    CHECK(done.error().message().find("sees in both directions") != std::string::npos);
}

/// The logits after all targets: their sources are encoded together, and their tokens come `chunk` at a time.
template <class Policy>
std::vector<float> translate(FormulaModel const& model, Translation const& one, std::int32_t ranks, std::int64_t chunk,
                             Dtype kv_dtype = Dtype::f32) {
    auto const parameters = StoredParameters::open(model.source, model.checkpoint->model);
    REQUIRE(parameters);
    std::vector<float> out;
    auto const done = run_threads(ranks, [&](Threads& comm) -> Result<> {
        HostContext context({.threads = 1});
        auto stream = context.make_stream();
        ExecutorLimits const limits{.sequences = 3, .context = 24, .step_tokens = 32, .kv_dtype = kv_dtype};
        TensorPlace const place{comm.size(), comm.rank()};
        auto executor =
            RankExecutor<Host, Policy>::create(context, model.checkpoint->model, *parameters, place, limits);
        if (!executor) return executor.error();
        EncoderStep const sources(one.sources);
        if (auto const ran = executor->encode(sources.ids, sources.parts, comm, stream); !ran) return ran;
        if (auto const ended = stream.synchronize(Deadline::after(std::chrono::seconds(20))); !ended) return ended;
        auto const width = executor->output().width;
        std::vector<float> all(one.targets.size() * static_cast<std::size_t>(width));
        std::vector<std::int64_t> past(one.targets.size(), 0);
        for (bool is_left = true; is_left;) {
            is_left = false;
            EncoderStep step({});
            for (std::size_t i = 0; i < one.targets.size(); ++i) {
                auto const& target = one.targets[i];
                auto const count = std::min(chunk, static_cast<std::int64_t>(target.size()) - past[i]);
                if (count < 1) continue;
                is_left = true;
                step.parts.push_back({static_cast<std::int64_t>(i), past[i], count});
                auto const begin = target.begin() + past[i];
                step.ids.insert(step.ids.end(), begin, begin + count);
                past[i] += count;
            }
            if (!is_left) break;
            auto const values = step.run(*executor, comm, stream);
            if (!values) return values.error();
            for (std::size_t i = 0; i < step.parts.size(); ++i)
                std::copy_n(values->begin() + static_cast<std::ptrdiff_t>(i) * width, width,
                            all.begin() + step.parts[i].slot * width);
        }
        if (comm.rank() == comm.size() - 1) out = std::move(all);
        // What a slot had is gone once it is released.
        executor->cache().release(0);
        EncoderStep again({});
        again.ids = {1};
        again.parts = {{0, 0, 1}};
        auto const refused = again.run(*executor, comm, stream);
        CHECK((!refused && refused.error().message().find("slot 0: has no source") != std::string::npos));
        return {};
    });
    CHECK_MESSAGE(done, (done ? "" : done.error().message()));
    return out;
}

TEST_CASE("read_checkpoint: a decoder begins with what generation_config.json says, else config.json") {
    auto const one = translations().back();
    FormulaModel const model(one.config, one.seed);
    CHECK(model.checkpoint->model.config.decoder_start == 5);
    auto const start = [&](std::string const& text) {
        (void)model.folder.write("generation_config.json", text);
        auto const found = find_model(model.folder.path(), {}, HubCache(HubEnvironment{}));
        REQUIRE(found);
        auto const read = read_checkpoint(*found);
        return read ? read->model.config.decoder_start : std::int64_t{-1};
    };
    CHECK(start(R"({"decoder_start_token_id":7})") == 7);
    CHECK(start(R"({"eos_token_id":1})") == 5);
    CHECK(start(R"({"decoder_start_token_id":61})") == -1);
    CHECK(start(R"({"decoder_start_token_id":[7,8]})") == -1);
    // Without it with bos_token_id, as transformers' generate; without both with nothing.
    auto config = one.config;
    auto const at = config.find("\"decoder_start_token_id\": 5");
    REQUIRE(at != std::string::npos);
    (void)model.folder.write("config.json", config.replace(at, 27, "\"bos_token_id\": 6"));
    CHECK(start(R"({"decoder_start_token_id":null})") == 6);
    CHECK(start(R"({"bos_token_id":9})") == 9);
    CHECK(start(R"({"bos_token_id":9,"decoder_start_token_id":0})") == 0);
    (void)model.folder.write("config.json", config.replace(at, 17, "\"decoder_start_token_id\": null"));
    CHECK(start("{}") == -1);
}

TEST_CASE(
    "read_checkpoint: a t5 1.1 that transformers 5 saves as tied keeps its own head, whose logits are not scaled") {
    auto const one = translations().back();
    FormulaModel model(one.config, one.seed);
    auto const parameters = count_parameters(model.checkpoint->model.tree);
    auto config = one.config;
    std::string const untied = "\"tie_word_embeddings\": false";
    auto const at = config.find(untied);
    REQUIRE(at != std::string::npos);
    config.replace(at, untied.size(), "\"tie_word_embeddings\": true, \"scale_decoder_outputs\": false");
    (void)model.folder.write("config.json", config);
    auto read = read_checkpoint(model.source);
    REQUIRE(read);
    model.checkpoint.emplace(std::move(*read));
    CHECK(count_parameters(model.checkpoint->model.tree) == parameters);
    CHECK(worst(translate<Fast>(model, one, 1, 32), one.logits) < 1e-4);
}

TEST_CASE("RankExecutor: decoders that read an encoder give transformers' logits within 1e-4, over any ranks") {
    for (auto const& one : translations()) {
        CAPTURE(one.name);
        FormulaModel const model(one.config, one.seed);
        CHECK(worst(translate<Fast>(model, one, 1, 32), one.logits) < 1e-4);
        CHECK(worst(translate<Fast>(model, one, 3, 5), one.logits) < 1e-4);
        CHECK(worst(translate<Fast>(model, one, 1, 32, Dtype::bf16), one.logits) < 0.05);
        auto const alone = translate<Deterministic>(model, one, 1, 5);
        CHECK(worst(alone, one.logits) < 1e-4);
        for (std::int32_t const ranks : {2, 3, 4}) CHECK(translate<Deterministic>(model, one, ranks, 1) == alone);
    }
}

}  // namespace
