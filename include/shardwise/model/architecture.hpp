// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/core/span.hpp>
#include <shardwise/model/block_program.hpp>
#include <shardwise/model/config.hpp>
#include <shardwise/model/family.hpp>
#include <shardwise/model/field.hpp>
#include <shardwise/model/module_tree.hpp>

#include <concepts>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Has `A::name`, config.json's model_type.
template <class A>
concept HasModelType = requires {
    { A::name } -> std::convertible_to<std::string_view>;
};

/// Has `A::fields`, the constexpr table of its config keys, defaults and aliases.
template <class A>
concept HasFieldTable = requires {
    {Span<Field const>{A::fields}};
};

/// Has `A::aliases`, names of checkpoint files that differ from the tree's, and `A::gguf_name`, GGUF's name of the family.
template <class A>
concept HasNameAliases = requires {
    {Span<NameAlias const>{A::aliases}};
    { A::gguf_name } -> std::convertible_to<std::string_view>;
};

/// Has `A::complete(config)`: derives absent values and refuses impossible ones.
template <class A>
concept CompletesConfig = requires(ModelConfig& config) {
    { A::complete(config) } -> std::same_as<Result<>>;
};

/// Has `A::tree(config)`: the modules with names, shapes, ties and shard rules.
template <class A>
concept GivesModuleTree = requires(ModelConfig const& config) {
    { A::tree(config) } -> std::same_as<ModuleTree>;
};

/// Has `A::program(config, tree)`: the operations of its blocks, over the modules of that tree.
template <class A>
concept GivesBlockProgram = requires(ModelConfig const& config, ModuleTree const& tree) {
    { A::program(config, tree) } -> std::same_as<BlockProgram>;
};

/// Describes one family of models, once for all readers. Add one: docs/how-to/add-an-architecture.md.
///
/// Our families take the config of `tree` and `program` as `auto const&`: a program then compiles those that it uses, and
/// including them all costs 35 ms less (g++ -O0).
template <class A>
concept ModelArchitecture = HasModelType<A> && HasFieldTable<A> && HasNameAliases<A> && CompletesConfig<A> &&
    GivesModuleTree<A> && GivesBlockProgram<A>;

namespace detail {

template <class Arch>
[[nodiscard]] constexpr Family make_family() {
    Family family{Arch::name, Arch::gguf_name, Arch::aliases, {}, {}, {}, {}, {}};
    if constexpr (requires { Arch::gguf_form; }) family.gguf_form = Arch::gguf_form;
    if constexpr (requires { Arch::gguf_numbers; }) family.gguf_numbers = Arch::gguf_numbers;
    if constexpr (requires { Arch::optional_prefix; }) family.optional_prefix = Arch::optional_prefix;
    if constexpr (requires { Arch::base_name; }) family.base_name = Arch::base_name;
    if constexpr (requires { Arch::ending_aliases; }) family.ending_aliases = Arch::ending_aliases;
    return family;
}

}  // namespace detail

/// The tables of one family.
template <ModelArchitecture Arch>
inline constexpr Family family_of = detail::make_family<Arch>();

/// A model, ready for estimator, placement and executor: the values that its architecture gave for one config.
struct Model {
    ModelConfig config;
    ModuleTree tree;
    BlockProgram program;
    /// Null where no family describes the model: its tree is made of names, and its program is empty.
    Family const* family = nullptr;
};

/// Completes a config and asks the architecture for the model's description.
///
/// Errors  what Arch::complete refuses: invalid_field, missing_field, capacity_exceeded; unsupported for a program that no rank
///         could compute
template <ModelArchitecture Arch>
[[nodiscard]] constexpr Result<Model> describe(ModelConfig config) {
    static_assert(count_own(Arch::fields) <= OwnNumbers::capacity, "a family has at most eight numbers of its own");
    set_own_defaults(Arch::fields, config);
    if (auto const completed = Arch::complete(config); !completed) return completed.error();
    if (config.model_type.empty()) config.model_type = Arch::name;
    Model model{config, Arch::tree(config), {}, &family_of<Arch>};
    model.program = Arch::program(config, model.tree);
    for (auto const& block : model.program.blocks()) {
        if (auto const checked = model.program.body(block).check(block.module); !checked) return checked.error();
    }
    return static_cast<Model&&>(model);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
