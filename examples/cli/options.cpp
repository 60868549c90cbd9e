// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include <shardwise/core/dtype.hpp>

#include "choices.hpp"
#include "completion.hpp"
#include "list_command.hpp"

#include <array>

namespace shardwise::cli {

namespace {

constexpr auto dtype_words = [] {
    std::array<std::string_view, dtype_table.size()> words{};
    for (std::size_t i = 0; i < words.size(); ++i) words[i] = dtype_table[i].short_name;
    return words;
}();

constexpr std::array model_argument_table{
    Option{.flag = "MODEL",
           .value = "MODEL",
           .help = "a preset, a config.json, .gguf or .safetensors file, a folder, org/name in the Hugging Face cache, "
                   "or - for a config.json on standard input",
           .kind = ValueKind::model,
           .word = &Arguments::model},
};

constexpr std::array model_table{
    Option{.flag = "--dtype",
           .value = "D",
           .help = "element type of the weights: bf16, float16, F8_E4M3, int4, ...",
           .standard = "as stored",
           .suggestions = dtype_words,
           .word = &Arguments::dtype},
    Option{.flag = "--quant",
           .value = "Q",
           .help = "quantisation of the weights: int8, int4, nf4, fp8, awq, gptq, Q4_K_M, ...",
           .suggestions = quant_words,
           .word = &Arguments::quant},
    Option{.flag = "--batch", .value = "B", .help = "sequences at a time", .standard = "1", .word = &Arguments::batch},
    Option{.flag = "--context",
           .value = "S",
           .help = "tokens of each sequence: 8192, or 8k",
           .standard = "the model's maximum, at most 4096",
           .word = &Arguments::context},
};

constexpr std::array cache_table{
    Option{.flag = "--kv-dtype",
           .value = "D",
           .help = "element type of the key-value cache",
           .standard = "--dtype, else the model's, 16 bits when quantised",
           .suggestions = dtype_words,
           .word = &Arguments::kv_dtype},
    Option{.flag = "--sliding-window",
           .value = "POLICY",
           .help = "what sliding-window layers cache",
           .standard = "window",
           .choices = words_of<window_choices>,
           .word = &Arguments::sliding_window},
    Option{.flag = "--mla",
           .value = "POLICY",
           .help = "what latent attention caches",
           .standard = "compressed",
           .choices = words_of<mla_choices>,
           .word = &Arguments::mla},
    Option{.flag = "--prefill-chunk",
           .value = "N",
           .help = "most tokens of all sequences that one pass over prompts computes, or none: whole prompts",
           .standard = "8192",
           .suggestions = prefill_chunk_words,
           .word = &Arguments::prefill_chunk},
};

constexpr std::array parallel_table{
    Option{.flag = "--tp", .value = "T", .help = "tensor-parallel ranks", .standard = "1", .word = &Arguments::tp},
    Option{.flag = "--pp", .value = "P", .help = "pipeline stages", .standard = "1", .word = &Arguments::pp},
    Option{.flag = "--ep", .value = "E", .help = "expert-parallel ranks", .standard = "1", .word = &Arguments::ep},
    Option{.flag = "--dp", .value = "N", .help = "data-parallel replicas", .standard = "1", .word = &Arguments::dp},
    Option{.flag = "--micro-batches",
           .value = "M",
           .help = "micro-batches that the batch is cut into",
           .standard = "1, in training as many as fill the pipeline",
           .word = &Arguments::micro_batches},
    Option{.flag = "--sequence-parallel",
           .help = "split activations between tensor-parallel ranks along the sequence",
           .is_set = &Arguments::sequence_parallel},
};

constexpr std::array training_table{
    Option{.flag = "--training",
           .value = "OPTIMIZER",
           .help = "count for training with this optimizer",
           .choices = words_of<optimizer_choices>,
           .word = &Arguments::training},
    Option{.flag = "--zero",
           .value = "Z",
           .help = "stage of ZeRO",
           .standard = "0; plan: all are tried",
           .choices = zero_words,
           .word = &Arguments::zero},
    Option{.flag = "--offload",
           .value = "WHAT",
           .help = "state kept in host memory",
           .standard = "none",
           .choices = words_of<offload_choices>,
           .word = &Arguments::offload},
    Option{.flag = "--recompute",
           .value = "WHAT",
           .help = "activations computed again rather than kept",
           .standard = "none; plan: all are tried",
           .choices = words_of<recompute_choices>,
           .word = &Arguments::recompute},
    Option{.flag = "--attention",
           .value = "KIND",
           .help = "whether training keeps the matrix of probabilities (eager)",
           .standard = "blocked",
           .choices = words_of<attention_choices>,
           .word = &Arguments::attention},
    Option{.flag = "--convention",
           .value = "NAME",
           .help = "whose accounting",
           .standard = "shardwise",
           .choices = words_of<convention_choices>,
           .word = &Arguments::convention},
};

constexpr std::array tree_table{
    Option{.flag = "--tree",
           .value = "FILE",
           .help = "a JSON tree of modules instead of a MODEL",
           .kind = ValueKind::file,
           .word = &Arguments::tree},
};

constexpr Option utilization_option{
    .flag = "--utilization",
    .value = "U",
    .help = "share of the memory of preset and detected GPUs that may be used, above 0 and at most 1",
    .standard = "0.92",
    .word = &Arguments::utilization};

constexpr std::array device_options_table{
    Option{.flag = "--devices",
           .value = "SPEC",
           .help = "4xA100-40GB, 2xA100-80GB+2xRTX4090, 4x(8xH100-80GB), 2xgpu:24GiB; auto, cuda:0,cuda:1, UUIDs of "
                   "this machine; a description file; then +cpu:64GiB, +disk",
           .kind = ValueKind::devices,
           .word = &Arguments::devices},
    Option{.flag = "--max-memory",
           .value = "JSON",
           .help = R"(budgets by device, {"0":"10GiB","cpu":"30GB"}, or @FILE)",
           .word = &Arguments::max_memory},
    utilization_option,
};

constexpr std::array placement_table{
    Option{.flag = "--strategy",
           .value = "NAME",
           .help = "how places are chosen",
           .standard = "auto",
           .choices = words_of<strategy_choices>,
           .word = &Arguments::strategy},
    Option{.flag = "--custom",
           .value = "FILE",
           .help = "the device map of --strategy custom: {prefix: device}",
           .kind = ValueKind::file,
           .word = &Arguments::custom},
    Option{.flag = "--objective",
           .value = "NAME",
           .help = "what optimal minimises",
           .standard = "load, with --profile bottleneck",
           .choices = words_of<map_objective_choices>,
           .word = &Arguments::objective},
    Option{.flag = "--profile",
           .value = "FILE",
           .help = "measured times of the layers, to balance by instead of estimated ones",
           .kind = ValueKind::file,
           .word = &Arguments::profile},
    Option{.flag = "--dialect",
           .value = "NAME",
           .help = "whose rules of placement: transformers is 5.23's, transformers-5.0 the older ones",
           .standard = "shardwise",
           .choices = words_of<dialect_choices>,
           .word = &Arguments::dialect},
    Option{.flag = "--no-split",
           .value = "CLASS,...",
           .help = "classes never split over devices",
           .standard = "the architecture's; none for --tree",
           .word = &Arguments::no_split,
           .is_list = true},
    Option{.flag = "--fallback", .help = "accelerate's fallback_allocation", .is_set = &Arguments::fallback},
    Option{.flag = "--offload-buffers", .help = "accelerate's offload_buffers", .is_set = &Arguments::offload_buffers},
    Option{.flag = "--max",
           .value = "WHAT",
           .help = "find the largest context or batch, the fewest devices or the mildest quantisation that fits",
           .choices = words_of<inverse_choices>,
           .word = &Arguments::max},
};

constexpr std::array pin_table{
    Option{.flag = "--tp", .value = "T", .help = "keep to this tensor-parallel degree", .word = &Arguments::tp},
    Option{.flag = "--pp", .value = "P", .help = "keep to this many pipeline stages", .word = &Arguments::pp},
    Option{.flag = "--dp", .value = "N", .help = "keep to this many replicas", .word = &Arguments::dp},
    Option{.flag = "--ep", .value = "E", .help = "keep to this expert-parallel degree", .word = &Arguments::ep},
    Option{.flag = "--micro-batches",
           .value = "M",
           .help = "keep to this many micro-batches of each replica's batch",
           .word = &Arguments::micro_batches},
    Option{.flag = "--even",
           .help = "keep to degrees that divide query heads, key-value heads and experts, as other engines do",
           .is_set = &Arguments::even},
};

constexpr std::array plan_table{
    Option{.flag = "--devices",
           .value = "SPEC",
           .help = "8xH100-80GB, 4x(8xH100-80GB) for four nodes, 2xA100-80GB+2xRTX4090; auto, cuda:0,cuda:1, UUIDs of "
                   "this machine; a description file",
           .kind = ValueKind::devices,
           .word = &Arguments::devices},
    utilization_option,
    Option{.flag = "--max-memory",
           .value = "JSON",
           .help = R"(limits by device number in place of what these devices have, {"0":"60GiB"}, or @FILE)",
           .word = &Arguments::max_memory},
    Option{.flag = "--objective",
           .value = "NAME",
           .help = "what the plan makes best",
           .standard = "latency",
           .choices = words_of<plan_objective_choices>,
           .word = &Arguments::objective},
    Option{.flag = "--sequence-parallel",
           .help = "training: shard activations along the sequence over tensor-parallel ranks; else both are tried",
           .is_set = &Arguments::sequence_parallel},
};

constexpr std::array detection_table{
    Option{.flag = "--devices",
           .value = "LIST",
           .help = "say which of these may be used, and why not: cuda:0,hip:1,GPU-3f2a,MIG-...,0,3b:00.0",
           .kind = ValueKind::devices,
           .word = &Arguments::devices},
    Option{.flag = "--prefer",
           .value = "KIND",
           .help = "recommend devices of this kind where they hold the model; rocm means hip",
           .choices = words_of<prefer_choices>,
           .word = &Arguments::prefer},
    Option{.flag = "--out",
           .value = "FILE",
           .help = "write the devices that may be used into a description file, which --devices takes",
           .kind = ValueKind::file,
           .word = &Arguments::out},
};

constexpr std::array output_table{
    Option{.flag = "--json", .help = "print one JSON document instead of tables", .is_set = &Arguments::json},
    Option{.flag = "--color",
           .value = "WHEN",
           .help = "colours and progress bars",
           .standard = "auto, unless NO_COLOR is set",
           .choices = words_of<color_choices>,
           .word = &Arguments::color},
};

constexpr std::array picture_table{
    Option{.flag = "--svg",
           .value = "FILE",
           .help = "draw devices, memory and layers into this file too",
           .kind = ValueKind::file,
           .word = &Arguments::svg},
};

constexpr std::array shell_table{
    Option{.flag = "SHELL",
           .value = "SHELL",
           .help = "the shell that will read it",
           .choices = words_of<shell_choices>,
           .word = &Arguments::shell},
};

constexpr std::array listed_table{
    Option{.flag = "WHAT",
           .value = "WHAT",
           .help = "what to list",
           .choices = words_of<listed_choices>,
           .word = &Arguments::listed},
};

constexpr std::array topic_table{
    Option{.flag = "COMMAND", .value = "COMMAND", .help = "a command's name", .word = &Arguments::topic},
};

}  // namespace

OptionGroup model_argument() {
    return {"Arguments", model_argument_table};
}
OptionGroup model_options() {
    return {"Model", model_table};
}
OptionGroup cache_options() {
    return {"Model", cache_table};
}
OptionGroup parallel_options() {
    return {"Parallelism", parallel_table};
}
OptionGroup training_options() {
    return {"Training", training_table};
}
OptionGroup tree_options() {
    return {"Model", tree_table};
}
OptionGroup device_options() {
    return {"Devices", device_options_table};
}
OptionGroup placement_options() {
    return {"Placement", placement_table};
}
OptionGroup plan_options() {
    return {"Plan", plan_table};
}
OptionGroup pin_options() {
    return {"Degrees (searched unless given)", pin_table};
}
OptionGroup detection_options() {
    return {"Devices", detection_table};
}
OptionGroup output_options() {
    return {"Output", output_table};
}
OptionGroup picture_options() {
    return {"Output", picture_table};
}
OptionGroup shell_argument() {
    return {"Arguments", shell_table};
}

OptionGroup listed_argument() {
    return {"Arguments", listed_table};
}

OptionGroup topic_argument() {
    return {"Arguments", topic_table};
}

std::string full_help(Option const& option) {
    std::string text{option.help};
    for (std::size_t i = 0; i < option.choices.size(); ++i) {
        text += i == 0 ? ": " : i + 1 == option.choices.size() ? " or " : ", ";
        text += option.choices[i];
    }
    if (!option.standard.empty()) text += " (default: " + std::string(option.standard) + ")";
    return text;
}

}  // namespace shardwise::cli
