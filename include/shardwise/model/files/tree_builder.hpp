#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/model/files/tensor_names.hpp>
#include <shardwise/model/module_tree.hpp>
#include <shardwise/model/tree_totals.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace shardwise::inline v0_2_0::detail {

/// Makes a tree of modules that open and close in the order of a text. Modules that are equal, children included,
/// become one body, and equal numbered neighbours one run, so that memory follows what differs and not what repeats.
class TreeBuilder {
public:
    /// The most different bodies, tensors and uses of bodies that a tree may have: they take less than 64 MiB.
    static constexpr std::size_t max_bodies = 300'000;
    static constexpr std::size_t max_tensors = 300'000;
    static constexpr std::size_t max_children = 600'000;
    static constexpr std::size_t max_tied_names = 8'192;
    /// Units  bytes of different names
    static constexpr std::size_t max_text = std::size_t{16} << 20U;

    /// Opens a module within the open one.
    void begin() { frames_.push_back({.first_tensor = tensors_.size(), .first_child = children_.size()}); }
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
        if (is_full_) return too_many("text", max_text);
        if (!check_name(tensor.name)) return false;
        auto const elements = tensor.shape.checked_elements();
        if (!elements || !storage_bytes(tensor.dtype, *elements)) {
            return refuse(
                Error{ErrorCode::size_overflow}.in(path(tensor.name)).at("shape").because("its size leaves 63 bits"));
        }
        if (tensors_.size() + tree_.tensors().size() >= max_tensors) return too_many("different tensors", max_tensors);
        tensors_.push_back(tensor);
        return true;
    }
    /// Says that no more than so many tensors will come.
    void expect_tensors(std::size_t count) { expected_tensors_ = std::min(count, max_tensors); }
    void begin_tie() { first_tied_ = {}; }
    bool add_tied(std::string_view name) {
        if (tied_.size() >= max_tied_names) return too_many("tied names", max_tied_names);
        auto const kept = keep(name);
        if (is_full_) return too_many("text", max_text);
        tied_.push_back({kept, first_tied_.data() == nullptr ? kept : first_tied_});
        if (first_tied_.data() == nullptr) first_tied_ = kept;
        return true;
    }
    /// Closes the open module.
    bool end() {
        if (is_full_) return too_many("text", max_text);
        auto const frame = frames_.back();
        if (frames_.size() > 1 && frame.name.empty()) {
            return refuse(Error{ErrorCode::missing_field}.in(path()).at("name").because("a child needs it"));
        }
        if (!check_distinct(frame)) return false;
        guess_uses(frame);
        fold_children(frame);
        auto const body = find_or_add(frame);
        if (tree_.modules().size() > max_bodies) return too_many("different modules", max_bodies);
        tensors_.resize(frame.first_tensor);
        children_.resize(frame.first_child);
        frames_.pop_back();
        if (frames_.empty()) {
            tree_.set_root(body);
            return true;
        }
        if (children_.size() + tree_.children().size() >= max_children) return too_many("modules", max_children);
        children_.push_back({.name = frame.name, .module = body});
        return true;
    }

    /// A copy of a name that lives as long as the tree; equal names share it.
    std::string_view keep(std::string_view name) {
        if (auto const found = names_.find(name)) return names_[*found];
        if (name.size() > max_text - text_size_) return is_full_ = true, std::string_view{};
        text_size_ += name.size();
        return names_[*names_.add(name)];
    }
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

    /// A name and the first name of its tied group, which may be itself.
    struct Tied {
        std::string_view name;
        std::string_view first;
    };
    [[nodiscard]] std::vector<Tied> const& tied() const { return tied_; }
    /// The finished tree, without its ties.
    [[nodiscard]] ModuleTree take() && {
        tree_.names() = std::move(names_).take_texts();
        return std::move(tree_);
    }

private:
    struct Frame {
        std::string_view class_name = "Module";
        std::string_view name{};
        std::size_t first_tensor = 0;
        std::size_t first_child = 0;
    };

    bool refuse(Error const& error) {
        refusal_ = error;
        return false;
    }
    bool too_many(std::string_view what, std::size_t limit) {
        return refuse(Error{ErrorCode::capacity_exceeded}
                          .because("has more " + std::string(what) + " than this library reads")
                          .expected(static_cast<std::int64_t>(limit)));
    }
    bool check_name(std::string_view name) {
        if (!name.empty() && name.find('.') == std::string_view::npos) return true;
        auto const reason = name.empty() ? "must not be empty" : "must not contain a dot";
        return refuse(Error{ErrorCode::invalid_field}.in(path(name)).at("name").because(reason));
    }
    /// Torch keeps parameters, buffers and children of a module under different names.
    bool check_distinct(Frame const& frame) {
        seen_.clear();
        for (auto i = frame.first_tensor; i < tensors_.size(); ++i) seen_.push_back(tensors_[i].name);
        for (auto i = frame.first_child; i < children_.size(); ++i) seen_.push_back(children_[i].name);
        if (seen_.size() < 2) return true;
        std::sort(seen_.begin(), seen_.end());
        auto const twice = std::adjacent_find(seen_.begin(), seen_.end());
        if (twice == seen_.end()) return true;
        return refuse(Error{ErrorCode::malformed_file}.in(path(*twice)).because("occurs twice in one module"));
    }
    /// What tensors are for is read off the class, as nothing else says it.
    void guess_uses(Frame const& frame) {
        auto const contains = [&frame](std::string_view word) {
            return frame.class_name.find(word) != std::string_view::npos;
        };
        for (auto i = frame.first_tensor; i < tensors_.size(); ++i) {
            auto& tensor = tensors_[i];
            if (!tensor.is_parameter()) continue;
            if (contains("Norm"))
                tensor.use = TensorUse::norm;
            else if (tensor.name == "bias")
                tensor.use = TensorUse::bias;
            else if (contains("Embedding"))
                tensor.use = TensorUse::embedding;
            else if (tensor.is_matrix() && (contains("Linear") || contains("Conv1D")))
                tensor.use = TensorUse::linear;
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
    ModuleId find_or_add(Frame const& frame) {
        std::span<Tensor> const tensors{tensors_.data() + frame.first_tensor, tensors_.size() - frame.first_tensor};
        auto const comes_first = [](Tensor const& tensor) { return tensor.is_parameter(); };
        if (!std::is_partitioned(tensors.begin(), tensors.end(), comes_first)) {
            std::stable_partition(tensors.begin(), tensors.end(), comes_first);
        }
        std::span<Child const> const children{children_.data() + frame.first_child,
                                              children_.size() - frame.first_child};
        auto const hash = hash_of(frame.class_name, tensors, children);
        auto const [first, last] = bodies_.equal_range(hash);
        for (auto it = first; it != last; ++it) {
            if (is_equal(tree_.module(it->second), frame.class_name, tensors, children)) return it->second;
        }
        // Where few repeat, room for all at once takes less than growing does.
        if (tree_.tensors().size() > expected_tensors_ / 4) tree_.reserve_tensors(expected_tensors_);
        auto const body = tree_.add(frame.class_name, tensors, children);
        bodies_.insert({hash, body});
        return body;
    }
    [[nodiscard]] bool is_equal(Module const& module, std::string_view class_name, std::span<Tensor const> tensors,
                                std::span<Child const> children) const {
        if (module.class_name != class_name || module.tensor_count != tensors.size() ||
            module.child_count != children.size()) {
            return false;
        }
        for (std::uint32_t i = 0; i < module.tensor_count; ++i) {
            if (tree_.tensor(module, i) != tensors[i]) return false;
        }
        for (std::uint32_t i = 0; i < module.child_count; ++i) {
            if (tree_.child(module, i) != children[i]) return false;
        }
        return true;
    }
    /// Names are kept once, so that their addresses stand for them.
    [[nodiscard]] std::uint64_t hash_of(std::string_view class_name, std::span<Tensor const> tensors,
                                        std::span<Child const> children) const {
        std::uint64_t hash = 0;
        auto const mix = [&hash](std::uint64_t value) {
            hash = (hash ^ value) * 0x9E3779B97F4A7C15ULL;
            hash ^= hash >> 29U;
        };
        auto const mix_name = [&mix](std::string_view name) { mix(reinterpret_cast<std::uintptr_t>(name.data())); };
        mix_name(class_name);
        for (auto const& tensor : tensors) {
            mix_name(tensor.name);
            mix(static_cast<std::uint64_t>(tensor.dtype) * 4 + static_cast<std::uint64_t>(tensor.kind));
            for (auto const extent : tensor.shape) mix(static_cast<std::uint64_t>(extent));
        }
        for (auto const& child : children) {
            mix_name(child.name);
            mix(child.module);
            mix(static_cast<std::uint64_t>(child.first) << 32U | static_cast<std::uint32_t>(child.count));
        }
        return hash;
    }

    ModuleTree tree_;
    TensorNames names_;
    std::unordered_multimap<std::uint64_t, ModuleId> bodies_;
    std::size_t expected_tensors_ = 0;
    std::size_t text_size_ = 0;
    bool is_full_ = false;
    std::vector<Frame> frames_;
    std::vector<Tensor> tensors_;  // of all open modules, like children_
    std::vector<Child> children_;
    std::vector<std::string_view> seen_;
    std::vector<Tied> tied_;
    std::string_view first_tied_;
    Error refusal_{ErrorCode::malformed_file};
};

}  // namespace shardwise::inline v0_2_0::detail
