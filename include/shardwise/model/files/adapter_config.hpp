// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/json/value.hpp>
#include <shardwise/model/files/config_fields.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How a low-rank adapter (LoRA) was made, as PEFT's adapter_config.json says.
struct AdapterConfig {
    std::int64_t rank = 8;
    double alpha = 8.0;
    /// Scales by alpha / sqrt(rank) instead of alpha / rank.
    bool is_rank_stabilised = false;
    /// Modules, or ends of their names, that differ: the first that matches counts.
    std::vector<std::pair<std::string, std::int64_t>> ranks;
    std::vector<std::pair<std::string, double>> alphas;
    /// The modules that are adapted, by the ends of their names; empty where an expression says which, or all are.
    std::vector<std::string> targets;
    /// True where not all modules with these names are adapted.
    bool is_partial = false;
    /// Modules whose own weights the adapter holds.
    std::vector<std::string> saved;
    /// True where it holds biases, too.
    bool has_biases = false;
    /// Of the input of A, in training alone: running it drops nothing.
    double dropout = 0.0;

    /// True where a module's name is `end` or ends with it as whole parts.
    [[nodiscard]] static bool matches(std::string_view module, std::string_view end) {
        if (!module.ends_with(end)) return false;
        return module.size() == end.size() || module[module.size() - end.size() - 1] == '.';
    }
    [[nodiscard]] std::int64_t rank_of(std::string_view module) const { return first_match(ranks, module, rank); }
    /// What multiplies the product of both halves.
    [[nodiscard]] double scale_of(std::string_view module) const {
        auto const r = static_cast<double>(rank_of(module));
        return first_match(alphas, module, alpha) / (is_rank_stabilised ? std::sqrt(r) : r);
    }
    [[nodiscard]] bool is_target(std::string_view module) const {
        return std::any_of(targets.begin(), targets.end(), [&](auto const& name) { return matches(module, name); });
    }
    /// Of these PEFT asks for the end of a name alone, within a part too.
    [[nodiscard]] bool is_saved(std::string_view module) const {
        return std::any_of(saved.begin(), saved.end(), [&](auto const& name) { return module.ends_with(name); });
    }

private:
    template <class T>
    [[nodiscard]] static T first_match(std::vector<std::pair<std::string, T>> const& all, std::string_view module,
                                       T otherwise) {
        for (auto const& [end, value] : all) {
            // An expression that begins so is all of a name.
            if (end.starts_with('^') ? module == std::string_view(end).substr(1) : matches(module, end)) return value;
        }
        return otherwise;
    }
};

namespace detail {

/// Reads what changes an adapter's result; a key that is not known must say nothing.
class AdapterConfigReader {
public:
    explicit AdapterConfigReader(ConfigObject const& object) : object_(object) {}

    [[nodiscard]] Result<AdapterConfig> read() {
        if (!object_.value().is_object())
            return object_.error(ErrorCode::malformed_file, "", "is no object of an adapter's settings");
        for (auto const member : object_.value()) {
            if (auto const taken = take(member.key(), member); !taken) return taken.error();
        }
        for (std::string_view const needed : {"peft_type", "r", "lora_alpha"}) {
            if (!object_.find_set(needed)) return object_.error(ErrorCode::missing_field, needed, "is needed");
        }
        return std::move(out_);
    }

private:
    /// Say where an adapter comes from or how it was trained, not what it computes.
    static constexpr std::array<std::string_view, 14> idle{"auto_mapping",   "base_model_name_or_path",
                                                           "fan_in_fan_out", "inference_mode",
                                                           "layers_pattern", "loftq_config",
                                                           "eva_config",     "megatron_config",
                                                           "megatron_core",  "peft_version",
                                                           "task_type",      "qalora_group_size",
                                                           "revision",       "runtime_config"};

    [[nodiscard]] Result<> take(std::string_view key, JsonValue value) {
        if (value.is_null() || std::find(idle.begin(), idle.end(), key) != idle.end()) return {};
        if (key == "peft_type") return take_kind(key, value);
        if (key == "r") return take_rank(key, value, out_.rank);
        if (key == "lora_alpha") return take_alpha(key, value, out_.alpha);
        if (key == "lora_dropout") return take_dropout(key, value);
        if (key == "use_rslora") return take_flag(key, value, out_.is_rank_stabilised);
        if (key == "rank_pattern" || key == "alpha_pattern") return take_pattern(key, value);
        if (key == "target_modules") return take_targets(key, value);
        if (key == "modules_to_save") return take_names(key, value, out_.saved);
        if (key == "bias") return take_bias(key, value);
        if (key == "init_lora_weights") return take_start(key, value);
        if (key == "exclude_modules" || key == "layers_to_transform") {
            out_.is_partial = out_.is_partial || !value.is_array() || !value.empty();
            return {};
        }
        bool const says_nothing = value.boolean() == false || value.integer() == 0 || value.string() == "" ||
                                  ((value.is_array() || value.is_object()) && value.empty());
        if (says_nothing) return {};
        return object_
            .error(ErrorCode::unsupported, key, "asks for more than a low-rank product, which is not computed")
            .fix("merge the adapter with PEFT's merge_and_unload and give that model");
    }
    [[nodiscard]] Result<> take_kind(std::string_view key, JsonValue value) const {
        auto const kind = object_.string(key, value);
        if (!kind) return kind.error();
        if (*kind == "LORA") return {};
        return object_.error(ErrorCode::unsupported, key, "is " + std::string(*kind) + ", and LORA alone is read");
    }
    [[nodiscard]] Result<> take_rank(std::string_view key, JsonValue value, std::int64_t& to) const {
        auto const rank = object_.integer(key, value, 1);
        if (!rank) return rank.error();
        to = *rank;
        return {};
    }
    [[nodiscard]] Result<> take_alpha(std::string_view key, JsonValue value, double& to) const {
        auto const alpha = object_.real(key, value);
        if (!alpha) return alpha.error();
        if (!std::isfinite(*alpha)) return object_.error(ErrorCode::invalid_field, key, "is no finite number");
        to = *alpha;
        return {};
    }
    [[nodiscard]] Result<> take_dropout(std::string_view key, JsonValue value) {
        auto const rate = object_.real(key, value);
        if (!rate) return rate.error();
        if (!(*rate >= 0.0 && *rate <= 1.0))
            return object_.error(ErrorCode::invalid_field, key, "must be at least 0 and at most 1");
        out_.dropout = *rate;
        return {};
    }
    [[nodiscard]] Result<> take_flag(std::string_view key, JsonValue value, bool& to) const {
        auto const flag = object_.flag(key, value);
        if (!flag) return flag.error();
        to = *flag;
        return {};
    }
    [[nodiscard]] Result<> take_pattern(std::string_view key, JsonValue value) {
        if (!value.is_object()) return object_.wrong_type(key, value, "an object");
        for (auto const member : value) {
            // What an expression matches is not worked out; a name of a module is its own expression.
            if (member.key().find_first_of("*+?()[]{}|\\$") != std::string_view::npos || member.key().empty())
                return object_.error(ErrorCode::unsupported, key, "has an expression that is no end of a module's name")
                    .fix("write the modules' names");
            if (key == "rank_pattern") {
                auto& to = out_.ranks.emplace_back(std::string(member.key()), std::int64_t{0}).second;
                if (auto const taken = take_rank(key, member, to); !taken) return taken;
            } else {
                auto& to = out_.alphas.emplace_back(std::string(member.key()), 0.0).second;
                if (auto const taken = take_alpha(key, member, to); !taken) return taken;
            }
        }
        return {};
    }
    [[nodiscard]] Result<> take_targets(std::string_view key, JsonValue value) {
        // The tensors say which modules an expression means.
        if (value.is_string()) return {};
        return take_names(key, value, out_.targets);
    }
    [[nodiscard]] Result<> take_names(std::string_view key, JsonValue value, std::vector<std::string>& to) const {
        if (!value.is_array()) return object_.wrong_type(key, value, "a list");
        for (auto const entry : value) {
            auto const name = object_.string(key, entry);
            if (!name) return name.error();
            to.emplace_back(*name);
        }
        return {};
    }
    [[nodiscard]] Result<> take_bias(std::string_view key, JsonValue value) {
        auto const bias = object_.string(key, value);
        if (!bias) return bias.error();
        if (*bias != "none" && *bias != "all" && *bias != "lora_only")
            return object_.error(ErrorCode::invalid_field, key, "must be none, all or lora_only");
        out_.has_biases = *bias != "none";
        return {};
    }
    /// Some ways to begin change the base's weights.
    [[nodiscard]] Result<> take_start(std::string_view key, JsonValue value) const {
        if (value.boolean()) return {};
        auto const how = object_.string(key, value);
        if (!how) return how.error();
        for (std::string_view const known : {"gaussian", "eva", "orthogonal"}) {
            if (*how == known) return {};
        }
        return object_
            .error(ErrorCode::unsupported, key, "is " + std::string(*how) + ", which changes the weights of the base")
            .fix("save the adapter with PEFT's path_initial_model_for_weight_conversion");
    }

    ConfigObject object_;
    AdapterConfig out_;
};

}  // namespace detail

/// Reads an adapter_config.json. What is asked for and would not be computed is refused with its key.
///
/// Errors  unsupported, invalid_field, missing_field, malformed_file, size_overflow
/// Source  PEFT 0.21 tuners/lora/config.py
[[nodiscard]] inline Result<AdapterConfig> read_adapter_config(JsonDocument const& document, std::string_view path) {
    return detail::AdapterConfigReader(detail::ConfigObject(document.root(), path, "")).read();
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
