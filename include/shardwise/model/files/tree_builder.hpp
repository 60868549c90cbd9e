// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/model/files/guess_use.hpp>
#include <shardwise/model/files/tensor_names.hpp>
#include <shardwise/model/files/tree_bodies.hpp>
#include <shardwise/model/module_tree.hpp>
#include <shardwise/model/tree_totals.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Makes a tree of modules that open and close in the order of a text. Modules that are equal, children included,
/// become one body, and equal numbered neighbours one run, so that memory follows what differs and not what repeats.
class TreeBuilder {
public:
    static constexpr std::size_t max_tied_names = 8'192;
    /// What different bodies, tensors, uses of bodies and names may take, so that a file costs less than 64 MiB in all.
    ///
    /// Units  bytes
    static constexpr std::size_t max_memory = std::size_t{46} << 20U;

    explicit TreeBuilder(std::size_t memory = max_memory) : max_memory_(memory) {}

    /// Opens a module within the open one.
    void begin() { frames_.push_back({.first_child = children_.size()}); }
    /// The number of open modules.
    [[nodiscard]] std::size_t depth() const { return frames_.size(); }
    void set_class(std::string_view name) { frames_.back().class_name = keep(name); }
    bool set_name(std::string_view name) {
        if (frames_.size() > 1 && !check_name(name)) return false;
        frames_.back().name = keep(name);
        return true;
    }
    /// Adds a tensor of the open module; its name is kept already.
    bool add_tensor(Tensor tensor) {
        if (is_full_) return too_many("names");
        if (!check_name(tensor.name)) return false;
        auto const elements = tensor.shape.checked_elements();
        if (!elements || !storage_bytes(tensor.dtype, *elements)) {
            return refuse(
                Error{ErrorCode::size_overflow}.in(path(tensor.name)).at("shape").because("its size leaves 63 bits"));
        }
        if (memory() > max_memory_) return too_many("different tensors");
        auto& frame = frames_.back();
        bodies_.append(tensor, frame.first_tensor, frame.tensor_count);
        return true;
    }
    /// Says that no more than so many tensors will come.
    void expect_tensors(std::size_t count) {
        bodies_.expect_tensors(count, max_memory_);
        children_.reserve(count);
        seen_.reserve(count);
    }
    void begin_tie() { first_tied_ = {}; }
    bool add_tied(std::string_view name) {
        if (tied_.size() >= max_tied_names) return too_many("tied names", max_tied_names);
        auto const kept = keep(name);
        if (is_full_) return too_many("names");
        tied_.push_back({kept, first_tied_.data() == nullptr ? kept : first_tied_});
        if (first_tied_.data() == nullptr) first_tied_ = kept;
        return true;
    }
    /// Closes the open module.
    bool end() {
        if (is_full_) return too_many("names");
        auto const frame = frames_.back();
        if (frames_.size() > 1 && frame.name.empty()) {
            return refuse(Error{ErrorCode::missing_field}.in(path()).at("name").because("a child needs it"));
        }
        if (!check_distinct(frame)) return false;
        guess_uses(frame);
        fold_children(frame);
        auto const body =
            bodies_.find_or_add(frame.class_name, frame.first_tensor, frame.tensor_count,
                                {children_.data() + frame.first_child, children_.size() - frame.first_child});
        if (memory() > max_memory_) return too_many("different modules");
        children_.resize(frame.first_child);
        frames_.pop_back();
        if (frames_.empty()) {
            root_ = body;
            return true;
        }
        children_.push_back({.name = frame.name, .module = body});
        return true;
    }

    /// A copy of a name that lives as long as the tree; equal names share it.
    std::string_view keep(std::string_view name) {
        if (auto const found = names_.find(name)) return names_[*found];
        if (name.size() + memory() > max_memory_) return is_full_ = true, std::string_view{};
        text_size_ += name.size();
        return names_[*names_.add(name)];
    }
    /// The number of a name that keep returned: names are numbered from 0 as they come.
    [[nodiscard]] std::uint32_t number_of(std::string_view kept) const { return *names_.find(kept); }
    /// The dotted name of the open module, or of something in it.
    [[nodiscard]] std::string path(std::string_view last = {}) const {
        std::string out;
        for (std::size_t i = 1; i < frames_.size(); ++i) {
            out += (out.empty() ? "" : ".") + std::string(frames_[i].name.empty() ? "?" : frames_[i].name);
        }
        if (!last.empty()) out += (out.empty() ? "" : ".") + std::string(last);
        return out;
    }
    [[nodiscard]] Error const& refusal() const { return refusal_; }
    /// Why keep returned less than it was given.
    [[nodiscard]] Error const& why_full() { return too_many("names"), refusal_; }

    /// A name and the first name of its tied group, which may be itself.
    struct Tied {
        std::string_view name;
        std::string_view first;
    };
    [[nodiscard]] std::vector<Tied> const& tied() const { return tied_; }
    /// The finished tree, without its ties.
    [[nodiscard]] ModuleTree take() && {
        std::vector<Child>().swap(children_);
        std::vector<char const*>().swap(seen_);
        return std::move(bodies_).take(root_, std::move(names_).take_texts());
    }

private:
    struct Frame {
        std::string_view class_name = "Module";
        std::string_view name{};
        std::uint32_t first_tensor = 0;
        std::uint32_t tensor_count = 0;
        std::size_t first_child = 0;
    };

    [[nodiscard]] std::span<Tensor> own(Frame const& frame) {
        return bodies_.tensors().subspan(frame.first_tensor, frame.tensor_count);
    }
    bool refuse(Error const& error) {
        refusal_ = error;
        return false;
    }
    /// The most bytes that what is kept so far takes until it is a tree.
    [[nodiscard]] std::size_t memory() const {
        return children_.size() * sizeof(Child) + bodies_.memory(names_.memory() - text_size_) + text_size_;
    }
    bool too_many(std::string_view what) {
        return refuse(Error{ErrorCode::capacity_exceeded}
                          .because("has more " + std::string(what) + " than fit into the bytes that a tree may take")
                          .at_most(static_cast<std::int64_t>(max_memory_)));
    }
    bool too_many(std::string_view what, std::size_t limit) {
        return refuse(Error{ErrorCode::capacity_exceeded}
                          .because("has more " + std::string(what) + " than this library reads")
                          .at_most(static_cast<std::int64_t>(limit)));
    }
    bool check_name(std::string_view name) {
        if (!name.empty() && name.find('.') == std::string_view::npos) return true;
        auto const reason = name.empty() ? "must not be empty" : "must not contain a dot";
        return refuse(Error{ErrorCode::invalid_field}.in(path(name)).at("name").because(reason));
    }
    /// Torch keeps parameters, buffers and children of a module under different names.
    bool check_distinct(Frame const& frame) {
        // Names are kept once: their addresses stand for them.
        seen_.clear();
        for (auto const& tensor : own(frame)) seen_.push_back(tensor.name.data());
        for (auto i = frame.first_child; i < children_.size(); ++i) seen_.push_back(children_[i].name.data());
        if (seen_.size() < 2) return true;
        std::sort(seen_.begin(), seen_.end());
        auto const twice = std::adjacent_find(seen_.begin(), seen_.end());
        if (twice == seen_.end()) return true;
        std::string_view name;
        for (auto const& tensor : own(frame)) {
            if (tensor.name.data() == *twice) name = tensor.name;
        }
        for (auto i = frame.first_child; i < children_.size(); ++i) {
            if (children_[i].name.data() == *twice) name = children_[i].name;
        }
        return refuse(Error{ErrorCode::malformed_file}.in(path(name)).because("occurs twice in one module"));
    }
    /// What tensors are for is read off the class and the name, as nothing else says it.
    void guess_uses(Frame const& frame) {
        auto const contains = [&frame](std::string_view word) {
            return frame.class_name.find(word) != std::string_view::npos;
        };
        for (auto& tensor : own(frame)) {
            if (!tensor.is_parameter()) continue;
            if (contains("Norm"))
                tensor.use = TensorUse::norm;
            else if (tensor.name == "bias")
                tensor.use = TensorUse::bias;
            else if (contains("Embedding"))
                tensor.use = TensorUse::embedding;
            else if (tensor.is_matrix() && (contains("Linear") || contains("Conv1D")))
                tensor.use = TensorUse::linear;
            tensor.use = guess_use(tensor.use, tensor.name == "weight" ? frame.name : tensor.name);
        }
    }
    /// Joins equal neighbours whose names count up.
    void fold_children(Frame const& frame) {
        auto out = frame.first_child;
        for (auto i = frame.first_child; i < children_.size(); ++i) {
            auto child = children_[i];
            if (auto const number = parse_number(child.name)) {
                child.name = {};
                child.first = static_cast<std::int32_t>(*number);
                auto* const last = out > frame.first_child ? &children_[out - 1] : nullptr;
                bool const continues = last != nullptr && last->name.empty() && last->module == child.module &&
                                       last->first + last->count == child.first;
                if (continues) {
                    ++last->count;
                    continue;
                }
            }
            children_[out++] = child;
        }
        children_.resize(out);
    }
    TreeBodies bodies_;
    TensorNames names_;
    ModuleId root_ = 0;
    std::size_t max_memory_;
    std::size_t text_size_ = 0;
    bool is_full_ = false;
    std::vector<Frame> frames_;
    std::vector<Child> children_;  // of all open modules
    std::vector<char const*> seen_;
    std::vector<Tied> tied_;
    std::string_view first_tied_;
    Error refusal_{ErrorCode::malformed_file};
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
