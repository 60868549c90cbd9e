// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/model/architecture.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// One line of transformers' `tp_plan`: how the ranks share a module.
struct TpPlanEntry {
    /// A full name, each number of a run as an asterisk: "model.layers.*.self_attn.q_proj".
    std::string name;
    /// One of transformers' styles: "colwise", "rowwise", ...
    std::string_view style;
};

namespace detail {

/// Writes the plan of one tree.
class TpPlanWriter {
public:
    explicit TpPlanWriter(ModuleTree const& tree) : tree_(tree) {}

    List<TpPlanEntry> run() {
        if (!tree_.modules().empty()) visit(tree_.root(), {});
        // Its weights lie the other way round, and transformers has no style for that.
        if (has_transposed_) entries_.clear();
        return std::move(entries_);
    }

private:
    static bool is_packed(ShardRule const& rule) {
        return rule.kind == ShardKind::packed_parts || (rule.kind == ShardKind::packed_qkv && !rule.is_grouped);
    }

    template <class Holds>
    bool any_tensor(Module const& module, Holds holds) const {
        for (std::uint32_t i = 0; i < module.tensor_count; ++i) {
            if (holds(tree_.tensor(module, i))) return true;
        }
        return false;
    }

    /// True where a child's product makes several things at once, which ranks cannot cut evenly: its output is gathered.
    bool has_packed_child(Module const& module) const {
        for (std::uint32_t i = 0; i < module.child_count; ++i) {
            auto const& child = tree_.module(tree_.child(module, i).module);
            if (any_tensor(child,
                           [](Tensor const& tensor) { return tensor.shape.rank() == 2 && is_packed(tensor.shard); }))
                return true;
        }
        return false;
    }
    bool has_stacked_child(Module const& module) const {
        for (std::uint32_t i = 0; i < module.child_count; ++i) {
            auto const& child = tree_.module(tree_.child(module, i).module);
            if (any_tensor(child, [](Tensor const& tensor) { return tensor.shard.experts > 0; })) return true;
        }
        return false;
    }

    /// transformers cuts no heads that share a convolution (qwen3_next): every rank computes such a module whole.
    bool has_convolution(Module const& module) const {
        for (std::uint32_t i = 0; i < module.child_count; ++i) {
            if (tree_.module(tree_.child(module, i).module).class_name == "Conv1d") return true;
        }
        return false;
    }

    /// The style of a product; empty where every rank computes all of it.
    std::string_view style_of(Module const& module, Module const& parent) const {
        for (std::uint32_t i = 0; i < module.tensor_count; ++i) {
            auto const& tensor = tree_.tensor(module, i);
            if (tensor.use == TensorUse::router && has_stacked_child(parent)) return "ep_router";
            bool const is_weight = is_product(tensor.use) || tensor.use == TensorUse::head;
            if (!is_weight || tensor.shape.rank() != 2 || tensor.shard.kind == ShardKind::replicated) continue;
            bool const is_column = tensor.shard.dim == 0;
            if (tensor.use == TensorUse::head || is_packed(tensor.shard))
                return is_column ? "colwise_rep" : "rowwise_rep";
            if (is_column) return "colwise";
            return has_packed_child(parent) ? "rowwise_rep" : "rowwise";
        }
        return {};
    }

    void add(std::string const& name, std::string_view style) {
        for (auto const& entry : entries_) {
            if (entry.name == name) return;
        }
        entries_.push_back({name, style});
    }

    void visit(ModuleId id, std::string const& path) {
        auto const& module = tree_.module(id);
        for (std::uint32_t i = 0; i < module.tensor_count; ++i) {
            auto const& tensor = tree_.tensor(module, i);
            if (tensor.shard.kind == ShardKind::replicated && tensor.shard.experts == 0) continue;
            if (module.class_name == "Conv1D") has_transposed_ = true;
            if (tensor.shard.experts > 0) {
                add(path, "gather");
                add(path + "." + std::string(tensor.name), "grouped_gemm");
            } else if (module.child_count > 0 && tensor.shape.rank() == 1 && tensor.use == TensorUse::other) {
                add(path + "." + std::string(tensor.name), "local_rowwise");
            }
        }
        for (std::uint32_t i = 0; i < module.child_count; ++i) {
            auto const& child = tree_.child(module, i);
            if (child.count < 1 || has_convolution(tree_.module(child.module))) continue;
            auto const name = child.name.empty() ? std::string("*") : std::string(child.name);
            auto const inner = path.empty() ? name : path + "." + name;
            if (auto const style = style_of(tree_.module(child.module), module); !style.empty()) add(inner, style);
            visit(child.module, inner);
        }
    }

    ModuleTree const& tree_;
    List<TpPlanEntry> entries_;
    bool has_transposed_ = false;
};

}  // namespace detail

/// The model's `tp_plan` as transformers takes it, with the styles that transformers 4.57 knows: products cut by columns and
/// by rows, packed ones gathered, stacked experts sharded. Embeddings, norms and routers are whole on every rank there.
/// Empty for families whose weights transformers cannot cut (gpt2's Conv1D).
[[nodiscard]] inline List<TpPlanEntry> tp_plan_of(Model const& model) {
    return detail::TpPlanWriter(model.tree).run();
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
