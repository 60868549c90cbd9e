// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/family.hpp>
#include <shardwise/model/field.hpp>
#include <shardwise/model/files/tensor_names_quantized.hpp>
#include <shardwise/model/files/tensor_names_tree.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What a file's tensor is in the model: up to three sets of tensors (a fused weight covers queries, keys and
/// values, or the gates and the ups of every expert), none for a tensor that the model does not have.
struct NameMatch {
    std::array<TensorSet, 3> sets{};
    std::size_t set_count = 0;
    /// False for scales and codebooks, which only add bytes.
    bool holds_values = true;
    /// True where the file encodes the parameter: shapes and dtypes are not the parameter's.
    bool is_encoded = false;

    [[nodiscard]] bool is_found() const { return set_count > 0; }
};

namespace detail {

/// The name with `{}` for each component that is a number, and these numbers.
[[nodiscard]] inline std::string name_pattern(std::string_view name, std::vector<std::string_view>& numbers) {
    std::string pattern;
    while (true) {
        auto const dot = name.find('.');
        auto const part = name.substr(0, dot);
        if (parse_number(part)) {
            numbers.push_back(part);
            pattern += "{}";
        } else {
            pattern += part;
        }
        if (dot == std::string_view::npos) return pattern;
        pattern += '.';
        name.remove_prefix(dot + 1);
    }
}

}  // namespace detail

/// Maps the names of a checkpoint's tensors to the tree's: the family's aliases and endings, the name of its base model
/// and other prefixes that a file lacks or adds, gamma and beta, the parts of packed weights, and stacked experts.
class TensorNameMap {
public:
    /// All arguments must outlive this. `family` is null for a model that no family describes.
    TensorNameMap(TreeTensors const& tensors, Family const* family)
        : tensors_(tensors), family_(family == nullptr ? no_family : *family) {
        auto const& aliases = family_.aliases;
        for (std::size_t i = 0; i < aliases.size(); ++i) rows_[std::string(aliases[i].file)].push_back(i);
        if (!family_.base_name.empty()) base_wrapper_ = std::string(family_.base_name) + ".";
        auto const& tree = tensors.tree();
        if (tree.modules().empty()) return;
        auto const& root = tree.module(tree.root());
        for (std::uint32_t i = 0; i < root.child_count; ++i) {
            auto const& child = tree.child(root, i);
            if (!child.name.empty() && tree.module(child.module).child_count > 0) {
                base_prefixes_.push_back(std::string(child.name) + ".");
            }
        }
    }

    [[nodiscard]] NameMatch find(std::string_view name) const {
        NameMatch match;
        if (add(match, tensors_.find(name))) return match;
        if (auto const encoded = encoded_name(name)) {
            match = find_values(encoded->parameter);
            match.holds_values = encoded->holds_values;
            match.is_encoded = true;
            if (match.is_found()) return match;
        }
        return find_values(name);
    }

private:
    using Numbers = std::vector<std::string_view>;

    [[nodiscard]] NameMatch find_values(std::string_view name) const {
        NameMatch match;
        if (add(match, tensors_.find(name))) return match;
        if (add_aliases(match, name)) return match;
        if (add(match, find_prefixed(name))) return match;
        if (add_endings(match, name)) return match;
        auto const old = old_norm_name(name);
        if (!old.empty()) add(match, find_prefixed(old));
        return match;
    }
    static bool add(NameMatch& match, std::optional<TensorSet> const& set) {
        if (!set || match.set_count == match.sets.size()) return false;
        match.sets[match.set_count++] = *set;
        return true;
    }

    /// Tries the rows whose file side matches; of several tree names those that the tree has.
    bool add_aliases(NameMatch& match, std::string_view name) const {
        if (rows_.empty()) return false;
        Numbers numbers;
        auto const found = rows_.find(detail::name_pattern(name, numbers));
        if (found == rows_.end()) return false;
        for (auto const row : found->second) add(match, find_prefixed(fill(family_.aliases[row].tree, numbers)));
        return match.is_found();
    }
    static std::string fill(std::string_view pattern, Numbers const& numbers) {
        std::string name;
        std::size_t next = 0;
        for (std::size_t i = 0; i < pattern.size(); ++i) {
            bool const is_hole = pattern[i] == '{' && i + 1 < pattern.size() && pattern[i + 1] == '}';
            if (!is_hole) {
                name += pattern[i];
                continue;
            }
            if (next < numbers.size()) name += numbers[next++];
            ++i;
        }
        return name;
    }

    /// The name as it is, under the base model's name, or without prefixes that wrappers add.
    [[nodiscard]] std::optional<TensorSet> find_prefixed(std::string_view name) const {
        std::array<std::string_view, 7> const wrappers{"model.",  "language_model.", "text_model.", "base_model.",
                                                       "module.", "_orig_mod.",      base_wrapper_};
        for (int stripped = 0; stripped < 4; ++stripped) {
            if (auto const set = tensors_.find(name)) return set;
            for (auto const& prefix : base_prefixes_) {
                if (auto const set = tensors_.find(prefix + std::string(name))) return set;
            }
            bool has_wrapper = false;
            for (auto const wrapper : wrappers) {
                if (has_wrapper || wrapper.empty() || name.substr(0, wrapper.size()) != wrapper) continue;
                name.remove_prefix(wrapper.size());
                has_wrapper = true;
            }
            if (!has_wrapper) break;
        }
        return std::nullopt;
    }
    /// The name that TensorFlow's norms became in torch: gamma is weight, beta is bias.
    static std::string old_norm_name(std::string_view name) {
        constexpr auto ends = [](std::string_view text, std::string_view ending) {
            return text.size() > ending.size() && text.substr(text.size() - ending.size()) == ending;
        };
        if (ends(name, ".gamma")) return std::string(name.substr(0, name.size() - 5)) + "weight";
        if (ends(name, ".beta")) return std::string(name.substr(0, name.size() - 4)) + "bias";
        return {};
    }
    /// The ends that transformers 5 gives the experts of a layer, which it writes as two stacked weights, and the family's own.
    bool add_endings(NameMatch& match, std::string_view name) const {
        static constexpr std::array stacked_experts{
            NameAlias{"mlp.experts.gate_up_proj", "mlp.experts.*.gate_proj.weight"},
            NameAlias{"mlp.experts.gate_up_proj", "mlp.experts.*.up_proj.weight"},
            NameAlias{"mlp.experts.down_proj", "mlp.experts.*.down_proj.weight"},
        };
        for (auto const rows : {Span<NameAlias const>(stacked_experts), family_.ending_aliases}) {
            for (auto const& row : rows) {
                if (name.size() <= row.file.size() || !name.ends_with(row.file)) continue;
                auto const head = name.substr(0, name.size() - row.file.size());
                add(match, find_prefixed(std::string(head) + std::string(row.tree)));
            }
        }
        return match.is_found();
    }

    static constexpr Family no_family{};

    TreeTensors const& tensors_;
    Family const& family_;
    std::string base_wrapper_;
    std::unordered_map<std::string, std::vector<std::size_t>> rows_;
    std::vector<std::string> base_prefixes_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
