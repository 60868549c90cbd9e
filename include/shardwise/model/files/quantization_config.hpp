// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/dtype.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/json/value.hpp>
#include <shardwise/model/files/compressed_groups.hpp>
#include <shardwise/model/files/config_fields.hpp>
#include <shardwise/model/files/module_names.hpp>
#include <shardwise/quant/checkpoint_scheme.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How the tensors of a checkpoint are packed.
struct CheckpointQuantization {
    /// Of every method but compressed-tensors, which has `groups`.
    QuantScheme scheme;
    std::vector<CompressedGroup> groups;
    bool is_compressed = false;
    /// Modules that stay as they are (`modules_to_not_convert`, `ignore`, ...); ModuleNames matches them by `rule`.
    std::vector<std::string> kept;
    NameRule rule = NameRule::parts;
    /// True where the config lists what stays, be it nothing: bitsandbytes then packs the head too.
    bool lists_kept = false;
};

/// The dtype of what a quantised checkpoint leaves unpacked where its config names none.
[[nodiscard]] inline std::optional<Dtype> usual_dtype(CheckpointQuantization const& quantization) {
    if (quantization.is_compressed) return Dtype::f16;
    auto const dtype = traits(quantization.scheme.method).float_dtype;
    return dtype ? std::optional<Dtype>(*dtype) : std::nullopt;
}

namespace detail {

/// Reads the keys of `quantization_config` that decide sizes.
class QuantizationReader {
public:
    explicit QuantizationReader(ConfigObject const& object) : object_(object) {}

    [[nodiscard]] Result<CheckpointQuantization> read() {
        QuantizationConfig config;
        bool const is_read =
            take("quant_method", config.quant_method) && take("load_in_8bit", config.load_in_8bit) &&
            take("load_in_4bit", config.load_in_4bit) && take("bnb_4bit_quant_type", config.bnb_4bit_quant_type) &&
            take("bnb_4bit_use_double_quant", config.bnb_4bit_use_double_quant) && take("bits", config.bits) &&
            take("group_size", config.group_size) && take("desc_act", config.desc_act) && take("sym", config.sym) &&
            take("checkpoint_format", config.checkpoint_format) && take("version", config.version) && take("activation_scheme", config.activation_scheme) &&
            take_blocks(config) && take_kept();
        if (!is_read) return error_;
        if (is_same_name(config.quant_method, "compressed-tensors")) return read_compressed();
        auto const scheme = checkpoint_scheme(config);
        if (!scheme) {
            auto error = scheme.error();
            return error.in(object_.file()).at("quantization_config." + std::string(error.place()));
        }
        out_.scheme = *scheme;
        out_.rule = traits(scheme->method).kept;
        return out_;
    }

private:
    Result<CheckpointQuantization> read_compressed() {
        auto groups = read_compressed_groups(object_);
        if (!groups) return groups.error();
        out_.groups = *std::move(groups);
        out_.is_compressed = true;
        out_.rule = NameRule::targets;
        return out_;
    }

    bool fail(Error const& error) {
        error_ = error;
        return false;
    }
    bool take(std::string_view key, std::string_view& out) {
        auto const found = object_.find_set(key);
        if (!found) return true;
        auto const text = object_.string(key, *found);
        if (text) out = *text;
        return text || fail(text.error());
    }
    bool take(std::string_view key, std::optional<bool>& out) {
        auto const found = object_.find_set(key);
        if (!found) return true;
        auto const flag = object_.flag(key, *found);
        if (flag) out = *flag;
        return flag || fail(flag.error());
    }
    bool take(std::string_view key, std::optional<std::int64_t>& out) {
        auto const found = object_.find_set(key);
        if (!found) return true;
        auto const number = object_.integer(key, *found, -1);
        if (number) out = *number;
        return number || fail(number.error());
    }
    bool take_blocks(QuantizationConfig& config) {
        constexpr std::string_view key = "weight_block_size";
        auto const found = object_.find_set(key);
        if (!found) return true;
        if (!found->is_array()) return fail(object_.wrong_type(key, *found, "a list"));
        if (found->size() != 2) return fail(object_.error(ErrorCode::invalid_field, key, "must have two numbers"));
        std::optional<std::int64_t>* slots[] = {&config.block_rows, &config.block_columns};
        std::size_t slot = 0;
        for (auto const entry : *found) {
            auto const number = object_.integer(key, entry, 1);
            if (!number) return fail(number.error());
            *slots[slot++] = *number;
        }
        return true;
    }
    bool take_kept() {
        for (std::string_view const key : {"modules_to_not_convert", "llm_int8_skip_modules", "ignored_layers", "ignore"}) {
            auto const found = object_.find_set(key);
            if (!found) continue;
            if (!found->is_array()) return fail(object_.wrong_type(key, *found, "a list"));
            out_.lists_kept = true;
            for (auto const entry : *found) {
                auto const name = object_.string(key, entry);
                if (!name) return fail(name.error());
                out_.kept.emplace_back(*name);
            }
        }
        return true;
    }

    ConfigObject object_;
    CheckpointQuantization out_;
    Error error_{ErrorCode::invalid_field};
};

}  // namespace detail

/// The packing that a config.json states in `quantization_config`; nothing where it has none.
///
/// Errors  missing_field, invalid_field; unsupported for a quant_method that is not bitsandbytes, gptq, awq, fp8, mxfp4 or
///         compressed-tensors
[[nodiscard]] inline Result<std::optional<CheckpointQuantization>> read_quantization(
    detail::ConfigObject const& config) {
    constexpr std::string_view key = "quantization_config";
    auto const found = config.find_set(key);
    if (!found) return std::optional<CheckpointQuantization>{};
    if (!found->is_object()) return config.wrong_type(key, *found, "an object");
    auto read = detail::QuantizationReader(detail::ConfigObject(*found, config.file(), "quantization_config.")).read();
    if (!read) return read.error();
    return std::optional<CheckpointQuantization>{*std::move(read)};
}

/// The same of a whole config.json. Of a model whose text part alone is counted, that part's own comes first.
[[nodiscard]] inline Result<std::optional<CheckpointQuantization>> read_quantization(JsonDocument const& config,
                                                                                     std::string_view path,
                                                                                     bool is_text_part) {
    detail::ConfigObject const whole(config.root(), path, "");
    auto const text = is_text_part ? whole.find_set("text_config") : std::nullopt;
    auto read = text ? read_quantization(detail::ConfigObject(*text, path, "text_config."))
                     : std::optional<CheckpointQuantization>{};
    return read && !*read ? read_quantization(whole) : read;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
