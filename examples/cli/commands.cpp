// SPDX-License-Identifier: Apache-2.0
#include "commands.hpp"

#include <array>

namespace shardwise::cli {

std::span<Command const> commands() {
    static std::array const all{
        Command{.name = "estimate",
                .summary = "how much memory a model takes, term by term",
                .description =
                    "Counts weights, key-value cache, activations, gradients, optimizer state and the runtime's own "
                    "memory of a model, for inference or training, of all ranks and of each. Only headers of files are "
                    "read; no GPU is needed.",
                .groups = {model_argument(), model_options(), cache_options(), parallel_options(), training_options(),
                           adapter_options(), output_options()},
                .examples = {{"shardwise estimate llama-3-70b --context 8192 --tp 4", "what each of four GPUs holds"},
                             {"shardwise estimate ./Mistral-7B --training adam --zero 2 --dp 8",
                              "fine-tuning on eight replicas"},
                             {"shardwise estimate llama-3-8b --training adam --lora 8 --quant nf4",
                              "an adapter beside a base of four bits"}},
                .run = run_estimate},
        Command{.name = "map",
                .summary = "which device holds which part of a model",
                .description =
                    "Places the parts of a model on devices and says whether it fits, how full each device is, and how "
                    "far the answer is from the best possible one. Where it does not fit, the smallest changes that "
                    "would make it fit are listed.\n\nThe dialects accelerate (1.15), transformers (5.23) and "
                    "transformers-5.0 give the device map that those libraries would infer.",
                .groups = {model_argument(), tree_options(), model_options(), cache_options(), device_options(),
                           placement_options(), output_options(), picture_options()},
                .is_argument_optional = true,
                .examples = {{"shardwise map llama-3-70b --devices 4xA100-40GB --context 8192",
                              "does it fit, and where does each layer go?"},
                             {"shardwise map llama-3-8b --devices 1xRTX4090 --max context", "the longest context"},
                             {"shardwise map ./model --devices 2xRTX3090+cpu:64GiB --json",
                              "a device map for another program"},
                             {"shardwise map qwen3-32b --devices 2xA100-40GB --svg map.svg", "a picture"}},
                .run = run_map},
        Command{
            .name = "plan",
            .summary = "how to cut a model over a cluster: tensor, pipeline, data and expert parallelism",
            .description =
                "Searches the ways to cut a model over devices for the best, by a cost model that prices every "
                "operation "
                "and every message, and says why each degree is what it is, what each rank holds, what a step's time "
                "is "
                "spent on, and what the runners-up lose. Where nothing fits, changes that would help are "
                "listed.\n\nThe "
                "batch is that of the whole job; with --objective throughput and without --batch it is chosen. Without "
                "--zero the stage of ZeRO is searched too. Degrees that are given are kept to.",
            .groups = {model_argument(), model_options(), cache_options(), plan_options(), pin_options(), training_options(),
                       adapter_options(), output_options(), picture_options()},
            .examples = {{"shardwise plan llama-3-70b --devices 8xH100-80GB --batch 16", "how to serve it"},
                         {"shardwise plan deepseek-v3 --devices '4x(8xH200-141GB)' --objective throughput --batch 256",
                          "how to serve many at once"},
                         {"shardwise plan qwen2.5-7b --devices 8xA100-80GB --even", "only degrees that other engines run"},
                         {"shardwise plan mixtral-8x7b --devices 8xA100-80GB --tp 4 --ep 2", "what these degrees cost"},
                         {"shardwise plan llama-3-8b --devices '2x(8xA100-80GB)' --training adam --batch 256",
                          "how to train it"},
                         {"shardwise plan llama-3-70b --devices 8xA100-80GB --training adam --lora 8 --quant nf4",
                          "how to train an adapter beside a base of four bits"}},
            .run = run_plan},
        Command{.name = "detect",
                .summary = "which devices this machine has, how they are connected, and which of them may be used",
                .description =
                    "Asks NVIDIA's and AMD's drivers and the system. Devices that CUDA_VISIBLE_DEVICES, "
                    "ROCR_VISIBLE_DEVICES or HIP_VISIBLE_DEVICES hide are listed with the reason. With a MODEL, the "
                    "device or the fewest devices that hold it are recommended; without, the one with the most "
                    "memory to use.\n\nA missing driver is no device. A broken one is an error that names the call, "
                    "and one "
                    "that does not answer within a minute too.",
                .groups = {model_argument(), model_options(), cache_options(), detection_options(), output_options()},
                .is_argument_optional = true,
                .examples = {{"shardwise detect", "the machine at a glance"},
                             {"shardwise detect llama-3-8b --context 8192", "which device to run it on"},
                             {"shardwise detect --devices cuda:0,cuda:1", "may these be used? Exit status 4 if not"},
                             {"shardwise detect --out node.json", "a description to plan with elsewhere"}},
                .run = run_detect},
        Command{.name = "monitor",
                .summary = "what devices and host are doing: utilisation, memory, power, energy; of a command, too",
                .description =
                    "Shows the devices of this machine and the host itself, whose processors, memory, pressure and "
                    "energy are there without any GPU. Without a terminal it prints one look. What a device or the "
                    "system does not tell is empty, never 0, and a warning says why.\n\nBehind -- a command is run "
                    "and watched: its end is followed by a report on the error output, and its exit status is this "
                    "program's. Signals are passed on to it, and what it leaves running is ended.",
                .groups = {monitor_options(), monitor_output_options()},
                .trailing = "COMMAND",
                .examples = {{"shardwise monitor --once", "one look"},
                             {"shardwise monitor --csv run.csv -- python train.py",
                              "run it, then report; a row of means in run.csv"},
                             {"shardwise monitor --json --interval 0.5", "a line of JSON each half second"},
                             {"shardwise monitor --once --devices cuda:0,cuda:1", "exit status 4 if they are not usable"}},
                .run = run_monitor},
        Command{.name = "launch",
                .summary = "start a command once for each rank here, or print what starts a plan on a cluster",
                .description =
                    "Starts N processes of the COMMAND with torchrun's variables: RANK, WORLD_SIZE, LOCAL_RANK, "
                    "MASTER_ADDR, MASTER_PORT and their like. Each line of their output comes whole, with its rank "
                    "before it. Where one fails all are ended, and the end names the first failure: rank, process, "
                    "exit code or signal, and its last lines.\n\nA guard is the parent of all processes and ends "
                    "what they leave, however they or this program end, kill -9 included. SIGINT, SIGTERM and SIGHUP "
                    "are passed on; what still runs after --grace is killed, and at once by a second Ctrl-C. The exit "
                    "status is 1 for a failure, and 130, 143 or 129 after those signals.\n\nOn several machines "
                    "start it once on each, with --nnodes, --node-rank and the same --master-addr and --master-port."
                    "\n\nWith a LAUNCHER it starts nothing: it reads a plan that `shardwise plan --json` wrote and "
                    "prints what starts it: a batch script for sbatch, a line for Open MPI's mpirun, a line for torchrun "
                    "on each node, or an Indexed Job with its headless Service. Every rank runs the COMMAND after --; "
                    "without one, or with flags only, that is `shardwise run` as planned, with these flags. The batch "
                    "script appends its own arguments to it: sbatch job.sh --prompt TEXT.",
                .groups = {launcher_argument(), launch_options(), launch_output_options(), launch_script_options()},
                .is_argument_optional = true,
                .trailing = "COMMAND",
                .examples = {{"shardwise launch --nproc 4 -- python train.py", "four ranks on this machine"},
                             {"shardwise launch --nproc 2 --mask-devices --log-dir logs -- ./server",
                              "each rank sees its own GPU; logs/rank.N.out and rank.N.err"},
                             {"shardwise launch --nproc 8 --nnodes 2 --node-rank 0 --master-addr a --master-port 29500 -- ./train",
                              "the first of two machines"},
                             {"shardwise launch slurm --plan plan.json > job.sh", "a script: sbatch job.sh --prompt Hello"},
                             {"shardwise launch torchrun --plan plan.json --hosts a,b -- python train.py",
                              "a line for each of two machines"},
                             {"shardwise launch kubernetes --plan plan.json -- --prompt Hello", "a manifest"}},
                .run = run_launch},
        Command{.name = "calibrate",
                .summary = "measure this machine into a description file that plans take",
                .description =
                    "Measures reading and copying memory, products by element type for many rows and for one, and sums "
                    "over ranks that are threads, in under a minute, and writes a description file "
                    "(docs/reference/description-file.md). On a machine without accelerators each rank is a device in "
                    "it, with its share of the memory and of the rates; elsewhere accelerators stay as published, but those "
                    "that --devices names: of them copies, launches and products are measured. Nothing else should run "
                    "meanwhile.",
                .groups = {calibration_options(), output_options()},
                .examples = {{"shardwise calibrate --out machine.json", "measure this machine"},
                             {"shardwise calibrate --out machine.json --devices cuda:0", "with its GPU"},
                             {"shardwise plan llama-3-8b --quant int4 --devices machine.json",
                              "plan with what was measured"}},
                .run = run_calibrate},
        Command{
            .name = "run",
            .summary = "generate with a model on this machine, sharded over ranks",
            .description =
                "Loads a checkpoint (safetensors or GGUF), cuts it over tensor-parallel ranks and stages of a "
                "pipeline, and generates. Ranks are threads of this process, processes that it starts, or those of "
                "mpirun or torchrun; only rank 0 prints. Weights keep the file's form unless --dtype or --quant ask "
                "for another (what no product computes with directly is held in fp32), activations are "
                "fp32.\n\nOn a terminal and without a prompt it asks for one after another: with --chat they are "
                "the turns of a conversation, Ctrl-C ends an answer, Ctrl-D the program.\n\nWith --deterministic the "
                "logits have the same bits for any number of ranks. Decoders "
                "run: llama, mistral, qwen2, qwen3, gemma, gemma2, gemma3, phi, phi3, gpt2, opt, gpt_neox, bloom, "
                "falcon, mixtral, "
                "qwen2_moe, qwen3_moe, gpt_oss, deepseek_v2, deepseek_v3, granite, cohere, cohere2, olmo2, olmo3, "
                "exaone4, glm4, glm4_moe, nemotron, phimoe, kimi_k2, smollm3, stablelm, starcoder2, seed_oss, ernie4_5, "
                "hunyuan_v1_dense, apertus, minimax_m2, qwen3_next, the text models of qwen2_vl, qwen2_5_vl, "
                "qwen3_vl, qwen3_vl_moe, gemma3, llava and mistral3, and what "
                "is built like them.",
            .groups = {model_argument(), prompt_options(), load_options(), generation_options(), rank_options(),
                       run_cache_options(), product_options(), output_options()},
            .examples =
                {{"shardwise run model.gguf --prompt 'The capital of France is' --tp 2", "two ranks, greedily"},
                 {"shardwise run ./SmolLM2-135M-Instruct --chat --prompt 'Why is the sky blue?' --temperature 0.7",
                  "an answer"},
                 {"shardwise run model.gguf --chat --tp 2", "a conversation on this terminal"},
                 {"mpirun -n 4 shardwise run model.gguf --prompt 'Once upon a time' --pp 2",
                  "four MPI ranks in two stages"},
                 {"shardwise run model.gguf --prompt-ids 504,3575,282,4649,314 --json", "for another program"}},
            .run = run_run},
        Command{
            .name = "embed",
            .summary = "vectors of texts by a model on this machine, sharded over ranks",
            .description =
                "Loads a checkpoint, cuts it over tensor-parallel ranks that are threads of this process, and computes "
                "the "
                "states after the last layer of each text's tokens, pooled into a vector: bert, roberta, xlm-roberta, "
                "distilbert, mpnet, modernbert, and decoders too. What the tokenizer puts before and after each text is "
                "put there; padding and truncation "
                "are not applied. Pooling and length are those of the checkpoint's modules.json, where it has one and "
                "--pooling does not say otherwise. Each vector is a line of numbers. With --scores a model of a "
                "classifying class says what it scores: of each text, or of each token, a line of its labels' names and "
                "numbers (no softmax is taken).",
            .groups = {model_argument(), embed_options(), embed_rank_options(), output_options()},
            .examples = {{"shardwise embed ./all-MiniLM-L6-v2 --text 'a cat' --text 'a kitten' --normalize",
                          "two vectors of length 1, a line each"},
                         {"shardwise embed ./bert-base-uncased --text 'a cat' --pooling none --json",
                          "a vector for each token"}},
            .run = run_embed},
        Command{
            .name = "train",
            .summary = "train a model on this machine, with the same bits on any ranks",
            .description =
                "Trains the weights of a checkpoint, or of a config.json from scratch, to predict the next token of texts, "
                "JSON lines or token files. Texts are tokenised once, into FOLDER/tokens. Samples are windows of S + 1 "
                "tokens, S apart. The loss is the mean over all tokens of a batch that count; its bits, and those of the "
                "weights, depend on no micro-batch, threads or ranks, nor on restarts.\n\nCheckpoints are "
                "FOLDER/step-000100 and the like: each is a MODEL for every command. A run that is started again goes on "
                "from the newest whole one; one that would remove checkpoints of another is refused. SIGINT, SIGTERM or "
                "SIGHUP end it after its step and a checkpoint, with 128 and the signal's number as exit status; a second "
                "one ends it at once.\n\nWhat does not run together yet is "
                "refused by name.",
            .groups = {train_argument(), train_data_options(), train_step_options(), train_rank_options(),
                       train_adapter_options(), train_safety_options(), train_output_options(), output_options()},
            .examples = {{"shardwise train ./SmolLM2-135M --data notes.txt --valid-part 0.05 --out run --lr 1e-4",
                          "go on with a model's weights"},
                         {"shardwise train config.json --tokenizer tokenizer.json --data plays.txt --steps 1000 --out run",
                          "a new model"},
                         {"shardwise train config.json --data ids.u16 --out run --config options.json --dry-run",
                          "does it fit?"}},
            .run = run_train},
        Command{.name = "deploy",
                .summary = "the container that runs a model on another engine, refused early where it cannot work",
                .description =
                    "Plans the model over exactly the devices that are named and prints how to start vLLM, SGLang, "
                    "llama-server, Text Generation Inference or Text Embeddings Inference in a container: a line for "
                    "docker or Apptainer, a file for docker compose or Kubernetes. Degrees, the share of memory and "
                    "the context are the plan's. What could not work is refused with the reason and the smallest "
                    "change.\n\nSecrets are passed by their names: HF_TOKEN always, others by --env NAME.",
                .groups = {engine_argument(), model_argument(), deploy_options(), container_options()},
                .examples = {{"shardwise deploy vllm meta-llama/Llama-3.1-8B --devices 0,1 --dry-run",
                              "a line that starts vLLM on two GPUs of this machine"},
                             {"shardwise deploy sglang ./model --devices 8xH100-80GB --format kubernetes --dry-run",
                              "a manifest"}},
                .run = run_deploy},
        Command{.name = "support",
                .summary = "what runs where: strategies, operations and weight formats by back end",
                .description =
                    "Says for CUDA, ROCm, Metal and the CPU which strategies this program runs, which the library has "
                    "as building blocks, which are only planned for, and which operations and weight formats have a "
                    "kernel; what is not there has its reason. The answers come from the code's own traits, so that no "
                    "SDK and no device is needed.",
                .groups = {output_options()},
                .examples = {{"shardwise support", "the matrix"}},
                .run = run_support},
        Command{.name = "tokenize",
                .summary = "the token ids of a text, or the text of token ids",
                .description = "Reads the tokenizer of a model: a tokenizer.json in its folder, or the vocabulary that "
                               "its GGUF file holds. What the tokenizer puts before and after each text is put there; "
                               "padding and truncation are not applied.",
                .groups = {model_argument(), tokenize_options(), output_options()},
                .examples = {{"shardwise tokenize model.gguf --text 'Hello, world!'", "its tokens"},
                             {"shardwise tokenize ./model --decode 504,3575,282", "and back"}},
                .run = run_tokenize},
        Command{.name = "list",
                .summary = "the names that this program knows: models, devices, architectures, quantisations",
                .description = "Prints a name a line: presets of models and devices, the families of models that it "
                               "reads, and the quantisations that --quant takes.",
                .groups = {listed_argument(), output_options()},
                .examples = {{"shardwise list models", "every MODEL that needs no file"},
                             {"shardwise list devices --json", "for another program"}},
                .run = run_list},
        Command{.name = "help",
                .summary = "print the help of this program or of a command",
                .description = "The same as --help.",
                .groups = {topic_argument()},
                .is_argument_optional = true,
                .examples = {{"shardwise help map", "the flags of map"}},
                .run = run_help},
        Command{
            .name = "completion",
            .summary = "print the script that completes shardwise's command lines in a shell",
            .description = "The script completes commands, flags, their choices, names of models and devices, and "
                           "files. An installed shardwise brings the scripts along; this command is for all others.",
            .groups = {shell_argument()},
            .examples = {{"source <(shardwise completion bash)", "for this bash"},
                         {"shardwise completion zsh > ~/.zfunc/_shardwise", "for each zsh, with ~/.zfunc in fpath"},
                         {"shardwise completion fish > ~/.config/fish/completions/shardwise.fish", "for each fish"}},
            .run = run_completion},
        Command{.name = "man",
                .summary = "print this program's manual page, as roff",
                .description = "An installed shardwise brings the page along: man shardwise.",
                .groups = {},
                .examples = {{"shardwise man | man -l -", "read it without installing"}},
                .run = run_man},
    };
    return all;
}

Command const* find_command(std::string_view name) {
    for (auto const& command : commands()) {
        if (command.name == name) return &command;
    }
    return nullptr;
}

}  // namespace shardwise::cli
