// SPDX-License-Identifier: Apache-2.0
#include "train_adapter.hpp"

#include <shardwise/executor/adapter.hpp>
#include <shardwise/json/writer.hpp>

#include "requests.hpp"
#include "values.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>
#include <system_error>
#include <utility>

namespace shardwise::cli {

namespace {

[[nodiscard]] Error bad_flag(std::string_view flag, std::string_view reason, std::string_view advice) {
    return Error{ErrorCode::invalid_argument}.in(flag).because(reason).fix(advice);
}

/// A number that is whole as PEFT writes one.
void write_number(JsonWriter& json, std::string_view key, double value) {
    auto const whole = static_cast<std::int64_t>(value);
    if (static_cast<double>(whole) == value)
        json.member(key, whole);
    else
        json.member(key, value);
}

[[nodiscard]] Result<HeldProducts> products_of(LoadedModel& base, Optional<QuantScheme> const& quant) {
    if (!base.files || base.files->source().weights.empty()) return held_products(base.model, quant);
    auto const stored = StoredParameters::open(*base.files, base.model);
    return stored ? held_products(*stored, quant) : Result<HeldProducts>(stored.error());
}

}  // namespace

Result<LowRankOptions> read_low_rank(Arguments const& arguments) {
    LowRankOptions out;
    if (!arguments.lora) {
        for (auto const& [flag, word] :
             {std::pair{"--lora-alpha", &arguments.lora_alpha}, std::pair{"--lora-targets", &arguments.lora_targets},
              std::pair{"--lora-dropout", &arguments.lora_dropout}}) {
            if (*word) return bad_flag(flag, "is of adapters, which are not asked for", "add --lora R");
        }
        if (arguments.merge) return bad_flag("--merge", "is of adapters, which are not asked for", "add --lora R");
        return out;
    }
    if (auto const read = read_count("--lora", arguments.lora, 65536, out.rank); !read) return read.error();
    if (arguments.from_scratch)
        return bad_flag("--lora, --from-scratch",
                        "exclude each other: an adapter changes a model that is trained already",
                        "leave one of them out");
    if (arguments.lora_alpha) {
        auto const& word = *arguments.lora_alpha;
        auto const [end, problem] = std::from_chars(word.data(), word.data() + word.size(), out.alpha);
        if (problem != std::errc{} || end != word.data() + word.size() || !(out.alpha > 0.0 && out.alpha < 1e9))
            return bad_flag("--lora-alpha", "is no positive number", "write a number like 16");
    }
    if (arguments.lora_dropout) {
        auto const& word = *arguments.lora_dropout;
        auto const [end, problem] = std::from_chars(word.data(), word.data() + word.size(), out.dropout);
        if (problem != std::errc{} || end != word.data() + word.size() || !(out.dropout >= 0.0 && out.dropout <= 0.999))
            return bad_flag("--lora-dropout", "is out of range", "write a number from 0 to 0.999, like 0.05");
    }
    if (arguments.lora_targets) {
        out.targets = split_at_commas(*arguments.lora_targets);
        out.targets.erase(std::remove(out.targets.begin(), out.targets.end(), std::string{}), out.targets.end());
        if (out.targets.empty()) return bad_flag("--lora-targets", "names no module", "write names like q_proj,v_proj");
        // PEFT's word for what stands where nothing is named.
        if (out.targets.size() == 1 && out.targets[0] == "all-linear") out.targets.clear();
    }
    return out;
}

Result<> check_adapter(LowRankOptions const& low_rank, EstimateRequest const& request) {
    if (low_rank.rank == 0) return {};
    Error error{ErrorCode::invalid_argument};
    error.in("--lora");
    if (!request.training) return error.because("is of training").fix("add --training adam");
    if (request.training->convention != MemoryConvention::shardwise)
        return error.because("is counted as shardwise train allocates it").fix("leave out --convention");
    return {};
}

Result<> hold_base(LoadedModel& base, Optional<QuantScheme> const& quant, LowRankOptions& low_rank) {
    if (low_rank.rank == 0) return {};
    auto held = products_of(base, quant);
    if (!held) return held.error();
    low_rank.held = *std::move(held);
    return {};
}

void put_adapter_config(CheckpointFiles& files, TrainedAdapter const& adapter, std::string const& base) {
    if (adapter.empty()) return;
    files.files.erase(std::remove_if(files.files.begin(), files.files.end(),
                                     [](auto const& file) { return file.name == "config.json"; }),
                      files.files.end());
    JsonWriter json(2);
    json.begin_object().key("alpha_pattern").begin_object().end_object();
    json.key("auto_mapping").value(nullptr).member("base_model_name_or_path", base).member("bias", "none");
    json.member("fan_in_fan_out", adapter.is_turned()).member("inference_mode", true);
    json.member("init_lora_weights", true);
    write_number(json, "lora_alpha", adapter.options().alpha);
    json.member("lora_dropout", adapter.options().dropout)
        .key("modules_to_save")
        .value(nullptr)
        .member("peft_type", "LORA");
    json.member("r", adapter.options().rank).key("rank_pattern").begin_object().end_object();
    json.key("target_modules").begin_array();
    auto const& targets = adapter.options().targets.empty() ? adapter.modules() : adapter.options().targets;
    for (auto const& target : targets) json.value(target);
    json.end_array().member("task_type", "CAUSAL_LM").member("use_dora", false).member("use_rslora", false);
    json.end_object();
    files.put(Adapter::config_file, std::move(json).text() + "\n");
}

}  // namespace shardwise::cli
