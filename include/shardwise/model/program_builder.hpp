// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/block_builder.hpp>

#include <cstdint>
#include <string_view>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Writes a model's blocks in the order in which they run, over the modules of its tree: paths and roles of blocks, and the width that
/// each reads, follow.
///
/// Example  ProgramBuilder program(tree, "transformer");
///          program.tokens("wte");
///          program.layers("h", [](BlockBuilder& body) { (void)body.layer_norm(body.input(), "ln_1"); });
///          return std::move(program).finish();
class ProgramBuilder {
public:
    /// `base` is what the tree calls the model without its head, where it has one; other paths are relative to it. The tree outlives
    /// this.
    constexpr explicit ProgramBuilder(ModuleTree const& tree, std::string_view base = {}) : tree_(tree) {
        if (!base.empty() && find_module(tree, base) != nullptr) base_ = base;
    }

    /// The path of a module of the base model.
    [[nodiscard]] constexpr std::string_view path(std::string_view module) {
        return base_.empty() ? module : program_.names().join(base_, ".", module);
    }
    [[nodiscard]] constexpr bool has(std::string_view module) { return find_module(tree_, path(module)) != nullptr; }

    /// A block that reads token ids; write(body) writes it.
    template <class Write>
    constexpr void ids_block(std::string_view module, Write const& write) {
        add_block(path(module), Value{.name = "ids", .width = 1}, write);
    }
    /// A block that reads the hidden state that the one before it made.
    template <class Write>
    constexpr void block(std::string_view module, Write const& write) {
        add_block(path(module), hidden(), write);
    }
    /// The same for a module beside the base model, where the tree has it: the head.
    template <class Write>
    constexpr void head_block(std::string_view module, Write const& write) {
        if (find_module(tree_, module) != nullptr) add_block(module, hidden(), write);
    }

    /// Token ids become rows of a table.
    constexpr void tokens(std::string_view module) {
        ids_block(module, [](BlockBuilder& body) { (void)body.embedding(body.input(), {}); });
    }
    /// Learned positions are added; position 0 is row `first_row`.
    constexpr void positions(std::string_view module, std::int64_t first_row = 0) {
        block(module, [&](BlockBuilder& body) {
            auto const ids = body.external("ids", 1);
            (void)body.add(body.input(), body.table(ids, TableIndex::position, {}, first_row));
        });
    }
    constexpr void norm(std::string_view module, NormKind kind) {
        block(module, [&](BlockBuilder& body) { (void)body.norm(body.input(), kind, {}); });
    }
    /// Scores of the vocabulary from each sequence's last token, where the tree has the head.
    constexpr void head(std::string_view module) {
        head_block(module, [](BlockBuilder& body) { (void)body.logits(body.last_token(body.input()), {}); });
    }

    /// The layers of a list, whose runs of equal modules have a body each.
    template <class Write>
    constexpr void layers(std::string_view list, Write const& write) {
        auto const name = path(list);
        auto const* const module = find_module(tree_, name);
        if (module == nullptr) return;
        for (std::uint32_t i = 0; i < module->child_count; ++i) {
            auto const& run = tree_.child(*module, i);
            program_.append_layers(name, run.first, run.count, add_body(tree_.module(run.module), hidden(), write));
        }
    }

    [[nodiscard]] constexpr BlockProgram finish() && { return std::move(program_); }

private:
    [[nodiscard]] constexpr Value hidden() const { return Value{.name = "hidden", .width = width_}; }

    template <class Write>
    constexpr std::int32_t add_body(Module const& module, Value const& input, Write const& write) {
        BlockBuilder body(program_.names(), tree_, module, input);
        write(body);
        auto made = std::move(body).finish();
        if (!made.operations().empty())
            width_ = made.values()[static_cast<std::size_t>(made.operations().back().output)].width;
        return program_.add(std::move(made));
    }
    template <class Write>
    constexpr void add_block(std::string_view module, Value const& input, Write const& write) {
        auto const* const found = find_module(tree_, module);
        if (found == nullptr) return;
        program_.append(role_of(module), module, add_body(*found, input, write));
    }
    /// The role that the tree gives to the module of a path.
    [[nodiscard]] constexpr ModuleRole role_of(std::string_view module) const {
        auto const dot = module.rfind('.');
        bool const is_top = dot == std::string_view::npos;
        auto const* const owner = find_module(tree_, is_top ? std::string_view{} : module.substr(0, dot));
        auto const* const child = find_child(tree_, *owner, is_top ? module : module.substr(dot + 1));
        return child == nullptr ? ModuleRole::none : child->role;
    }

    ModuleTree const& tree_;
    std::string_view base_;
    BlockProgram program_;
    /// Of the hidden state that the last block made.
    std::int64_t width_ = 0;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
