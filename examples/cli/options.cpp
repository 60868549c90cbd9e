#include "options.hpp"

#include <shardwise/core/dtype.hpp>

#include "choices.hpp"
#include "completion.hpp"

#include <array>

namespace shardwise::cli {

namespace {

constexpr std::array<std::string_view, 3> run_cache_words{"fp32", "bf16", "int8"};

constexpr auto dtype_words = [] {
    std::array<std::string_view, dtype_table.size()> words{};
    for (std::size_t i = 0; i < words.size(); ++i) words[i] = dtype_table[i].short_name;
    return words;
}();

constexpr std::array model_argument_table{
    Option{
        .flag = "MODEL",
        .value = "MODEL",
        .help = "a preset, a config.json, .gguf or .safetensors file, a folder, or org/name in the Hugging Face cache",
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
           .help = "tokens of each sequence",
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
};

constexpr std::array parallel_table{
    Option{.flag = "--tp", .value = "T", .help = "tensor-parallel ranks", .standard = "1", .word = &Arguments::tp},
    Option{.flag = "--pp", .value = "P", .help = "pipeline stages", .standard = "1", .word = &Arguments::pp},
    Option{.flag = "--ep", .value = "E", .help = "expert-parallel ranks", .standard = "1", .word = &Arguments::ep},
    Option{.flag = "--dp", .value = "N", .help = "data-parallel replicas", .standard = "1", .word = &Arguments::dp},
    Option{.flag = "--micro-batches",
           .value = "M",
           .help = "pieces that the batch is cut into",
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
           .standard = "0",
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
           .standard = "none",
           .choices = words_of<recompute_choices>,
           .word = &Arguments::recompute},
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

constexpr std::array device_table{
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
           .help = "whose rules of placement",
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

constexpr std::array plan_table{
    Option{.flag = "--devices",
           .value = "SPEC",
           .help = "8xH100-80GB, 4x(8xH100-80GB) for four nodes, 2xA100-80GB+2xRTX4090; auto, cuda:0,cuda:1, UUIDs of "
                   "this machine; a description file",
           .kind = ValueKind::devices,
           .word = &Arguments::devices},
    Option{.flag = "--objective",
           .value = "NAME",
           .help = "what the plan makes best",
           .standard = "latency",
           .choices = words_of<plan_objective_choices>,
           .word = &Arguments::objective},
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

constexpr std::array prompt_table{
    Option{.flag = "--prompt", .value = "TEXT", .help = "the prompt, taken verbatim", .word = &Arguments::prompt},
    Option{.flag = "--prompt-file",
           .value = "FILE",
           .help = "a file that holds the prompt",
           .kind = ValueKind::file,
           .word = &Arguments::prompt_file},
    Option{.flag = "--prompt-ids",
           .value = "IDS",
           .help = "the prompt's token ids, taken as they are: 1,2,3",
           .word = &Arguments::prompt_ids,
           .is_list = true},
    Option{.flag = "--chat",
           .help = "the prompt is what a user says: lay it out as the model's conversations are",
           .is_set = &Arguments::chat},
};

constexpr std::array generation_table{
    Option{.flag = "--max-new-tokens",
           .value = "N",
           .help = "tokens to generate at most; the model's end-of-sequence token ends earlier",
           .standard = "128",
           .word = &Arguments::max_new_tokens},
    Option{.flag = "--temperature",
           .value = "T",
           .help = "divides the logits before a token is drawn; 0 takes the greatest",
           .standard = "0",
           .word = &Arguments::temperature},
    Option{.flag = "--top-k",
           .value = "K",
           .help = "draw from the K greatest only; 0: from all",
           .standard = "0",
           .word = &Arguments::top_k},
    Option{.flag = "--top-p",
           .value = "P",
           .help = "draw from the most probable tokens that reach P together",
           .standard = "1",
           .word = &Arguments::top_p},
    Option{.flag = "--min-p",
           .value = "M",
           .help = "draw from tokens at least M times as probable as the most probable",
           .standard = "0",
           .word = &Arguments::min_p},
    Option{.flag = "--repetition-penalty",
           .value = "R",
           .help = "makes tokens that were there before less likely",
           .standard = "1",
           .word = &Arguments::repetition_penalty},
    Option{.flag = "--seed", .value = "S", .help = "of the draws", .standard = "0", .word = &Arguments::seed},
    Option{.flag = "--stop", .value = "TEXT", .help = "end where this text would appear", .word = &Arguments::stop},
    Option{.flag = "--logits",
           .value = "FILE",
           .help = "write the last logits of each step, float32 [steps, vocabulary]",
           .kind = ValueKind::file,
           .word = &Arguments::logits},
    Option{.flag = "--profile-out",
           .value = "FILE",
           .help = "write the measured seconds of each layer, which map --profile takes; one rank only",
           .kind = ValueKind::file,
           .word = &Arguments::profile_out},
};

constexpr std::array rank_table{
    Option{.flag = "--tp",
           .value = "N",
           .help = "tensor-parallel ranks of each stage, at most as many as query heads",
           .standard = "1, under a launcher all of its ranks",
           .word = &Arguments::tp},
    Option{.flag = "--pp",
           .value = "N",
           .help = "stages of the pipeline, at most as many as layers",
           .standard = "1",
           .word = &Arguments::pp},
    Option{.flag = "--ep", .value = "N", .help = "expert-parallel ranks", .standard = "1", .word = &Arguments::ep},
    Option{.flag = "--ranks",
           .value = "KIND",
           .help = "what the ranks are",
           .standard = "what mpirun or torchrun started, else threads",
           .choices = words_of<rank_kind_choices>,
           .word = &Arguments::ranks},
    Option{.flag = "--map",
           .value = "FILE",
           .help = "a device map, {prefix: device}: each device number is a stage, layers on cpu or disk are streamed",
           .kind = ValueKind::file,
           .word = &Arguments::map},
    Option{.flag = "--strategy",
           .value = "NAME",
           .help = "place the model on --devices, each a stage; what does not fit is not run",
           .standard = "auto",
           .choices = words_of<run_strategy_choices>,
           .word = &Arguments::strategy},
    Option{.flag = "--devices",
           .value = "SPEC",
           .help = "the devices whose memory --strategy fills: 2xgpu:24GiB, 2xRTX4090, auto, ...",
           .kind = ValueKind::devices,
           .word = &Arguments::devices},
    Option{.flag = "--threads",
           .value = "N",
           .help = "threads of all ranks together",
           .standard = "the machine's cores",
           .word = &Arguments::threads},
    Option{.flag = "--deterministic",
           .help = "the same bits for any number of ranks",
           .is_set = &Arguments::deterministic},
};

constexpr std::array embed_rank_table{
    Option{.flag = "--tp",
           .value = "N",
           .help = "tensor-parallel ranks, at most as many as heads",
           .standard = "1",
           .word = &Arguments::tp},
    Option{.flag = "--threads",
           .value = "N",
           .help = "threads of all ranks together",
           .standard = "the machine's cores",
           .word = &Arguments::threads},
    Option{.flag = "--deterministic",
           .help = "the same bits for any number of ranks",
           .is_set = &Arguments::deterministic},
};

constexpr std::array run_cache_table{
    Option{.flag = "--kv-dtype",
           .value = "D",
           .help = "element type of the key-value cache: fp32, bf16, or int8 with a scale per token and head",
           .standard = "fp32",
           .suggestions = run_cache_words,
           .word = &Arguments::kv_dtype},
};

constexpr std::array embed_table{
    Option{.flag = "--text",
           .value = "T",
           .help = "a text to embed; give it again for each further text",
           .words = &Arguments::texts},
    Option{.flag = "--pooling",
           .value = "POOLING",
           .help = "what is made of the tokens' states: their mean, the first one's, or every token's",
           .standard = "mean",
           .choices = words_of<pooling_choices>,
           .word = &Arguments::pooling},
    Option{.flag = "--normalize", .help = "divide vectors by their length", .is_set = &Arguments::normalize},
};

constexpr std::array<std::string_view, 3> held_words{"fp32", "bf16", "fp16"};
constexpr std::array<std::string_view, 8> packed_words{"int8",  "int4", "int4-g64", "nf4",
                                                       "mxfp4", "Q4_0", "Q5_0",     "Q8_0"};

constexpr std::array load_table{
    Option{.flag = "--dtype",
           .value = "D",
           .help = "hold the weights in D, whatever the file has: fp32, bf16 or fp16",
           .standard = "as stored",
           .suggestions = held_words,
           .word = &Arguments::dtype},
    Option{.flag = "--quant",
           .value = "Q",
           .help = "pack the weights while they are loaded: int8, int4, int4-g64, nf4, mxfp4, Q4_0, Q8_0, ...",
           .suggestions = packed_words,
           .word = &Arguments::quant},
};

constexpr std::array tokenize_table{
    Option{.flag = "--text",
           .value = "T",
           .help = "the text whose tokens are wanted; special tokens written in it count as such",
           .word = &Arguments::text},
    Option{.flag = "--decode",
           .value = "IDS",
           .help = "the token ids whose text is wanted, special tokens left out: 1,2,3",
           .word = &Arguments::decode,
           .is_list = true},
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
    return {"Devices", device_table};
}
OptionGroup placement_options() {
    return {"Placement", placement_table};
}
OptionGroup plan_options() {
    return {"Plan", plan_table};
}
OptionGroup detection_options() {
    return {"Devices", detection_table};
}
OptionGroup prompt_options() {
    return {"Prompt", prompt_table};
}
OptionGroup generation_options() {
    return {"Generation", generation_table};
}
OptionGroup embed_rank_options() {
    return {"Ranks", embed_rank_table};
}
OptionGroup rank_options() {
    return {"Ranks", rank_table};
}
OptionGroup run_cache_options() {
    return {"Cache", run_cache_table};
}
OptionGroup embed_options() {
    return {"Embedding", embed_table};
}
OptionGroup load_options() {
    return {"Weights", load_table};
}
OptionGroup tokenize_options() {
    return {"Text", tokenize_table};
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
