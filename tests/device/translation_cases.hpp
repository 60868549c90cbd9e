// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/host_communicator.hpp>
#include <shardwise/executor/predict_memory.hpp>
#include <shardwise/executor/rank_executor.hpp>
#include <shardwise/executor/stored_parameters.hpp>

#include "../executor/translations.hpp"
#include "activation_cases.hpp"
#include "model_cases.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

// Whole models of an encoder and a decoder that reads it.

namespace shardwise::testing {

/// One table of distances for each stack, and a head that is the table of words.
inline constexpr auto tiny_t5 =
    R"({"model_type":"t5","architectures":["T5ForConditionalGeneration"],"vocab_size":61,"d_model":32,"d_kv":8,)"
    R"("d_ff":40,"num_layers":2,"num_heads":4,"decoder_start_token_id":0,"relative_attention_num_buckets":8,)"
    R"("relative_attention_max_distance":9})";
/// A table for each block, heads on no pack, gates, a decoder of its own length, and a head of its own.
inline constexpr auto tiny_umt5 =
    R"({"model_type":"umt5","architectures":["UMT5ForConditionalGeneration"],"vocab_size":67,"d_model":24,"d_kv":5,)"
    R"("d_ff":28,"num_layers":1,"num_decoder_layers":2,"num_heads":6,"decoder_start_token_id":5,)"
    R"("tie_word_embeddings":false,"relative_attention_num_buckets":6,"relative_attention_max_distance":11})";

/// The first three, and two that begin when others have ended.
[[nodiscard]] inline std::vector<GenerationRequest> five_requests(ModelCase const& of) {
    auto requests = model_requests(of);
    requests.push_back(requests[0]);
    requests.push_back(requests[1]);
    requests[3].prompt.push_back(17);
    requests[3].max_new_tokens = 4;
    requests[4].prompt.insert(requests[4].prompt.end(), 15, 9);
    requests[4].max_new_tokens = 7;
    return requests;
}

/// The logits after all targets: their sources are encoded together, and their tokens come `chunk` at a time.
template <class B>
[[nodiscard]] std::vector<float> translate_chunks(Translation const& one, std::int64_t chunk, Dtype kv_dtype) {
    FormulaModel const model(one.config, one.seed);
    auto const& described = model.checkpoint->model;
    auto const parameters = StoredParameters::open(model.source, described);
    REQUIRE(parameters);
    std::vector<float> logits;
    auto const done = run_threads(1, [&](Threads& thread) -> Result<> {
        HostCommunicator comm(std::move(thread));
        HostContext host({.threads = 1});
        auto context = open_context<B>();
        if (!context) return context.error();
        auto const home = [&] {
            if constexpr (std::is_same_v<B, Host>) {
                return RankHome<Host>(host);
            } else {
                return RankHome<B>{host, **context};
            }
        }();
        auto stream = home.context.make_stream();
        ExecutorLimits const limits{.sequences = 3, .context = 24, .step_tokens = 32, .kv_dtype = kv_dtype};
        auto const predicted =
            predict_memory<B, Fast>(described, formats_of(*parameters), {1, 0}, limits, IsaLevel::portable);
        if (!predicted) return predicted.error();
        auto executor = RankExecutor<B, Fast>::create(home, described, *parameters, {1, 0}, limits);
        if (!executor) return executor.error();
        if (!HasHostMemory<B>) CHECK(home.context.memory().current() == predicted->total());
        auto const deadline = Deadline::after(std::chrono::minutes(1));
        std::vector<std::int32_t> ids;
        std::vector<SequencePart> parts;
        for (auto const& source : one.sources) {
            parts.push_back({static_cast<std::int64_t>(parts.size()), 0, static_cast<std::int64_t>(source.size())});
            ids.insert(ids.end(), source.begin(), source.end());
        }
        if (auto const ran = executor->encode(ids, parts, comm, stream); !ran) return ran;
        auto const width = executor->output().width;
        logits.resize(one.targets.size() * static_cast<std::size_t>(width));
        for (std::int64_t past = 0;; past += chunk) {
            ids.clear();
            parts.clear();
            for (std::size_t i = 0; i < one.targets.size(); ++i) {
                auto const& target = one.targets[i];
                auto const count = std::min(chunk, static_cast<std::int64_t>(target.size()) - past);
                if (count < 1) continue;
                parts.push_back({static_cast<std::int64_t>(i), past, count});
                ids.insert(ids.end(), target.begin() + past, target.begin() + past + count);
            }
            if (parts.empty()) return {};
            auto const rows = static_cast<std::int64_t>(parts.size());
            auto out = Buffer<float, B>::allocate(home.context, rows * width);
            if (!out) return out.error();
            if (auto const ran = executor->forward(ids, parts, out->matrix(rows, width), comm, stream); !ran)
                return ran;
            std::vector<float> made(static_cast<std::size_t>(rows * width));
            TensorView<float const, 1, B> const from = out->view();
            TensorView<float, 1, Host> const to(made.data(), {rows * width});
            if (auto const copied = B::template copy<float>(from, to, stream); !copied) return copied;
            if (auto const waited = stream.synchronize(deadline); !waited) return waited;
            for (std::size_t i = 0; i < parts.size(); ++i)
                std::copy_n(made.begin() + static_cast<std::ptrdiff_t>(i) * width, width,
                            logits.begin() + parts[i].slot * width);
        }
    });
    REQUIRE_MESSAGE(done, (done ? "" : done.error().message()));
    return logits;
}

}  // namespace shardwise::testing

TEST_CASE_TEMPLATE("Models: decoders over encoders give transformers' logits within 1e-4, their targets in chunks", B,
                   SHARDWISE_TEST_BACKENDS) {
    using namespace shardwise;
    if (!testing::open_bench<B>()) return;
    auto const worst = [](std::vector<float> const& found, std::vector<float> const& wanted) {
        REQUIRE(found.size() == wanted.size());
        double most = 0.0;
        for (std::size_t i = 0; i < found.size(); ++i)
            most = std::max(most, static_cast<double>(std::abs(found[i] - wanted[i])));
        return most;
    };
    std::size_t number = 0;
    for (auto const& one : testing::translations()) {
        CAPTURE(one.name);
        if (!testing::takes_alternative(number++, 0, 2)) continue;
        CHECK(worst(testing::translate_chunks<B>(one, 5, Dtype::f32), one.logits) < 1e-4);
        if (testing::takes_samples()) continue;
        CHECK(worst(testing::translate_chunks<B>(one, 32, Dtype::f32), one.logits) < 1e-4);
        CHECK(worst(testing::translate_chunks<B>(one, 5, Dtype::bf16), one.logits) < 0.05);
        CHECK(worst(testing::translate_chunks<B>(one, 32, Dtype::i8), one.logits) < 0.1);
    }
}

TEST_CASE_TEMPLATE("Models: a decoder over an encoder generates the host's tokens on every back end", B,
                   SHARDWISE_TEST_BACKENDS) {
    using namespace shardwise;
    if (!testing::open_bench<B>()) return;
    using testing::ModelCase;
    for (auto const& of :
         {ModelCase{testing::tiny_t5}, ModelCase{testing::tiny_t5, 2, 2, 4, 4, {}, Dtype::f32, true},
          ModelCase{testing::tiny_umt5, 2, 1, 5, 4, {}, Dtype::bf16, false, 1e-3},
          ModelCase{testing::tiny_umt5, 1, 3, 8, 4, testing::held_in(Dtype::bf16), Dtype::i8, false, 1e-3, false}}) {
        CAPTURE(std::string(of.config));
        testing::check_model<B>(of);
    }
}

TEST_CASE("Models: a decoder's steps over an encoder are graphs, which serve sources of any length") {
    using namespace shardwise;
    using B = testing::TestDevice;
    using testing::ModelCase;
    if (!testing::open_bench<B>()) return;
    // The last has sources of one token each, which are encoded alone and are no graphs.
    for (auto of : {ModelCase{testing::tiny_t5, 1, 3, 64, 5}, ModelCase{testing::tiny_umt5, 2, 3, 64, 5},
                    ModelCase{testing::tiny_t5, 1, 1, 64, 3}}) {
        if (testing::takes_samples() && of.tp > 1) continue;
        CAPTURE(std::string(of.config));
        testing::FormulaModel const model(of.config);
        auto requests = testing::five_requests(of);
        if (of.sequences == 1) {
            for (auto& one : requests) one.prompt.resize(1);
        }
        testing::ModelLogits replayed;
        testing::ModelLogits called;
        testing::ModelLogits theirs;
        auto const first = testing::run_model<B>(model, of, requests, &replayed);
        REQUIRE_MESSAGE(first, (first ? "" : first.error().message()));
        of.has_graphs = false;
        auto const second = testing::run_model<B>(model, of, requests, &called);
        REQUIRE_MESSAGE(second, (second ? "" : second.error().message()));
        of.tp = 1;
        auto const expected = testing::run_model<Host>(model, of, requests, &theirs);
        REQUIRE_MESSAGE(expected, (expected ? "" : expected.error().message()));
        CHECK(replayed == called);
        CHECK(testing::worst_difference(replayed, theirs, requests.size()) <= of.tolerance);
        for (std::size_t i = 0; i < requests.size(); ++i)
            CHECK(first->generations[i].tokens == expected->generations[i].tokens);
        CHECK(second->graphs.captured == 0);
        if (!first->graphs.reason.empty()) continue;
        // One for each number of sequences.
        CHECK(first->graphs.captured == of.sequences);
        CHECK(first->graphs.replayed >= 9);
    }
}

TEST_CASE("Models: activations in bf16 move the logits of a decoder over an encoder by their rounding") {
    using namespace shardwise;
    using testing::TestDevice;
    if (!testing::open_bench<TestDevice>()) return;
    (void)testing::check_rounded<TestDevice>(testing::rounded(testing::tiny_t5, Dtype::bf16));
    (void)testing::check_rounded<TestDevice>(testing::rounded(testing::tiny_umt5, Dtype::bf16, 2, true));
}

TEST_CASE_TEMPLATE("Models: decoders over encoders, their caches, ranks and stages" * doctest::test_suite("long"), B,
                   SHARDWISE_TEST_BACKENDS) {
    using namespace shardwise;
    if (!testing::open_bench<B>()) return;
    for (auto const* const config : {testing::tiny_t5, testing::tiny_umt5}) {
        CAPTURE(std::string(config));
        for (bool const is_deterministic : {false, true}) {
            for (auto const tp : {1, 2, 3, 4}) {
                CAPTURE(is_deterministic);
                CAPTURE(tp);
                testing::check_model<B>({config, tp, 2, 8, 4, {}, Dtype::f32, is_deterministic});
            }
        }
        for (auto const dtype : {Dtype::f32, Dtype::bf16, Dtype::f16}) {
            CAPTURE(traits(dtype).short_name);
            testing::check_model<B>({config, 1, 3, 8, 4, testing::held_in(dtype), Dtype::bf16, false, 1e-3});
            testing::check_model<B>({config, 2, 1, 5, 4, testing::held_in(dtype), Dtype::i8, false, 1e-2});
        }
        for (std::int32_t const pp : {2, 3})
            testing::check_model<B>({config, 1, 2, 8, 4, {}, Dtype::f32, false, 1e-4, true, pp});
        testing::check_model<B>({config, 2, 2, 8, 4, {}, Dtype::f32, false, 1e-4, true, 1, DeviceComm::staged});
    }
}
