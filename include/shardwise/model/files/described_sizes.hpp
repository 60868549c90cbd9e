// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/model/config.hpp>
#include <shardwise/model/files/module_names.hpp>
#include <shardwise/model/files/quantization_config.hpp>
#include <shardwise/model/files/stored_sizes.hpp>
#include <shardwise/model/files/tensor_names_tree.hpp>
#include <shardwise/model/module_tree.hpp>
#include <shardwise/model/tensor_weight.hpp>
#include <shardwise/quant/scheme_grain.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Says how many bytes each tensor would take in the files of a checkpoint of which only config.json is there.
class SizeDescriber {
public:
    SizeDescriber(TreeTensors const& tensors, ModelConfig const& config, CheckpointQuantization const& quantization)
        : tensors_(tensors),
          tree_(tensors.tree()),
          quantization_(quantization),
          sizes_(static_cast<std::size_t>(tensors.size())),
          keeps_only_listed_(keeps_only_listed(quantization)),
          is_head_tied_(config.tie_word_embeddings) {}

    Result<std::vector<StoredTensor>> describe() {
        auto kept = ModuleNames::of(quantization_.kept, quantization_.rule);
        if (!kept) return refuse(kept.error());
        kept_ = *std::move(kept);
        for (auto const& group : quantization_.groups) {
            auto targets = ModuleNames::of(group.targets, NameRule::targets);
            if (!targets) return refuse(targets.error());
            targets_.push_back(*std::move(targets));
        }
        if (sizes_.empty()) return std::move(sizes_);
        Place root;
        visit(tree_.root(), root);
        if (work_ > max_work) {
            return Error{ErrorCode::capacity_exceeded}
                .at("quantization_config")
                .because("names modules by patterns that take too long on a model of this size")
                .fix("write the modules' names out");
        }
        return std::move(sizes_);
    }

private:
    /// About half a second.
    static constexpr std::int64_t max_work = 100'000'000;

    struct Place {
        std::int64_t first = 0;
        std::int64_t layer = -1;
        bool is_expert = false;
    };

    [[nodiscard]] static Error refuse(Error error) {
        return error.at("quantization_config: " + std::string(error.place()));
    }

    /// A list replaces what transformers keeps by itself for bitsandbytes and fp8, and adds to it for the others.
    [[nodiscard]] static bool keeps_only_listed(CheckpointQuantization const& quantization) {
        bool const is_fp8 = quantization.scheme.method == QuantMethod::fp8;
        return quantization.lists_kept && (quantization.rule == NameRule::prefixes || is_fp8);
    }

    void visit(ModuleId id, Place place) {
        if (work_ > max_work) return;
        auto const& module = tree_.module(id);
        for (std::uint32_t i = 0; i < module.tensor_count; ++i) {
            auto const& tensor = tree_.tensor(module, i);
            auto const weight = weight_of(tensor, module.class_name, place.is_expert, place.layer);
            if (weight.shape.rank() < 2 || !tensor.is_parameter()) continue;
            auto const packed = packed_size(weight, module.class_name);
            if (packed) sizes_[static_cast<std::size_t>(place.first + i)] = *packed;
        }
        auto const end = path_.size();
        for (std::uint32_t i = 0; i < module.child_count; ++i) {
            auto const& child = tree_.child(module, i);
            auto inner = place;
            inner.is_expert = place.is_expert || child.role == ModuleRole::expert;
            for (std::int32_t k = 0; k < child.count; ++k) {
                if (end > 0) path_ += '.';
                path_ += child.name.empty() ? std::to_string(child.first + k) : std::string(child.name);
                inner.first = place.first + tensors_.offset_of(module, i) + k * tensors_.size_of(child.module);
                if (child.role == ModuleRole::layer) inner.layer = child.first + k;
                visit(child.module, inner);
                path_.resize(end);
            }
        }
    }

    static std::optional<StoredTensor> stored(Weight const& weight, Optional<std::int64_t> bytes, std::int64_t block) {
        if (!bytes) return std::nullopt;
        return StoredTensor{*bytes, weight.dtype, true, static_cast<std::int32_t>(block), false};
    }
    /// How a weight of the module at the path is stored; nothing where it stays as it is.
    [[nodiscard]] std::optional<StoredTensor> packed_size(Weight weight, std::string_view class_name) {
        if (quantization_.is_compressed) return compressed_size(weight, class_name);
        bool const is_usually_kept =
            weight.use == TensorUse::router || (weight.use == TensorUse::head && !is_head_tied_);
        if (keeps_only_listed_ && is_usually_kept && weight.in_linear_module) weight.use = TensorUse::linear;
        if (!packs(quantization_.scheme, weight) || kept_.contain(path_, work_)) return std::nullopt;
        return stored(weight, quantized_bytes(quantization_.scheme, weight),
                      scheme_grain(quantization_.scheme, weight));
    }
    [[nodiscard]] std::optional<StoredTensor> compressed_size(Weight const& weight, std::string_view class_name) {
        bool const is_packable = weight.in_linear_module && weight.shape.rank() == 2;
        if (!is_packable || kept_.contain(path_, work_) || kept_.name_class(class_name)) return std::nullopt;
        auto const by_group = [&](std::size_t i) {
            auto const& scheme = quantization_.groups[i].scheme;
            return stored(weight, compressed_bytes(scheme, weight), compressed_grain(scheme, weight));
        };
        // A module's name says more than its class.
        for (std::size_t i = 0; i < targets_.size(); ++i) {
            if (targets_[i].contain(path_, work_)) return by_group(i);
        }
        for (std::size_t i = 0; i < targets_.size(); ++i) {
            bool const is_meant = targets_[i].name_class(class_name) ||
                                  (class_name.ends_with("Linear") && targets_[i].name_class("Linear"));
            if (is_meant) return by_group(i);
        }
        return std::nullopt;
    }

    TreeTensors const& tensors_;
    ModuleTree const& tree_;
    CheckpointQuantization const& quantization_;
    std::vector<StoredTensor> sizes_;
    bool keeps_only_listed_;
    bool is_head_tied_;
    ModuleNames kept_;
    std::vector<ModuleNames> targets_;
    std::string path_;
    std::int64_t work_ = 0;
};

}  // namespace detail

/// What the files of a checkpoint would store for each tensor, in TreeTensors' order, by its config's packing and the
/// modules that it keeps. Tensors that stay as they are say nothing.
///
/// Errors  unsupported, capacity_exceeded for lists of modules that cannot be read
[[nodiscard]] inline Result<std::vector<StoredTensor>> described_sizes(TreeTensors const& tensors,
                                                                       ModelConfig const& config,
                                                                       CheckpointQuantization const& quantization) {
    return detail::SizeDescriber(tensors, config, quantization).describe();
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
