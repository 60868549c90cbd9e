// SPDX-License-Identifier: Apache-2.0
#include <shardwise/executor/block_cut.hpp>
#include <shardwise/executor/held_format.hpp>
#include <shardwise/executor/predict_memory.hpp>
#include <shardwise/executor/stored_rows.hpp>
#include <shardwise/memory/estimator.hpp>
#include <shardwise/memory/part_grains.hpp>
#include <shardwise/model/find_module.hpp>
#include <shardwise/model/parameter_shard.hpp>

#include <doctest/doctest.h>

#include "../model/arch/golden_cases.hpp"
#include "pair_sample.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

/// Loading cuts weights by the values of blocks, estimates by the rules of the tree: both have to hold the same.
namespace {

using namespace shardwise;
using shardwise::testing::sampled_count;
using shardwise::testing::takes_alternative;

/// Ranges in order, those that touch as one.
std::vector<UnitRange> joined(std::vector<UnitRange> ranges) {
    std::sort(ranges.begin(), ranges.end(), [](auto const& a, auto const& b) { return a.begin < b.begin; });
    std::vector<UnitRange> out;
    for (auto const& range : ranges) {
        if (range.size() == 0) continue;
        if (!out.empty() && out.back().end >= range.begin)
            out.back().end = std::max(out.back().end, range.end);
        else
            out.push_back(range);
    }
    return out;
}

std::vector<UnitRange> shard_ranges(Tensor const& tensor, std::size_t dim, std::int64_t tp, std::int64_t rank,
                                    UnitGrain grain) {
    std::vector<UnitRange> ranges;
    ParameterShard(tensor, tp, rank, 1, 0, grain).for_each_range(dim, false, [&](UnitRange range) {
        ranges.push_back(range);
    });
    return joined(std::move(ranges));
}

std::int64_t total(std::vector<UnitRange> const& ranges) {
    std::int64_t sum = 0;
    for (auto const& range : ranges) sum += range.size();
    return sum;
}

/// Rows of a stack in which gates and ups alternate, of columns that count all gates first.
std::vector<UnitRange> alternating(std::vector<UnitRange> const& ranges, std::int64_t width) {
    std::vector<UnitRange> rows;
    for (auto const& range : ranges) {
        for (auto column = range.begin; column < range.end; ++column) {
            auto const at = column < width / 2 ? 2 * column : 2 * (column - width / 2) + 1;
            rows.push_back({at, at + 1});
        }
    }
    return rows;
}

/// What every rank loads of the weights of a body's products is its ParameterShard: `grain_of(weight)` is what loading does not part,
/// `together(weight, of_cut)` what the shard does not, of_cut being what loading said of its value.
/// `look(weight, place, outputs, inputs)` sees how much of it is loaded.
template <class Policy, class GrainOf, class Together, class Look>
std::int64_t check_body(Model const& model, BlockBody const& body, Module const& module, GrainOf const& grain_of,
                        Together const& together, Look const& look) {
    auto const& tree = model.tree;
    std::int64_t weights = 0;
    for (std::int64_t tp = 1; tp <= 8; ++tp) {
        for (std::int64_t rank = 0; rank < tp; ++rank) {
            auto const cut = detail::BlockCutter<Policy>(body, {tp, rank}, [&](Operation const& op) {
                                 return Result<WeightGrain>(grain_of(*find_parameter(tree, module, op.parameters[0])));
                             }).cut();
            // More ranks than heads are refused.
            if (!cut) continue;
            for (auto const& op : body.operations()) {
                if (op.kind != OpKind::linear && op.kind != OpKind::experts) continue;
                if (attention_that_expands(op.output, body) != nullptr) continue;
                StoredParameter stored;
                stored.tensor = find_parameter(tree, module, op.parameters[0]);
                REQUIRE(stored.tensor != nullptr);
                auto const& tensor = *stored.tensor;
                CAPTURE(op.parameters[0]);
                CAPTURE(tp);
                CAPTURE(rank);
                auto const last = tensor.shape.rank() - 1;
                auto const out_dim = tensor.is_transposed ? last : last - 1;
                auto const in_dim = tensor.is_transposed ? last - 1 : last;
                auto const& made = body.values()[static_cast<std::size_t>(op.output)];
                auto const& columns = cut->columns[static_cast<std::size_t>(op.output)];
                auto const& inputs = cut->columns[static_cast<std::size_t>(op.inputs[0])];
                ++weights;
                if (made.spread == Spread::partial) {
                    auto const grain = together(tensor, cut->grains[static_cast<std::size_t>(op.inputs[0])]);
                    CHECK(joined(inputs) == shard_ranges(tensor, in_dim, tp, rank, grain));
                    look(tensor, TensorPlace{tp, rank}, op.out_features, total(inputs));
                    continue;
                }
                auto rows = stored_rows(op, model, false, columns);
                bool const alternates = tensor.shard.experts > 0 && tensor.shard.kind == ShardKind::units &&
                                        tensor.shape[out_dim] == 2 * tensor.shard.count;
                if (alternates) rows = alternating(rows, op.out_features);
                auto const grain = together(tensor, cut->grains[static_cast<std::size_t>(op.output)]);
                CHECK(joined(rows) == shard_ranges(tensor, out_dim, tp, rank, grain));
                look(tensor, TensorPlace{tp, rank}, total(rows), op.in_features);
            }
        }
    }
    return weights;
}

/// The same of a block all of whose weights have one grain.
template <class Policy>
std::int64_t check_block(Model const& model, Block const& block, Module const& module, WeightGrain grain) {
    CAPTURE(grain.input);
    return check_body<Policy>(
        model, model.program.body(block), module, [&](Tensor const&) { return grain; },
        [](Tensor const&, UnitGrain of_cut) { return of_cut; },
        [](Tensor const&, TensorPlace, std::int64_t, std::int64_t) {});
}

/// Where a tensor of a part stands.
LayerPosition position_of(Model const& model, ModelPart const& part, Tensor const& tensor) {
    LayerPosition found;
    (void)sum_part(model, part, {}, {}, [&](Tensor const& other, LayerPosition const& at) {
        if (&tensor == &other) found = at;
        return std::int64_t{0};
    });
    return found;
}

/// The format in which loading holds a weight that the scheme packs; fp32 where it decodes it.
HeldFormat loaded_format(Tensor const& tensor, LayerPosition const& at, QuantScheme const& scheme) {
    auto const seen = detail::weight_of(tensor, at, {.quant = scheme});
    auto const mixture = detail::mixture_model(at);
    if (!packs(scheme, seen, mixture)) return {};
    auto const type = scheme.method == QuantMethod::ggml_file ? stored_type(scheme.file_type, seen, mixture)
                                                              : stored_type(scheme.type, seen);
    auto const format = scheme.is_ggml() ? weight_format(type) : weight_format(scheme.method);
    if (!format || seen.inputs() % row_multiple(*format) != 0) return {};
    return {*format, traits(*format).scales == ScalePlace::group ? scheme.group : 0};
}

/// The module of a block's first layer.
Module const& module_of(ModuleTree const& tree, Block const& block) {
    auto const* module = find_module(tree, block.module);
    REQUIRE(module != nullptr);
    for (std::uint32_t i = 0; block.is_numbered && i < module->child_count; ++i) {
        auto const& child = tree.child(*module, i);
        if (block.first >= child.first && block.first < child.first + child.count) return tree.module(child.module);
    }
    return *module;
}

/// The part that has a tensor, by its full name.
ModelPart const* part_with(ModelParts const& parts, std::string const& name) {
    ModelPart const* found = nullptr;
    for (auto const& part : parts.parts) {
        auto const path = std::string(part.path.view());
        if (part.is_own_tensors || (found != nullptr && path.size() < found->path.view().size())) continue;
        if (!path.empty() && name.rfind(path + ".", 0) != 0) continue;
        if (part.is_numbered) {
            auto const number = std::stoll(name.substr(path.empty() ? 0 : path.size() + 1));
            if (number < part.first || number >= part.first + part.count) continue;
        }
        found = &part;
    }
    return found;
}

/// How loading holds the parameters of a model that a scheme packs.
FormatOf packed_formats(Model const& model, ModelParts const& parts, std::optional<QuantScheme> const& scheme) {
    return [&model, &parts, scheme](std::string const& name) -> Result<ParameterFormat> {
        auto const* const tensor = find_tensor(model.tree, name);
        auto const* const part = part_with(parts, name);
        REQUIRE_MESSAGE(tensor != nullptr, name);
        REQUIRE_MESSAGE(part != nullptr, name);
        bool const is_whole = tensor->shard.kind == ShardKind::replicated;
        if (!scheme || tensor->shape.rank() < 2) return ParameterFormat{{}, 0, is_whole};
        auto const held = loaded_format(*tensor, position_of(model, *part, *tensor), *scheme);
        return ParameterFormat{held.format, held.group, is_whole};
    };
}

/// The values of the largest block in fp32, as they are computed, by the shares of estimates: those count 16 bits where weights
/// are packed.
Bytes activations_in_floats(Model const& model, ModelParts const& parts, ExecutorLimits const& limits,
                            TensorPlace place) {
    Step const step{.batch = limits.sequences,
                    .new_tokens = limits.step_tokens / limits.sequences,
                    .context = limits.context,
                    .dtype = Dtype::f32};
    Bytes most{};
    for (auto const& [id, grains] : parts.bodies) {
        auto const& body = model.program.bodies()[static_cast<std::size_t>(id)];
        OpRank const rank{.tp = place.ranks, .tp_rank = place.rank};
        auto const peak =
            plan_activations(body, op_context(body, step, rank, {grains.data(), grains.size()})).layout.peak;
        if (most < peak) most = peak;
    }
    return most;
}

}  // namespace

TEST_CASE("load: what a rank loads of a product's weight is the shard that estimates count") {
    std::int64_t weights = 0;
    golden::for_each_case([&](golden::Json const&, Model const& model) {
        for (auto const& block : model.program.blocks())
            weights += check_block<Fast>(model, block, module_of(model.tree, block), {});
    });
    CHECK(weights > 10'000);
}

TEST_CASE("load: where blocks and leaves stay whole the shard has the grain of the sum") {
    std::int64_t weights = 0;
    std::size_t round = 0;
    golden::for_each_case([&](golden::Json const&, Model const& model) {
        for (auto const& block : model.program.blocks()) {
            auto const& module = module_of(model.tree, block);
            ++round;
            if (takes_alternative(round, 0, 3)) weights += check_block<Deterministic>(model, block, module, {});
            for (std::int64_t const size : {32, 256}) {
                if (!takes_alternative(round, size == 32 ? 1 : 2, 3)) continue;
                weights += check_block<Fast>(model, block, module, {size, size});
                weights += check_block<Deterministic>(model, block, module, {size, size});
            }
        }
    });
    CHECK(weights > 10'000);
}

TEST_CASE(
    "load: what a rank loads of packed weights is the share that estimates and plans count, to the byte of GGUF's "
    "blocks") {
    std::int64_t weights = 0;
    std::int64_t grained = 0;
    std::int64_t counted = 0;
    std::set<std::string> families;
    golden::for_each_case([&](golden::Json const&, Model const& model) {
        // Of each family the first.
        if (!families.insert(std::string(model.family->name)).second) return;
        std::size_t number = 0;
        for (std::string const name : {"int4-g64", "nf4", "Q8_0", "Q4_K_M", "Q3_K_M"}) {
            if (!takes_alternative(families.size(), number++, 5)) continue;
            CAPTURE(name);
            auto const scheme = *parse_quant_scheme(name);
            EstimateRequest request{.quant = scheme};
            auto const parts = request_parts(model, request);
            ModelPart const* before = nullptr;
            for (auto const& part : parts.parts) {
                bool const is_alike = before != nullptr && before->body == part.body && before->module == part.module &&
                                      before->grains == part.grains;
                if (part.body < 0 || is_alike) continue;
                before = &part;
                grained += static_cast<std::int64_t>(part.grains.size());
                std::map<Tensor const*, std::pair<LayerPosition, HeldFormat>> known;
                auto const of = [&](Tensor const& tensor) {
                    auto const found = known.find(&tensor);
                    if (found != known.end()) return found->second;
                    auto const at = position_of(model, part, tensor);
                    return known[&tensor] = {at, loaded_format(tensor, at, scheme)};
                };
                weights += check_body<Fast>(
                    model, model.program.bodies()[static_cast<std::size_t>(part.body)], model.tree.module(part.module),
                    [&](Tensor const& tensor) {
                        auto const held = of(tensor).second;
                        return weight_grain(held.format, held.group);
                    },
                    [&](Tensor const& tensor, UnitGrain) { return part.grain_of(tensor); },
                    [&](Tensor const& tensor, TensorPlace place, std::int64_t outputs, std::int64_t inputs) {
                        auto const [at, held] = of(tensor);
                        if (!scheme.is_ggml() || held.format == WeightFormat::f32) return;
                        request.parallel.tp = place.ranks;
                        auto const layers = std::max<std::int64_t>(1, tensor.shard.experts);
                        auto const loaded = layers * outputs * detail::data_bytes(held.format, inputs);
                        CHECK(shard_bytes(tensor, at, request, {.tp = place.rank}) == Bytes{loaded});
                        ++counted;
                    });
            }
        }
    });
    CHECK(weights > sampled_count(10'000, 2'000));
    CHECK(grained > sampled_count(1'000, 200));
    CHECK(counted > sampled_count(10'000, 1'000));
}

TEST_CASE("load: the cache and the activations that a rank takes are those that estimates count, on 1 to 8 ranks") {
    std::int64_t ranks = 0;
    std::int64_t uneven = 0;
    std::set<std::string> families;
    golden::for_each_case([&](golden::Json const&, Model const& model) {
        // Of each family the first; more ranks than heads, and what is not executed, is refused.
        if (!families.insert(std::string(model.family->name)).second) return;
        auto round = families.size();
        for (std::string const name : {"", "int4-g64", "Q8_0", "IQ4_NL", "Q4_K_M"}) {
            // Of a sample each family and each scheme has another number of ranks.
            ++round;
            if (testing::takes_samples() && round % 2 == 0) continue;
            CAPTURE(name);
            std::optional<QuantScheme> scheme;
            if (!name.empty()) scheme = *parse_quant_scheme(name);
            EstimateRequest request{
                .dtype = Dtype::f32, .kv_dtype = Dtype::f32, .batch = 2, .context = 32, .window = WindowPolicy::full};
            if (scheme) request.quant = *scheme;
            auto const parts = request_parts(model, request);
            auto const format_of = packed_formats(model, parts, scheme);
            ExecutorLimits const limits{.sequences = 2, .context = 32, .step_tokens = 64};
            for (std::int32_t tp = 1; tp <= 8; ++tp) {
                if (!takes_alternative(round, static_cast<std::size_t>(tp - 1), 8)) continue;
                CAPTURE(tp);
                request.parallel.tp = tp;
                auto const estimate = estimate_memory(model, request);
                if (!estimate) continue;
                for (std::int32_t rank = 0; rank < tp; ++rank) {
                    CAPTURE(rank);
                    auto const predicted =
                        predict_memory<Host, Fast>(model, format_of, {tp, rank}, limits, IsaLevel::portable);
                    if (!predicted) continue;
                    auto const& terms = estimate->devices[static_cast<std::size_t>(rank)].terms;
                    CHECK(terms.kv_cache == predicted->kv_cache);
                    CHECK(activations_in_floats(model, parts, limits, {tp, rank}) == predicted->activations);
                    if (!scheme) CHECK(terms.activations == predicted->activations);
                    ++ranks;
                    if (!(terms.kv_cache == estimate->devices[0].terms.kv_cache)) ++uneven;
                }
            }
        }
    });
    CHECK(ranks > sampled_count(1'000, 100));
    CHECK(uneven > sampled_count(100, 5));
}
