// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/core/stable_sort.hpp>
#include <shardwise/model/files/checkpoint_match.hpp>
#include <shardwise/model/files/number_table.hpp>
#include <shardwise/model/files/tensor_names.hpp>
#include <shardwise/model/files/tree_builder.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Finds the tensors of a list by their names.
///
/// Memory  8 to 16 bytes per tensor
class NameIndex {
public:
    /// The names must outlive this and be distinct.
    explicit NameIndex(std::vector<std::string_view> const& names) : names_(names) {
        numbers_.reserve(names.size());
        for (auto const name : names) numbers_.find_or_add(hash_of(name), [](std::uint32_t) { return false; });
    }

    [[nodiscard]] std::optional<std::uint32_t> find(std::string_view name) const {
        return numbers_.find(hash_of(name), [&](std::uint32_t i) { return names_[i] == name; });
    }

private:
    static std::uint32_t hash_of(std::string_view name) { return static_cast<std::uint32_t>(hash_name(name)); }

    std::vector<std::string_view> const& names_;
    NumberTable numbers_;
};

/// Makes modules out of dotted names: tensors are brought into an order in which each module's stand together, level by
/// level, so that nothing but that order is kept. Files may have hundreds of thousands of names.
template <class TensorAt>
class NameTree {
public:
    /// What it takes beside the tree, in bytes, where every name is a module of its own.
    static constexpr std::size_t memory_per_name = 52;

    /// `at(i)`: the i-th FileTensor, made when it is asked for; `memory`: what the tree may take, in bytes.
    NameTree(TensorAt at, std::size_t memory) : at_(at), builder_(memory) {}

    Result<ModuleTree> build(std::uint32_t count) {
        names_.reserve(count);
        for (std::uint32_t i = 0; i < count; ++i) names_.push_back(at_(i).name);
        fold_parts();
        order_.reserve(count);
        for (std::uint32_t i = 0; i < count; ++i) {
            if (extra_of(i) >= 0) order_.push_back(i);
        }
        builder_.expect_tensors(count);
        runs_.reserve(count + max_depth);
        if (!emit({0, static_cast<std::uint32_t>(order_.size()), {}, 0}, 0, 0, false)) return builder_.refusal();
        std::vector<std::string_view>().swap(names_);
        std::vector<std::uint32_t>().swap(order_);
        std::vector<Run>().swap(runs_);
        auto tree = std::move(builder_).take();
        tree.keep_whole("Block");
        return tree;
    }

private:
    /// Deeper names than any model has stay names of one tensor.
    static constexpr std::size_t max_depth = 32;
    static constexpr std::uint32_t none = UINT32_MAX;

    /// The tensors [begin, end) of order_ that lie in one module.
    struct Run {
        std::uint32_t begin;
        std::uint32_t end;
        std::string_view name;
        std::int64_t number;  // of a name that is one; else -1
    };

    /// Scales whose parameter is there belong to it ("x.weight.absmax" to "x.weight").
    void fold_parts() {
        std::optional<NameIndex> index;
        for (std::uint32_t i = 0; i < names_.size(); ++i) {
            auto const encoded = encoded_name(names_[i]);
            if (!encoded) continue;
            if (!index) index.emplace(names_), extras_.resize(names_.size());
            auto const owner = index->find(encoded->parameter);
            if (!owner || *owner == i || extras_[*owner] < 0) continue;
            extras_[*owner] += at_(i).bytes + extras_[i];
            extras_[i] = -1;
        }
    }
    /// Bytes of scales that belong to a tensor; negative for a tensor that belongs to another.
    [[nodiscard]] std::int64_t extra_of(std::uint32_t tensor) const { return extras_.empty() ? 0 : extras_[tensor]; }

    /// True for names whose dots part modules.
    [[nodiscard]] static bool is_plain(std::string_view name) {
        auto const dots = static_cast<std::size_t>(std::count(name.begin(), name.end(), '.'));
        return !name.empty() && name.front() != '.' && name.back() != '.' &&
               name.find("..") == std::string_view::npos && dots < max_depth;
    }
    /// A name without dots for a tensor that has none of its own.
    [[nodiscard]] std::string_view keep_strange(std::uint32_t tensor) {
        auto safe = names_[tensor].empty() ? "tensor" + std::to_string(tensor) : std::string(names_[tensor]);
        std::replace(safe.begin(), safe.end(), '.', '/');
        return builder_.keep(safe);
    }

    /// Builds the module of a run, whose names begin alike up to `prefix`.
    bool emit(Run run, std::size_t prefix, std::size_t depth, bool is_in_block) {
        bool const is_block = !is_in_block && is_listed_;
        builder_.begin();
        if (depth > 0 && !builder_.set_name(run.name)) return false;
        auto const first = runs_.size();
        if (!split(run, prefix, depth)) return false;
        auto const last = runs_.size();
        // Numbered children in their order, whatever the file's; the others as the file lists them.
        auto const begin = runs_.begin() + static_cast<std::ptrdiff_t>(first);
        auto const comes_before = [](Run const& a, Run const& b) { return a.number < b.number; };
        if (!std::is_sorted(begin, runs_.end(), comes_before)) detail::stable_sort(begin, runs_.end(), comes_before);
        bool const is_list = first < last && runs_[first].number >= 0;
        builder_.set_class(is_block ? "Block" : is_list ? "ModuleList" : "Module");
        for (auto i = first; i < last; ++i) {
            is_listed_ = is_list;
            auto const child = runs_[i];
            if (!emit(child, prefix + child.name.size() + 1, depth + 1, is_in_block || is_block)) return false;
        }
        is_listed_ = false;
        runs_.resize(first);
        return builder_.end();
    }
    /// Adds the tensors that a run's module has itself, and appends a run for each of its children.
    bool split(Run const& run, std::size_t prefix, std::size_t depth) {
        auto const first = runs_.size();
        auto kept = run.begin;
        bool is_mixed = false;
        ++stamp_;
        for (auto i = run.begin; i < run.end; ++i) {
            auto const tensor = order_[i];
            auto const rest = names_[tensor].substr(prefix);
            auto const dot = rest.find('.');
            bool const is_strange = depth == 0 && dot != std::string_view::npos && !is_plain(rest);
            if (dot == std::string_view::npos || is_strange || rest.empty()) {
                auto const name = is_strange || rest.empty() ? keep_strange(tensor) : builder_.keep(rest);
                if (!builder_.add_tensor(make(name, at_(tensor), extra_of(tensor)))) return false;
                continue;
            }
            order_[kept] = tensor;
            auto const part = rest.substr(0, dot);
            // Files list neighbours together: the last child is the usual answer.
            if (runs_.size() == first || runs_.back().name != part) {
                auto const name = builder_.keep(part);
                if (name.empty()) return builder_.end();
                is_mixed = mark(name) || is_mixed;
                runs_.push_back({kept, kept, name, parse_number(name).value_or(-1)});
            }
            runs_.back().end = ++kept;
        }
        if (is_mixed) join(first);
        return true;
    }
    /// Notes that a name occurs in the module at hand; true where it did before.
    bool mark(std::string_view name) {
        auto const number = builder_.number_of(name);
        if (number >= stamps_.size()) stamps_.resize(number + 1);
        return std::exchange(stamps_[number], stamp_) == stamp_;
    }
    /// Brings the tensors of runs that share a name together, in the order in which the names came first.
    void join(std::size_t first) {
        std::vector<Run> const parts(runs_.begin() + static_cast<std::ptrdiff_t>(first), runs_.end());
        std::vector<std::uint32_t> const tensors(order_.begin() + static_cast<std::ptrdiff_t>(parts.front().begin),
                                                 order_.begin() + static_cast<std::ptrdiff_t>(parts.back().end));
        std::vector<std::uint32_t> by_name(parts.size());
        for (std::uint32_t i = 0; i < parts.size(); ++i) by_name[i] = i;
        // Names are kept once: their addresses stand for them.
        std::sort(by_name.begin(), by_name.end(), [&parts](std::uint32_t a, std::uint32_t b) {
            auto const* const name_a = parts[a].name.data();
            auto const* const name_b = parts[b].name.data();
            return name_a != name_b ? std::less<>{}(name_a, name_b) : a < b;
        });
        std::vector<std::uint32_t> next(parts.size(), none);  // the next part of the same name
        std::vector<bool> is_first(parts.size(), true);
        for (std::size_t i = 1; i < by_name.size(); ++i) {
            if (parts[by_name[i]].name.data() != parts[by_name[i - 1]].name.data()) continue;
            next[by_name[i - 1]] = by_name[i];
            is_first[by_name[i]] = false;
        }
        auto const begin = parts.front().begin;
        auto out = begin;
        runs_.resize(first);
        for (std::uint32_t i = 0; i < parts.size(); ++i) {
            if (!is_first[i]) continue;
            runs_.push_back({out, out, parts[i].name, parts[i].number});
            for (auto part = i; part != none; part = next[part]) {
                for (auto k = parts[part].begin; k < parts[part].end; ++k) order_[out++] = tensors[k - begin];
            }
            runs_.back().end = out;
        }
    }
    [[nodiscard]] static Tensor make(std::string_view name, FileTensor const& file, std::int64_t extra) {
        Tensor tensor{.name = name, .shape = file.shape.value_or(Shape{}), .dtype = file.dtype.value_or(Dtype::f16)};
        auto const contains = [&file](std::string_view word) { return file.name.find(word) != std::string_view::npos; };
        if (name == "bias")
            tensor.use = TensorUse::bias;
        else if (contains("norm") || contains("ln_"))
            tensor.use = TensorUse::norm;
        else if (contains("embed") || contains("embd"))
            tensor.use = TensorUse::embedding;
        else if (contains("lm_head") || file.name == "output.weight")
            tensor.use = TensorUse::head;
        else if (tensor.is_matrix())
            tensor.use = TensorUse::linear;
        auto const bytes = file.bytes + extra;
        if (tensor.bytes().count() != bytes) tensor.stored_bytes = bytes;
        return tensor;
    }

    TensorAt at_;
    TreeBuilder builder_;
    std::vector<std::string_view> names_;
    std::vector<std::uint32_t> order_;
    std::vector<std::int64_t> extras_;   // by tensor; empty where no tensor belongs to another
    std::vector<Run> runs_;              // of all open modules
    std::vector<std::uint32_t> stamps_;  // by number of a name: the last module that it occurred in
    std::uint32_t stamp_ = 0;
    bool is_listed_ = false;
};

}  // namespace detail

/// The modules that dotted names of tensors imply, for a checkpoint of an architecture that no family describes.
/// Numbered neighbours that are alike become runs; classes are unknown: the members of the outermost numbered lists are
/// "Block" and stay whole, all others may be split.
///
/// `at(i)` gives the i-th FileTensor, with its shape; names outlive the call. `held`: what the file's tensors take
/// already; a tree that would take more than the rest of 58 MiB is refused.
///
/// Memory  20 to 76 bytes per name while it runs, and the tree
/// Errors  malformed_file for a name that is a tensor and a module; capacity_exceeded
template <class TensorAt>
[[nodiscard]] Result<ModuleTree> tree_from_names(std::size_t count, TensorAt at, std::string_view path,
                                                 std::size_t held = 0) {
    constexpr std::size_t all = std::size_t{58} << 20U;
    auto const used = held + count * detail::NameTree<TensorAt>::memory_per_name;
    auto const memory = used < all ? all - used : 0;
    auto tree = detail::NameTree<TensorAt>(at, memory).build(static_cast<std::uint32_t>(count));
    if (tree) return tree;
    auto error = tree.error();
    return error.in(path);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
