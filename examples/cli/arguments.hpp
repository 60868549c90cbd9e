// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "exit_code.hpp"

#include <optional>
#include <string>
#include <vector>

namespace shardwise::cli {

/// The command line as text: which flags were given and with which words. Nothing is checked yet but the flags' names.
struct Arguments {
    std::string command;
    std::optional<std::string> model;
    std::optional<std::string> dtype, quant, kv_dtype, batch, context, sliding_window, mla, prefill_chunk;
    std::optional<std::string> tp, pp, ep, dp, micro_batches;
    std::optional<std::string> training, zero, offload, recompute, attention, convention;
    /// --offload of run.
    std::optional<std::string> cpu_layers;
    std::optional<std::string> tree, devices, max_memory, utilization, strategy, custom, objective, dialect, no_split,
        max;
    std::optional<std::string> profile;
    std::optional<std::string> color, shell, svg;
    std::optional<std::string> listed, topic;
    std::optional<std::string> prefer, out, profile_out, trace, adapter;
    std::optional<std::string> text, decode;
    std::vector<std::string> texts, stops;
    std::optional<std::string> pooling;
    std::optional<std::string> prompt, prompt_ids, prompt_file, threads, max_new_tokens;
    std::optional<std::string> temperature, top_k, top_p, min_p, repetition_penalty, seed, logits;
    std::optional<std::string> ranks, map, product_activations;
    std::optional<std::string> interval, csv, listen;
    std::optional<std::string> nproc, nnodes, node_rank, master_addr, master_port, max_restarts, log_dir, prefix, bind,
        grace;
    /// The words after "--", as they are: a command to run.
    std::vector<std::string> command_line;
    std::optional<std::string> engine, sequences, image, port, host_address, format, timeout;
    std::optional<std::string> launcher, plan, hosts, gpu_type, cpus_per_task, name;
    std::vector<std::string> environment;
    std::vector<std::string> data;
    std::optional<std::string> config, tokenizer, valid, valid_part, valid_every, micro_batch, steps, epochs;
    std::optional<std::string> optimizer, lr, beta1, beta2, epsilon, weight_decay, momentum, schedule, warmup, min_lr,
        clip;
    std::optional<std::string> precision, dropout, mode, pipeline, bucket_mb, lora, lora_alpha, lora_targets,
        lora_dropout;
    std::optional<std::string> save_every, keep, resume, min_ranks, max_skipped, check_gradients;
    bool from_scratch = false;
    bool merge = false;
    bool tune = false;
    bool kahan_sum = false;
    bool find_unused = false;
    bool no_static_graph = false;
    bool no_bucket_view = false;
    bool no_fallback = false;
    bool fast = false;
    bool sequence_parallel = false;
    bool even = false;
    bool fallback = false;
    bool offload_buffers = false;
    bool chat = false;
    bool deterministic = false;
    bool no_graphs = false;
    std::optional<std::string> comm, activations, calibration;
    bool normalize = false;
    bool scores = false;
    bool quick = false;
    bool mask_devices = false;
    bool once = false;
    bool prometheus = false;
    bool cdi = false;
    bool claims = false;
    bool auto_select = false;
    bool detect_only = false;
    bool dry_run = false;
    bool monitor = false;
    bool json = false;
};

/// Reads the command line. Answers --help, --version and wrong flags itself: then there is an exit status and no more to do.
[[nodiscard]] std::optional<ExitCode> read_arguments(int argc, char const* const* argv, Arguments& arguments);

}  // namespace shardwise::cli
