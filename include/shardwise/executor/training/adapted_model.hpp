// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/training/training_program.hpp>
#include <shardwise/model/architecture.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Copies a model's tree and program with the halves of an adapter in them.
class AdaptedModelBuilder {
public:
    explicit AdaptedModelBuilder(TrainingProgram const& program)
        : model_(program.model()), layout_(program.layout()), adapter_(layout_.adapter()) {
        for (auto const& half : adapter_.halves()) {
            auto const module = half.weight.substr(0, half.weight.rfind('.'));
            halves_[module].push_back(&half);
        }
    }

    [[nodiscard]] Model build() {
        Model out{model_.config, {}, {}, model_.family};
        if (!model_.tree.modules().empty()) tree_.set_root(copy(model_.tree.root(), {}));
        for (auto const& tie : model_.tree.ties()) tree_.tie(tie.first, tie.other);
        for (auto const& name : model_.tree.no_split_classes()) tree_.keep_whole(name);
        out.tree = std::move(tree_);
        List<Block> blocks;
        for (auto block : model_.program.blocks()) {
            block.body = add_body(out.program, block);
            blocks.push_back(block);
        }
        out.program.replace_blocks(std::move(blocks));
        return out;
    }

private:
    [[nodiscard]] static std::string joined(std::string const& path, std::string_view name) {
        return path.empty() ? std::string(name) : path + "." + std::string(name);
    }

    ModuleId copy(ModuleId id, std::string const& path) {
        auto const& module = model_.tree.module(id);
        List<Tensor> tensors;
        for (std::uint32_t i = 0; i < module.tensor_count; ++i) {
            tensors.push_back(model_.tree.tensor(module, i));
            hold(tensors.back(), path);
        }
        if (auto const found = halves_.find(path); found != halves_.end()) {
            for (auto const* const half : found->second) tensors.push_back(in_tree(*half));
        }
        List<Child> children;
        for (std::uint32_t i = 0; i < module.child_count; ++i) {
            auto child = model_.tree.child(module, i);
            if (!child.name.empty()) {
                child.module = copy(child.module, joined(path, child.name));
                children.push_back(child);
                continue;
            }
            // Layers of a run may be held differently.
            auto const first = children.size();
            auto const run = child;
            for (std::int32_t k = run.first; k < run.first + run.count; ++k) {
                auto const copied = copy(run.module, joined(path, std::to_string(k)));
                if (children.size() > first && children.back().module == copied) {
                    ++children.back().count;
                    continue;
                }
                children.push_back({{}, copied, run.role, k, 1});
            }
        }
        return intern(module.class_name, tensors, children);
    }

    /// A body that is known already, or a new one.
    ModuleId intern(std::string_view class_name, List<Tensor> const& tensors, List<Child> const& children) {
        for (std::size_t id = 0; id < tree_.modules().size(); ++id) {
            auto const& known = tree_.modules()[id];
            if (known.class_name != class_name || known.tensor_count != tensors.size() ||
                known.child_count != children.size())
                continue;
            bool is_same = true;
            for (std::uint32_t i = 0; i < known.tensor_count; ++i)
                is_same = is_same && tree_.tensor(known, i) == tensors[i];
            for (std::uint32_t i = 0; i < known.child_count; ++i)
                is_same = is_same && tree_.child(known, i) == children[i];
            if (is_same) return static_cast<ModuleId>(id);
        }
        return tree_.add(class_name, {tensors.data(), tensors.size()}, {children.data(), children.size()});
    }

    /// What the base holds of a parameter: the bytes of its own format, or fp32.
    void hold(Tensor& tensor, std::string const& path) const {
        if (!tensor.is_parameter()) return;
        auto const place = layout_.find(joined(path, tensor.name));
        bool const is_held = place && place->is_frozen && layout_.at(*place).held;
        tensor.stored_bytes = is_held ? layout_.at(*place).held->bytes : 4 * tensor.shape.elements();
        tensor.stored_block = 1;
    }

    /// A half as ranks share it: with the product's inputs A, with its outputs B; whole where those are.
    [[nodiscard]] static Tensor in_tree(TrainedAdapter::Half const& half) {
        auto out = half.tensor;
        auto const inputs = half.is_base_transposed ? 0 : 1;
        bool const is_of_inputs = out.shard.dim == inputs;
        out.name = half.is_a ? "lora_A.weight" : "lora_B.weight";
        out.stored_block = 1;
        if (half.is_a == is_of_inputs)
            out.shard.dim = half.is_a ? 1 : 0;
        else
            out.shard = {};
        return out;
    }

    std::int32_t add_body(BlockProgram& program, Block const& block) {
        auto body = adapter_.with_halves(model_.program.body(block), block);
        for (auto const& [from, made] : bodies_) {
            if (from == block.body && is_same(program.bodies()[static_cast<std::size_t>(made)], body)) return made;
        }
        auto const made = program.add(std::move(body));
        bodies_.emplace_back(block.body, made);
        return made;
    }
    /// Of bodies that were made of one.
    [[nodiscard]] static bool is_same(BlockBody const& one, BlockBody const& other) {
        if (one.operations().size() != other.operations().size()) return false;
        for (std::size_t i = 0; i < one.operations().size(); ++i) {
            if (one.operations()[i].parameters != other.operations()[i].parameters) return false;
        }
        return true;
    }

    Model const& model_;
    TrainingLayout const& layout_;
    TrainedAdapter const& adapter_;
    std::map<std::string, std::vector<TrainedAdapter::Half const*>, std::less<>> halves_;
    ModuleTree tree_;
    /// Which body of the model each is made of.
    std::vector<std::pair<std::int32_t, std::int32_t>> bodies_;
};

}  // namespace detail

/// A model with the adapter that a program trains as a description of its own, which estimator and plans read under
/// TrainingPlan::has_adapter: the halves are tensors of the products that they stand beside ("...q_proj.lora_A.weight"), and operations
/// after those; every other parameter has the bytes that the trainer holds of it on one rank. `program` is that of one rank that shares
/// the model with no other; it outlives the answer, and so does its model.
[[nodiscard]] inline Model adapted_model(TrainingProgram const& program) {
    return detail::AdaptedModelBuilder(program).build();
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
