// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/core/text.hpp>
#include <shardwise/model/family.hpp>
#include <shardwise/model/files/file_tensor.hpp>
#include <shardwise/model/files/stored_sizes.hpp>
#include <shardwise/model/files/tensor_names_map.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Compares the tensors of a checkpoint with those of the model that its config describes, and collects what the file
/// stores for each.
///
/// Order  add every tensor of the file, then finish once
class CheckpointMatcher {
public:
    /// GGUF drops extents of 1 and turns gpt2's Conv1D weights around; safetensors has torch's shapes.
    enum class Layout : std::uint8_t { torch, gguf };

    /// All arguments must outlive this. `layers`: numbered layers from there on are extra ones (multi-token
    /// prediction). With `is_text_part` the file may have the other parts of a whole model, too.
    CheckpointMatcher(TreeTensors const& tensors, Family const& family, std::string_view path, Layout layout,
                      std::int64_t layers, bool is_text_part = false)
        : tensors_(tensors),
          map_(tensors, &family),
          optional_prefix_(family.optional_prefix),
          path_(path),
          layout_(layout),
          layers_(layers),
          is_text_part_(is_text_part),
          states_(static_cast<std::size_t>(tensors.size())) {}

    /// Takes one tensor of the file; its name must outlive this.
    void add(FileTensor const& file) {
        auto const match = map_.find(file.name);
        if (!match.is_found()) return add_unexpected(file);
        std::int64_t whole = 0;
        for (std::size_t i = 0; i < match.set_count; ++i) whole += weight_of(match.sets[i]) * match.sets[i].count;
        bool const is_shared = match.set_count > 1 || match.sets[0].count > 1;
        for (std::size_t i = 0; i < match.set_count; ++i) {
            auto const& set = match.sets[i];
            if (set.tensor->kind == TensorKind::transient_buffer) continue;
            Part const part{file, match, part_of(file.bytes, weight_of(set), whole),
                            file.shape ? part_of(file.shape->elements(), weight_of(set), whole) : 0, is_shared};
            for (std::int64_t k = 0; k < set.count; ++k) add_part(set, k, part);
        }
    }

    /// The table that a head is tied to whose weight the file has beside it, by any of its names; empty: there is none. Such a head is
    /// a parameter of its own.
    ///
    /// Source  transformers 5.24 modeling_utils.py, tie_weights: weights that a file has both are not tied where they differ; where they
    ///         do not, the tie changes no result. 4.57 ties them in any case: it does not read the head
    [[nodiscard]] std::string_view table_of_stored_head() const {
        auto const& ties = tensors_.tree().ties();
        auto const is_stored = [&](std::string_view name) {
            auto const set = tensors_.find(name);
            return set && states_[static_cast<std::size_t>(set->first)].parts > 0;
        };
        for (auto const& head : ties) {
            auto const set = tensors_.find(head.other);
            if (!set || set->tensor->use != TensorUse::head || !is_stored(head.other)) continue;
            for (auto const& tie : ties) {
                if (tie.first != head.first) continue;
                if (is_stored(tie.first)) return tie.first;
                if (tie.other != head.other && is_stored(tie.other)) return tie.other;
            }
        }
        return {};
    }

    /// What the file stores for each tensor of the tree, in TreeTensors' order.
    ///
    /// Errors  malformed_file for a parameter that the file lacks or has twice, shape_mismatch; both name the tensor
    Result<std::vector<StoredTensor>> finish(std::vector<std::string>& warnings) {
        share_ties();
        if (auto const error = find_missing(warnings)) return *error;
        for (auto const& doubt : doubts_) {
            if (auto const error = check(doubt)) return *error;
        }
        report_unexpected(warnings);
        std::vector<StoredTensor> stored(states_.size());
        for (std::size_t i = 0; i < states_.size(); ++i) {
            auto const& state = states_[i];
            if (state.parts > 0 && state.has_size) stored[i] = {state.bytes, state.dtype, state.is_packed, state.block};
            stored[i].has_order = state.has_order;
        }
        return stored;
    }

private:
    /// What is known of one tensor of the tree so far.
    struct State {
        std::int64_t bytes = 0;
        std::int64_t elements = 0;
        Dtype dtype = Dtype::f32;
        std::uint8_t parts = 0;  // file tensors that hold values of it
        std::int32_t block = 1;
        bool has_size = false;
        bool is_packed = false;   // its bytes do not follow from shape and dtype
        bool is_encoded = false;  // its shape in the file says nothing
        bool has_order = false;
    };
    /// What one file tensor contributes to each tensor of a set.
    struct Part {
        FileTensor const& file;
        NameMatch const& match;
        std::int64_t bytes;
        std::int64_t elements;
        bool is_shared;
    };
    /// A file tensor whose shape is not the parameter's at first sight.
    struct Doubt {
        std::size_t number;
        std::string_view name;
        Shape shape;
        Tensor const* tensor;
        bool is_shared;
    };

    [[nodiscard]] static std::int64_t weight_of(TensorSet const& set) {
        auto const elements = set.tensor->shape.elements();
        return elements > 0 ? elements : 1;
    }
    /// The share of one of several equal tensors that a file stores as one.
    [[nodiscard]] static std::int64_t part_of(std::int64_t amount, std::int64_t part, std::int64_t whole) {
        return amount / (whole / part);
    }

    void add_part(TensorSet const& set, std::int64_t k, Part const& part) {
        auto const number = static_cast<std::size_t>(set.first + k * set.stride);
        auto& state = states_[number];
        state.bytes += part.bytes;
        state.is_encoded = state.is_encoded || part.match.is_encoded;
        state.is_packed = state.is_packed || part.match.is_encoded || !part.file.dtype;
        state.has_order = state.has_order || part.file.name.ends_with(".weight_g_idx");
        if (!part.match.holds_values) return;
        // Blocks of two types are decoded.
        state.block = state.parts == 0 || state.block == part.file.block ? part.file.block : std::int32_t{1};
        if (state.parts < 255) ++state.parts;
        state.dtype = part.file.dtype.value_or(set.tensor->dtype);
        if (!part.file.shape) return;
        state.has_size = true;
        state.elements += part.elements;
        // bitsandbytes packs into integers; the parameter keeps its dtype and takes the file's bytes.
        if (traits(set.tensor->dtype).is_floating && !traits(state.dtype).is_floating) {
            state.dtype = set.tensor->dtype;
            state.is_packed = state.is_encoded = true;
        }
        bool const is_equal = !part.is_shared && *part.file.shape == set.tensor->shape;
        if ((!is_equal || state.parts > 1) && k == 0) {
            doubts_.push_back({number, part.file.name, *part.file.shape, set.tensor, part.is_shared});
        }
    }

    /// Of tied names a file may store any; the tree's sums take the sizes of all to be equal.
    void share_ties() {
        auto const& ties = tensors_.tree().ties();
        // A second pass reaches names that are tied to a first name that is absent itself.
        for (int pass = 0; pass < 2; ++pass) {
            for (auto const& tie : ties) {
                auto const first = tensors_.find(tie.first);
                auto const other = tensors_.find(tie.other);
                if (!first || !other) continue;
                auto& a = states_[static_cast<std::size_t>(first->first)];
                auto& b = states_[static_cast<std::size_t>(other->first)];
                if (a.parts == 0)
                    a = b;
                else
                    b = a;
            }
        }
    }

    [[nodiscard]] std::optional<Error> find_missing(std::vector<std::string>& warnings) const {
        std::string parameter;
        std::string optional;
        std::int64_t parameters = 0;
        tensors_.for_each([&](std::int64_t number, Tensor const& tensor) {
            if (states_[static_cast<std::size_t>(number)].parts > 0 || tensor.kind == TensorKind::transient_buffer)
                return;
            bool const is_parameter = tensor.is_parameter();
            if (is_parameter && parameters > 0) return static_cast<void>(++parameters);
            if (!is_parameter && !optional.empty()) return;
            auto name = tensors_.name_of(number);
            bool const is_optional = !is_parameter || (!optional_prefix_.empty() && name.starts_with(optional_prefix_));
            if (is_optional && optional.empty())
                optional = std::move(name);
            else if (!is_optional && parameters++ == 0)
                parameter = std::move(name);
        });
        if (parameters > 0) {
            Error error{ErrorCode::malformed_file};
            error.in(path_).at(parameter);
            error.because(parameters == 1
                              ? std::string("the checkpoint lacks this tensor")
                              : "the checkpoint lacks this tensor and " + std::to_string(parameters - 1) + " more");
            ClosestName closest(parameter);
            for (auto const name : unexpected_) closest.offer(name);
            if (!closest.best().empty()) error.fix("the closest that it has is " + std::string(closest.best()));
            return error;
        }
        if (!optional.empty()) warnings.push_back(escaped(path_) + ": the checkpoint lacks " + escaped(optional));
        return std::nullopt;
    }

    [[nodiscard]] std::optional<Error> check(Doubt const& doubt) const {
        auto const& state = states_[doubt.number];
        if (state.is_encoded) return std::nullopt;
        bool const is_same_size = state.elements == doubt.tensor->shape.elements();
        if (is_same_size && (state.parts > 1 || doubt.is_shared)) return std::nullopt;
        if (is_same_size && layout_ == Layout::gguf && is_gguf_shape(doubt.shape, doubt.tensor->shape))
            return std::nullopt;
        if (state.parts > 1 && doubt.shape == doubt.tensor->shape) {
            return Error{ErrorCode::malformed_file}
                .in(path_)
                .at(doubt.name)
                .because("the checkpoint holds this parameter twice");
        }
        return Error{ErrorCode::shape_mismatch}
            .in(path_)
            .at(doubt.name)
            .because("is " + to_text(doubt.shape) + " in the file but " + to_text(doubt.tensor->shape) +
                     " in the model")
            .fix("use the config.json that belongs to this checkpoint");
    }
    /// Whether GGUF may store `wanted` as `found`: without extents of 1, or its matrices transposed.
    [[nodiscard]] static bool is_gguf_shape(Shape const& found, Shape const& wanted) {
        auto const squeezed = [](Shape const& shape) {
            Shape out;
            for (auto const extent : shape) {
                if (extent != 1) out.push_back(extent);
            }
            return out;
        };
        auto const a = squeezed(found);
        auto const b = squeezed(wanted);
        if (a == b) return true;
        if (a.rank() != b.rank() || a.rank() < 2) return false;
        auto turned = b;
        turned[b.rank() - 1] = b[b.rank() - 2];
        turned[b.rank() - 2] = b[b.rank() - 1];
        return a == turned;
    }
    [[nodiscard]] static std::string to_text(Shape const& shape) {
        std::string text = "[";
        for (auto const extent : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
        return text + "]";
    }

    void add_unexpected(FileTensor const& file) {
        auto const name = file.name;
        if (is_harmless_extra(name)) return;
        if (is_text_part_) {
            if (auto const part = other_part(name); !part.empty()) return add_other_part(part, file.bytes);
        }
        if (is_extra_layer(name)) return static_cast<void>(++extra_layer_tensors_);
        ++unexpected_count_;
        if (unexpected_.size() < 64) unexpected_.push_back(name);
    }
    /// The part of a whole model, beside its text model, that a tensor belongs to ("vision_tower"); empty: none.
    [[nodiscard]] static std::string_view other_part(std::string_view name) {
        if (name.starts_with("model.")) name.remove_prefix(6);
        auto const part = name.substr(0, name.find('.'));
        for (std::string_view const own :
             {"language_model", "text_model", "layers", "embed_tokens", "norm", "lm_head"}) {
            if (part == own) return {};
        }
        return part;
    }
    void add_other_part(std::string_view part, std::int64_t bytes) {
        ++other_tensors_;
        other_bytes_ += bytes;
        if (std::find(other_parts_.begin(), other_parts_.end(), part) == other_parts_.end() && other_parts_.size() < 8)
            other_parts_.push_back(part);
    }
    /// True for "model.layers.61.x" of a model of 61 layers, and for the multi-token heads' own names.
    [[nodiscard]] bool is_extra_layer(std::string_view name) const {
        if (name.substr(0, 4) == "mtp." || name.substr(0, 10) == "model.mtp.") return true;
        for (std::string_view const list : {"layers.", "blk."}) {
            auto const at = name.find(list);
            if (at == std::string_view::npos) continue;
            auto const rest = name.substr(at + list.size());
            auto const number = detail::parse_number(rest.substr(0, rest.find('.')));
            if (number) return *number >= layers_;
        }
        return false;
    }
    void report_unexpected(std::vector<std::string>& warnings) const {
        if (extra_layer_tensors_ > 0) {
            warnings.push_back(escaped(path_) + ": " + std::to_string(extra_layer_tensors_) +
                               " tensors of layers beyond the model's " + std::to_string(layers_) +
                               " (multi-token prediction) are not counted");
        }
        if (other_tensors_ > 0) {
            auto text = escaped(path_) + ": " + std::to_string(other_tensors_) + " tensors (" +
                        shardwise::to_text(Bytes{other_bytes_}) + ") of ";
            for (std::size_t i = 0; i < other_parts_.size(); ++i)
                text += (i > 0 ? ", " : "") + escaped(other_parts_[i]);
            warnings.push_back(text + " are not counted and not loaded: the text model runs on text alone");
        }
        if (unexpected_count_ == 0) return;
        auto text = escaped(path_) + ": " + std::to_string(unexpected_count_) +
                    (unexpected_count_ == 1 ? " tensor is" : " tensors are") +
                    " no part of the model and not counted: ";
        for (std::size_t i = 0; i < unexpected_.size() && i < 3; ++i)
            text += (i > 0 ? ", " : "") + escaped(unexpected_[i]);
        if (unexpected_count_ > 3) text += ", ...";
        if (auto const close = closest_in_tree(unexpected_[0]); !close.empty())
            text += " (the closest to the first is " + close + ")";
        warnings.push_back(std::move(text));
    }
    /// The name in the tree that is closest, one layer and one expert standing for all.
    [[nodiscard]] std::string closest_in_tree(std::string_view name) const {
        std::vector<std::string> names;
        list_names(tensors_.tree().root(), {}, names);
        ClosestName closest(name.substr(0, 200));
        for (auto const& candidate : names) closest.offer(candidate);
        return std::string(closest.best());
    }
    void list_names(ModuleId id, std::string const& prefix, std::vector<std::string>& names) const {
        auto const& tree = tensors_.tree();
        auto const& module = tree.module(id);
        for (std::uint32_t i = 0; i < module.tensor_count && names.size() < 2000; ++i) {
            names.push_back(prefix + std::string(tree.tensor(module, i).name));
        }
        for (std::uint32_t i = 0; i < module.child_count && names.size() < 2000; ++i) {
            auto const& child = tree.child(module, i);
            auto const own = child.name.empty() ? std::to_string(child.first) : std::string(child.name);
            list_names(child.module, prefix + own + ".", names);
        }
    }

    TreeTensors const& tensors_;
    TensorNameMap map_;
    std::string_view optional_prefix_;
    std::string_view path_;
    Layout layout_;
    std::int64_t layers_;
    bool is_text_part_;
    std::vector<State> states_;
    std::vector<Doubt> doubts_;
    std::vector<std::string_view> unexpected_;
    std::int64_t unexpected_count_ = 0;
    std::int64_t extra_layer_tensors_ = 0;
    std::vector<std::string_view> other_parts_;
    std::int64_t other_tensors_ = 0;
    std::int64_t other_bytes_ = 0;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
