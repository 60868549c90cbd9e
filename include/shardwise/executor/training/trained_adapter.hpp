// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/core/text.hpp>
#include <shardwise/executor/adapter.hpp>
#include <shardwise/executor/parameter_name.hpp>
#include <shardwise/executor/training/held_base.hpp>
#include <shardwise/model/architecture.hpp>
#include <shardwise/model/block_path.hpp>
#include <shardwise/model/low_rank_operations.hpp>
#include <shardwise/model/walk.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A low-rank adapter that is trained instead of the model's own weights.
struct LowRankOptions {
    /// 0: there is none.
    std::int64_t rank = 0;
    /// The product of the halves is scaled by alpha / rank.
    double alpha = 8.0;
    /// Products, by their modules' names or the ends of them; empty: all of the layers.
    std::vector<std::string> targets{};
    /// The share of elements that dropout makes 0 in the input of A, in training alone; each product drops its own.
    double dropout = 0.0;
    /// What of the base is held in a format of its own: held_products.
    HeldProducts held{};
};

/// Which products of a model a trained adapter changes, and their halves: with A [rank, inputs] and B [outputs, rank] beside a weight W,
/// which stays as it is, out = W in + alpha / rank * B A in.
///
/// Source  Hu et al., LoRA: Low-Rank Adaptation of Large Language Models, 2021
class TrainedAdapter {
public:
    /// Changes nothing: all weights are trained.
    TrainedAdapter() = default;

    /// `model` outlives this, and its copies.
    ///
    /// Errors  invalid_argument for a rank or an alpha that is not positive, and for a dropout below 0 or of 1 and more; unknown_name for a
    ///         target that is no product, with the nearest; unsupported for the head, for tables and for some of a run of layers
    [[nodiscard]] static Result<TrainedAdapter> create(Model const& model, LowRankOptions const& options) {
        TrainedAdapter out;
        out.options_ = options;
        if (options.rank == 0) return out;
        if (auto const checked = check(options); !checked) return checked.error();
        out.storage_ = std::make_shared<Storage>();
        std::map<std::string, Tensor const*, std::less<>> tensors;
        walk_tensors(model.tree, [&](std::string_view name, Tensor const& tensor) {
            if (tensor.is_parameter()) tensors.emplace(name, &tensor);
        });
        std::vector<char> is_met(options.targets.size(), char{0});
        for (auto const& block : model.program.blocks()) {
            for (auto const& op : model.program.body(block).operations()) {
                auto const added = out.add(model, block, op, tensors, is_met);
                if (!added) return added.error();
            }
        }
        for (std::size_t i = 0; i < is_met.size(); ++i) {
            if (is_met[i] == 0) return out.unmet(model, options.targets[i]);
        }
        if (out.halves().empty())
            return Error{ErrorCode::unsupported}.in(subject).because("finds no product in the model's layers");
        return out;
    }

    /// One half of a product's adapter.
    struct Half {
        /// As the model's tree would have it: "model.layers.0.self_attn.q_proj.lora_A.weight".
        std::string name;
        Tensor tensor;
        bool is_a = false;
        /// Of the product's own weight, and whether the base has it as [inputs, outputs].
        std::string weight;
        bool is_base_transposed = false;
    };

    [[nodiscard]] bool empty() const { return storage_ == nullptr; }
    [[nodiscard]] LowRankOptions const& options() const { return options_; }
    /// Of each product A, then B, in the order in which the model computes them.
    [[nodiscard]] std::deque<Half> const& halves() const {
        static std::deque<Half> const none;
        return storage_ == nullptr ? none : storage_->halves;
    }
    /// The last parts of the modules' names, each once: what PEFT calls target_modules.
    [[nodiscard]] std::vector<std::string> const& modules() const { return modules_; }
    /// True where the base has weights as [inputs, outputs].
    [[nodiscard]] bool is_turned() const { return is_turned_; }

    /// A block's computation with the halves: before each product dropout of its input, where there is any, and behind it A, the scale, B
    /// and a sum.
    [[nodiscard]] BlockBody with_halves(BlockBody const& body, Block const& block) const {
        if (empty()) return body;
        BlockBody out(body.values()[0]);
        for (std::size_t i = 1; i < body.values().size(); ++i) (void)out.value(body.values()[i]);
        for (auto const& op : body.operations()) {
            auto const name = detail::parameter_name(block_path(block, 0), op.parameters[0], 0);
            bool const has_halves = op.kind == OpKind::linear && storage_->weights.count(name) > 0;
            auto in = op.inputs[0];
            // Before the product, so that ranks that cut its input cut what is left of it alike.
            if (has_halves && options_.dropout > 0.0) in = append_low_rank_dropout(out, in);
            (void)out.append(op);
            if (!has_halves) continue;
            auto const module = op.parameters[0].substr(0, op.parameters[0].rfind('.'));
            auto const spread = body.values()[static_cast<std::size_t>(op.output)].spread;
            append_low_rank(out, body, op,
                            {.rank = options_.rank,
                             .scale = options_.alpha / static_cast<double>(options_.rank),
                             .a = *storage_->names.find(std::string(module) + ".lora_A.weight"),
                             .b = *storage_->names.find(std::string(module) + ".lora_B.weight"),
                             .high = spread,
                             .in = in});
        }
        return out;
    }

private:
    static constexpr std::string_view subject = "low-rank adapter";

    struct Storage {
        std::deque<Half> halves;
        /// The weights that have halves.
        std::map<std::string, bool, std::less<>> weights;
        /// The halves' names in their blocks, which operations refer to: made once, since copies on several threads share them.
        std::set<std::string, std::less<>> names;
    };

    [[nodiscard]] static Result<> check(LowRankOptions const& options) {
        Error bad{ErrorCode::invalid_argument};
        bad.in(subject);
        constexpr std::int64_t most = std::int64_t{1} << 20U;
        if (options.rank < 1 || options.rank > most) return bad.at("rank").got(options.rank).between(1, most);
        if (!(options.alpha > 0.0 && options.alpha < 1e9)) return bad.at("alpha").because("is no positive number");
        if (options.dropout >= 0.0 && static_cast<float>(options.dropout) < 1.0F) return {};
        return bad.at("dropout").because("must be at least 0 and below 1");
    }
    [[nodiscard]] bool is_target(std::string_view module, Block const& block, std::vector<char>& is_met) const {
        if (options_.targets.empty()) return block.is_numbered;
        bool is_any = false;
        for (std::size_t i = 0; i < options_.targets.size(); ++i) {
            if (!AdapterConfig::matches(module, options_.targets[i])) continue;
            is_met[i] = 1;
            is_any = true;
        }
        return is_any;
    }
    [[nodiscard]] Result<> add(Model const& model, Block const& block, Operation const& op,
                               std::map<std::string, Tensor const*, std::less<>> const& tensors,
                               std::vector<char>& is_met) {
        bool const is_adapted = op.kind == OpKind::linear || op.kind == OpKind::experts || op.kind == OpKind::embedding;
        if (!is_adapted || (op.kind != OpKind::linear && options_.targets.empty())) return {};
        std::int32_t count = 0;
        std::string last;
        for (std::int32_t layer = 0; layer < block.count; ++layer) {
            auto const weight = detail::parameter_name(block_path(block, layer), op.parameters[0], 0);
            auto const module = weight.substr(0, weight.rfind('.'));
            if (!is_target(module, block, is_met)) continue;
            ++count;
            last = module;
            if (op.kind != OpKind::linear) continue;
            auto const found = tensors.find(weight);
            bool const is_head = op.out_features == model.config.vocab_size && block.role == ModuleRole::head;
            if (found == tensors.end() || op.parameters[0].starts_with('/') || is_head) {
                return Error{ErrorCode::unsupported}.in(module).because(
                    is_head ? "is the head, whose product is fused with the loss: it has no adapter yet"
                            : "shares its weight with other modules, which have no adapter yet");
            }
            put(module, weight, *found->second, op);
        }
        if (count > 0 && op.kind != OpKind::linear)
            return Error{ErrorCode::unsupported}.in(last).because("is no product of all tokens: it has no adapter yet");
        if (count == 0 || count == block.count) return {};
        return Error{ErrorCode::unsupported}
            .in(last)
            .because("is adapted in some layers alone, and layers that compute alike are trained alike")
            .fix("name the module without its layer");
    }
    void put(std::string const& module, std::string const& weight, Tensor const& base, Operation const& op) {
        storage_->weights.emplace(weight, true);
        auto const in_block = std::string(op.parameters[0].substr(0, op.parameters[0].rfind('.')));
        storage_->names.insert(in_block + ".lora_A.weight");
        storage_->names.insert(in_block + ".lora_B.weight");
        auto const half = [&](bool is_a) {
            auto& made = storage_->halves.emplace_back();
            made.name = module + (is_a ? ".lora_A.weight" : ".lora_B.weight");
            made.is_a = is_a;
            made.weight = weight;
            made.is_base_transposed = base.is_transposed;
            made.tensor = base;
            made.tensor.name = "weight";
            made.tensor.dtype = Dtype::f32;
            made.tensor.is_transposed = false;
            made.tensor.stored_bytes = -1;
            made.tensor.shape = is_a ? Shape{options_.rank, op.in_features} : Shape{op.out_features, options_.rank};
        };
        half(true);
        half(false);
        is_turned_ = is_turned_ || base.is_transposed;
        auto const last = module.substr(module.rfind('.') + 1);
        for (auto const& known : modules_) {
            if (known == last) return;
        }
        modules_.push_back(last);
    }
    [[nodiscard]] Error unmet(Model const& model, std::string const& target) const {
        ClosestName closest(target);
        std::vector<std::string> names;
        for (auto const& block : model.program.blocks()) {
            for (auto const& op : model.program.body(block).operations()) {
                if (op.kind != OpKind::linear || !block.is_numbered) continue;
                auto const module = op.parameters[0].substr(0, op.parameters[0].rfind('.'));
                names.emplace_back(module.substr(module.rfind('.') + 1));
            }
        }
        for (auto const& name : names) closest.offer(name);
        Error error{ErrorCode::unknown_name};
        error.in(subject).at(target).because("is no module of the model");
        if (!closest.best().empty()) error.fix("did you mean " + std::string(closest.best()) + "?");
        return error;
    }

    LowRankOptions options_;
    std::shared_ptr<Storage> storage_;
    std::vector<std::string> modules_;
    bool is_turned_ = false;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
