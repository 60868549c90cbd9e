// SPDX-License-Identifier: Apache-2.0
#include "choices.hpp"
#include "options.hpp"

#include <array>

namespace shardwise::cli {

namespace {

constexpr std::array train_argument_table{
    Option{.flag = "MODEL",
           .value = "MODEL",
           .help = "a folder of safetensors, or org/name in the Hugging Face cache; with --lora a .gguf file, too; demo, our "
                   "own small model; or a config.json, or - for one on standard input, whose model begins from scratch",
           .kind = ValueKind::model,
           .word = &Arguments::model},
};

constexpr std::array train_data_table{
    Option{.flag = "--data",
           .value = "FILE...",
           .help =
               "what to learn: texts, JSON lines (*.jsonl: text, or prompt and completion, whose loss counts alone), "
               "token files (*.u16, *.u32: little-endian ids); all words up to the next flag",
           .kind = ValueKind::file,
           .words = &Arguments::data,
           .takes_several = true},
    Option{.flag = "--out",
           .value = "FOLDER",
           .help = "where checkpoints go: step-000100 and the like; it is made",
           .kind = ValueKind::file,
           .word = &Arguments::out},
    Option{.flag = "--config",
           .value = "OPTIONS.json",
           .help = "a file with these options by their names, without dashes; flags win",
           .kind = ValueKind::file,
           .word = &Arguments::config},
    Option{.flag = "--from-scratch",
           .help = "weights of the seed in place of MODEL's",
           .is_set = &Arguments::from_scratch},
    Option{.flag = "--tokenizer",
           .value = "FILE",
           .help = "a tokenizer.json",
           .standard = "MODEL's",
           .kind = ValueKind::file,
           .word = &Arguments::tokenizer},
    Option{.flag = "--valid",
           .value = "FILE",
           .help = "what to validate with",
           .kind = ValueKind::file,
           .word = &Arguments::valid},
    Option{.flag = "--valid-part",
           .value = "P",
           .help = "the last part of the data, to validate with instead of learning it: 0.05",
           .word = &Arguments::valid_part},
    Option{.flag = "--valid-every",
           .value = "N",
           .help = "steps from one validation to the next; the last step is always followed by one",
           .standard = "a tenth of all",
           .word = &Arguments::valid_every},
    Option{.flag = "--context",
           .value = "S",
           .help = "tokens of each sequence: 1024, or 1k",
           .standard = "the model's maximum, at most 1024",
           .word = &Arguments::context},
    Option{.flag = "--batch",
           .value = "G",
           .help = "sequences of a step, on all ranks together",
           .standard = "8",
           .word = &Arguments::batch},
    Option{
        .flag = "--micro-batch",
        .value = "N",
        .help = "sequences that go forwards together; auto is the most that memory holds, and no result depends on it",
        .standard = "auto",
        .suggestions = micro_batch_words,
        .word = &Arguments::micro_batch},
    Option{.flag = "--tune",
           .help = "before the first step measure micro-batches that memory holds, and take the fastest",
           .is_set = &Arguments::tune},
};

constexpr std::array train_step_table{
    Option{.flag = "--steps",
           .value = "N",
           .help = "steps of the whole run, those before a checkpoint included",
           .standard = "one epoch",
           .word = &Arguments::steps},
    Option{.flag = "--epochs",
           .value = "E",
           .help = "the same in passes over the data",
           .standard = "1",
           .word = &Arguments::epochs},
    Option{.flag = "--optimizer",
           .value = "NAME",
           .help = "how weights follow gradients",
           .standard = "adamw",
           .choices = words_of<train_optimizer_choices>,
           .word = &Arguments::optimizer},
    Option{.flag = "--lr",
           .value = "R",
           .help = "learning rate, at its highest",
           .standard = "3e-4",
           .word = &Arguments::lr},
    Option{.flag = "--beta1",
           .value = "B",
           .help = "share that the mean of gradients keeps, of adamw and adam8bit",
           .standard = "0.9",
           .word = &Arguments::beta1},
    Option{.flag = "--beta2",
           .value = "B",
           .help = "the same of their squares",
           .standard = "0.95",
           .word = &Arguments::beta2},
    Option{.flag = "--epsilon",
           .value = "E",
           .help = "added to their root, of adamw and adam8bit",
           .standard = "1e-8",
           .word = &Arguments::epsilon},
    Option{.flag = "--weight-decay",
           .value = "W",
           .help = "of all weights but those of norms and biases",
           .standard = "0.1",
           .word = &Arguments::weight_decay},
    Option{.flag = "--momentum", .value = "M", .help = "of sgd", .standard = "0.9", .word = &Arguments::momentum},
    Option{.flag = "--schedule",
           .value = "NAME",
           .help = "how the learning rate goes after the warm-up; wsd falls in the last fifth of all steps",
           .standard = "cosine",
           .choices = schedule_names,
           .word = &Arguments::schedule},
    Option{.flag = "--warmup",
           .value = "N",
           .help = "steps in which the learning rate rises",
           .standard = "0",
           .word = &Arguments::warmup},
    Option{.flag = "--min-lr",
           .value = "R",
           .help = "learning rate below which none falls",
           .standard = "a tenth of --lr",
           .word = &Arguments::min_lr},
    Option{.flag = "--clip",
           .value = "C",
           .help = "largest norm of all gradients; 0: they are not clipped",
           .standard = "1",
           .word = &Arguments::clip},
    Option{.flag = "--precision",
           .value = "P",
           .help = "what layers compute in; weights and sums are fp32 in each; auto is bf16 with AMX, else fp32",
           .standard = "auto",
           .choices = precision_words,
           .word = &Arguments::precision},
    Option{.flag = "--kahan-sum",
           .help = "with --precision bf16: weights in bf16, with a compensation in bf16 in place of fp32 masters",
           .is_set = &Arguments::kahan_sum},
    Option{.flag = "--recompute",
           .value = "WHAT",
           .help = "activations that the backward pass computes again: less memory, the same results",
           .standard = "none",
           .choices = words_of<recompute_choices>,
           .word = &Arguments::recompute},
    Option{.flag = "--dropout",
           .value = "P",
           .help = "share of what embeddings, attention and feed-forward give that is made 0 while a model learns",
           .standard = "0",
           .word = &Arguments::dropout},
    Option{.flag = "--seed",
           .value = "S",
           .help = "of the order of samples, and of weights from scratch",
           .standard = "0",
           .word = &Arguments::seed},
};

constexpr std::array train_rank_table{
    Option{.flag = "--mode",
           .value = "NAME",
           .help = "how ranks share the work",
           .standard = "auto",
           .choices = train_mode_words,
           .word = &Arguments::mode},
    Option{.flag = "--dp", .value = "N", .help = "data-parallel ranks", .standard = "1", .word = &Arguments::dp},
    Option{.flag = "--tp",
           .value = "N",
           .help = "tensor-parallel ranks, which share each layer: up to the query heads",
           .standard = "1",
           .word = &Arguments::tp},
    Option{.flag = "--pp",
           .value = "N",
           .help = "stages of a pipeline, which share the layers: up to the layers",
           .standard = "1",
           .word = &Arguments::pp},
    Option{.flag = "--zero",
           .value = "Z",
           .help = "stage of ZeRO: what data-parallel ranks share: 1 the optimizer's state, 2 gradients, 3 weights",
           .standard = "0",
           .choices = zero_words,
           .word = &Arguments::zero},
    Option{.flag = "--offload",
           .value = "WHAT",
           .help = "what lies in files of --out rather than in memory: none; optimizer, its state; or all, weights and "
                   "gradients as well, of which a layer's are read while the one before is computed",
           .standard = "none",
           .choices = words_of<offload_choices>,
           .word = &Arguments::offload},
    Option{.flag = "--pipeline",
           .value = "NAME",
           .help = "table of the pipeline's stages",
           .standard = "1f1b",
           .choices = pipeline_words,
           .word = &Arguments::pipeline},
    Option{
        .flag = "--bucket-mb",
        .value = "M",
        .help =
            "MiB of gradients that ranks exchange at once, while a backward pass goes on; without it the first time 1",
        .standard = "25",
        .word = &Arguments::bucket_mb},
    Option{.flag = "--find-unused",
           .help = "parameters without a gradient in a step are no error; so it is without the flag, too",
           .is_set = &Arguments::find_unused},
    Option{.flag = "--no-static-graph",
           .help = "do not take the first step's order of gradients for that of all: it follows from the model",
           .is_set = &Arguments::no_static_graph},
    Option{.flag = "--no-bucket-view",
           .help = "copy gradients into what is exchanged; so it is without the flag, too",
           .is_set = &Arguments::no_bucket_view},
    Option{.flag = "--no-fallback",
           .help = "an error where --mode auto would go back to one rank",
           .is_set = &Arguments::no_fallback},
    Option{.flag = "--fast",
           .help = "sum gradients in the order of the least work, so that bits depend on the ranks",
           .is_set = &Arguments::fast},
    Option{.flag = "--ranks",
           .value = "KIND",
           .help = "what ranks are",
           .standard = "what a launcher started, else threads",
           .choices = words_of<rank_kind_choices>,
           .word = &Arguments::ranks},
    Option{.flag = "--threads",
           .value = "N",
           .help = "threads of all ranks together",
           .standard = "the machine's cores",
           .word = &Arguments::threads},
    Option{.flag = "--devices",
           .value = "SPEC",
           .help = "where to train; cpu alone runs so far",
           .standard = "cpu",
           .kind = ValueKind::devices,
           .word = &Arguments::devices},
};

constexpr Option lora_option{
    .flag = "--lora",
    .value = "R",
    .help = "train low-rank adapters (LoRA) of this rank instead of the weights; run --adapter runs them",
    .word = &Arguments::lora};
constexpr Option lora_targets_option{.flag = "--lora-targets",
                                     .value = "NAME,...",
                                     .help = "the products that have one, by the ends of their names",
                                     .standard = "all of the layers",
                                     .word = &Arguments::lora_targets,
                                     .is_list = true};
constexpr Option lora_dropout_option{
    .flag = "--lora-dropout",
    .value = "P",
    .help = "the share of elements that become 0 in what the adapters read, in training only",
    .standard = "0",
    .word = &Arguments::lora_dropout};

constexpr std::array adapter_table{lora_option, lora_targets_option, lora_dropout_option};

constexpr std::array train_adapter_table{
    lora_option,
    Option{.flag = "--lora-alpha",
           .value = "A",
           .help = "their scale times the rank",
           .standard = "8",
           .word = &Arguments::lora_alpha},
    lora_targets_option,
    lora_dropout_option,
    Option{
        .flag = "--merge",
        .help = "of --lora: writes at the end the base with the adapter in its weights, a model by itself: OUT/merged",
        .is_set = &Arguments::merge},
    Option{.flag = "--quant",
           .value = "Q",
           .help = "of --lora: packs the products that stay as they are",
           .suggestions = quant_words,
           .word = &Arguments::quant},
};

constexpr std::array train_safety_table{
    Option{.flag = "--save-every",
           .value = "N",
           .help = "steps from one checkpoint to the next; the last step is always followed by one",
           .standard = "the end only",
           .word = &Arguments::save_every},
    Option{.flag = "--keep",
           .value = "K",
           .help = "checkpoints that are kept, the newest",
           .standard = "2",
           .word = &Arguments::keep},
    Option{.flag = "--resume",
           .value = "FROM",
           .help = "auto, the newest whole checkpoint in --out, or step 0 where there is none; none, step 0; or a "
                   "checkpoint's folder; a run that would remove checkpoints in --out is refused",
           .standard = "auto",
           .suggestions = resume_words,
           .word = &Arguments::resume},
    Option{.flag = "--timeout",
           .value = "S",
           .help = "seconds that a phase of a step may take (data, the passes of a micro-batch, sums, norm, optimizer, ...)",
           .standard = "600",
           .word = &Arguments::timeout},
    Option{.flag = "--max-restarts",
           .value = "K",
           .help = "starts after a rank has died, from the last checkpoint, with the ranks that are left",
           .standard = "0",
           .word = &Arguments::max_restarts},
    Option{.flag = "--min-ranks",
           .value = "N",
           .help = "fewest ranks to go on with",
           .standard = "1",
           .word = &Arguments::min_ranks},
    Option{.flag = "--max-skipped",
           .value = "N",
           .help = "steps in a row, skipped for a gradient that is no number, that end the run",
           .standard = "10",
           .word = &Arguments::max_skipped},
    Option{.flag = "--check-gradients",
           .value = "N",
           .help = "check each Nth step: gradients twice, and ranks' weights",
           .standard = "never",
           .word = &Arguments::check_gradients},
};

constexpr std::array train_output_table{
    Option{.flag = "--csv",
           .value = "FILE",
           .help = "a line for each step",
           .kind = ValueKind::file,
           .word = &Arguments::csv},
    Option{.flag = "--svg",
           .value = "FILE",
           .help = "the curve of the losses as a picture",
           .kind = ValueKind::file,
           .word = &Arguments::svg},
    Option{.flag = "--dry-run",
           .help = "print plan and memory of each rank, and train nothing",
           .is_set = &Arguments::dry_run},
};

}  // namespace

OptionGroup train_argument() {
    return {"Model", train_argument_table};
}
OptionGroup train_data_options() {
    return {"Data", train_data_table};
}
OptionGroup train_step_options() {
    return {"Steps", train_step_table};
}
OptionGroup train_rank_options() {
    return {"Ranks", train_rank_table};
}
OptionGroup adapter_options() {
    return {"Adapters", adapter_table};
}
OptionGroup train_adapter_options() {
    return {"Adapters", train_adapter_table};
}
OptionGroup train_safety_options() {
    return {"Safety", train_safety_table};
}
OptionGroup train_output_options() {
    return {"Output", train_output_table};
}

}  // namespace shardwise::cli
