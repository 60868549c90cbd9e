// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/dtype.hpp>
#include <shardwise/core/list.hpp>
#include <shardwise/core/log.hpp>
#include <shardwise/core/on_call.hpp>
#include <shardwise/core/optional.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/hardware/all_reduce_time.hpp>
#include <shardwise/session/pooling.hpp>
#include <shardwise/session/run_devices.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

class OpenCheckpoint;
struct Model;
struct ModelSource;

/// How texts are embedded in this process.
struct EmbedOptions {
    Pooling pooling = Pooling::mean;
    /// Vectors are divided by their length.
    bool is_normalized = false;
    /// What the model's class scores instead of states (`pooling` is not looked at): a row of labels for each text, or one for each
    /// token; of answers a row for each token, how much it is the first and the last one.
    bool has_scores = false;
    /// Tensor-parallel ranks, each a thread.
    std::int32_t tp = 1;
    /// Where ranks compute.
    RunDevices devices{};
    DeviceComm comm = DeviceComm::automatic;
    /// As RunOptions::peer_sums.
    List<AllReduceTime> peer_sums{};
    /// Threads of all ranks together; 0: as many as the caller may use cores.
    int threads = 0;
    /// The same bits for any number of ranks.
    bool is_deterministic = false;
    /// As RunOptions::activations.
    Optional<Dtype> activations{};
    /// Tokens that one step computes at most; an encoder's longest text needs a step of its own length.
    std::int64_t step_tokens = 512;
    /// How long ranks wait for each other.
    std::chrono::nanoseconds timeout = std::chrono::minutes(5);
    /// How long one step may take.
    std::chrono::nanoseconds limit = std::chrono::hours(24);
    /// Hears what every rank does.
    Log log{};
};

/// The vectors of one text: one, or without pooling one for each token.
///
/// Shapes  values [rows, width]
struct Embedding {
    std::int64_t rows = 0;
    std::int64_t width = 0;
    std::vector<float> values;

    [[nodiscard]] std::span<float const> row(std::int64_t number) const {
        return {values.data() + number * width, static_cast<std::size_t>(width)};
    }
};

/// Loads a checkpoint over ranks that are threads of this process and embeds texts that are token ids, special tokens
/// included: the states after the last layer (and its norm), pooled as the options say. Encoders and decoders alike;
/// an encoder's pooler and a decoder's head are not read, unless `has_scores` asks for what a classifying head makes of them.
///
/// `files` and `model` are what read_checkpoint took and gave. Embeddings are in the order of the texts.
///
/// Errors  no_such_device for devices of a vendor that the program was built without; invalid_argument for impossible ranks, empty
///         texts, texts longer than the model's positions, and scores of a model without labels or normalized ones; unsupported for
///         labels that are not scored; invalid_argument for vectors that are infinite or undefined, as of f16 activations beyond
///         65504; those of loading, of the executor and of the ranks
/// Example  auto const source = find_model("./all-MiniLM-L6-v2", {}, HubCache(HubEnvironment::current()));
///          OpenCheckpoint files(*source);
///          auto const checkpoint = read_checkpoint(files);
///          auto const loaded = load_tokenizer(files);
///          auto const ids = loaded->tokenizer.encode("a cat");
///          auto const vectors = embed_on_threads(files, checkpoint->model, {*ids}, {.is_normalized = true});
///          float const first = vectors->front().row(0)[0];
SHARDWISE_ON_CALL
[[nodiscard]] Result<std::vector<Embedding>> embed_on_threads(OpenCheckpoint& files, Model const& model,
                                                              std::vector<std::vector<std::int32_t>> const& texts,
                                                              EmbedOptions const& options = {});

/// The same, for files that are opened for it alone.
SHARDWISE_ON_CALL
[[nodiscard]] Result<std::vector<Embedding>> embed_on_threads(ModelSource const& source, Model const& model,
                                                              std::vector<std::vector<std::int32_t>> const& texts,
                                                              EmbedOptions const& options = {});

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
