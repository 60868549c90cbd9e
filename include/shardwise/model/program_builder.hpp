// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
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
        add_block(path(module), ids(), write);
    }
    /// A block that reads the hidden state that the one before it made.
    template <class Write>
    constexpr void block(std::string_view module, Write const& write) {
        add_block(path(module), hidden(), write);
    }
    /// The same for a module outside the base model, where the tree has it: the head. With Rows::sequences it reads a row for each
    /// sequence, which the block before it chose.
    template <class Write>
    constexpr void head_block(std::string_view module, Write const& write, Rows rows = Rows::tokens) {
        auto input = hidden();
        if (rows == Rows::sequences) input = Value{.name = "first", .rows = rows, .width = width_};
        add_block(module, input, write);
    }

    // clang 14 does not instantiate what a lambda of these would need in a constant expression: they open and close blocks themselves.

    /// Token ids become rows of a table, times `scale`.
    constexpr void tokens(std::string_view module, double scale = 1.0) {
        auto const at = path(module);
        auto const* const found = find_module(tree_, at);
        if (found == nullptr) return;
        auto body = open(*found, ids());
        (void)body.scale(body.embedding(body.input(), {}), scale);
        close(at, std::move(body));
    }
    /// Learned positions are added; position 0 is row `first_row`.
    constexpr void positions(std::string_view module, std::int64_t first_row = 0) {
        auto const at = path(module);
        auto const* const found = find_module(tree_, at);
        if (found == nullptr) return;
        auto body = open(*found, hidden());
        auto const numbers = body.external("ids", 1);
        (void)body.add(body.input(), body.table(numbers, TableIndex::position, {}, first_row));
        close(at, std::move(body));
    }
    constexpr void norm(std::string_view module, NormKind kind) {
        auto const at = path(module);
        auto const* const found = find_module(tree_, at);
        if (found == nullptr) return;
        auto body = open(*found, hidden());
        (void)body.norm(body.input(), kind, {});
        close(at, std::move(body));
    }
    /// Scores of the vocabulary from each sequence's last token, times `scale`, where the tree has the head.
    constexpr void head(std::string_view module, double scale = 1.0) {
        auto const* const found = find_module(tree_, module);
        if (found == nullptr) return;
        auto body = open(*found, hidden());
        // The product is linear: a factor of the logits is one of its input, which is shorter.
        (void)body.logits(body.scale(body.last_token(body.input()), scale), {});
        close(module, std::move(body));
    }
    /// One linear layer of every row, where the tree has it.
    constexpr void linear(std::string_view module, std::string_view value) { head_linear(path(module), value); }
    /// The same for a module outside the base model: a classifier of tokens.
    constexpr void head_linear(std::string_view module, std::string_view value) {
        auto const* const found = find_module(tree_, module);
        if (found == nullptr) return;
        auto body = open(*found, hidden());
        (void)body.linear(body.input(), value, {});
        close(module, std::move(body));
    }

    /// The layers of a list, whose runs of equal modules have a body each.
    template <class Write>
    constexpr void layers(std::string_view list, Write const& write) {
        layers(list, [](std::int64_t) { return 0; }, [&](BlockBuilder& body, int) { write(body); });
    }
    /// The same where layers of equal modules compute differently: kind_of(number) says how, in a value that can be compared, and
    /// write(body, kind) writes each kind's body once.
    template <class KindOf, class Write>
    constexpr void layers(std::string_view list, KindOf const& kind_of, Write const& write) {
        using Kind = decltype(kind_of(std::int64_t{0}));
        struct Written {
            ModuleId module;
            Kind kind;
            std::int32_t body;
        };
        auto const name = path(list);
        auto const* const module = find_module(tree_, name);
        if (module == nullptr) return;
        List<Written> bodies;
        for (std::uint32_t i = 0; i < module->child_count; ++i) {
            auto const& run = tree_.child(*module, i);
            auto const end = std::int64_t{run.first} + run.count;
            for (std::int64_t number = run.first; number < end;) {
                auto const kind = kind_of(number);
                auto const first = number++;
                while (number < end && kind_of(number) == kind) ++number;
                Written const* known = nullptr;
                for (auto const& one : bodies) {
                    if (one.module == run.module && one.kind == kind) known = &one;
                }
                if (known == nullptr) {
                    BlockBuilder body(program_.names(), tree_, tree_.module(run.module), hidden());
                    write(body, kind);
                    bodies.push_back({run.module, kind, add(std::move(body))});
                    known = bodies.end() - 1;
                }
                program_.append_layers(name, first, number - first, known->body);
            }
        }
    }

    /// What was written so far is an encoder, whose states the blocks of a decoder read.
    constexpr void end_encoder() { program_.end_encoder(); }

    [[nodiscard]] constexpr BlockProgram finish() && { return std::move(program_); }

private:
    [[nodiscard]] static constexpr Value ids() { return Value{.name = "ids", .width = 1}; }
    [[nodiscard]] constexpr Value hidden() const { return Value{.name = "hidden", .width = width_}; }

    /// The builder of a block, which close() takes.
    [[nodiscard]] constexpr BlockBuilder open(Module const& module, Value const& input) {
        return {program_.names(), tree_, module, input};
    }
    constexpr std::int32_t add(BlockBuilder body) {
        auto made = std::move(body).finish();
        if (!made.operations().empty())
            width_ = made.values()[static_cast<std::size_t>(made.operations().back().output)].width;
        return program_.add(std::move(made));
    }
    constexpr void close(std::string_view module, BlockBuilder body) {
        program_.append(role_of(module), module, add(std::move(body)));
    }
    template <class Write>
    constexpr void add_block(std::string_view module, Value const& input, Write const& write) {
        auto const* const found = find_module(tree_, module);
        if (found == nullptr) return;
        auto body = open(*found, input);
        write(body);
        close(module, std::move(body));
    }
    /// The role that the tree gives to the module of a path, or else to the innermost module around it that has one.
    [[nodiscard]] constexpr ModuleRole role_of(std::string_view module) const {
        auto role = ModuleRole::none;
        auto const* at = &tree_.module(tree_.root());
        while (!module.empty()) {
            auto const dot = module.find('.');
            auto const* const child = find_child(tree_, *at, module.substr(0, dot));
            if (child == nullptr) break;
            if (child->role != ModuleRole::none) role = child->role;
            at = &tree_.module(child->module);
            module = dot == std::string_view::npos ? std::string_view{} : module.substr(dot + 1);
        }
        return role;
    }

    ModuleTree const& tree_;
    std::string_view base_;
    BlockProgram program_;
    /// Of the hidden state that the last block made.
    std::int64_t width_ = 0;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
