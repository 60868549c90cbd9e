// SPDX-License-Identifier: Apache-2.0
#include "choices.hpp"
#include "options.hpp"

#include <array>

namespace shardwise::cli {

namespace {

constexpr Option threads_option{.flag = "--threads",
                                .value = "N",
                                .help = "threads of all ranks together",
                                .standard = "the machine's cores",
                                .word = &Arguments::threads};

constexpr Option deterministic_option{
    .flag = "--deterministic", .help = "the same bits for any number of ranks", .is_set = &Arguments::deterministic};

constexpr std::array<std::string_view, 3> run_cache_words{"fp32", "bf16", "int8"};

constexpr std::array prompt_table{
    Option{.flag = "--prompt", .value = "TEXT", .help = "the prompt, taken verbatim", .word = &Arguments::prompt},
    Option{.flag = "--prompt-file",
           .value = "FILE",
           .help = "a file that holds the prompt, or a pipe; - is the standard input",
           .kind = ValueKind::file,
           .word = &Arguments::prompt_file},
    Option{.flag = "--prompt-ids",
           .value = "IDS",
           .help = "the prompt's token ids, taken as they are: 1,2,3",
           .word = &Arguments::prompt_ids,
           .is_list = true},
    Option{.flag = "--chat",
           .help = "the prompt is what a user says: lay it out by the model's own chat template (Jinja)",
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
    Option{.flag = "--stop",
           .value = "TEXT",
           .help = "end where this text would appear; give it again for each further text",
           .words = &Arguments::stops},
    Option{.flag = "--prefill-chunk",
           .value = "N",
           .help = "most tokens of all sequences that one step computes, or none: whole prompts",
           .standard = "512",
           .suggestions = prefill_chunk_words,
           .word = &Arguments::prefill_chunk},
    Option{.flag = "--adapter",
           .value = "FOLDER",
           .help = "use a low-rank adapter (LoRA) that PEFT saved: merged into float weights as they are loaded, "
                   "beside packed ones",
           .kind = ValueKind::file,
           .word = &Arguments::adapter},
    Option{.flag = "--merge",
           .help = "of --adapter: an error where it is not merged into float weights",
           .is_set = &Arguments::merge},
    Option{.flag = "--logits",
           .value = "FILE",
           .help = "write the last logits of each step, float32 [steps, vocabulary]",
           .kind = ValueKind::file,
           .word = &Arguments::logits},
    Option{.flag = "--profile-out",
           .value = "FILE",
           .help = "write the measured seconds of each layer, which map --profile takes",
           .kind = ValueKind::file,
           .word = &Arguments::profile_out},
    Option{.flag = "--trace",
           .value = "FILE",
           .help = "write what each rank did when, as Chrome trace JSON, which Perfetto shows",
           .kind = ValueKind::file,
           .word = &Arguments::trace},
    Option{.flag = "--monitor",
           .help = "measure what the run's tokens cost: joules, where the machine's counters may be read",
           .is_set = &Arguments::monitor},
};

constexpr Option comm_option{
    .flag = "--comm",
    .value = "KIND",
    .help = "how ranks on devices add up: by kernels that reach each other's memory, through the host's, or by NCCL",
    .standard = "auto, peers where those are to be had",
    .choices = words_of<device_comm_choices>,
    .word = &Arguments::comm};

constexpr Option peer_sums_option{
    .flag = "--calibration",
    .value = "FILE",
    .help = "what `calibrate --devices` wrote: by it ranks that reach each other's memory add up in one step or two",
    .kind = ValueKind::file,
    .word = &Arguments::calibration};

constexpr Option activations_option{
    .flag = "--activations",
    .value = "D",
    .help = "element type of activations between a device's kernels",
    .standard = "bf16 where all ranks are on devices that have kernels for it, else fp32",
    .choices = words_of<activation_choices>,
    .word = &Arguments::activations};

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
    Option{.flag = "--offload",
           .value = "HOW",
           .help = "layers placed on cpu: stream their weights to --devices, or compute them on the processor",
           .standard = "stream",
           .choices = words_of<cpu_layers_choices>,
           .word = &Arguments::cpu_layers},
    Option{.flag = "--strategy",
           .value = "NAME",
           .help = "place the model on --devices, each a stage; what does not fit is not run",
           .standard = "auto",
           .choices = words_of<run_strategy_choices>,
           .word = &Arguments::strategy},
    Option{
        .flag = "--devices",
        .value = "SPEC",
        .help =
            "where to compute: cuda:0,cuda:1 or hip:0 cut each layer; with --strategy, or named as auto, 0 or UUIDs, "
            "each holds a stage (--strategy: also +cpu:64GiB, +disk); or memory that it fills and the processor stands "
            "for: 2xgpu:24GiB, ...",
        .kind = ValueKind::devices,
        .word = &Arguments::devices},
    comm_option,
    peer_sums_option,
    activations_option,
    Option{.flag = "--no-graphs",
           .help = "put every kernel of a step into a device's stream by a call of its own",
           .is_set = &Arguments::no_graphs},
    threads_option,
    deterministic_option,
};

constexpr std::array embed_rank_table{
    Option{.flag = "--devices",
           .value = "SPEC",
           .help = "where to compute: cuda:0,cuda:1, hip:0, auto or cpu",
           .standard = "the processor",
           .kind = ValueKind::devices,
           .word = &Arguments::devices},
    comm_option,
    peer_sums_option,
    activations_option,
    Option{.flag = "--tp",
           .value = "N",
           .help = "tensor-parallel ranks, at most as many as heads",
           .standard = "1",
           .word = &Arguments::tp},
    threads_option,
    deterministic_option,
};

constexpr std::array product_table{
    Option{
        .flag = "--product-activations",
        .value = "KIND",
        .help = "what products take activations for: all bits; 8 by weights of whole numbers; bf16 by weights of bf16",
        .standard = "full",
        .choices = words_of<product_activation_choices>,
        .word = &Arguments::product_activations},
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
           .help = "what is made of the tokens' states: their mean, the first one's, the last one's, or every "
                   "token's; auto: what the checkpoint's modules.json says, else their mean",
           .standard = "auto",
           .choices = words_of<pooling_choices>,
           .word = &Arguments::pooling},
    Option{.flag = "--normalize", .help = "divide vectors by their length", .is_set = &Arguments::normalize},
    Option{.flag = "--scores",
           .help = "what a classifying model scores, by label, instead of vectors: texts, tokens, or where an answer "
                   "begins and ends",
           .is_set = &Arguments::scores},
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

constexpr std::array calibration_table{
    Option{.flag = "--out",
           .value = "FILE",
           .help = "write the description file here; --devices takes it",
           .kind = ValueKind::file,
           .word = &Arguments::out},
    Option{.flag = "--devices",
           .value = "SPEC",
           .help = "also measure these devices: cuda:0,cuda:1 or hip:0",
           .standard = "the processor alone",
           .kind = ValueKind::devices,
           .word = &Arguments::devices},
    Option{.flag = "--tp",
           .value = "N",
           .help = "ranks that are threads: their sums are measured, and without accelerators each is a device",
           .standard = "2, on a single core 1",
           .word = &Arguments::tp},
    threads_option,
    Option{.flag = "--quick",
           .help = "a few seconds with probes that fit in caches: a first look, too good to plan with",
           .is_set = &Arguments::quick},
};

}  // namespace

OptionGroup prompt_options() {
    return {"Prompt", prompt_table};
}
OptionGroup generation_options() {
    return {"Generation", generation_table};
}
OptionGroup rank_options() {
    return {"Ranks", rank_table};
}
OptionGroup embed_rank_options() {
    return {"Ranks", embed_rank_table};
}
OptionGroup product_options() {
    return {"Products", product_table};
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
OptionGroup calibration_options() {
    return {"Measuring", calibration_table};
}

}  // namespace shardwise::cli
