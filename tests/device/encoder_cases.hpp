// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/host_communicator.hpp>
#include <shardwise/executor/device_kernels.hpp>
#include <shardwise/executor/predict_memory.hpp>
#include <shardwise/executor/rank_executor.hpp>
#include <shardwise/executor/stored_parameters.hpp>

#include "../executor/formula_model.hpp"
#include "backends.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

// A model that sees in both directions, by its executor alone: no session generates with it.

namespace shardwise::testing {

inline constexpr auto tiny_bert =
    R"({"model_type":"bert","architectures":["BertModel"],"vocab_size":59,"hidden_size":24,)"
    R"("num_attention_heads":3,"num_hidden_layers":2,"intermediate_size":30,"type_vocab_size":2,)"
    R"("max_position_embeddings":32,"hidden_act":"gelu"})";

/// A classifier of each text's mean.
inline constexpr auto tiny_modernbert =
    R"({"model_type":"modernbert","architectures":["ModernBertForSequenceClassification"],"vocab_size":61,)"
    R"("hidden_size":36,"intermediate_size":52,"num_hidden_layers":2,"num_attention_heads":6,)"
    R"("max_position_embeddings":40,"local_attention":6,"num_labels":2,"classifier_pooling":"mean"})";

/// Whether hidden states are those that the host makes, to within sums in another order.
inline void check_states(std::vector<float> const& found, std::vector<float> const& wanted) {
    REQUIRE(found.size() == wanted.size());
    double worst = 0.0;
    for (std::size_t i = 0; i < found.size(); ++i)
        worst = std::max(worst, static_cast<double>(std::abs(found[i] - wanted[i])));
    CAPTURE(worst);
    CHECK(worst < 1e-4);
}

/// The hidden states of some texts, one after another; with the head what it pools of each text. Of several ranks those of the last.
template <class B>
[[nodiscard]] Result<std::vector<float>> encode_texts(FormulaModel const& model, std::vector<std::int32_t> const& ids,
                                                      std::vector<SequencePart> const& parts, bool has_head,
                                                      Dtype activations = Dtype::f32, std::int32_t tp = 1) {
    auto const& described = model.checkpoint->model;
    auto const parameters = StoredParameters::open(model.source, described);
    if (!parameters) return parameters.error();
    auto const tokens = static_cast<std::int64_t>(ids.size());
    std::vector<float> states;
    auto const done = run_threads(tp, [&](Threads& thread) -> Result<> {
        TensorPlace const place{tp, thread.rank()};
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
        auto const texts = static_cast<std::int64_t>(parts.size());
        ExecutorLimits limits{texts, tokens, tokens};
        limits.has_head = has_head;
        limits.activations = activations;
        auto const predicted =
            predict_memory<B, Fast>(described, formats_of(*parameters), place, limits, IsaLevel::portable);
        if (!predicted) return predicted.error();
        auto executor = RankExecutor<B, Fast>::create(home, described, *parameters, place, limits);
        if (!executor) return executor.error();
        CHECK(home.context.memory().current() == predicted->total());
        auto const width = executor->output().width;
        auto const rows = executor->output().rows == Rows::sequences ? texts : tokens;
        CHECK(rows == (has_head ? texts : tokens));
        return visit_activations<B>(executor->output().dtype, [&]<class T>(T) -> Result<> {
            auto out = Buffer<T, B>::allocate(home.context, rows * width);
            if (!out) return out.error();
            auto const ran = executor->forward(ids, parts, out->matrix(rows, width), comm, stream);
            if (!ran) return ran;
            std::vector<T> made(static_cast<std::size_t>(rows * width));
            TensorView<T const, 1, B> const from = out->view();
            TensorView<T, 1, Host> const to(made.data(), {rows * width});
            if (auto const copied = B::template copy<T>(from, to, stream); !copied) return copied;
            auto const waited = stream.synchronize(Deadline::after(std::chrono::minutes(1)));
            if (place.rank + 1 < tp) return waited;
            for (auto const value : made) states.push_back(static_cast<float>(value));
            return waited;
        });
    });
    if (!done) return done.error();
    return states;
}

}  // namespace shardwise::testing

TEST_CASE_TEMPLATE("Models: an encoder gives the host's states of several texts on every back end", B,
                   SHARDWISE_TEST_BACKENDS) {
    using namespace shardwise;
    if (!testing::open_bench<B>()) return;
    std::vector<std::int32_t> const ids{5, 9, 2, 40, 7, 7, 1, 58, 0, 3};
    std::vector<SequencePart> const parts{{0, 0, 4}, {1, 0, 1}, {2, 0, 5}};
    struct Encoder {
        char const* config;
        bool has_head;
    };
    for (auto const& encoder : {Encoder{testing::tiny_bert, false}, Encoder{testing::tiny_bert, true},
                                Encoder{testing::tiny_modernbert, true}}) {
        auto const has_head = encoder.has_head;
        INFO(std::string(encoder.config));
        testing::FormulaModel const model(encoder.config);
        auto const wanted = testing::encode_texts<Host>(model, ids, parts, has_head);
        REQUIRE_MESSAGE(wanted, (wanted ? "" : wanted.error().message()));
        auto const found = testing::encode_texts<B>(model, ids, parts, has_head);
        REQUIRE_MESSAGE(found, (found ? "" : found.error().message()));
        testing::check_states(*found, *wanted);
    }
}
