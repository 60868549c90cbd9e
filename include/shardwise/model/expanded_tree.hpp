// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/model/module_tree.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Every module and tensor of a model as flat arrays in registration order, made once and then read at memory speed: a
/// subtree is a range of modules and a range of tensors. Module 0 is the model itself.
///
/// Memory  about 40 bytes a module and 30 a tensor; names are views into the module tree, which must outlive it
/// Order   modules depth first; each module's own tensors before its children's
class ExpandedTree {
public:
    using Index = std::uint32_t;
    static constexpr Index none = UINT32_MAX;
    /// More modules and tensors than this are refused: no model comes near it.
    static constexpr std::size_t max_entries = std::size_t{1} << 24U;
    /// More elements (or stored bytes) than this in one model are refused, so that sums of bits stay within 63 bits.
    static constexpr std::int64_t max_elements = std::int64_t{1} << 53U;

    [[nodiscard]] Index module_count() const { return static_cast<Index>(names_.size()); }
    [[nodiscard]] Index tensor_count() const { return static_cast<Index>(tensors_.size()); }

    /// A module's own name: "0", "mlp"; empty for the model.
    [[nodiscard]] std::string_view name(Index module) const { return names_[module]; }
    /// The module that holds it; `none` for the model.
    [[nodiscard]] Index parent(Index module) const { return parents_[module]; }
    /// The first module after its subtree.
    [[nodiscard]] Index end(Index module) const { return ends_[module]; }
    [[nodiscard]] bool has_children(Index module) const { return ends_[module] != module + 1; }
    /// Its body in the module tree.
    [[nodiscard]] ModuleId body(Index module) const { return bodies_[module]; }
    [[nodiscard]] ModuleRole role(Index module) const { return roles_[module]; }
    /// Its class, as an index into class_names().
    [[nodiscard]] Index class_id(Index module) const { return classes_[bodies_[module]]; }
    [[nodiscard]] std::vector<std::string_view> const& class_names() const { return class_names_; }

    /// Its own tensors are [first_tensor, own_end), those of its subtree [first_tensor, subtree_end).
    [[nodiscard]] Index first_tensor(Index module) const { return first_tensors_[module]; }
    [[nodiscard]] Index own_end(Index module) const { return first_tensors_[module] + own_counts_[bodies_[module]]; }
    [[nodiscard]] Index subtree_end(Index module) const { return first_tensors_[ends_[module]]; }

    [[nodiscard]] Tensor const& tensor(Index tensor) const { return *tensors_[tensor]; }
    /// The module whose own tensor it is.
    [[nodiscard]] Index owner(Index tensor) const { return owners_[tensor]; }
    [[nodiscard]] std::span<std::int64_t const> elements() const { return elements_; }
    [[nodiscard]] std::span<Dtype const> dtypes() const { return dtypes_; }
    [[nodiscard]] bool has_buffers() const { return has_buffers_; }
    /// True where some tensor is stored in a packed format of its own.
    [[nodiscard]] bool has_stored_bytes() const { return has_stored_bytes_; }

    /// Groups of tensors that are one in memory, each and all in registration order: the first of a group counts.
    [[nodiscard]] std::vector<std::vector<Index>> const& tie_groups() const { return groups_; }
    /// The tensors that another stands for: all but the first of each group, ascending.
    [[nodiscard]] std::span<Index const> duplicates() const { return duplicates_; }
    [[nodiscard]] bool is_duplicate(Index tensor) const {
        return std::binary_search(duplicates_.begin(), duplicates_.end(), tensor);
    }

    /// The classes that the model's authors keep whole.
    [[nodiscard]] List<std::string_view> const& no_split_classes() const { return no_split_; }

    /// The full dotted name of a module; empty for the model.
    [[nodiscard]] std::string path(Index module) const {
        std::string out;
        append_path(out, module);
        return out;
    }
    /// The full dotted name of a tensor.
    [[nodiscard]] std::string tensor_path(Index tensor) const {
        std::string out;
        append_path(out, owners_[tensor]);
        if (!out.empty()) out += '.';
        return out += tensors_[tensor]->name;
    }

    /// The tensor with this full name.
    [[nodiscard]] std::optional<Index> find_tensor(std::string_view full_name) const {
        if (names_.empty()) return std::nullopt;
        Index module = 0;
        while (true) {
            // Checkpoints of unknown models may have dots within a tensor's own name.
            for (Index i = first_tensor(module); i < own_end(module); ++i) {
                if (tensors_[i]->name == full_name) return i;
            }
            Index child = module + 1;
            while (child < ends_[module] && !starts_with_component(full_name, names_[child])) child = ends_[child];
            if (child >= ends_[module]) return std::nullopt;
            full_name.remove_prefix(names_[child].size() + 1);
            module = child;
        }
    }

private:
    friend class TreeExpander;

    static bool starts_with_component(std::string_view path, std::string_view name) {
        return path.size() > name.size() && path[name.size()] == '.' && path.substr(0, name.size()) == name;
    }
    void append_path(std::string& out, Index module) const {
        std::size_t size = 0;
        for (auto at = module; at != 0; at = parents_[at]) size += names_[at].size() + 1;
        if (size == 0) return;
        out.resize(size - 1);
        auto end = out.size();
        for (auto at = module; at != 0; at = parents_[at]) {
            auto const name = names_[at];
            end -= name.size();
            name.copy(out.data() + end, name.size());
            if (end != 0) out[--end] = '.';
        }
    }

    NameArena numbers_;
    std::vector<std::string_view> names_;
    std::vector<Index> parents_;
    std::vector<Index> ends_;
    std::vector<Index> first_tensors_;  // one more than modules
    std::vector<ModuleId> bodies_;
    std::vector<ModuleRole> roles_;
    std::vector<Index> classes_;     // by body
    std::vector<Index> own_counts_;  // by body
    std::vector<std::string_view> class_names_;
    std::vector<Tensor const*> tensors_;
    std::vector<Index> owners_;
    std::vector<std::int64_t> elements_;
    std::vector<Dtype> dtypes_;
    std::vector<std::vector<Index>> groups_;
    std::vector<Index> duplicates_;
    List<std::string_view> no_split_;
    bool has_buffers_ = false;
    bool has_stored_bytes_ = false;
};

/// Walks a module tree once and writes the arrays of its expanded form.
class TreeExpander {
public:
    using Index = ExpandedTree::Index;

    explicit TreeExpander(ModuleTree const& tree) : tree_(tree) {}

    Result<ExpandedTree> expand() {
        out_.no_split_ = tree_.no_split_classes();
        out_.first_tensors_.push_back(0);
        if (tree_.modules().empty()) return std::move(out_);
        if (auto const counted = count_entries(); !counted) return counted.error();
        read_bodies();
        if (auto const walked = walk(); !walked) return walked.error();
        if (auto const tied = tie(); !tied) return tied.error();
        return std::move(out_);
    }

private:
    /// A module whose children are being visited.
    struct Level {
        Index module = 0;
        std::uint32_t next_child = 0;
        std::int32_t next_number = 0;
    };

    /// Refuses a tree whose runs of runs would fill the memory, before any of it is expanded.
    Result<> count_entries() {
        // Bodies are added before those that use them.
        std::vector<std::uint64_t> entries;
        for (auto const& body : tree_.modules()) {
            std::uint64_t count = 1 + std::uint64_t{body.tensor_count};
            for (std::uint32_t i = 0; i < body.child_count && count <= ExpandedTree::max_entries; ++i) {
                auto const& child = tree_.child(body, i);
                if (child.count > 0) count += static_cast<std::uint64_t>(child.count) * entries[child.module];
            }
            entries.push_back(std::min<std::uint64_t>(count, ExpandedTree::max_entries + 1));
        }
        if (entries[tree_.root()] <= ExpandedTree::max_entries) return {};
        return Error{ErrorCode::capacity_exceeded}
            .because("the model has more modules and tensors than can be mapped")
            .at_most(static_cast<std::int64_t>(ExpandedTree::max_entries));
    }

    void read_bodies() {
        std::unordered_map<std::string_view, Index> ids;
        for (auto const& module : tree_.modules()) {
            auto const [it, is_new] = ids.emplace(module.class_name, static_cast<Index>(out_.class_names_.size()));
            if (is_new) out_.class_names_.push_back(module.class_name);
            out_.classes_.push_back(it->second);
            out_.own_counts_.push_back(module.tensor_count);
        }
    }

    Result<> walk() {
        std::vector<Level> levels;
        if (auto const entered = enter(ExpandedTree::none, {}, tree_.root(), ModuleRole::none); !entered)
            return entered;
        levels.push_back({});
        while (!levels.empty()) {
            auto& level = levels.back();
            auto const& body = tree_.module(out_.bodies_[level.module]);
            if (level.next_child == body.child_count) {
                out_.ends_[level.module] = out_.module_count();
                levels.pop_back();
                continue;
            }
            auto const& child = tree_.child(body, level.next_child);
            bool const is_run = child.name.empty();
            if (is_run && level.next_number >= child.count) {
                ++level.next_child;
                level.next_number = 0;
                continue;
            }
            auto const name = is_run ? number(child.first + level.next_number) : child.name;
            if (is_run) {
                ++level.next_number;
            } else {
                ++level.next_child;
            }
            auto const parent = level.module;
            if (auto const entered = enter(parent, name, child.module, child.role); !entered) return entered;
            levels.push_back({out_.module_count() - 1, 0, 0});
        }
        return {};
    }

    Result<> enter(Index parent, std::string_view name, ModuleId id, ModuleRole role) {
        auto const& body = tree_.module(id);
        auto const module = out_.module_count();
        out_.names_.push_back(name);
        out_.parents_.push_back(parent);
        out_.ends_.push_back(module + 1);
        out_.bodies_.push_back(id);
        out_.roles_.push_back(role);
        for (std::uint32_t i = 0; i < body.tensor_count; ++i) {
            auto const& tensor = tree_.tensor(body, i);
            auto const elements = tensor.shape.checked_elements().value_or(INT64_MAX);
            auto const total = checked_add(total_elements_, elements);
            auto const stored = checked_add(total_stored_, tensor.stored_bytes >= 0 ? tensor.stored_bytes : 0);
            if (!total || *total > ExpandedTree::max_elements || !stored || *stored > ExpandedTree::max_elements) {
                return Error{ErrorCode::size_overflow}
                    .at(tensor.name)
                    .because("the model has more elements than can be counted");
            }
            total_elements_ = *total;
            total_stored_ = *stored;
            out_.tensors_.push_back(&tensor);
            out_.owners_.push_back(module);
            out_.elements_.push_back(elements);
            out_.dtypes_.push_back(tensor.dtype);
            out_.has_buffers_ = out_.has_buffers_ || !tensor.is_parameter();
            out_.has_stored_bytes_ = out_.has_stored_bytes_ || tensor.stored_bytes >= 0;
        }
        out_.first_tensors_.push_back(out_.tensor_count());
        return {};
    }

    /// The digits of a run's number; each is kept once.
    std::string_view number(std::int32_t value) {
        if (value < 0) return out_.numbers_.join(std::to_string(value));
        auto const at = static_cast<std::size_t>(value);
        if (at >= (std::size_t{1} << 20U)) return out_.numbers_.number(at);
        if (at >= known_numbers_.size()) known_numbers_.resize(at + 1);
        if (known_numbers_[at].empty()) known_numbers_[at] = out_.numbers_.number(at);
        return known_numbers_[at];
    }

    /// Joins ties that share a name into groups.
    Result<> tie() {
        std::unordered_map<Index, Index> leaders;
        auto const leader_of = [&leaders](Index tensor) {
            while (true) {
                auto const it = leaders.emplace(tensor, tensor).first;
                if (it->second == tensor) return tensor;
                tensor = it->second;
            }
        };
        for (auto const& tie : tree_.ties()) {
            auto const first = out_.find_tensor(tie.first);
            auto const other = out_.find_tensor(tie.other);
            if (!first || !other) {
                return Error{ErrorCode::unknown_name}
                    .at(first ? tie.other : tie.first)
                    .because("is tied, but no tensor of the model has this name");
            }
            auto const a = leader_of(*first);
            auto const b = leader_of(*other);
            leaders[std::max(a, b)] = std::min(a, b);
        }
        std::vector<std::pair<Index, Index>> members;
        for (auto const& entry : leaders) members.emplace_back(entry.second, entry.first);
        for (auto& member : members) member.first = leader_of(member.first);
        std::sort(members.begin(), members.end());
        for (std::size_t i = 0; i < members.size(); ++i) {
            bool const is_new = i == 0 || members[i].first != members[i - 1].first;
            if (is_new) {
                out_.groups_.emplace_back();
            } else {
                out_.duplicates_.push_back(members[i].second);
            }
            out_.groups_.back().push_back(members[i].second);
        }
        std::sort(out_.duplicates_.begin(), out_.duplicates_.end());
        return {};
    }

    ModuleTree const& tree_;
    ExpandedTree out_;
    std::vector<std::string_view> known_numbers_;
    std::int64_t total_elements_ = 0;
    std::int64_t total_stored_ = 0;
};

/// The run-time form of a module tree, which must outlive it.
///
/// Errors  capacity_exceeded and size_overflow beyond the limits of ExpandedTree; unknown_name for a tie of no tensor
[[nodiscard]] inline Result<ExpandedTree> expand(ModuleTree const& tree) {
    return TreeExpander(tree).expand();
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
