// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/bytes.hpp>
#include <shardwise/core/optional.hpp>
#include <shardwise/executor/training/training_layout.hpp>
#include <shardwise/json/writer.hpp>
#include <shardwise/train/checkpoint/safetensors_layout.hpp>
#include <shardwise/train/kahan_sum.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Where a tensor of a checkpoint lies: the file among the layout's, and the tensor in it.
struct CheckpointPlace {
    std::size_t file = 0;
    std::size_t tensor = 0;
};

/// The files of a run's checkpoints, which are the same at every step and on any ranks: `model.safetensors` in the dtype of the model's
/// config (in shards, with an index, above a size), and `optimizer.safetensors` with the optimizer's state as `exp_avg.NAME` and the
/// like, and with the float32 weights as `master.NAME` where the model's dtype is narrower and they are trained in float32.
class CheckpointLayout {
public:
    /// transformers 4 begins another file here.
    ///
    /// Source  transformers 4.57 modeling_utils.py, save_pretrained: max_shard_size "5GB"
    static constexpr std::int64_t shard_bytes = 5'000'000'000;

    /// Of an adapter there is `adapter_model.safetensors`, as PEFT has it, in float32 and in one file.
    ///
    /// Errors  unsupported for a dtype that is not trained, and for the text part of a larger model; size_overflow
    template <OptimizerRule Rule>
    [[nodiscard]] static Result<CheckpointLayout> create(Model const& model, Rule const& rule,
                                                         std::int64_t max_bytes = shard_bytes,
                                                         TrainedAdapter const& adapter = {}) {
        auto const layout = TrainingLayout::create(model, {}, adapter);
        if (!layout) return layout.error();
        auto made = begin(model, !adapter.empty());
        if (!made) return made;
        made->is_compensated_ = detail::weights_dtype<Rule> == Dtype::bf16;
        if (made->is_compensated_ && made->dtype_ != Dtype::bf16)
            return Error{ErrorCode::unsupported}
                .in(model.config.model_class.view())
                .because("has another dtype than bfloat16, in which its weights are trained without float32 masters")
                .fix("state bfloat16 in config.json, or train with masters");
        std::vector<LaidTensor> weights;
        for (auto const& parameter : layout->parameters())
            weights.push_back({parameter.name, made->dtype_, parameter.tensor->shape});
        if (auto const added = made->add_weights(std::move(weights), max_bytes); !added) return added.error();
        std::vector<LaidTensor> states;
        std::vector<std::size_t> order;
        for (auto const& parameter : layout->parameters()) {
            if (made->has_masters())
                states.push_back({"master." + parameter.name, Dtype::f32, parameter.tensor->shape});
            for (auto const& array : rule.state(parameter.elements, {0, parameter.elements})) {
                auto const& shape = parameter.tensor->shape;
                states.push_back({std::string(array.name) + "." + parameter.name, array.dtype,
                                  array.elements == parameter.elements ? shape : Shape{array.elements}});
            }
        }
        if (auto const added = made->add_states(std::move(states)); !added) return added.error();
        return made;
    }

    /// Of model.safetensors.
    [[nodiscard]] Dtype dtype() const { return dtype_; }
    /// Whether optimizer.safetensors holds the weights in float32.
    [[nodiscard]] bool has_masters() const { return dtype_ != Dtype::f32 && !is_compensated_; }
    /// Those of the model first, optimizer.safetensors last.
    [[nodiscard]] std::vector<SafetensorsLayout> const& files() const { return files_; }
    [[nodiscard]] LaidTensor const& tensor(CheckpointPlace place) const {
        return files_[place.file].tensors()[place.tensor];
    }
    /// The number of a tensor among those of all files.
    [[nodiscard]] std::size_t number(CheckpointPlace place) const { return firsts_[place.file] + place.tensor; }
    /// The tensors of all files.
    [[nodiscard]] std::size_t tensors() const { return firsts_.back(); }
    /// The weight of a parameter, by its number in TrainingLayout.
    [[nodiscard]] CheckpointPlace weight(std::size_t parameter) const { return weights_[parameter]; }
    /// A tensor of optimizer.safetensors by its full name: "exp_avg.lm_head.weight".
    [[nodiscard]] Optional<CheckpointPlace> state(std::string_view name) const {
        auto const& all = files_.back().tensors();
        // By name within a width, the widest first.
        for (std::size_t begin = 0; begin < all.size();) {
            auto end = begin;
            while (end < all.size() && all[end].width() == all[begin].width()) ++end;
            auto const first = all.begin() + static_cast<std::ptrdiff_t>(begin);
            auto const last = all.begin() + static_cast<std::ptrdiff_t>(end);
            auto const found =
                std::lower_bound(first, last, name, [](auto const& one, auto wanted) { return one.name < wanted; });
            if (found != last && found->name == name)
                return CheckpointPlace{files_.size() - 1, static_cast<std::size_t>(found - all.begin())};
            begin = end;
        }
        return {};
    }
    /// The text of model.safetensors.index.json; empty where there is one file.
    [[nodiscard]] std::string index() const {
        if (files_.size() == 2) return {};
        std::int64_t total = 0;
        for (auto const place : weights_) total += tensor(place).bytes();
        JsonWriter json(2);
        json.begin_object().key("metadata").begin_object().member("total_size", total).end_object();
        json.key("weight_map").begin_object();
        for (auto const place : weights_) json.member(tensor(place).name, files_[place.file].file());
        json.end_object().end_object();
        return std::move(json).text() + "\n";
    }
    /// Of all files of tensors together.
    [[nodiscard]] Bytes bytes() const {
        std::int64_t sum = 0;
        for (auto const& file : files_) sum += file.bytes();
        return Bytes{sum};
    }

private:
    [[nodiscard]] static Result<CheckpointLayout> begin(Model const& model, bool is_adapter) {
        auto const& config = model.config;
        auto const refused = [&](std::string_view reason, std::string_view advice) {
            return Error{ErrorCode::unsupported}.in(config.model_class.view()).because(reason).fix(advice);
        };
        if (config.is_text_part)
            return refused("is the text part of a model whose other parts a checkpoint would lack",
                           "train from a checkpoint of the text model alone");
        CheckpointLayout out;
        out.is_adapter_ = is_adapter;
        out.dtype_ = is_adapter ? Dtype::f32 : config.dtype_or(Dtype::f32);
        bool const is_trained = out.dtype_ == Dtype::f32 || out.dtype_ == Dtype::f16 || out.dtype_ == Dtype::bf16;
        if (!is_trained)
            return refused("has a dtype that checkpoints of training are not written in: " +
                               std::string(traits(out.dtype_).torch_name),
                           "state float32, bfloat16 or float16 in config.json");
        return Result<CheckpointLayout>(std::move(out));
    }

    [[nodiscard]] Result<> add_weights(std::vector<LaidTensor> weights, std::int64_t max_bytes) {
        std::vector<std::vector<LaidTensor>> shards(1);
        std::int64_t size = 0;
        for (auto& weight : weights) {
            if (!is_adapter_ && !shards.back().empty() && weight.bytes() > max_bytes - size) {
                shards.emplace_back();
                size = 0;
            }
            size += weight.bytes();
            weights_.push_back({shards.size() - 1, shards.back().size()});
            shards.back().push_back(std::move(weight));
        }
        auto const digits = [](std::size_t number) {
            auto const text = std::to_string(number);
            return std::string(text.size() < 5 ? 5 - text.size() : 0, '0') + text;
        };
        for (std::size_t i = 0; i < shards.size(); ++i) {
            auto const name = is_adapter_ ? std::string(Adapter::weights_file)
                              : shards.size() == 1
                                  ? std::string("model.safetensors")
                                  : "model-" + digits(i + 1) + "-of-" + digits(shards.size()) + ".safetensors";
            if (auto const added = add_file(name, std::move(shards[i])); !added) return added;
        }
        return {};
    }
    [[nodiscard]] Result<> add_states(std::vector<LaidTensor> states) {
        std::sort(states.begin(), states.end(), [](auto const& a, auto const& b) {
            return a.width() != b.width() ? a.width() > b.width() : a.name < b.name;
        });
        return add_file("optimizer.safetensors", std::move(states));
    }
    [[nodiscard]] Result<> add_file(std::string name, std::vector<LaidTensor> tensors) {
        auto file = SafetensorsLayout::create(std::move(name), std::move(tensors));
        if (!file) return file.error();
        firsts_.push_back(firsts_.back() + file->tensors().size());
        files_.push_back(std::move(*file));
        return {};
    }

    Dtype dtype_ = Dtype::f32;
    bool is_adapter_ = false;
    /// What rounding takes from weights is among the optimizer's state: KahanSum.
    bool is_compensated_ = false;
    std::vector<SafetensorsLayout> files_;
    std::vector<std::size_t> firsts_{0};
    std::vector<CheckpointPlace> weights_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
