// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/model/module_tree.hpp>
#include <shardwise/model/name_arena.hpp>
#include <shardwise/op/operation.hpp>

#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The operations of one kind of block in order, over values of its own. Value 0 is what the block reads (token ids for an
/// embedding, the hidden state elsewhere); the last operation's output is what it hands on.
class BlockBody {
public:
    constexpr BlockBody() = default;
    constexpr explicit BlockBody(Value input) { values_.push_back(input); }

    /// Declares a value that an operation will make.
    constexpr ValueId value(Value value) {
        values_.push_back(value);
        return static_cast<ValueId>(values_.size() - 1);
    }
    /// Appends an operation and returns its output, so that calls nest as the formulas do.
    constexpr ValueId append(Operation const& operation) {
        operations_.push_back(operation);
        return operation.output;
    }

    /// Notes what no rank could compute; the first note stays, and `describe` and the executor refuse the body with it.
    constexpr void refuse(std::string_view parameter, std::string_view reason) {
        if (!refusal_.empty()) return;
        refused_ = parameter;
        refusal_ = reason;
    }
    /// Errors  unsupported for what was refused
    [[nodiscard]] constexpr Result<> check(std::string_view module) const {
        if (refusal_.empty()) return {};
        return Error{ErrorCode::unsupported}.in(module).at(refused_).because(refusal_);
    }

    /// How files store the rows of the weight of the product that makes a value, where one does.
    constexpr void store_heads(ValueId made, StoredHeads const& heads) {
        for (auto& op : operations_) {
            if (op.kind == OpKind::linear && op.output == made) op.details = heads;
        }
    }
    /// How ranks share a value, where its columns lie in another order than the outputs of the weight that makes it.
    constexpr void share(ValueId made, UnitSplit const& split) { values_[static_cast<std::size_t>(made)].split = split; }

    [[nodiscard]] constexpr List<Value> const& values() const { return values_; }
    [[nodiscard]] constexpr List<Operation> const& operations() const { return operations_; }

private:
    List<Value> values_;
    List<Operation> operations_;
    std::string_view refused_;
    std::string_view refusal_;
};

/// A place in the program: one block, or a run of repeated layers that all execute `body`.
struct Block {
    ModuleRole role = ModuleRole::layer;
    /// The module whose parameters the operations name: the full path for a single block ("lm_head"; empty: the root), the
    /// list of layers for a run ("model.layers"): layer i is "<module>.<first + i>".
    std::string_view module;
    std::int32_t first = 0;
    std::int32_t count = 1;
    std::int32_t body = 0;
    /// True for a run of numbered layers, also of length 1.
    bool is_numbered = false;
    /// True of an encoder's whose states a decoder reads: it runs once for a sequence, over all of its source.
    bool is_encoder = false;
};

/// A model's computation: bodies once, blocks in execution order as runs. Move-only: names may live in its own arena.
class BlockProgram {
public:
    constexpr std::int32_t add(BlockBody body) {
        bodies_.push_back(static_cast<BlockBody&&>(body));
        return static_cast<std::int32_t>(bodies_.size() - 1);
    }
    /// Appends a single block.
    constexpr void append(ModuleRole role, std::string_view module, std::int32_t body) {
        blocks_.push_back({role, module, 0, 1, body, false});
    }
    /// Appends one numbered layer; joins the run before it where that continues with the same body.
    constexpr void append_layer(std::string_view module, std::int64_t number, std::int32_t body) {
        if (!blocks_.empty()) {
            auto& last = blocks_.back();
            if (last.is_numbered && last.body == body && last.module == module && last.first + last.count == number) {
                ++last.count;
                return;
            }
        }
        blocks_.push_back({ModuleRole::layer, module, static_cast<std::int32_t>(number), 1, body, true});
    }
    /// Appends a run of layers.
    constexpr void append_layers(std::string_view module, std::int64_t first, std::int64_t count, std::int32_t body) {
        if (count <= 0) return;
        blocks_.push_back({ModuleRole::layer, module, static_cast<std::int32_t>(first),
                           static_cast<std::int32_t>(count), body, true});
    }

    /// The blocks so far are an encoder's, and those that follow the decoder's.
    constexpr void end_encoder() {
        for (auto& block : blocks_) block.is_encoder = true;
    }
    /// Puts others in the place of all blocks; bodies stay.
    constexpr void replace_blocks(List<Block> blocks) { blocks_ = static_cast<List<Block>&&>(blocks); }

    /// Where names that no literal holds are kept.
    constexpr NameArena& names() { return names_; }
    [[nodiscard]] constexpr List<Block> const& blocks() const { return blocks_; }
    [[nodiscard]] constexpr List<BlockBody> const& bodies() const { return bodies_; }
    [[nodiscard]] constexpr BlockBody const& body(Block const& block) const {
        return bodies_[static_cast<std::size_t>(block.body)];
    }
    /// True where a decoder reads what an encoder makes of a source.
    [[nodiscard]] constexpr bool has_encoder() const { return !blocks_.empty() && blocks_[0].is_encoder; }
    /// Blocks in all, each layer of a run for itself.
    [[nodiscard]] constexpr std::int64_t count() const {
        std::int64_t sum = 0;
        for (auto const& block : blocks_) sum += block.count;
        return sum;
    }
    /// The numbers of layers are below this, in the longest of its lists.
    [[nodiscard]] constexpr std::int64_t layers() const {
        std::int64_t end = 0;
        for (auto const& block : blocks_) {
            if (block.is_numbered && block.first + block.count > end) end = block.first + block.count;
        }
        return end;
    }

private:
    NameArena names_;
    List<BlockBody> bodies_;
    List<Block> blocks_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
