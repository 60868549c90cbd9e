// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/json/value.hpp>
#include <shardwise/model/files/config_fields.hpp>
#include <shardwise/quant/compressed_tensors.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The modules that an entry of compressed-tensors' `config_groups` packs, and how.
struct CompressedGroup {
    CompressedScheme scheme;
    std::vector<std::string> targets;
};

namespace detail {

/// Reads one entry of `config_groups`.
class CompressedGroupReader {
public:
    /// `path` comes before the keys in errors.
    CompressedGroupReader(JsonValue group, std::string_view file, std::string path, std::string_view format)
        : path_(std::move(path)), group_(group, file, path_), format_(format) {}
    CompressedGroupReader(CompressedGroupReader const&) = delete;
    CompressedGroupReader& operator=(CompressedGroupReader const&) = delete;

    [[nodiscard]] Result<CompressedGroup> read() {
        if (auto const done = read_targets(); !done) return done.error();
        auto const weights = group_.find_set("weights");
        if (!weights) return out_;
        if (!weights->is_object()) return group_.wrong_type("weights", *weights, "an object");
        auto const inner = path_ + "weights.";
        if (auto const done = read_weights({*weights, group_.file(), inner}); !done) return done.error();
        if (auto const done = read_format(); !done) return done.error();
        auto const inputs = group_.find_set("input_activations");
        if (!inputs) return out_;
        if (!inputs->is_object()) return group_.wrong_type("input_activations", *inputs, "an object");
        auto const path = path_ + "input_activations.";
        if (auto const done = read_inputs({*inputs, group_.file(), path}); !done) return done.error();
        return out_;
    }

private:
    Result<> read_targets() {
        auto const targets = group_.find_set("targets");
        if (!targets) return group_.error(ErrorCode::missing_field, "targets", "is needed and has no default");
        if (!targets->is_array()) return group_.wrong_type("targets", *targets, "a list");
        for (auto const entry : *targets) {
            auto const name = group_.string("targets", entry);
            if (!name) return name.error();
            out_.targets.emplace_back(*name);
        }
        return {};
    }
    Result<> read_weights(ConfigObject const& weights) {
        auto& scheme = out_.scheme;
        if (auto const done = take(weights, "num_bits", 1, scheme.bits); !done) return done;
        if (scheme.bits > 8)
            return weights.error(ErrorCode::invalid_field, "num_bits", "must be at most 8").got(scheme.bits);
        if (auto const done = take_flag(weights, "symmetric", scheme.is_symmetric); !done) return done;
        if (auto const found = weights.find_set("type")) {
            auto const type = weights.string("type", *found);
            if (!type) return type.error();
            is_float_ = *type == "float";
        }
        if (auto const found = weights.find_set("actorder")) {
            // true is an older spelling of "group".
            scheme.has_group_index = found->boolean().value_or(found->string().value_or("") == "group");
        }
        return read_sharing(weights);
    }
    Result<> read_sharing(ConfigObject const& weights) {
        auto& scheme = out_.scheme;
        std::int64_t group = 0;
        if (auto const done = take(weights, "group_size", -1, group); !done) return done;
        std::string_view strategy = group > 0 ? "group" : group < 0 ? "channel" : "tensor";
        if (auto const found = weights.find_set("strategy")) {
            auto const text = weights.string("strategy", *found);
            if (!text) return text.error();
            strategy = *text;
        }
        if (strategy == "tensor") {
            scheme.sharing = ScaleSharing::tensor;
        } else if (strategy == "channel") {
            scheme.sharing = ScaleSharing::channel;
        } else if (strategy == "group" || strategy == "tensor_group") {
            scheme.sharing = ScaleSharing::group;
            scheme.group = group;
            if (group < 1)
                return weights.error(ErrorCode::invalid_field, "group_size", "must be at least 1").got(group);
        } else if (strategy == "block") {
            scheme.sharing = ScaleSharing::block;
            return read_blocks(weights);
        } else {
            return weights.error(ErrorCode::unsupported, "strategy",
                                 "\"" + std::string(strategy) + "\" is not tensor, channel, group or block");
        }
        return {};
    }
    Result<> read_blocks(ConfigObject const& weights) {
        constexpr std::string_view key = "block_structure";
        auto const found = weights.find_set(key);
        if (!found) return weights.error(ErrorCode::missing_field, key, "is needed by the strategy \"block\"");
        if (!found->is_array() || found->size() != 2)
            return weights.error(ErrorCode::invalid_field, key, "must have two numbers");
        std::int64_t* slots[] = {&out_.scheme.block_rows, &out_.scheme.block_columns};
        std::size_t slot = 0;
        for (auto const entry : *found) {
            auto const number = weights.integer(key, entry, 1);
            if (!number) return number.error();
            *slots[slot++] = *number;
        }
        return {};
    }
    /// The group's own format, else the config's, else the one that its numbers imply.
    Result<> read_format() {
        if (auto const found = group_.find_set("format")) {
            auto const text = group_.string("format", *found);
            if (!text) return text.error();
            format_ = *text;
        }
        auto& scheme = out_.scheme;
        bool const is_packed = !is_float_ && scheme.bits < 8;
        if (format_ == "dense") {
            scheme.format = CompressedFormat::dense;
        } else if (format_ == "pack-quantized" || (format_.empty() && is_packed)) {
            scheme.format = CompressedFormat::pack_quantized;
        } else if (format_ == "float-quantized" || format_ == "int-quantized" || format_ == "naive-quantized" ||
                   (format_.empty() && scheme.bits == 8)) {
            scheme.format = CompressedFormat::quantized;
        } else if (format_ == "nvfp4-pack-quantized") {
            scheme.format = CompressedFormat::nvfp4;
        } else if (format_ == "mxfp4-pack-quantized") {
            scheme.format = CompressedFormat::mxfp4;
        } else {
            return group_
                .error(ErrorCode::unsupported, "format",
                       "\"" + std::string(format_) + "\" is not a known format of compressed-tensors")
                .fix(
                    "known are pack-quantized, float-quantized, int-quantized, naive-quantized, nvfp4-pack-quantized, "
                    "mxfp4-pack-quantized and dense");
        }
        return {};
    }
    Result<> read_inputs(ConfigObject const& inputs) {
        auto& scheme = out_.scheme;
        bool is_dynamic = false;
        bool is_symmetric = true;
        if (auto const found = inputs.find_set("dynamic")) {
            if (found->string().value_or("") == "local") {
                scheme.has_input_global_scale = true;
                return {};
            }
            auto const flag = inputs.flag("dynamic", *found);
            if (!flag) return flag.error();
            is_dynamic = *flag;
        }
        if (auto const done = take_flag(inputs, "symmetric", is_symmetric); !done) return done;
        scheme.has_input_scale = !is_dynamic;
        scheme.has_input_zero_point = !is_dynamic && !is_symmetric;
        return {};
    }
    static Result<> take(ConfigObject const& object, std::string_view key, std::int64_t least, std::int64_t& out) {
        auto const found = object.find_set(key);
        if (!found) return {};
        auto const number = object.integer(key, *found, least);
        if (!number) return number.error();
        out = *number;
        return {};
    }
    static Result<> take_flag(ConfigObject const& object, std::string_view key, bool& out) {
        auto const found = object.find_set(key);
        if (!found) return {};
        auto const flag = object.flag(key, *found);
        if (!flag) return flag.error();
        out = *flag;
        return {};
    }

    std::string path_;
    ConfigObject group_;
    std::string_view format_;
    bool is_float_ = false;
    CompressedGroup out_;
};

/// Reads the groups of a compressed-tensors `quantization_config`.
///
/// Errors  missing_field, invalid_field; unsupported for a format, a strategy or a sparsity that it names
/// Source  compressed-tensors 0.20 quantization/quant_config.py, quant_scheme.py, quant_args.py
[[nodiscard]] inline Result<std::vector<CompressedGroup>> read_compressed_groups(ConfigObject const& config) {
    std::string_view format;
    if (auto const found = config.find_set("format")) {
        auto const text = config.string("format", *found);
        if (!text) return text.error();
        // Each group then has its own.
        if (*text != "mixed-precision") format = *text;
    }
    if (auto const found = config.find_set("sparsity_config"); found && found->is_object()) {
        auto const kind = found->find("format");
        bool const is_dense = !kind || kind->is_null() || kind->string().value_or("") == "dense";
        if (!is_dense) return config.error(ErrorCode::unsupported, "sparsity_config.format", "stores sparse weights");
    }
    auto const groups = config.find_set("config_groups");
    if (!groups) return config.error(ErrorCode::missing_field, "config_groups", "is needed and has no default");
    if (!groups->is_object()) return config.wrong_type("config_groups", *groups, "an object");
    constexpr std::size_t max_groups = 64;
    if (groups->size() > max_groups) {
        return config.error(ErrorCode::capacity_exceeded, "config_groups", "has more groups than this library reads")
            .at_most(static_cast<std::int64_t>(max_groups));
    }
    std::vector<CompressedGroup> out;
    for (auto const entry : *groups) {
        auto const name = "config_groups." + std::string(entry.key());
        if (!entry.is_object()) return config.wrong_type(name, entry, "an object");
        auto group = CompressedGroupReader(entry, config.file(), "quantization_config." + name + ".", format).read();
        if (!group) return group.error();
        out.push_back(*std::move(group));
    }
    return out;
}

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
