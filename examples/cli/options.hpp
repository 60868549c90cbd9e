// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "arguments.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shardwise::cli {

/// What the word of an option names where that is no fixed choice; shells complete accordingly.
enum class ValueKind : std::uint8_t { text, model, devices, file };

/// An option as everything knows it: the reader of the command line, --help, the manual and the completions.
struct Option {
    /// "--dtype"; a word that stands for itself has no dashes: "MODEL".
    std::string_view flag;
    /// The name of its value ("D"); empty for a switch.
    std::string_view value = {};
    std::string_view help;
    /// What holds where it is not given, in words; empty where that needs no saying.
    std::string_view standard = {};
    /// All the words that it takes.
    std::span<std::string_view const> choices = {};
    /// Words worth offering, where it takes more than these.
    std::span<std::string_view const> suggestions = {};
    ValueKind kind = ValueKind::text;
    /// Where its word goes; null for a switch.
    std::optional<std::string> Arguments::*word = nullptr;
    /// Where its words go, if it may be given several times.
    std::vector<std::string> Arguments::*words = nullptr;
    /// Where a switch goes.
    bool Arguments::*is_set = nullptr;
    /// Several may be given, and come as one word with commas between.
    bool is_list = false;
    /// Of `words`: all that follow up to the next flag, so that the flag stands once.
    bool takes_several = false;

    [[nodiscard]] bool is_positional() const { return flag.substr(0, 1) != "-"; }
    [[nodiscard]] bool is_switch() const { return is_set != nullptr; }
};

/// Options that help texts show under one heading.
struct OptionGroup {
    std::string_view name;
    std::span<Option const> options;
};

/// A command line worth showing, and what it answers.
struct UsageExample {
    std::string_view line;
    std::string_view meaning;
};

/// A command as everything knows it.
struct Command {
    std::string_view name;
    /// One line, without a dot.
    std::string_view summary;
    /// For the manual: paragraphs, an empty line between them.
    std::string_view description;
    std::vector<OptionGroup> groups;
    /// The command does without the word that stands for itself.
    bool is_argument_optional = false;
    /// What may stand after "--", which is taken as it is: "COMMAND"; empty where nothing may.
    std::string_view trailing = {};
    std::vector<UsageExample> examples;
    ExitCode (*run)(Arguments const&) = nullptr;

    /// Calls `visit(option)` for every option, in the order shown.
    template <class Visitor>
    void for_each_option(Visitor&& visit) const {
        for (auto const& group : groups) {
            for (auto const& option : group.options) visit(option);
        }
    }
};

/// The help of an option with its choices and its default: "what to minimise: load, bottleneck or latency (default: load)".
[[nodiscard]] std::string full_help(Option const& option);

// Groups that several commands have.
[[nodiscard]] OptionGroup model_argument();
/// --dtype, --quant, --batch, --context.
[[nodiscard]] OptionGroup model_options();
/// --kv-dtype, --sliding-window, --mla, --prefill-chunk.
[[nodiscard]] OptionGroup cache_options();
/// --tp, --pp, --ep, --dp, --micro-batches, --sequence-parallel.
[[nodiscard]] OptionGroup parallel_options();
/// --training, --zero, --offload, --recompute, --attention, --convention.
[[nodiscard]] OptionGroup training_options();
/// --tree.
[[nodiscard]] OptionGroup tree_options();
/// --devices, --max-memory, --utilization.
[[nodiscard]] OptionGroup device_options();
/// --strategy, --custom, --objective, --profile, --dialect, --no-split, --fallback, --offload-buffers, --max.
[[nodiscard]] OptionGroup placement_options();
/// --devices, --utilization, --max-memory, --objective, --sequence-parallel of `plan`.
[[nodiscard]] OptionGroup plan_options();
/// --tp, --pp, --dp, --ep, --micro-batches, --even of `plan`.
[[nodiscard]] OptionGroup pin_options();
/// --devices, --prefer, --out of `detect`.
[[nodiscard]] OptionGroup detection_options();
/// --out, --tp, --threads, --quick of `calibrate`.
[[nodiscard]] OptionGroup calibration_options();
/// --prompt, --prompt-file, --prompt-ids, --chat.
[[nodiscard]] OptionGroup prompt_options();
/// --max-new-tokens, --temperature, --top-k, --top-p, --min-p, --repetition-penalty, --seed, --stop, --prefill-chunk, --logits, --profile-out.
[[nodiscard]] OptionGroup generation_options();
/// --tp, --threads, --deterministic of `embed`.
[[nodiscard]] OptionGroup embed_rank_options();
/// --tp, --pp, --ep, --ranks, --map, --strategy, --devices, --threads, --deterministic of `run`.
[[nodiscard]] OptionGroup rank_options();
/// --kv-dtype of `run`.
[[nodiscard]] OptionGroup run_cache_options();
/// --product-activations of `run`.
[[nodiscard]] OptionGroup product_options();
/// --text, --pooling, --normalize, --scores.
[[nodiscard]] OptionGroup embed_options();
/// --text, --decode.
[[nodiscard]] OptionGroup load_options();
[[nodiscard]] OptionGroup tokenize_options();
/// --devices, --interval of `monitor`.
[[nodiscard]] OptionGroup monitor_options();
/// --once, --json, --csv, --prometheus, --listen, --color of `monitor`.
[[nodiscard]] OptionGroup monitor_output_options();
/// --nproc, --nnodes, --node-rank, --master-addr, --master-port, --max-restarts, --mask-devices, --bind, --grace of `launch`.
[[nodiscard]] OptionGroup launch_options();
/// --prefix, --log-dir of `launch`.
[[nodiscard]] OptionGroup launch_output_options();
/// The engine of `deploy`.
[[nodiscard]] OptionGroup engine_argument();
/// --devices, --prefer, --auto-select, --dtype, --quant, --context, --sequences of `deploy`.
[[nodiscard]] OptionGroup deploy_options();
/// --image, --port, --host-address, --env, --cdi, --format, --claims, --timeout, --dry-run, --detect-only.
[[nodiscard]] OptionGroup container_options();
/// Whose launcher `launch` writes for.
[[nodiscard]] OptionGroup launcher_argument();
/// --plan, --hosts, --name, --cpus-per-task, --gpu-type, --image of `launch`.
[[nodiscard]] OptionGroup launch_script_options();
/// MODEL or a config of `train`.
[[nodiscard]] OptionGroup train_argument();
/// --data, --out, --config, --from-scratch, --tokenizer, --valid, --valid-part, --context, --batch, --micro-batch, ... of `train`.
[[nodiscard]] OptionGroup train_data_options();
/// --steps, --epochs, --optimizer, --lr, --schedule, --clip, --precision, ... of `train`.
[[nodiscard]] OptionGroup train_step_options();
/// --mode, --dp, --tp, --pp, --zero, --ranks, --threads, ... of `train`.
[[nodiscard]] OptionGroup train_rank_options();
/// --lora, --lora-targets, --lora-dropout.
[[nodiscard]] OptionGroup adapter_options();
/// --lora, --lora-alpha, --lora-targets, --lora-dropout, --merge, --quant of `train`.
[[nodiscard]] OptionGroup train_adapter_options();
/// --save-every, --keep, --resume, --timeout, --max-restarts, --max-skipped, ... of `train`.
[[nodiscard]] OptionGroup train_safety_options();
/// --csv, --svg, --dry-run of `train`.
[[nodiscard]] OptionGroup train_output_options();
/// --json, --color.
[[nodiscard]] OptionGroup output_options();
/// --svg.
[[nodiscard]] OptionGroup picture_options();
/// The shell of `completion`.
[[nodiscard]] OptionGroup shell_argument();
/// What `list` lists.
[[nodiscard]] OptionGroup listed_argument();
/// The command that `help` explains.
[[nodiscard]] OptionGroup topic_argument();

}  // namespace shardwise::cli
