// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/core/span.hpp>
#include <shardwise/model/name_arena.hpp>
#include <shardwise/model/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What a module is to the model as a whole; custom device maps may name the first four instead of a prefix. `expert` marks
/// a run of routed experts, which expert-parallel ranks share by their numbers.
enum class ModuleRole : std::uint8_t { none, embedding, layer, norm, head, expert };

/// The index of a module body within its tree.
using ModuleId = std::uint32_t;

/// A use of a module body under a name: one child, or a run of numbered children that are all alike.
struct Child {
    /// The child's name; empty for a run of numbered children.
    std::string_view name;
    ModuleId module = 0;
    ModuleRole role = ModuleRole::none;
    /// The run's first number and length; a named child is a run of one.
    std::int32_t first = 0;
    std::int32_t count = 1;

    friend constexpr bool operator==(Child const&, Child const&) = default;
};

/// A module body: its class, its own tensors (parameters, then buffers), its children, in registration order.
struct Module {
    std::string_view class_name;
    std::uint32_t first_tensor = 0;
    std::uint32_t tensor_count = 0;
    std::uint32_t first_child = 0;
    std::uint32_t child_count = 0;
};

/// Two full names of one parameter: checkpoints may store either, memory holds it once, the first counts.
struct Tie {
    std::string_view first;
    std::string_view other;
};

/// The modules of a model with their tensors: bodies are stored once however often they are used, and repeated layers are
/// runs, so that a tree of a hundred layers takes a few dozen entries. Move-only: names may live in its own arena.
///
/// Order  children and tensors as torch registers them (named_modules)
class ModuleTree {
public:
    constexpr ModuleTree() = default;
    /// A tree of bodies that somebody else laid out, without ties.
    constexpr ModuleTree(NameArena names, List<Module> modules, List<Tensor> tensors, List<Child> children,
                         ModuleId root)
        : names_(std::move(names)),
          modules_(std::move(modules)),
          tensors_(std::move(tensors)),
          children_(std::move(children)),
          root_(root) {}

    /// Adds a body whose children were added before; returns its id.
    constexpr ModuleId add(std::string_view class_name, Span<Tensor const> tensors, Span<Child const> children) {
        modules_.push_back({class_name, static_cast<std::uint32_t>(tensors_.size()),
                            static_cast<std::uint32_t>(tensors.size()), static_cast<std::uint32_t>(children_.size()),
                            static_cast<std::uint32_t>(children.size())});
        tensors_.append(tensors.begin(), tensors.end());
        children_.append(children.begin(), children.end());
        return static_cast<ModuleId>(modules_.size() - 1);
    }
    /// The same for lists that are written out; a leaf has no children.
    constexpr ModuleId add(std::string_view class_name, std::initializer_list<Tensor> tensors,
                           std::initializer_list<Child> children = {}) {
        return add(class_name, Span<Tensor const>{tensors.begin(), tensors.size()},
                   Span<Child const>{children.begin(), children.size()});
    }
    /// The same for a module that only holds others.
    constexpr ModuleId add(std::string_view class_name, List<Child> const& children) {
        return add(class_name, Span<Tensor const>{}, Span<Child const>{children});
    }

    /// Makes `module` the whole model.
    constexpr void set_root(ModuleId module) { root_ = module; }
    /// Declares two full parameter names to be one tensor.
    constexpr void tie(std::string_view first, std::string_view other) { ties_.push_back({first, other}); }
    /// Declares a class whose instances are never split over devices.
    constexpr void keep_whole(std::string_view class_name) { no_split_.push_back(class_name); }

    [[nodiscard]] constexpr ModuleId root() const { return root_; }
    [[nodiscard]] constexpr Module const& module(ModuleId id) const { return modules_[id]; }
    [[nodiscard]] constexpr List<Module> const& modules() const { return modules_; }
    /// Every tensor of every body, each body's together.
    [[nodiscard]] constexpr List<Tensor> const& tensors() const { return tensors_; }
    [[nodiscard]] constexpr List<Child> const& children() const { return children_; }
    [[nodiscard]] constexpr List<Tie> const& ties() const { return ties_; }
    [[nodiscard]] constexpr List<std::string_view> const& no_split_classes() const { return no_split_; }

    /// The i-th own tensor of a body.
    [[nodiscard]] constexpr Tensor const& tensor(Module const& module, std::uint32_t i) const {
        return tensors_[module.first_tensor + i];
    }
    constexpr Tensor& tensor(Module const& module, std::uint32_t i) { return tensors_[module.first_tensor + i]; }
    /// The i-th child (or run of children) of a body.
    [[nodiscard]] constexpr Child const& child(Module const& module, std::uint32_t i) const {
        return children_[module.first_child + i];
    }

    /// Where names that no literal holds are kept.
    constexpr NameArena& names() { return names_; }

private:
    NameArena names_;
    List<Module> modules_;
    List<Tensor> tensors_;
    List<Child> children_;
    List<Tie> ties_;
    List<std::string_view> no_split_;
    ModuleId root_ = 0;
};

/// A run of children numbered from `first`.
[[nodiscard]] constexpr Child numbered(std::int64_t first, std::int64_t count, ModuleId module,
                                       ModuleRole role = ModuleRole::none) {
    return {{}, module, role, static_cast<std::int32_t>(first), static_cast<std::int32_t>(count)};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
