#include "arguments.hpp"

#include <shardwise/core/text.hpp>
#include <shardwise/core/version.hpp>

#include <CLI/CLI.hpp>

#include "console.hpp"

#include <string_view>
#include <vector>

namespace shardwise::cli {

namespace {

/// Adds options that keep the words as they were given.
class OptionAdder {
public:
    explicit OptionAdder(CLI::App& app) : app_(app) {}

    void group(std::string name) { group_ = std::move(name); }
    CLI::Option& text(std::string const& flag, std::string const& type, std::optional<std::string>& target,
                      std::string const& help) {
        auto* option = app_.add_option_function<std::string>(
            flag, [&target](std::string const& word) { target = word; }, help);
        option->type_name(type)->group(group_);
        return *option;
    }
    void flag(std::string const& name, bool& target, std::string const& help) {
        app_.add_flag(name, target, help)->group(group_);
    }

private:
    CLI::App& app_;
    std::string group_ = "Options";
};

void add_model_options(OptionAdder& add, Arguments& arguments) {
    add.group("Model");
    add.text("--dtype", "D", arguments.dtype,
             "element type of the weights: bf16, float16, F8_E4M3, int4, ... (default: as stored)");
    add.text("--quant", "Q", arguments.quant,
             "quantisation of the weights: int8, int4, nf4, fp8, awq, gptq, Q4_K_M, ...");
    add.text("--batch", "B", arguments.batch, "sequences at a time (default: 1)");
    add.text("--context", "S", arguments.context,
             "tokens of each sequence (default: the model's maximum, at most 4096)");
}

void add_output_options(OptionAdder& add, Arguments& arguments) {
    add.group("Output");
    add.flag("--json", arguments.json, "print one JSON document instead of tables");
    add.text("--color", "WHEN", arguments.color, "auto, always or never (default: auto; NO_COLOR beats auto)");
}

void add_estimate_options(CLI::App& app, Arguments& arguments) {
    OptionAdder add(app);
    add.text("MODEL", "", arguments.model,
             "a preset, a config.json, .gguf or .safetensors file, a folder, or org/name in the Hugging Face cache");
    add_model_options(add, arguments);
    add.text("--kv-dtype", "D", arguments.kv_dtype,
             "element type of the key-value cache (default: --dtype, else the model's, 16 bits when quantised)");
    add.text("--sliding-window", "POLICY", arguments.sliding_window,
             "what sliding-window layers cache: window or full (default: window)");
    add.text("--mla", "POLICY", arguments.mla,
             "what latent attention caches: compressed or full (default: compressed)");
    add.group("Parallelism");
    add.text("--tp", "T", arguments.tp, "tensor-parallel ranks (default: 1)");
    add.text("--pp", "P", arguments.pp, "pipeline stages (default: 1)");
    add.text("--ep", "E", arguments.ep, "expert-parallel ranks (default: 1)");
    add.text("--dp", "N", arguments.dp, "data-parallel replicas (default: 1)");
    add.flag("--sequence-parallel", arguments.sequence_parallel,
             "split activations between tensor-parallel ranks along the sequence");
    add.group("Training");
    add.text("--training", "OPTIMIZER", arguments.training, "estimate training with adam, sgd or adam8bit");
    add.text("--zero", "Z", arguments.zero, "ZeRO stage 0 to 3 (default: 0)");
    add.text("--offload", "WHAT", arguments.offload,
             "state kept in host memory: none, optimizer or all (default: none)");
    add.text("--recompute", "WHAT", arguments.recompute,
             "activations computed again: none, selective or full (default: none)");
    add.text("--convention", "NAME", arguments.convention,
             "whose accounting: shardwise, deepspeed, megatron or zero (default: shardwise)");
    add_output_options(add, arguments);
}

void add_map_options(CLI::App& app, Arguments& arguments) {
    OptionAdder add(app);
    add.text("MODEL", "", arguments.model,
             "a preset, a config.json, .gguf or .safetensors file, a folder, or org/name in the Hugging Face cache");
    add.text("--tree", "FILE", arguments.tree, "a JSON tree of modules instead of a MODEL");
    add_model_options(add, arguments);
    add.group("Devices");
    add.text("--devices", "SPEC", arguments.devices,
             "4xA100-40GB, 2xA100-80GB+2xRTX4090, 4x(8xH100-80GB), 2xgpu:24GiB; then +cpu:64GiB, +disk");
    add.text("--max-memory", "JSON", arguments.max_memory,
             R"(budgets by device, {"0":"10GiB","cpu":"30GB"}, or @FILE)");
    add.group("Placement");
    add.text("--strategy", "NAME", arguments.strategy,
             "auto, balanced, balanced_low_0, sequential, optimal or custom (default: auto)");
    add.text("--custom", "FILE", arguments.custom, "the device map of --strategy custom: {prefix: device}");
    add.text("--objective", "NAME", arguments.objective,
             "what optimal minimises: load, bottleneck or latency (default: load)");
    add.text("--dialect", "NAME", arguments.dialect, "shardwise, accelerate or transformers (default: shardwise)");
    add.text("--no-split", "CLASS,...", arguments.no_split,
             "classes never split over devices (default: the architecture's; none for --tree)")
        .join(',');
    add.flag("--fallback", arguments.fallback, "accelerate's fallback_allocation");
    add.flag("--offload-buffers", arguments.offload_buffers, "accelerate's offload_buffers");
    add.text(
        "--max", "WHAT", arguments.max,
        "answer the inverse question: the largest context or batch, the fewest devices, the mildest quant that fits");
    add_output_options(add, arguments);
}

/// The flag or command that was probably meant.
[[nodiscard]] std::string closest_name(CLI::App const& app, std::string word) {
    auto const equals = word.find('=');
    if (equals != std::string::npos) word.resize(equals);
    std::vector<std::string> names;
    if (!word.empty() && word[0] == '-') {
        for (auto const* option : app.get_options()) {
            for (auto const& name : option->get_lnames()) names.push_back("--" + name);
        }
    } else {
        for (auto const* command : app.get_subcommands({})) names.push_back(command->get_name());
    }
    ClosestName closest(word);
    for (auto const& name : names) closest.offer(name);
    return std::string(closest.best());
}

[[nodiscard]] std::string join(std::vector<std::string> const& words) {
    std::string text;
    for (auto const& word : words) text += (text.empty() ? "" : ", ") + word;
    return text;
}

[[nodiscard]] Error usage_error(CLI::ParseError const& problem, CLI::App const& root, CLI::App const* command) {
    Error error{ErrorCode::invalid_argument};
    std::string const help =
        "see shardwise " + (command == nullptr ? std::string() : command->get_name() + " ") + "--help";
    if (dynamic_cast<CLI::ExtrasError const*>(&problem) != nullptr) {
        auto const extras = root.remaining(true);
        auto const first = extras.empty() ? std::string() : extras.front();
        auto const closest = closest_name(command == nullptr ? root : *command, first);
        error.in(join(extras))
            .because(command == nullptr && first.substr(0, 1) != "-" ? "is not a command" : "was not expected");
        return error.fix(closest.empty() ? help : "did you mean " + closest + "? " + help);
    }
    if (dynamic_cast<CLI::ArgumentMismatch const*>(&problem) != nullptr) {
        std::string const text = problem.what();
        error.in(text.substr(0, text.find(':')));
        bool const is_repeated =
            text.find("received") != std::string::npos || text.find("At Most") != std::string::npos;
        return error.because(is_repeated ? "was given more than once" : "needs a value").fix(help);
    }
    return error.because(problem.what()).fix(help);
}

}  // namespace

std::optional<ExitCode> read_arguments(int argc, char const* const* argv, Arguments& arguments) {
    CLI::App app{"shardwise: does this model fit on these devices, and where does each part go?", "shardwise"};
    app.set_version_flag("--version", "shardwise " + std::to_string(library_version.major_number) + "." +
                                          std::to_string(library_version.minor_number) + "." +
                                          std::to_string(library_version.patch_number));
    app.require_subcommand(0, 1);
    app.footer("Exit status: 0 done, 1 failure, 2 usage, 3 the plan does not fit, 4 no such device.");
    auto* estimate = app.add_subcommand("estimate", "how much memory a model takes, term by term");
    auto* map = app.add_subcommand("map", "which device holds which part of a model");
    add_estimate_options(*estimate, arguments);
    add_map_options(*map, arguments);
    for (auto* command : {estimate, map})
        command->footer(
            "Sizes in JSON are bytes. Exit status: 0 done, 1 failure, 2 usage, 3 does not fit, 4 no such device.");
    // Wrong flags keep --json from being read; its error document is wanted all the same.
    for (int i = 1; i < argc; ++i) arguments.json = arguments.json || std::string_view{argv[i]} == "--json";

    auto const chosen = [&]() -> CLI::App const* { return *estimate ? estimate : *map ? map : nullptr; };
    try {
        app.parse(argc, argv);
    } catch (CLI::CallForHelp const&) {
        print_text((chosen() == nullptr ? &app : chosen())->help("shardwise"));
        return ExitCode::done;
    } catch (CLI::CallForAllHelp const&) {
        print_text(app.help("", CLI::AppFormatMode::All));
        return ExitCode::done;
    } catch (CLI::CallForVersion const& version) {
        print_text(std::string(version.what()) + "\n");
        return ExitCode::done;
    } catch (CLI::ParseError const& problem) {
        return report(usage_error(problem, app, chosen()), Stage::arguments, arguments.json);
    }
    if (chosen() == nullptr) {
        return report(Error{ErrorCode::invalid_argument}
                          .because("no command")
                          .fix("write shardwise estimate or shardwise map; see shardwise --help"),
                      Stage::arguments, arguments.json);
    }
    arguments.command = chosen()->get_name();
    return std::nullopt;
}

}  // namespace shardwise::cli
