#include <shardwise/comm/threads.hpp>
#include <shardwise/session/session.hpp>

#include <doctest/doctest.h>

#include "formula_llama.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace {

using namespace shardwise;
using namespace shardwise::testing;

using Tokens = std::vector<std::int32_t>;

Deadline soon() {
    return Deadline::after(std::chrono::seconds(30));
}

FormulaLlama const& model() {
    static FormulaLlama const one;
    return one;
}

struct Ran {
    std::vector<Generation> generations;
    std::int64_t steps = 0;
};

/// Requests through one session on some ranks.
template <ReductionPolicy Policy = Deterministic>
Ran run(std::vector<GenerationRequest> const& requests, ExecutorLimits const& limits, std::int32_t ranks = 1,
        OnToken const& on_token = {}, FormulaLlama const& llama = model()) {
    auto const parameters = StoredParameters::open(llama.source, llama.checkpoint->model);
    REQUIRE(parameters);
    Ran out;
    auto const done = run_threads(ranks, [&](Threads& comm) -> Result<> {
        HostContext context({.threads = 1});
        auto stream = context.make_stream();
        auto executor = RankExecutor<Host, Policy>::create(context, llama.checkpoint->model, *parameters,
                                                           {comm.size(), comm.rank()}, limits);
        if (!executor) return executor.error();
        auto session = Session<Host, Policy, Threads>::create(context, *executor, limits, comm, stream);
        if (!session) return session.error();
        for (auto const& request : requests) {
            if (auto const added = session->add(request); !added) return added.error();
        }
        auto const generations = session->run(soon(), comm.rank() == 0 ? on_token : OnToken{});
        if (!generations) return generations.error();
        if (comm.rank() == 0) {
            out.generations = *generations;
            out.steps = session->steps();
        }
        return {};
    });
    CHECK_MESSAGE(done, (done ? "" : done.error().message()));
    return out;
}

GenerationRequest request(Tokens prompt, std::int64_t count) {
    GenerationRequest out;
    out.prompt = std::move(prompt);
    out.max_new_tokens = count;
    return out;
}

std::vector<GenerationRequest> several() {
    std::vector<GenerationRequest> all{request({5, 9, 2}, 7), request({1}, 4),
                                       request({7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7}, 6), request({30, 31}, 1),
                                       request({60, 0, 60, 0}, 9)};
    all[1].sampling = {.temperature = 0.9F, .top_k = 20, .seed = 3};
    all[4].sampling = {.temperature = 1.3F, .top_p = 0.9F, .seed = 4};
    return all;
}

TEST_CASE("Session: what a sequence becomes depends neither on what runs beside it, nor on chunks, nor on ranks") {
    std::vector<Tokens> alone;
    for (auto const& one : several()) {
        auto const ran = run({one}, {.sequences = 1, .context = 32, .step_tokens = 32});
        REQUIRE(ran.generations.size() == 1);
        alone.push_back(ran.generations[0].tokens);
        CHECK(static_cast<std::int64_t>(alone.back().size()) == one.max_new_tokens);
        // Its prompt at once, then a token a step.
        CHECK(ran.steps == one.max_new_tokens);
    }
    for (auto const& limits :
         {ExecutorLimits{5, 32, 32}, ExecutorLimits{2, 32, 32}, ExecutorLimits{3, 32, 4}, ExecutorLimits{1, 32, 3}}) {
        CAPTURE(limits.sequences);
        CAPTURE(limits.step_tokens);
        for (std::int32_t const ranks : {1, 2}) {
            auto const ran = run(several(), limits, ranks);
            REQUIRE(ran.generations.size() == alone.size());
            for (std::size_t i = 0; i < alone.size(); ++i) {
                CHECK(ran.generations[i].request == static_cast<std::int64_t>(i));
                CHECK(ran.generations[i].tokens == alone[i]);
                CHECK(ran.generations[i].reason == FinishReason::length);
            }
        }
    }
}

TEST_CASE("Session: all sequences of a step share one pass, and a finished one's place is taken by the next") {
    // Five at once: as many steps as the longest of them has tokens.
    CHECK(run(several(), {.sequences = 5, .context = 32, .step_tokens = 32}).steps == 9);
    // Two places for 7, 4, 6, 1 and 9 tokens: 7 | 4, then 6 beside the rest of 7, and so on, without a pause.
    CHECK(run(several(), {.sequences = 2, .context = 32, .step_tokens = 32}).steps == 17);
}

TEST_CASE("Session: the end of a prompt is computed behind a past of several parts, as the whole is") {
    FormulaLlama const llama(R"("hidden_size":64,"intermediate_size":16,"num_attention_heads":32,)"
                             R"("num_key_value_heads":32,"max_position_embeddings":320)");
    Tokens prompt;
    for (std::int32_t i = 0; i < 300; ++i) prompt.push_back(i * 7 % 61);
    // Fast needs no workspace for its sums that an attention could use.
    std::vector<GenerationRequest> const one{request(prompt, 2)};
    auto const whole = run<Fast>(one, {.sequences = 1, .context = 302, .step_tokens = 300}, 1, {}, llama);
    auto const cut = run<Fast>(one, {.sequences = 1, .context = 302, .step_tokens = 128}, 1, {}, llama);
    REQUIRE(cut.generations.size() == 1);
    CHECK(cut.steps == 4);
    CHECK(cut.generations[0].tokens == whole.generations[0].tokens);
}

TEST_CASE("Session: a step of fewer sequences than there is room for stays in the arena") {
    // 3 * ceil(7 / 3) rows are more than the 8 of the largest step.
    std::vector<GenerationRequest> const three{request({5, 9, 2}, 2), request({7, 7}, 2), request({60, 0}, 2)};
    auto const beside = run(three, {.sequences = 4, .context = 8, .step_tokens = 8});
    REQUIRE(beside.generations.size() == 3);
    for (std::size_t i = 0; i < three.size(); ++i) {
        auto const alone = run({three[i]}, {.sequences = 1, .context = 8, .step_tokens = 8});
        CHECK(beside.generations[i].tokens == alone.generations[0].tokens);
    }
}

TEST_CASE("Session: sequences end at a stop token, at their length, at the context's end, or where the caller says") {
    auto const whole = run({request({5, 9, 2}, 7)}, {.sequences = 1, .context = 32, .step_tokens = 8}).generations[0];
    auto stopped = request({5, 9, 2}, 7);
    stopped.stop_tokens = {whole.tokens[3]};
    auto const first = std::find(whole.tokens.begin(), whole.tokens.end(), whole.tokens[3]) - whole.tokens.begin();
    auto const ended = run({stopped}, {.sequences = 1, .context = 32, .step_tokens = 8}).generations[0];
    CHECK(ended.reason == FinishReason::stop_token);
    CHECK(ended.tokens == Tokens(whole.tokens.begin(), whole.tokens.begin() + first));

    auto const full = run({request({5, 9, 2}, 100)}, {.sequences = 1, .context = 6, .step_tokens = 8}).generations[0];
    CHECK(full.reason == FinishReason::length);
    // Three more in the cache, and the token that the last of them chooses.
    CHECK(full.tokens == Tokens(whole.tokens.begin(), whole.tokens.begin() + 4));

    Tokens heard;
    auto const cancelled = run({request({5, 9, 2}, 7)}, {.sequences = 1, .context = 32, .step_tokens = 8}, 1,
                               [&](std::int64_t, std::int32_t token) {
                                   heard.push_back(token);
                                   return heard.size() < 2;
                               });
    CHECK(cancelled.generations[0].reason == FinishReason::cancelled);
    CHECK(cancelled.generations[0].tokens == heard);
    CHECK(heard == Tokens(whole.tokens.begin(), whole.tokens.begin() + 2));

    CHECK(run({request({5}, 0)}, {.sequences = 1, .context = 8, .step_tokens = 8}).generations[0].tokens.empty());
}

TEST_CASE("Session: requests that cannot be are refused with what is wrong") {
    auto const parameters = StoredParameters::open(model().source, model().checkpoint->model);
    REQUIRE(parameters);
    auto const done = run_threads(1, [&](Threads& comm) -> Result<> {
        HostContext context({.threads = 1});
        auto stream = context.make_stream();
        ExecutorLimits const limits{1, 8, 8};
        auto executor =
            RankExecutor<Host, Fast>::create(context, model().checkpoint->model, *parameters, {1, 0}, limits);
        if (!executor) return executor.error();
        auto session = Session<Host, Fast, Threads>::create(context, *executor, limits, comm, stream);
        if (!session) return session.error();
        auto const message = [&](GenerationRequest const& one) {
            auto const added = session->add(one);
            return added ? std::string("taken") : added.error().message();
        };
        CHECK(message(request({}, 3)).find("has no tokens") != std::string::npos);
        CHECK(message(request({1, 61}, 3)).find("not in the vocabulary") != std::string::npos);
        CHECK(message(request({-1}, 3)).find("not in the vocabulary") != std::string::npos);
        CHECK(message(request({1, 2, 3, 4, 5, 6, 7, 8, 9}, 3)).find("longer than the context") != std::string::npos);
        CHECK(message(request({1}, -1)).find("negative") != std::string::npos);
        auto hot = request({1}, 2);
        hot.sampling.temperature = -1.0F;
        CHECK(message(hot) == "taken");
        auto const ran = session->run(soon());
        CHECK_FALSE(ran);
        return {};
    });
    CHECK_MESSAGE(done, (done ? "" : done.error().message()));
}

}  // namespace
