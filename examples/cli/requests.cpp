// SPDX-License-Identifier: Apache-2.0
#include "requests.hpp"

#include <shardwise/core/files/text_file.hpp>
#include <shardwise/memory/check_request.hpp>
#include <shardwise/placement/max_memory_json.hpp>
#include <shardwise/quant/scheme.hpp>

#include "choices.hpp"
#include "device_choice.hpp"
#include "values.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>

namespace shardwise::cli {

namespace {

template <class Meaning, std::size_t count>
[[nodiscard]] Result<> read_choice(std::string_view flag, std::optional<std::string> const& word,
                                   std::array<Choice<Meaning>, count> const& choices, Meaning& target) {
    if (!word) return {};
    auto const chosen = choose<Meaning>(flag, *word, choices);
    if (!chosen) return chosen.error();
    target = *chosen;
    return {};
}

[[nodiscard]] Result<> read_dtype(std::string_view flag, std::optional<std::string> const& word,
                                  Optional<Dtype>& target) {
    if (!word) return {};
    target = parse_dtype(*word);
    if (target) return {};
    ClosestName closest(std::string_view{*word}.substr(0, 64));
    for (auto const& row : dtype_table) {
        closest.offer(row.short_name);
        closest.offer(row.torch_name);
        closest.offer(row.safetensors_name);
    }
    std::string advice = closest.best().empty() ? "" : "did you mean " + std::string(closest.best()) + "? ";
    if (parse_quant_scheme(*word)) advice = "did you mean --quant " + *word + "? ";
    return Error{ErrorCode::unknown_name}
        .in(flag)
        .at(*word)
        .because("is not a known dtype")
        .fix(advice + "use a name of torch (bfloat16), of safetensors (BF16) or a short one (bf16, fp8, int4)");
}

[[nodiscard]] Result<> read_training(Arguments const& arguments, Optional<TrainingPlan>& target) {
    TrainingPlan plan;
    std::int64_t zero = 0;
    if (auto const read = read_choice("--training", arguments.training, optimizer_choices, plan.optimizer); !read)
        return read;
    if (auto const read = read_count("--zero", arguments.zero, 3, zero, 0); !read) return read;
    if (auto const read = read_choice("--offload", arguments.offload, offload_choices, plan.offload); !read)
        return read;
    if (auto const read = read_choice("--recompute", arguments.recompute, recompute_choices, plan.recompute); !read)
        return read;
    if (auto const read = read_choice("--attention", arguments.attention, attention_choices, plan.attention); !read)
        return read;
    if (auto const read = read_choice("--convention", arguments.convention, convention_choices, plan.convention); !read)
        return read;
    plan.zero = static_cast<std::int32_t>(zero);
    if (arguments.training) {
        target = plan;
        return {};
    }
    for (auto const& [flag, word] :
         {std::pair{"--zero", &arguments.zero}, std::pair{"--offload", &arguments.offload},
          std::pair{"--recompute", &arguments.recompute}, std::pair{"--attention", &arguments.attention},
          std::pair{"--convention", &arguments.convention}}) {
        if (!*word) continue;
        return Error{ErrorCode::invalid_argument}
            .in(flag)
            .because("describes training, which was not asked for")
            .fix("add --training adam");
    }
    return {};
}

[[nodiscard]] Result<> read_utilization(std::optional<std::string> const& word, double& target) {
    if (!word) return {};
    auto const* const last = word->data() + word->size();
    auto const [end, problem] = std::from_chars(word->data(), last, target);
    bool const is_number = problem == std::errc{} && end == last;
    // Not a number compares false.
    if (is_number && target > 0.0 && target <= 1.0) return {};
    return Error{ErrorCode::invalid_argument}
        .in("--utilization")
        .at(word->empty() ? std::string_view{"\"\""} : std::string_view{*word})
        .because(is_number ? "is out of range" : "is not a number")
        .fix("write a number above 0 and at most 1, like 0.92");
}

[[nodiscard]] Error excludes(std::string_view flags, std::string_view why, std::string_view advice) {
    return Error{ErrorCode::invalid_argument}.in(flags).because(why).fix(advice);
}

/// Devices with these limits, of which nothing else is known.
[[nodiscard]] List<Device> devices_of(MaxMemory const& limits) {
    List<Device> devices;
    for (auto const& [id, limit] : limits.limits()) {
        Device device;
        device.id = id;
        device.memory = limit;
        device.name = id.kind == DeviceClass::gpu ? "gpu"
                                                  : std::string_view{id.kind == DeviceClass::mps   ? "mps"
                                                                     : id.kind == DeviceClass::cpu ? "cpu"
                                                                                                   : "disk"};
        devices.push_back(device);
    }
    return devices;
}

[[nodiscard]] Result<> read_devices(Arguments const& arguments, MapRequest& request) {
    if (arguments.devices) {
        auto choice = choose_devices(*arguments.devices);
        if (!choice) return choice.error();
        request.devices = std::move(choice->topology.devices);
        request.links = std::move(choice->topology.links);
        for (auto& warning : choice->warnings) request.warnings.push_back(std::move(warning));
        // The dialects' libraries take all of a device.
        if (request.dialect != MapDialect::shardwise && !arguments.utilization) request.estimate.utilization = 1.0;
        for (auto const& device : request.devices) {
            auto const limit = device.usable(request.estimate.utilization);
            if (auto const added = request.max_memory.add(device.id, limit); !added) return added.error();
        }
        return {};
    }
    auto limits = read_max_memory(arguments);
    if (!limits) return limits.error();
    request.max_memory = *std::move(limits);
    request.devices = devices_of(request.max_memory);
    return {};
}

[[nodiscard]] Result<> check_map_flags(Arguments const& arguments) {
    if (arguments.model && arguments.tree) return excludes("MODEL, --tree", "exclude each other", "name one of them");
    if (!arguments.model && !arguments.tree)
        return excludes("MODEL, --tree", "neither was given",
                        "name a MODEL or a tree: shardwise map llama-3-8b --devices 1xL4");
    if (arguments.devices && arguments.max_memory)
        return excludes("--devices, --max-memory", "exclude each other", "give one of them");
    if (!arguments.devices && !arguments.max_memory) {
        return excludes("--devices, --max-memory", "neither was given", "say on which devices: --devices 4xA100-40GB");
    }
    if (arguments.tree) {
        for (auto const& [flag, word] :
             {std::pair{"--context", &arguments.context}, std::pair{"--batch", &arguments.batch},
              std::pair{"--quant", &arguments.quant}, std::pair{"--kv-dtype", &arguments.kv_dtype},
              std::pair{"--sliding-window", &arguments.sliding_window}, std::pair{"--mla", &arguments.mla},
              std::pair{"--prefill-chunk", &arguments.prefill_chunk}}) {
            if (*word)
                return excludes(std::string(flag) + ", --tree", "a tree is only names, dtypes and shapes",
                                "leave it out, or name a MODEL");
        }
    }
    return {};
}

[[nodiscard]] Result<> check_combinations(Arguments const& arguments, MapRequest& request) {
    bool const is_custom = request.strategy == MapStrategy::custom;
    if (is_custom && !arguments.custom) return excludes("--strategy custom", "needs the map", "add --custom FILE");
    if (!is_custom && arguments.custom)
        return excludes("--custom", "is read by --strategy custom only", "add --strategy custom");
    if (arguments.objective && is_custom)
        return excludes("--objective, --strategy custom", "a custom map is taken as it is", "leave --objective out");
    bool const is_inverse_of_model =
        request.inverse == Inverse::context || request.inverse == Inverse::batch || request.inverse == Inverse::quant;
    if (arguments.tree && is_inverse_of_model) {
        return excludes("--max, --tree", "a tree has no context, batch or quantisation",
                        "use --max devices, or name a MODEL");
    }
    if (is_custom && request.inverse != Inverse::none)
        return excludes("--max, --strategy custom", "a custom map is taken as it is", "leave one of them out");
    if (request.dialect == MapDialect::shardwise) {
        if (request.has_fallback)
            request.warnings.push_back("--fallback belongs to the dialect accelerate and changes nothing here");
        if (request.offloads_buffers)
            request.warnings.push_back(
                "--offload-buffers belongs to the dialects accelerate and transformers and changes nothing here");
        return {};
    }
    auto const dialect = "--dialect " + std::string(name_of(request.dialect));
    if (is_custom || *arguments.strategy == "optimal") {
        return excludes(dialect + ", --strategy " + std::string(name_of(request.strategy)),
                        "that dialect has no such strategy",
                        "use auto, balanced, balanced_low_0 or sequential, or --dialect shardwise");
    }
    if (request.inverse != Inverse::none)
        return excludes(dialect + ", --max", "that dialect answers no inverse questions", "use --dialect shardwise");
    if (arguments.objective)
        return excludes(dialect + ", --objective", "that dialect has no objectives", "use --dialect shardwise");
    if (request.has_fallback && request.dialect != MapDialect::accelerate) {
        request.warnings.push_back("--fallback belongs to the dialect accelerate; transformers does not use it");
    }
    for (auto const& [flag, word] :
         {std::pair{"--context", &arguments.context}, std::pair{"--batch", &arguments.batch},
          std::pair{"--kv-dtype", &arguments.kv_dtype}, std::pair{"--sliding-window", &arguments.sliding_window},
          std::pair{"--mla", &arguments.mla}, std::pair{"--prefill-chunk", &arguments.prefill_chunk}}) {
        if (*word)
            request.warnings.push_back(std::string(flag) +
                                       " changes nothing: the dialect counts weights and buffers only");
    }
    return {};
}

}  // namespace

Result<> read_quant(std::optional<std::string> const& word, Optional<QuantScheme>& target) {
    if (!word) return {};
    // What --max quant answers where no quantisation is needed.
    if (equal_ignoring_case(*word, "none")) return {};
    auto const scheme = parse_quant_scheme(*word);
    if (scheme) {
        target = *scheme;
        return {};
    }
    ClosestName closest(std::string_view{*word}.substr(0, 64));
    for (auto const name : quant_words) closest.offer(name);
    auto error = Error{scheme.error()}.in("--quant");
    std::string advice = closest.best().empty() ? "" : "did you mean " + std::string(closest.best()) + "? ";
    if (parse_dtype(*word)) advice = "did you mean --dtype " + *word + "? ";
    return error.fix(advice + "use " + std::string(quant_scheme_names));
}

std::vector<std::string> split_at_commas(std::string_view text) {
    std::vector<std::string> words;
    while (true) {
        auto const comma = text.find(',');
        auto word = text.substr(0, comma);
        while (!word.empty() && word.front() == ' ') word.remove_prefix(1);
        while (!word.empty() && word.back() == ' ') word.remove_suffix(1);
        if (!word.empty()) words.emplace_back(word);
        if (comma == std::string_view::npos) return words;
        text.remove_prefix(comma + 1);
    }
}

Result<MaxMemory> read_max_memory(Arguments const& arguments) {
    if (!arguments.max_memory) return MaxMemory{};
    std::string text = *arguments.max_memory;
    bool const is_file = !text.empty() && text[0] == '@';
    if (is_file) {
        auto file = read_text_file(text.substr(1), std::size_t{1} << 16U);
        if (!file) return file.error();
        text = *std::move(file);
    }
    auto limits = parse_max_memory(text);
    if (limits) return *std::move(limits);
    auto const& error = limits.error();
    if (is_file || error.code() != ErrorCode::malformed_file) return Error{error}.in("--max-memory");
    // No file is malformed where the text is an argument.
    return Error{ErrorCode::invalid_argument}
        .in("--max-memory")
        .because(error.reason())
        .fix(R"(write it like {"0": "10GiB", "cpu": "30GB"})");
}

std::string_view name_of(MapStrategy strategy) {
    switch (strategy) {
        case MapStrategy::optimal:
            return "optimal";
        case MapStrategy::balanced:
            return "balanced";
        case MapStrategy::balanced_low_0:
            return "balanced_low_0";
        case MapStrategy::sequential:
            return "sequential";
        case MapStrategy::custom:
            return "custom";
    }
    return "unknown";
}

std::string_view name_of(MapDialect dialect) {
    switch (dialect) {
        case MapDialect::shardwise:
            return "shardwise";
        case MapDialect::accelerate:
            return "accelerate";
        case MapDialect::transformers:
            return "transformers";
        case MapDialect::transformers_5_0:
            return "transformers-5.0";
    }
    return "unknown";
}

Result<> read_prefill_chunk(std::optional<std::string> const& word, std::int64_t whole, std::int64_t& target) {
    if (!word || !equal_ignoring_case(*word, "none")) return read_count("--prefill-chunk", word, max_tokens, target);
    target = whole;
    return {};
}

Result<EstimateRequest> read_estimate_request(Arguments const& arguments) {
    EstimateRequest request;
    auto& parallel = request.parallel;
    for (auto const& read :
         {read_dtype("--dtype", arguments.dtype, request.dtype),
          read_dtype("--kv-dtype", arguments.kv_dtype, request.kv_dtype), read_quant(arguments.quant, request.quant),
          read_count("--batch", arguments.batch, max_tokens, request.batch),
          read_tokens("--context", arguments.context, max_tokens, request.context),
          read_choice("--sliding-window", arguments.sliding_window, window_choices, request.window),
          read_choice("--mla", arguments.mla, mla_choices, request.mla),
          read_prefill_chunk(arguments.prefill_chunk, 0, request.prefill_chunk),
          read_utilization(arguments.utilization, request.utilization),
          read_count("--tp", arguments.tp, max_ranks, parallel.tp),
          read_count("--pp", arguments.pp, max_ranks, parallel.pp),
          read_count("--ep", arguments.ep, max_ranks, parallel.ep),
          read_count("--dp", arguments.dp, max_ranks, parallel.dp),
          read_count("--micro-batches", arguments.micro_batches, max_tokens, request.micro_batches),
          read_training(arguments, request.training)}) {
        if (!read) return read.error();
    }
    auto const tokens = checked_multiply(request.batch, request.context > 0 ? request.context : default_context);
    if (!tokens || *tokens > max_tokens) {
        return Error{ErrorCode::invalid_argument}
            .in("--batch, --context")
            .because("ask for more tokens than can be planned for")
            .at_most(max_tokens)
            .fix("lower one of them");
    }
    std::int64_t ranks = 1;
    for (auto const degree : {parallel.tp, parallel.pp, parallel.ep, parallel.dp}) {
        ranks = ranks > max_ranks ? ranks : ranks * degree;
    }
    if (ranks > max_ranks) {
        return Error{ErrorCode::invalid_argument}
            .in("--tp, --pp, --ep, --dp")
            .because("ask for more ranks than can be planned for")
            .at_most(max_ranks)
            .fix("lower one of them");
    }
    parallel.sequence_parallel = arguments.sequence_parallel;
    return request;
}

Result<MapRequest> read_map_request(Arguments const& arguments) {
    if (auto const checked = check_map_flags(arguments); !checked) return checked.error();
    auto estimate = read_estimate_request(arguments);
    if (!estimate) return estimate.error();
    MapRequest request;
    request.estimate = *std::move(estimate);
    for (auto const& read :
         {read_choice("--strategy", arguments.strategy, strategy_choices, request.strategy),
          read_choice("--dialect", arguments.dialect, dialect_choices, request.dialect),
          read_choice("--objective", arguments.objective, map_objective_choices, request.objective),
          read_choice("--max", arguments.max, inverse_choices, request.inverse), read_devices(arguments, request)}) {
        if (!read) return read.error();
    }
    request.strategy_word = arguments.strategy.value_or("auto");
    bool const is_auto = equal_ignoring_case(request.strategy_word, "auto");
    if (is_auto && request.dialect != MapDialect::shardwise) request.strategy = MapStrategy::balanced;
    if (arguments.no_split) request.no_split = split_at_commas(*arguments.no_split);
    request.has_fallback = arguments.fallback;
    request.offloads_buffers = arguments.offload_buffers;
    auto words = arguments;
    words.strategy = request.strategy_word;
    if (auto const checked = check_combinations(words, request); !checked) return checked.error();
    return request;
}

Result<> check_model_given(Arguments const& arguments, std::string_view example) {
    if (arguments.model) return {};
    return Error{ErrorCode::invalid_argument}
        .in("MODEL")
        .because("was not given")
        .fix("name one: " + std::string(example));
}

Error in_flags(Error error) {
    if (!error.subject().empty()) return error;
    std::string flags;
    for (auto const& word : split_at_commas(error.place())) {
        bool is_member = false;
        for (std::string_view const member :
             {"tp", "pp", "ep", "dp", "zero", "offload", "training", "recompute", "convention", "batch", "context",
              "prefill_chunk", "utilization", "micro_batches", "devices"})
            is_member = is_member || word == member;
        if (!is_member) return error;
        flags += (flags.empty() ? "--" : ", --") + word;
    }
    std::replace(flags.begin(), flags.end(), '_', '-');
    return flags.empty() ? error : error.in(flags).at({});
}

Result<ColorMode> read_color(Arguments const& arguments) {
    ColorMode mode = ColorMode::automatic;
    if (auto const read = read_choice("--color", arguments.color, color_choices, mode); !read) return read.error();
    return mode;
}

}  // namespace shardwise::cli
