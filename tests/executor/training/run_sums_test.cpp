// SPDX-License-Identifier: Apache-2.0
#include <shardwise/comm/threads.hpp>
#include <shardwise/executor/rank_executor.hpp>

#include "losses_of_logits.hpp"
#include "training_cases.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

using namespace shardwise;
using namespace shardwise::testing;

namespace {

/// Sequences of tokens, each of which is the target of the one before.
struct Texts {
    std::int64_t sequences = golden_sequences;
    std::int64_t context = golden_context;
    std::vector<std::int32_t> ids = golden_tokens(sequences * context + 1);

    [[nodiscard]] std::int64_t tokens() const { return sequences * context; }
    [[nodiscard]] std::int32_t const* targets() const { return ids.data() + 1; }
};

/// Their losses by logits that a run under Deterministic makes, one token after another.
[[nodiscard]] std::vector<float> losses_by_run(TrainedModel& trained, Texts const& texts) {
    auto const vocabulary = trained.model().config.vocab_size;
    auto const tokens = texts.tokens();
    std::vector<float> logits(static_cast<std::size_t>(tokens * vocabulary));
    auto const parameters = StoredParameters::open(trained.files.source, trained.model());
    REQUIRE_MESSAGE(parameters, (parameters ? "" : parameters.error().message()));
    auto const done = run_threads(1, [&](Threads& comm) -> Result<> {
        HostContext context({.threads = 1});
        auto stream = context.make_stream();
        auto executor = RankExecutor<Host, Deterministic>::create(
            context, trained.model(), *parameters, {1, 0},
            {.sequences = texts.sequences, .context = texts.context, .step_tokens = texts.context});
        if (!executor) return executor.error();
        for (std::int64_t i = 0; i < tokens; ++i) {
            TensorView<float, 2, Host> const view(logits.data() + i * vocabulary, {1, vocabulary});
            SequencePart const part{i / texts.context, i % texts.context, 1};
            auto const ran = executor->forward({texts.ids.data() + i, 1}, {&part, 1}, view, comm, stream);
            if (!ran) return ran;
        }
        return stream.synchronize(soon());
    });
    REQUIRE_MESSAGE(done, (done ? "" : done.error().message()));
    return losses_of_logits(logits, {texts.targets(), texts.targets() + tokens}, vocabulary);
}

/// The losses of a forward pass that no backward pass follows.
[[nodiscard]] std::vector<float> losses_of_pass(TrainedModel& trained, Texts const& texts, bool sums_as_run,
                                                HostCommunicator* ranks = nullptr) {
    auto stream = trained.context.make_stream();
    auto const context = texts.context;
    auto pass = TrainedModel::take(TrainingPass::create(trained.context, trained.program,
                                                        {.sequences = texts.sequences, .context = context}, {}, ranks));
    TensorView<std::int32_t const, 2, Host> const tokens(texts.ids.data(), {texts.sequences, context});
    auto const ran = pass.forward(trained.weights, tokens, stream, {}, {.sums_as_run = sums_as_run});
    REQUIRE_MESSAGE(ran, (ran ? "" : ran.error().message()));
    std::vector<float> losses(static_cast<std::size_t>(texts.tokens()));
    for (std::int64_t i = 0; i < texts.sequences; ++i) {
        auto const done = pass.losses(trained.weights, i, {texts.targets() + i * context, {context}},
                                      {losses.data() + i * context, {context}}, stream);
        REQUIRE_MESSAGE(done, (done ? "" : done.error().message()));
    }
    REQUIRE(stream.synchronize(soon()));
    return losses;
}

}  // namespace

TEST_CASE(
    "TrainingPass: a validation pass has the logits of a deterministic run, bit for bit, on any tensor-parallel "
    "ranks") {
    auto cases = golden_trainings();
    // Longer than what attention takes together, and more leaves than columns of one.
    constexpr auto wide =
        R"({"model_type":"llama","vocab_size":97,"hidden_size":80,"intermediate_size":200,"num_hidden_layers":2,)"
        R"("num_attention_heads":5,"num_key_value_heads":5,"head_dim":16,"max_position_embeddings":512})";
    cases.push_back({"wide", wide, 0.0, {}});
    int differing = 0;
    for (auto const& one : cases) {
        CAPTURE(one.name);
        Texts const texts = one.name == "wide" ? Texts{1, 300} : Texts{};
        TrainedModel alone(one.config);
        auto const expected = losses_by_run(alone, texts);
        CHECK(losses_of_pass(alone, texts, true) == expected);
        differing += losses_of_pass(alone, texts, false) == expected ? 0 : 1;
        if (alone.model().config.kv_heads < 2) continue;
        auto const done = run_threads(2, [&](Threads& thread) -> Result<> {
            HostCommunicator comm(std::move(thread));
            TrainedModel own(one.config, 1, {comm.size(), comm.rank()});
            CHECK(losses_of_pass(own, texts, true, &comm) == expected);
            return {};
        });
        CHECK_MESSAGE(done, (done ? "" : done.error().message()));
    }
    // The sums of training itself are others: the comparison tells them apart.
    CHECK(differing > 0);
}

TEST_CASE(
    "multiply_by_pieces: writes no further than its scratch, for any outputs up to those that it is counted for") {
    HostContext context({.threads = 2});
    auto stream = context.make_stream();
    constexpr std::int64_t inputs = 8;
    auto const pieces = InputPieces{inputs, 1, inputs};
    auto const sums = detail::product_sums(detail::TreePlan(inputs, 1, 0), pieces, {1, 0}, 0);
    REQUIRE(sums.scratch == 3);
    constexpr std::int64_t guard = 64;
    for (std::int64_t const counted : {80, 1536, 4608}) {
        for (std::int64_t const outputs : {counted, counted / 2, counted / 3, std::min<std::int64_t>(counted, 256)}) {
            for (std::int64_t const rows : {1, 171, 400}) {
                CAPTURE(counted);
                CAPTURE(outputs);
                CAPTURE(rows);
                auto const size = detail::pieces_workspace(sums, rows, counted);
                std::vector<float> scratch(static_cast<std::size_t>(size + guard), 7.0F);
                std::vector<float> in(static_cast<std::size_t>(rows * inputs));
                std::vector<float> weight(static_cast<std::size_t>(outputs * inputs));
                for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i % 5) - 2.0F;
                for (std::size_t i = 0; i < weight.size(); ++i) weight[i] = static_cast<float>(i % 7) - 3.0F;
                std::vector<float> out(static_cast<std::size_t>(rows * outputs));
                REQUIRE(detail::multiply_by_pieces({in.data(), {rows, inputs}}, {weight.data(), {outputs, inputs}},
                                                   {.is_b_transposed = true}, sums, {out.data(), {rows, outputs}},
                                                   {scratch.data(), {size}}, stream));
                REQUIRE(stream.synchronize(soon()));
                CHECK(std::all_of(scratch.end() - guard, scratch.end(), [](float value) { return value == 7.0F; }));
                // Small integers, whose sums are exact in any order.
                for (auto const row : {std::int64_t{0}, rows - 1}) {
                    for (auto const column : {std::int64_t{0}, outputs - 1}) {
                        float expected = 0.0F;
                        for (std::int64_t i = 0; i < inputs; ++i)
                            expected += in[static_cast<std::size_t>(row * inputs + i)] *
                                        weight[static_cast<std::size_t>(column * inputs + i)];
                        CHECK(out[static_cast<std::size_t>(row * outputs + column)] == expected);
                    }
                }
            }
        }
    }
}
