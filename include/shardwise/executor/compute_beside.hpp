// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/adapter.hpp>
#include <shardwise/executor/held_format.hpp>
#include <shardwise/executor/load_options.hpp>
#include <shardwise/executor/parameter_name.hpp>
#include <shardwise/executor/stored_parameters.hpp>
#include <shardwise/executor/stored_rows.hpp>
#include <shardwise/model/architecture.hpp>
#include <shardwise/model/block_path.hpp>
#include <shardwise/model/low_rank_operations.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Rewrites the blocks of a model whose products stay packed.
class BesideWriter {
public:
    BesideWriter(Adapter& adapter, Model& model, StoredParameters const& stored, LoadOptions const& options)
        : adapter_(adapter), model_(model), stored_(stored), options_(options) {}

    [[nodiscard]] Result<> write() {
        auto& program = model_.program;
        List<Block> blocks;
        auto const put = [&blocks](Block const& block) {
            bool const continues = !blocks.empty() && blocks.back().is_numbered && block.is_numbered &&
                                   blocks.back().body == block.body && blocks.back().module == block.module &&
                                   blocks.back().first + blocks.back().count == block.first;
            if (continues)
                blocks.back().count += block.count;
            else
                blocks.push_back(block);
        };
        for (auto const& block : program.blocks()) {
            for (std::int32_t i = 0; i < block.count; ++i) {
                auto one = block;
                one.first = block.first + i;
                one.count = 1;
                auto const found = find(one);
                if (!found) return found.error();
                if (!found->empty()) one.body = body_with(one, *found);
                put(one);
            }
        }
        program.replace_blocks(std::move(blocks));
        for (auto const& name : products_) adapter_.keep_beside(name, model_);
        return {};
    }

private:
    /// A product by its operation's number, with what its halves are.
    struct Beside {
        std::size_t operation = 0;
        std::int64_t rank = 0;
        double scale = 1.0;

        friend auto operator<=>(Beside const&, Beside const&) = default;
    };

    [[nodiscard]] Result<std::vector<Beside>> find(Block const& block) {
        std::vector<Beside> out;
        auto const prefix = block_path(block, 0);
        auto const& body = model_.program.body(block);
        for (std::size_t i = 0; i < body.operations().size(); ++i) {
            auto const& op = body.operations()[i];
            if (op.kind != OpKind::linear) continue;
            auto name = parameter_name(prefix, op.parameters[0], 0);
            auto const* const delta = adapter_.delta(name);
            if (delta == nullptr) continue;
            auto const found = stored_.find(name);
            if (!found) return found.error();
            auto const held = held_format(*found, model_, options_);
            if (!held) return held.error();
            auto const& to = traits(held->format);
            bool const is_float = to.block_elements == 1 && to.scales == ScalePlace::none;
            if (!stored_.is_gguf() && (is_float || options_.quant)) continue;
            bool const is_head = block.role == ModuleRole::head && op.out_features == model_.config.vocab_size;
            bool const is_latent = attention_that_expands(op.output, body) != nullptr;
            if (is_head || is_latent || op.parameters[0].starts_with('/'))
                return Error{ErrorCode::unsupported}
                    .in(name)
                    .because(is_head     ? "is the head of a packed model, which has no adapter yet"
                             : is_latent ? "expands the latent of an attention, which has no adapter beside it yet"
                                         : "is packed and shared by blocks, which has no adapter yet")
                    .fix("give the checkpoint in float weights that the adapter was trained on");
            out.push_back({i, delta->rank(), delta->scale});
            products_.push_back(std::move(name));
        }
        return out;
    }
    [[nodiscard]] std::int32_t body_with(Block const& block, std::vector<Beside> const& besides) {
        auto const key = std::pair{block.body, besides};
        if (auto const known = bodies_.find(key); known != bodies_.end()) return known->second;
        auto& program = model_.program;
        auto const& body = program.body(block);
        BlockBody out(body.values()[0]);
        for (std::size_t i = 1; i < body.values().size(); ++i) (void)out.value(body.values()[i]);
        auto next = besides.begin();
        for (std::size_t i = 0; i < body.operations().size(); ++i) {
            auto const& op = body.operations()[i];
            (void)out.append(op);
            if (next == besides.end() || next->operation != i) continue;
            auto const module = op.parameters[0].substr(0, op.parameters[0].rfind('.'));
            // Of a sum over ranks both halves' products are whole once the first is.
            auto const spread = body.values()[static_cast<std::size_t>(op.output)].spread;
            bool const is_summed = spread == Spread::partial;
            append_low_rank(out, body, op,
                            {.rank = next->rank,
                             .scale = next->scale,
                             .a = program.names().join(module, ".lora_A.weight"),
                             .b = program.names().join(module, ".lora_B.weight"),
                             .low = is_summed ? Spread::partial : Spread::replicated,
                             .high = is_summed ? Spread::replicated : spread});
            ++next;
        }
        auto const number = program.add(std::move(out));
        bodies_.emplace(key, number);
        return number;
    }

    Adapter& adapter_;
    Model& model_;
    StoredParameters const& stored_;
    LoadOptions const& options_;
    std::vector<std::string> products_;
    std::map<std::pair<std::int32_t, std::vector<Beside>>, std::int32_t> bodies_;
};

}  // namespace detail

/// Has those products of an adapter computed beside the weights that it cannot be merged into: of weights that stay packed, where what it
/// adds is below a block's rounding, and of GGUF files, whose rows lie in another order. `model` is that of `stored`; its program has
/// operations for the halves afterwards, and its weights with their names stay.
///
/// Memory  the halves, as their file has them
/// Errors  unsupported for a head and for latent attention that stay packed; as StoredParameters::find and held_format
[[nodiscard]] inline Result<> compute_beside(Adapter& adapter, Model& model, StoredParameters const& stored,
                                             LoadOptions const& options) {
    return detail::BesideWriter(adapter, model, stored, options).write();
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
