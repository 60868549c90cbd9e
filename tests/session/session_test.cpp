// SPDX-License-Identifier: Apache-2.0
#include <shardwise/comm/threads.hpp>
#include <shardwise/session/session.hpp>

#include <doctest/doctest.h>

#include "formula_llama.hpp"

#include <chrono>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
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

/// By request: the logits that its tokens were chosen from.
using Logits = std::map<std::int64_t, std::vector<std::vector<float>>>;

struct Ran {
    std::vector<Generation> generations;
    std::int64_t steps = 0;
    Logits logits;
    /// Products by weights, of the first rank.
    std::int64_t products = 0;
};

/// Requests through one session on some ranks.
template <ReductionPolicy Policy = Deterministic>
Ran run(std::vector<GenerationRequest> const& requests, ExecutorLimits const& limits, std::int32_t ranks = 1,
        OnToken const& on_token = {}, FormulaModel const& llama = model(), bool keeps_last = false) {
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
        auto const pages = executor->cache().free_pages();
        session->keep_last(keeps_last);
        for (auto const& request : requests) {
            if (auto const added = session->add(request); !added) return added.error();
        }
        if (comm.rank() == 0) {
            session->show_logits([&](std::int64_t request, std::span<float const> logits) {
                out.logits[request].emplace_back(logits.begin(), logits.end());
            });
        }
        auto const generations = session->run(soon(), comm.rank() == 0 ? on_token : OnToken{});
        if (!generations) return generations.error();
        if (keeps_last) session->keep_last(false);
        // All pages are free again.
        CHECK(executor->cache().free_pages() == pages);
        if (comm.rank() == 0) {
            out.generations = *generations;
            out.steps = session->steps();
            out.products = context.products();
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
    // The same alone as beside others.
    for (std::size_t i = 0; i < all.size(); ++i) all[i].random_stream = i;
    return all;
}

TEST_CASE("Session: what a sequence becomes depends neither on what runs beside it, nor on chunks, nor on ranks") {
    for (auto const dtype : {Dtype::f32, Dtype::bf16, Dtype::i8}) {
        CAPTURE(traits(dtype).short_name);
        std::vector<Tokens> alone;
        Logits logits;
        for (auto const& one : several()) {
            auto ran = run({one}, {.sequences = 1, .context = 32, .step_tokens = 32, .kv_dtype = dtype});
            REQUIRE(ran.generations.size() == 1);
            logits[static_cast<std::int64_t>(alone.size())] = ran.logits[0];
            alone.push_back(ran.generations[0].tokens);
            CHECK(static_cast<std::int64_t>(alone.back().size()) == one.max_new_tokens);
            // Its prompt at once, then a token a step.
            CHECK(ran.steps == one.max_new_tokens);
        }
        for (auto limits : {ExecutorLimits{5, 32, 32}, ExecutorLimits{2, 32, 32}, ExecutorLimits{3, 32, 4},
                            ExecutorLimits{1, 32, 3}, ExecutorLimits{4, 32, 8, 48}}) {
            CAPTURE(limits.sequences);
            CAPTURE(limits.step_tokens);
            limits.kv_dtype = dtype;
            for (std::int32_t const ranks : {1, 2}) {
                auto const ran = run(several(), limits, ranks);
                REQUIRE(ran.generations.size() == alone.size());
                // To the bit.
                CHECK(ran.logits == logits);
                for (std::size_t i = 0; i < alone.size(); ++i) {
                    CHECK(ran.generations[i].request == static_cast<std::int64_t>(i));
                    CHECK(ran.generations[i].tokens == alone[i]);
                    CHECK(ran.generations[i].reason == FinishReason::length);
                }
            }
        }
    }
}

TEST_CASE("Session: logits over a cache of bf16 or bytes stay near those over fp32") {
    auto const room = [](Dtype dtype) { return ExecutorLimits{1, 32, 32, 0, dtype}; };
    auto const exact = run({several()[2]}, room(Dtype::f32)).logits[0][0];
    auto const error = [&](Dtype dtype) {
        auto const got = run({several()[2]}, room(dtype)).logits[0][0];
        double squares = 0.0;
        double sum = 0.0;
        for (std::size_t i = 0; i < exact.size(); ++i) {
            squares += std::pow(static_cast<double>(got[i] - exact[i]), 2.0);
            sum += std::pow(static_cast<double>(exact[i]), 2.0);
        }
        return std::sqrt(squares / sum);
    };
    // Values are off by 2^-9 of themselves in the mean, or by 1/500 of a head's greatest one.
    CHECK(error(Dtype::bf16) > 0.0);
    CHECK(error(Dtype::bf16) < 0.01);
    CHECK(error(Dtype::i8) > 0.0);
    CHECK(error(Dtype::i8) < 0.02);
}

TEST_CASE("Session: layers with a window keep the window, and give the bits of a cache that keeps everything") {
    // Two layers see 24 tokens; prompts and outputs go far beyond.
    FormulaModel const windowed(R"({"model_type":"mistral","vocab_size":61,"num_hidden_layers":2,"sliding_window":24,)"
                                R"("architectures":["MistralForCausalLM"],"hidden_size":24,"intermediate_size":40,)"
                                R"("num_attention_heads":4,"num_key_value_heads":2,"max_position_embeddings":256})");
    Tokens prompt;
    for (std::int32_t i = 0; i < 90; ++i) prompt.push_back(i * 7 % 61);
    std::vector<GenerationRequest> const two{request(prompt, 40), request({3, 1, 4}, 100)};
    // Steps as long as the context leave nothing to be used again.
    auto whole = run({two[0]}, {1, 130, 130}, 1, {}, windowed);
    whole.logits[1] = run({two[1]}, {1, 130, 130}, 1, {}, windowed).logits[0];
    for (std::int64_t const step_tokens : {4, 7, 33}) {
        CAPTURE(step_tokens);
        ExecutorLimits const limits{2, 130, step_tokens};
        CHECK(run(two, limits, 2, {}, windowed).logits == whole.logits);
    }
    KvCapacity const capacity{.sequences = 2, .context = 130, .step_tokens = 7};
    CHECK(kv_sequence_pages(capacity, 24, 130) == 3);
    CHECK(kv_sequence_pages(capacity, 0, 130) == 9);
}

TEST_CASE("Session: a prompt that begins like the last sequence is computed from where they part, with the same bits") {
    FormulaModel const windowed(R"({"model_type":"mistral","vocab_size":61,"num_hidden_layers":2,"sliding_window":24,)"
                                R"("architectures":["MistralForCausalLM"],"hidden_size":24,"intermediate_size":40,)"
                                R"("num_attention_heads":4,"num_key_value_heads":2,"max_position_embeddings":256})");
    for (auto const* const llama : {static_cast<FormulaModel const*>(&model()), &windowed}) {
        Tokens prompt;
        for (std::int32_t i = 0; i < (llama == &windowed ? 60 : 20); ++i) prompt.push_back(i * 7 % 61);
        ExecutorLimits const limits{1, llama == &windowed ? 120 : 64, 4};
        auto const alone = [&](GenerationRequest one) {
            one.random_stream = 0;
            return run({one}, limits, 1, {}, *llama);
        };
        auto const first = alone(request(prompt, 6));
        auto more = prompt;
        more.insert(more.end(), first.generations[0].tokens.begin(), first.generations[0].tokens.end());
        more.insert(more.end(), {3, 1});
        auto other = prompt;
        other.resize(9);
        other.insert(other.end(), {8, 8});
        // The second goes on after the first and its answer, the third parts from it early, the last is all known.
        std::vector<GenerationRequest> turns{request(prompt, 6), request(more, 5), request(other, 4), request({8}, 1),
                                             request({8}, 1)};
        Logits expected;
        std::int64_t steps = 0;
        for (std::size_t i = 0; i < turns.size(); ++i) {
            auto const one = alone(turns[i]);
            expected[static_cast<std::int64_t>(i)] = one.logits.at(0);
            steps += one.steps;
            turns[i].random_stream = 0;
        }
        for (std::int32_t const ranks : {1, 2}) {
            auto const kept = run(turns, limits, ranks, {}, *llama, true);
            CHECK(kept.logits == expected);
            // Four tokens a step: of the second prompt three tokens are new, of the third three or, where a window has
            // written over what it needs, all.
            auto const of = [](Tokens const& tokens) { return (static_cast<std::int64_t>(tokens.size()) + 3) / 4; };
            CHECK(steps - kept.steps == of(more) - 1 + (llama == &windowed ? 0 : of(other) - 1));
        }
    }
}

TEST_CASE("Session: states of sequences are their own, and go on after the last only where the prompt has all of it") {
    FormulaModel const next(
        R"({"model_type":"qwen3_next","architectures":["Qwen3NextForCausalLM"],"vocab_size":61,)"
        R"("hidden_size":24,"intermediate_size":40,"num_hidden_layers":2,"full_attention_interval":2,)"
        R"("num_attention_heads":4,"num_key_value_heads":2,"head_dim":8,"linear_num_key_heads":2,)"
        R"("linear_num_value_heads":4,"linear_key_head_dim":6,"linear_value_head_dim":4,"num_experts":4,)"
        R"("num_experts_per_tok":2,"moe_intermediate_size":12,"shared_expert_intermediate_size":16})");
    Logits logits;
    for (auto const& one : several())
        logits[static_cast<std::int64_t>(logits.size())] = run({one}, {1, 32, 32}, 1, {}, next).logits.at(0);
    for (auto const& limits : {ExecutorLimits{5, 32, 32}, ExecutorLimits{2, 32, 3}}) {
        for (std::int32_t const ranks : {1, 2}) CHECK(run(several(), limits, ranks, {}, next).logits == logits);
    }

    Tokens const prompt{3, 10, 17, 24, 31, 38, 45};
    auto const limits = ExecutorLimits{1, 64, 4};
    auto const alone = [&](GenerationRequest one) {
        one.random_stream = 0;
        return run({one}, limits, 1, {}, next);
    };
    auto more = prompt;
    auto const first = alone(request(prompt, 6));
    more.insert(more.end(), first.generations[0].tokens.begin(), first.generations[0].tokens.end());
    more.insert(more.end(), {3, 1});
    auto other = more;
    other.resize(9);
    other.push_back(8);
    std::vector<GenerationRequest> turns{request(prompt, 6), request(more, 5), request(other, 4)};
    Logits expected;
    std::int64_t steps = 0;
    for (std::size_t i = 0; i < turns.size(); ++i) {
        auto const one = alone(turns[i]);
        expected[static_cast<std::int64_t>(i)] = one.logits.at(0);
        steps += one.steps;
        turns[i].random_stream = 0;
    }
    auto const kept = run(turns, limits, 1, {}, next, true);
    CHECK(kept.logits == expected);
    // Four tokens a step: the second prompt has three new ones of its fifteen; the third parts early and is computed whole.
    CHECK(steps - kept.steps == (static_cast<std::int64_t>(more.size()) + 3) / 4 - 1);
}

TEST_CASE("Session: every step multiplies once by each weight, whatever the batch") {
    // Two layers of seven products, and the head.
    constexpr std::int64_t weights = 2 * 7 + 1;
    for (auto const& limits : {ExecutorLimits{1, 32, 32}, ExecutorLimits{5, 32, 32}, ExecutorLimits{3, 32, 4}}) {
        CAPTURE(limits.sequences);
        auto const ran = run<Fast>(several(), limits);
        CHECK(ran.products == weights * ran.steps);
    }
}

TEST_CASE("Session: every token is drawn anew, and a penalty counts what was generated") {
    auto drawn = request({5, 9, 2}, 12);
    // So hot that all tokens are as probable: only random numbers choose.
    drawn.sampling = {.temperature = 1e6F, .seed = 9};
    auto const random = run({drawn}, {.sequences = 1, .context = 32, .step_tokens = 32}).generations[0].tokens;
    CHECK(std::set<std::int32_t>(random.begin(), random.end()).size() > 6);

    auto greedy = request({5, 9, 2}, 40);
    ExecutorLimits const limits{.sequences = 1, .context = 48, .step_tokens = 32};
    auto const plain = run({greedy}, limits).generations[0].tokens;
    REQUIRE(std::set<std::int32_t>(plain.begin(), plain.end()).size() < plain.size());
    greedy.sampling.repetition_penalty = 1e6F;
    auto const fresh = run({greedy}, limits).generations[0].tokens;
    CHECK(std::set<std::int32_t>(fresh.begin(), fresh.end()).size() == fresh.size());
}

TEST_CASE("Session: requests of one seed draw from streams of their own, and callbacks end each for itself") {
    auto same = request({5, 9, 2}, 12);
    same.sampling = {.temperature = 5.0F, .seed = 9};
    auto const both = run({same, same}, {.sequences = 2, .context = 32, .step_tokens = 32}).generations;
    CHECK(both[0].tokens != both[1].tokens);
    same.random_stream = 1;
    CHECK(run({same}, {.sequences = 1, .context = 32, .step_tokens = 32}).generations[0].tokens == both[1].tokens);

    std::map<std::int64_t, Tokens> heard;
    auto const requests = several();
    auto const ran = run(requests, {.sequences = 3, .context = 32, .step_tokens = 8}, 1,
                         [&](std::int64_t number, std::int32_t token) {
                             heard[number].push_back(token);
                             return static_cast<std::int64_t>(heard[number].size()) <= number;
                         });
    for (auto const& generation : ran.generations) {
        auto const& asked = requests[static_cast<std::size_t>(generation.request)];
        auto const expected = std::min(generation.request + 1, asked.max_new_tokens);
        CHECK(static_cast<std::int64_t>(generation.tokens.size()) == expected);
        CHECK(generation.tokens == heard[generation.request]);
    }
}

TEST_CASE("Session: all sequences of a step share one pass, and a finished one's place is taken by the next") {
    // Five at once: as many steps as the longest of them has tokens.
    CHECK(run(several(), {.sequences = 5, .context = 32, .step_tokens = 32}).steps == 9);
    // Two places for 7, 4, 6, 1 and 9 tokens: 7 | 4, then 6 beside the rest of 7, and so on, without a pause.
    CHECK(run(several(), {.sequences = 2, .context = 32, .step_tokens = 32}).steps == 17);
}

TEST_CASE("Session: the end of a prompt is computed after a past of several parts, as the whole is") {
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
        CHECK(message(hot).find("temperature") != std::string::npos);
        CHECK_FALSE(session->is_busy());
        // A cache of one page for a context of two.
        ExecutorLimits const tight{2, 32, 8, 16};
        auto small = RankExecutor<Host, Fast>::create(context, model().checkpoint->model, *parameters, {1, 0}, tight);
        if (!small) return small.error();
        auto other = Session<Host, Fast, Threads>::create(context, *small, tight, comm, stream);
        if (!other) return other.error();
        auto const large = other->add(request({1, 2, 3}, 15));
        REQUIRE_FALSE(large);
        CHECK(large.error().code() == ErrorCode::out_of_memory);
        CHECK(large.error().message().find("more than the cache can hold") != std::string::npos);
        CHECK(other->add(request({1, 2, 3}, 14)));
        // Outside of a session, too few pages are an error of the step.
        Tokens const ids(8, 1);
        std::vector<float> logits(61);
        auto const forward = [&](std::int64_t slot, std::int64_t past) {
            SequencePart const part{slot, past, 8};
            return small->forward(ids, {&part, 1}, {logits.data(), {1, 61}}, comm, stream);
        };
        CHECK(forward(0, 0));
        CHECK(forward(0, 8));
        CHECK(forward(1, 0).error().code() == ErrorCode::out_of_memory);
        small->cache().release(0);
        CHECK(forward(1, 0));
        small->cache().release(1);
        return {};
    });
    CHECK_MESSAGE(done, (done ? "" : done.error().message()));
}

}  // namespace
