// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/threads.hpp>
#include <shardwise/executor/rank_executor.hpp>
#include <shardwise/model/architecture.hpp>
#include <shardwise/model/files/model_source.hpp>

#include <doctest/doctest.h>

#include "temporary_folder.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

/// Models loaded over ranks that are threads, and run once.
namespace shardwise::testing {

inline constexpr auto even_llama =
    R"({"model_type":"llama","vocab_size":96,"hidden_size":128,"intermediate_size":256,"num_hidden_layers":2,)"
    R"("num_attention_heads":4,"num_key_value_heads":4,"head_dim":32,"max_position_embeddings":64})";

/// One file of weights in a folder.
[[nodiscard]] inline ModelSource weights_in(TemporaryFolder const& folder, SourceKind kind, std::string const& file) {
    ModelSource source;
    source.kind = kind;
    source.folder = folder.path();
    source.weights = {file};
    return source;
}

/// What ranks held and read, and the logits after all ids.
struct Loaded {
    std::vector<float> logits;
    std::vector<Bytes> weights;
    std::vector<Bytes> read;
};
template <class Policy>
Loaded load_and_run(ModelSource const& source, Model const& model, std::vector<std::int32_t> const& ids,
                    std::int32_t ranks, LoadOptions const& options = {}) {
    auto const parameters = StoredParameters::open(source, model);
    REQUIRE_MESSAGE(parameters, (parameters ? "" : parameters.error().message()));
    Loaded out;
    out.weights.resize(static_cast<std::size_t>(ranks));
    out.read.resize(static_cast<std::size_t>(ranks));
    auto const done = run_threads(ranks, [&](Threads& comm) -> Result<> {
        HostContext context({.threads = 1});
        auto stream = context.make_stream();
        auto executor =
            RankExecutor<Host, Policy>::create(context, model, *parameters, {comm.size(), comm.rank()},
                                               {.sequences = 1, .context = 16, .step_tokens = 16}, {}, options);
        if (!executor) return executor.error();
        auto const rank = static_cast<std::size_t>(comm.rank());
        out.weights[rank] = executor->weight_bytes();
        out.read[rank] = executor->bytes_read();
        std::vector<float> logits(static_cast<std::size_t>(model.config.vocab_size));
        TensorView<float, 2, Host> const view(logits.data(), {1, model.config.vocab_size});
        SequencePart const part{0, 0, static_cast<std::int64_t>(ids.size())};
        if (auto const ran = executor->forward(ids, {&part, 1}, view, comm, stream); !ran) return ran;
        if (auto const ended = stream.synchronize(Deadline::after(std::chrono::seconds(20))); !ended) return ended;
        if (rank == 0) out.logits = logits;
        return {};
    });
    CHECK_MESSAGE(done, (done ? "" : done.error().message()));
    return out;
}

}  // namespace shardwise::testing
