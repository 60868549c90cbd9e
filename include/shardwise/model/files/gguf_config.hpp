// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/core/text.hpp>
#include <shardwise/model/architectures.hpp>
#include <shardwise/model/files/config_fields.hpp>
#include <shardwise/model/files/file_family.hpp>
#include <shardwise/model/files/gguf.hpp>
#include <shardwise/model/files/gguf_checks.hpp>
#include <shardwise/model/files/tensor_names_map.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Fills a family's configuration from a GGUF header: metadata first, and from the tensors what metadata leave out. A template, so
/// that programs which never ask do not pay for it.
template <int = 0>
class GgufConfigReader {
public:
    GgufConfigReader(FileFamilies families, GgufHeader const& header, std::string_view path)
        : families_(families),
          header_(header),
          path_(path),
          architecture_(header.metadata.text("general.architecture")) {
        std::vector<std::string_view> numbers;
        for (auto const& tensor : header.tensors) {
            numbers.clear();
            names_.insert(tensor.name);
            patterns_.insert(name_pattern(tensor.name, numbers));
        }
    }

    [[nodiscard]] Result<ModelConfig> read() {
        if (architecture_.empty()) {
            return error(ErrorCode::missing_field, "general.architecture", "a GGUF model names its architecture here");
        }
        // Several families share a name in GGUF (llama and mixtral, both deepseeks): the one whose marker the file has.
        bool is_marked = false;
        std::string_view encoder_class;
        for (auto const& family : families_) {
            // An encoder alone has a name of its own, and everything else of its family.
            if (family.gguf_encoder_name == std::string_view{architecture_}) {
                encoder_class = family.gguf_encoder_class;
                family_ = &family;
                continue;
            }
            if (family.gguf_name != std::string_view{architecture_} || is_marked) continue;
            if (!family.gguf_marker.empty()) {
                if (!has_marker(family.gguf_marker)) continue;
                is_marked = true;
            } else if (family_ != nullptr) {
                continue;
            }
            family_ = &family;
        }
        if (family_ == nullptr) return unknown();
        auto result = read_family(*family_);
        if (result && !encoder_class.empty()) result->model_class = encoder_class;
        return result;
    }

    /// The family whose configuration was read; null where there is none.
    [[nodiscard]] FileFamily const* family() const { return family_; }

private:
    [[nodiscard]] Error error(ErrorCode code, std::string_view place, std::string_view reason) const {
        return Error{code}.in(path_).at(place).because(reason);
    }
    [[nodiscard]] Error unknown() const {
        ClosestName closest(std::string_view{architecture_}.substr(0, 64));
        std::string known;
        for (auto const& family : families_) {
            auto const name = family.gguf_name;
            if (name.empty() || known.find(std::string(name) + ", ") != std::string::npos) continue;
            known += std::string(name) + ", ";
            closest.offer(name);
        }
        auto reason = "\"" + architecture_.substr(0, 64) + "\" is not a known architecture";
        if (!closest.best().empty()) reason += "; did you mean " + std::string(closest.best()) + "?";
        return error(ErrorCode::unknown_name, "general.architecture", reason)
            .fix("known: " + known.substr(0, known.size() - 2));
    }
    /// A marker is a tensor's name or its pattern, or a key with another value than 0; with a ! before it the file lacks it.
    [[nodiscard]] bool has_marker(std::string_view marker) const {
        if (marker.substr(0, 1) == "!") return !has_marker(marker.substr(1));
        if (patterns_.count(std::string(marker)) > 0 || has(marker)) return true;
        auto const value = header_.metadata.find(marker);
        return value && value->integer.value_or(1) != 0;
    }
    [[nodiscard]] bool has(std::string_view name) const { return names_.count(name) > 0; }
    /// Rows of a table; 0 where there is none of this name.
    [[nodiscard]] std::int64_t rows_of(std::string_view name) const {
        for (auto const& tensor : header_.tensors) {
            if (tensor.name == name) return tensor.shape.rank() == 2 ? tensor.shape[0] : 0;
        }
        return 0;
    }

    [[nodiscard]] Result<ModelConfig> read_family(FileFamily const& family) {
        ModelConfig config;
        config.model_type = family.name;
        config.name.assign(header_.metadata.text("general.name"));
        config.model_class = family.gguf_class;
        for (auto const& field : family.fields) {
            if (auto const done = read_field(field, config); !done) return done.error();
        }
        if (auto const done = leave_out_further_layers(header_, path_, config); !done) return done.error();
        read_from_tensors(config);
        read_latent_attention(config);
        if (auto const done = read_rope_scaling(config); !done) return done.error();
        assume_defaults(family, config);
        config.dtype = main_dtype();
        if (config.layers > LayerSet::capacity) {
            return error(ErrorCode::capacity_exceeded, architecture_ + ".block_count",
                         "is more than this library plans for")
                .got(config.layers)
                .at_most(LayerSet::capacity);
        }
        if (auto const done = read_window_pattern(family, config); !done) return done.error();
        if (auto const done = check_gguf_values(family, header_, path_, config); !done) return done.error();
        return config;
    }

    [[nodiscard]] std::optional<GgufValue> value_of(std::string_view key) const {
        return header_.metadata.find(architecture_ + "." + std::string(key));
    }
    /// What the file does not state and llama.cpp takes for granted.
    void assume_defaults(FileFamily const& family, ModelConfig& config) const {
        for (auto const& row : family.gguf_defaults) {
            bool is_stated = false;
            for (auto const& field : family.fields)
                is_stated = is_stated || (field.key == row.key && !field.gguf.empty() && value_of(field.gguf));
            if (!is_stated) row.set(config);
        }
    }
    /// Which layers slide, where the file states it: a flag for each, or n where the last of n layers sees everything, or the first.
    ///
    /// Source  llama.cpp 0c1e570, src/llama-model.cpp (load_swa_pattern), src/llama-hparams.cpp (set_swa_pattern)
    Result<> read_window_pattern(FileFamily const& family, ModelConfig& config) const {
        auto const value = value_of("attention.sliding_window_pattern");
        if (!value || config.sliding_window == 0) return {};
        auto const count = static_cast<std::size_t>(std::max(config.layers, std::int64_t{0}));
        std::vector<std::int64_t> slides;
        if (value->type == GgufValueType::array) {
            slides = header_.metadata.integers(*value, count);
        } else if (value->integer && *value->integer >= 0) {
            auto const n = *value->integer;
            auto const full = family.gguf_full_layer_first ? 0 : n - 1;
            for (std::int64_t layer = 0; layer < config.layers; ++layer)
                slides.push_back(n == 0 || layer % n != full ? 1 : 0);
        }
        if (slides.size() != count || count == 0) {
            return error(ErrorCode::invalid_field, architecture_ + ".attention.sliding_window_pattern",
                         "must be a number of layers, or a flag for each layer");
        }
        config.local_layers = {};
        for (std::size_t layer = 0; layer < count; ++layer) {
            if (slides[layer] != 0) config.local_layers.insert(static_cast<std::int64_t>(layer));
        }
        config.layer_types_count = config.layers;
        return {};
    }

    Result<> read_field(Field const& field, ModelConfig& config) const {
        if (!field.is_attribute) field.store_default(config);
        if (field.gguf.empty()) return {};
        auto const key = architecture_ + "." + std::string(field.gguf);
        auto const value = header_.metadata.find(key);
        if (!value) return read_absent(field, key, config);
        if (field.type == FieldType::real) {
            if (width_of(value->type) == 0) return error(ErrorCode::invalid_field, key, "must be a number");
            if (auto const refusal = field.refusal_of(value->real); !refusal.empty())
                return error(ErrorCode::invalid_field, key, refusal);
            field.store(config, value->real);
            return {};
        }
        auto const number = integer_of(*value, key);
        if (!number) return number.error();
        if (field.type == FieldType::flag) {
            field.store_number(config, *number);
            return {};
        }
        if (field.type != FieldType::integer) return {};
        auto const least = field.rule == FieldRule::positive ? 1 : 0;
        if (*number < least) {
            return error(ErrorCode::invalid_field, key, "must be at least " + std::to_string(least)).got(*number);
        }
        if (*number > max_config_size) {
            return error(ErrorCode::size_overflow, key, "is larger than a model can have")
                .got(*number)
                .at_most(max_config_size);
        }
        field.store_number(config, *number);
        return {};
    }
    /// A whole number, or a list over layers in which all are the same.
    ///
    /// Errors  invalid_field; unsupported with the first layer that differs
    [[nodiscard]] Result<std::int64_t> integer_of(GgufValue const& value, std::string const& key) const {
        auto const refused = error(ErrorCode::invalid_field, key, "must be a whole number, or one for each layer");
        if (value.type != GgufValueType::array) {
            if (!value.integer) return refused;
            return *value.integer;
        }
        auto const numbers = header_.metadata.integers(value, static_cast<std::size_t>(LayerSet::capacity));
        if (numbers.empty() || value.count != numbers.size()) return refused;
        for (std::size_t layer = 1; layer < numbers.size(); ++layer) {
            if (numbers[layer] == numbers[0]) continue;
            return error(ErrorCode::unsupported, key,
                         "differs from layer 0's, and this family's layers are described as equal")
                .layer(LayerId{static_cast<std::int32_t>(layer)})
                .got(numbers[layer])
                .expected(numbers[0]);
        }
        return numbers[0];
    }
    /// llama.cpp's own rules for absent keys; transformers' defaults describe other models.
    Result<> read_absent(Field const& field, std::string const& key, ModelConfig& config) const {
        constexpr std::array<std::string_view, 3> needed{"embedding_length", "block_count", "attention.head_count"};
        if (std::find(needed.begin(), needed.end(), field.gguf) != needed.end()) {
            return error(ErrorCode::missing_field, key, "is needed and has no default");
        }
        if (field.is_zero_in_gguf) field.store_number(config, 0);
        // llama.cpp 0c1e570, src/llama-model.cpp: rope_freq_base_train
        if (field.rope == &RopeParameters::theta) config.rope.theta = 10000.0;
        // llama.cpp 0c1e570, src/llama-model.cpp: dec_start_token_id; its programs then begin with the tokenizer's bos
        if (field.integer == &ModelConfig::decoder_start)
            config.decoder_start = header_.metadata.integer("tokenizer.ggml.bos_token_id").value_or(-1);
        if (field.integer == &ModelConfig::kv_heads) config.kv_heads = config.heads;
        if (field.integer == &ModelConfig::head_dim && config.heads > 0)
            config.head_dim = config.hidden_size / config.heads;
        return {};
    }

    /// What GGUF does not state, and what its tensors state more surely.
    void read_from_tensors(ModelConfig& config) const {
        if (auto const rows = rows_of("token_embd.weight"); rows > 0) config.vocab_size = rows;
        config.tie_word_embeddings = !has("output.weight");
        config.attention_bias =
            has("blk.0.attn_q.bias") || has("blk.0.attn_qkv.bias") || has("blk.0.attn_kv_a_mqa.bias");
        config.mlp_bias = has("blk.0.ffn_up.bias");
        config.qk_norm = has("blk.0.attn_q_norm.weight");
        if (family_->infer_from_gguf != nullptr) {
            auto const is_in = [](void const* reader, std::string_view name) {
                return static_cast<GgufConfigReader const*>(reader)->has(name);
            };
            auto const rows_in = [](void const* reader, std::string_view name) {
                return static_cast<GgufConfigReader const*>(reader)->rows_of(name);
            };
            family_->infer_from_gguf({this, is_in, rows_in}, config);
        }
        // Layers without a router among those that have experts: qwen's mlp_only_layers and decoder_sparse_step.
        config.decoder_sparse_step = 1;
        for (std::int64_t layer = 0; config.experts > 0 && layer < std::min(config.layers, LayerSet::capacity);
             ++layer) {
            if (!has("blk." + std::to_string(layer) + ".ffn_gate_inp.weight")) config.dense_layers.insert(layer);
        }
    }
    /// Multi-head latent attention: files state the widths of whole keys and values, newer ones apart from those of the
    /// cache.
    ///
    /// Source  llama.cpp convert_hf_to_gguf.py (DeepseekV2Model)
    void read_latent_attention(ModelConfig& config) const {
        if (!header_.metadata.integer(architecture_ + ".attention.kv_lora_rank")) return;
        auto const width = [this](std::string const& key) {
            auto const split = header_.metadata.integer(architecture_ + ".attention." + key + "_mla");
            return split ? split : header_.metadata.integer(architecture_ + ".attention." + key);
        };
        auto const key = width("key_length");
        auto const value = width("value_length");
        if (key && *key > config.qk_rope_head_dim && *key <= max_config_size)
            config.qk_nope_head_dim = *key - config.qk_rope_head_dim;
        if (value && *value > 0 && *value <= max_config_size) config.v_head_dim = *value;
    }
    /// Scaled positions by llama.cpp's keys: a factor without a type is linear, divisors of each pair are tensors
    /// (longrope).
    ///
    /// Source  llama.cpp src/llama-model.cpp (load_hparams), src/llama-graph.cpp
    Result<> read_rope_scaling(ModelConfig& config) const {
        auto const prefix = architecture_ + ".rope.";
        auto const number = [&](std::string_view key) {
            auto const value = header_.metadata.find(prefix + std::string(key));
            return value && width_of(value->type) > 0 && std::isfinite(value->real) ? value->real : 0.0;
        };
        auto& rope = config.rope;
        // A file without keys has no scaling.
        rope.is_given = true;
        auto const type = header_.metadata.text(prefix + "scaling.type");
        auto factor = number("scaling.factor");
        if (factor == 0.0) factor = number("scale_linear");
        auto const context = number("scaling.original_context_length");
        if (context >= 1.0 && context <= static_cast<double>(max_config_size))
            rope.original_max_positions = static_cast<std::int64_t>(context);
        if (has("rope_factors_long.weight")) {
            rope.kind = RopeKind::longrope;
            rope.attention_factor = number("scaling.attn_factor");
            return {};
        }
        if (type == "longrope")
            return error(ErrorCode::missing_field, prefix + "scaling.type",
                         "is longrope, whose factors are not in the file");
        auto const growth = number("scaling.attn_factor");
        if (type != "yarn" && growth > 0.0 && growth != 1.0)
            return error(ErrorCode::unsupported, prefix + "scaling.attn_factor",
                         "scales scores, which only yarn and longrope do here");
        if (type == "none" || (factor == 0.0 && type != "yarn")) return {};
        if (!(factor > 0.0)) return error(ErrorCode::invalid_field, prefix + "scaling.factor", "must be above 0");
        rope.factor = factor;
        if (type.empty() || type == "linear") {
            rope.kind = RopeKind::linear;
        } else if (type == "yarn") {
            rope.kind = RopeKind::yarn;
            // transformers' attention_factor replaces what follows from the factor, llama.cpp's attn_factor multiplies
            // it, and deepseek's is told as a tenth of mscale_all_dim.
            rope.attention_factor = number("scaling.yarn_attn_factor");
            auto const given = number("scaling.attn_factor");
            if (given > 0.0 && given != 1.0) {
                auto const base = rope.attention_factor > 0.0 ? rope.attention_factor : 1.0 + 0.1 * std::log(factor);
                rope.attention_factor = given * base;
            }
            rope.mscale = rope.mscale_all_dim = 10.0 * number("scaling.yarn_log_multiplier");
            if (auto const fast = number("scaling.yarn_beta_fast"); fast > 0.0) rope.beta_fast = fast;
            if (auto const slow = number("scaling.yarn_beta_slow"); slow > 0.0) rope.beta_slow = slow;
        } else {
            return error(ErrorCode::unsupported, prefix + "scaling.type",
                         "\"" + escaped(type) + "\" is no way to scale positions that is known");
        }
        return {};
    }
    /// The dtype that most bytes have; 16 bits for block formats.
    [[nodiscard]] Dtype main_dtype() const {
        std::int64_t f32 = 0;
        std::int64_t f16 = 0;
        std::int64_t bf16 = 0;
        std::int64_t rest = 0;
        for (auto const& tensor : header_.tensors) {
            auto& sum = tensor.type == GgmlType::f32    ? f32
                        : tensor.type == GgmlType::f16  ? f16
                        : tensor.type == GgmlType::bf16 ? bf16
                                                        : rest;
            sum += tensor.bytes.count();
        }
        if (bf16 > f32 && bf16 > f16 && bf16 > rest) return Dtype::bf16;
        if (f32 > f16 && f32 > rest) return Dtype::f32;
        return Dtype::f16;
    }

    FileFamilies families_;
    FileFamily const* family_ = nullptr;
    GgufHeader const& header_;
    std::string_view path_;
    std::string architecture_;
    std::unordered_set<std::string_view> names_;
    std::unordered_set<std::string> patterns_;
};

}  // namespace detail

/// The configuration that a GGUF file's metadata and tensors describe, not yet completed (describe does that).
///
/// Errors  unknown_name for an architecture that no family has; unsupported for layers that differ and for ways to scale
///         positions that no family has; missing_field, invalid_field, size_overflow, capacity_exceeded with the key
template <int = 0>
[[nodiscard]] Result<ModelConfig> read_gguf_config(FileFamilies families, GgufHeader const& header,
                                                   std::string_view path) {
    return detail::GgufConfigReader<>(families, header, path).read();
}

/// The same for the families of a list.
template <class List = Architectures>
[[nodiscard]] Result<ModelConfig> read_gguf_config(GgufHeader const& header, std::string_view path) {
    return read_gguf_config(file_families<List>(), header, path);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
