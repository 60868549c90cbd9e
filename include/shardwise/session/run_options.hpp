// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/bytes.hpp>
#include <shardwise/core/dtype.hpp>
#include <shardwise/core/list.hpp>
#include <shardwise/core/log.hpp>
#include <shardwise/core/optional.hpp>
#include <shardwise/core/trace_event.hpp>
#include <shardwise/executor/graph_counts.hpp>
#include <shardwise/executor/layer_home.hpp>
#include <shardwise/executor/load_options.hpp>
#include <shardwise/hardware/all_reduce_time.hpp>
#include <shardwise/op/product_activations.hpp>
#include <shardwise/session/generation.hpp>
#include <shardwise/session/run_devices.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

class BlockTimes;
class Tokenizer;

/// How a model is run.
struct RunOptions {
    /// Tensor-parallel ranks of each stage.
    std::int32_t tp = 1;
    /// Stages of the pipeline; rank r is tensor-parallel rank r % tp of stage r / tp.
    std::int32_t pp = 1;
    /// Groups of tp * pp ranks, one after another, over which experts and requests are split; each has all else of the model.
    std::int32_t ep = 1;
    /// Each stage's first layer and, last, the number of layers; empty: stages of even weight.
    std::vector<std::int64_t> stage_begins{};
    /// Where each layer's weights lie between its uses; beyond the list: where it computes.
    std::vector<LayerHome> layer_homes{};
    /// Where ranks compute.
    RunDevices devices{};
    DeviceComm comm = DeviceComm::automatic;
    /// What sums over peers were measured to take: by it they are made in one step or in two. A stage whose ranks are on another number
    /// of devices than any that were measured, or other ranks: by a table that is built in. The same on all ranks.
    List<AllReduceTime> peer_sums{};
    /// Whether a device's steps may be launched as graphs.
    bool has_graphs = true;
    /// Threads of all ranks together; 0: as many as the caller may use cores.
    int threads = 0;
    /// Ranks that share this machine's cores; 0: all.
    std::int32_t local_ranks = 0;
    /// The same bits for any number of ranks.
    bool is_deterministic = false;
    /// Sequences at a time.
    std::int64_t sequences = 1;
    /// Tokens of the longest sequence; 0: what the longest request needs, at most the model's positions.
    std::int64_t context = 0;
    /// Tokens that one step computes at most.
    std::int64_t step_tokens = 512;
    /// Tokens that the caches of all sequences hold together; 0: each its whole context.
    std::int64_t cache_tokens = 0;
    /// What keys and values are kept in: f32, bf16 or i8.
    Dtype kv_dtype = Dtype::f32;
    /// What activations lie in between kernels: f32 or, where all ranks compute on devices, bf16 or f16. Where nothing is asked for it is
    /// bf16 on devices that have kernels for it for all of the model, else f32.
    Optional<Dtype> activations{};
    /// What products make of activations. int8 is refused where no weight is held in a format of whole numbers, bf16 where none is
    /// held in bf16.
    ProductActivations product_activations = ProductActivations::full;
    /// How long ranks wait for each other.
    std::chrono::nanoseconds timeout = std::chrono::minutes(5);
    /// How long all of it may take.
    std::chrono::nanoseconds limit = std::chrono::hours(24);
    /// The form in which weights are held. Its observer hears of rank 0's loading, on that rank's thread.
    LoadOptions load{};
    /// Makes texts of tokens, on rank 0, where stop strings are looked for; null: there are no texts.
    Tokenizer const* tokenizer = nullptr;
    /// Called on rank 0 only, where it has a tokenizer.
    OnText on_text{};
    /// Both are called on rank 0 only; the second for the requests of its group, 0, ep, 2 ep, ...
    OnToken on_token{};
    OnLogits on_logits{};
    /// Hears what every rank does, in its own process.
    Log log{};
    /// Events that each rank keeps of its steps, the last ones, for RunReport::traces; 0: there is no trace. The same on all ranks.
    std::int64_t trace_events = 0;
    /// Where the times of the blocks go, on rank 0: those of each stage's first rank; null: they are not measured.
    BlockTimes* times = nullptr;

    [[nodiscard]] std::int64_t ranks() const { return std::int64_t{tp} * pp * ep; }
};

/// What one rank held.
struct RunMemory {
    Bytes weights{};
    Bytes cache{};
    Bytes activations{};
    /// What it was to hold at most, said before anything was loaded.
    Bytes predicted{};
    /// The most that it held at once: what the counting allocator saw, and its share of its groups' staging memory.
    Bytes peak{};
    /// What it holds once all requests are done: HostContext::memory() and that share.
    Bytes held{};
    /// Of a rank on a device, in the host's memory: what was to be pinned there, and what is. For layers that do not stay on the device,
    /// rows of experts that travel through it, and how tokens are sampled; not the table of a step, nor logits that somebody looks at.
    Bytes predicted_pinned{};
    Bytes pinned{};
    /// Of a rank on a device: what has gone of the device's free memory since its ranks opened it, besides what they hold, in equal shares
    /// of those ranks: the vendor's code, libraries and graphs, and what other programs took meanwhile. Not what opening it took.
    Bytes vendor{};
};

/// What one rank did, by the clock of rank 0.
struct RankTrace {
    /// The machine that it ran on.
    std::string host;
    std::vector<TraceEvent> events;
    /// Events that gave way to later ones.
    std::int64_t dropped = 0;
    /// What the clock of its machine is ahead of rank 0's, which was taken off; 0 where they cannot be told apart.
    ///
    /// Units  nanoseconds
    std::int64_t clock_offset = 0;
    /// What the events' texts lie in.
    std::shared_ptr<std::string const> texts;
};

struct RunReport {
    /// In the order of the requests.
    std::vector<Generation> generations;
    std::vector<RunMemory> ranks;
    double load_seconds = 0.0;
    /// Until the first token, and from there to the last.
    double prefill_seconds = 0.0;
    double decode_seconds = 0.0;
    std::int64_t prompt_tokens = 0;
    /// Those after the first of each request.
    std::int64_t decode_tokens = 0;
    /// Of rank 0.
    GraphCounts graphs;
    /// What the ranks of a stage added up with: of devices "peers", "staged" or, of one rank, "none"; and why not with peers, where those
    /// were tried.
    std::string communicator;
    std::string communicator_reason;
    /// On rank 0, where there is a trace: those of all ranks.
    std::vector<RankTrace> traces;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
