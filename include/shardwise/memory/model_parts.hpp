// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/assert.hpp>
#include <shardwise/core/fixed_text.hpp>
#include <shardwise/core/list.hpp>
#include <shardwise/core/span.hpp>
#include <shardwise/memory/weights.hpp>
#include <shardwise/model/architecture.hpp>
#include <shardwise/model/tree_totals.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Which units of a tensor's sharded dimension stay together.
struct TensorGrain {
    Tensor const* tensor = nullptr;
    UnitGrain grain{};

    friend constexpr bool operator==(TensorGrain const&, TensorGrain const&) = default;
};

/// A part of a model that memory is reported for: a run of equal layers, or a module outside of the layers.
struct ModelPart {
    /// The module's full name; of a run, the list's: layer i is "<path>.<first + i>".
    FixedText<96> path;
    ModuleRole role = ModuleRole::none;
    ModuleId module = 0;
    bool is_numbered = false;
    /// True for the tensors of a module whose children are parts themselves.
    bool is_own_tensors = false;
    std::int64_t first = 0;
    std::int64_t count = 1;
    /// Of a run: its first layer, counted over the model. Else the layer that it stands beside in a pipeline.
    std::int64_t layer = 0;
    /// The body of the program that it executes; -1 where the program has none.
    std::int32_t body = -1;
    /// The same in ModelParts::bodies.
    std::int32_t grained = -1;
    LayerPosition position{};
    /// Of the model's tensors those whose shares are not single units: what find_grains says.
    List<TensorGrain> grains{};

    [[nodiscard]] constexpr UnitGrain grain_of(Tensor const& tensor) const {
        for (auto const& known : grains) {
            if (known.tensor == &tensor) return known.grain;
        }
        return {};
    }
};

/// A tied tensor that counts where it is first named; with its first name on another device it is a copy.
struct TiedPart {
    std::size_t first = 0;
    std::size_t other = 0;
    Tensor tensor{};
    LayerPosition position{};
};

/// A body of the program as some of its blocks run it.
struct GrainedBody {
    std::int32_t body = 0;
    /// By value of the body: which of its units stay together on a rank; empty: units stand alone.
    List<UnitGrain> grains{};

    [[nodiscard]] constexpr Span<UnitGrain const> span() const { return {grains.data(), grains.size()}; }
};

/// A model cut into parts, in registration order, with the ties between them.
struct ModelParts {
    List<ModelPart> parts;
    List<TiedPart> ties;
    std::int64_t layers = 0;
    /// The program's bodies by their numbers, and after them those whose blocks are not all cut alike, once more.
    List<GrainedBody> bodies{};

    /// Calls visit(number in `bodies`, how many) for the blocks of layers [first, end) and of what stands beside them, in order: the
    /// blocks before the first layer with the first, others with the layer before them.
    template <class Visit>
    constexpr void for_each_block(BlockProgram const& program, std::int64_t first, std::int64_t end,
                                  Visit const& visit) const {
        bool const has_more = bodies.size() > program.bodies().size();
        auto const body_of = [&](Block const& block, std::int64_t number) {
            return has_more ? grained_body(block, number) : static_cast<std::size_t>(block.body);
        };
        auto const last = layers > 0 ? layers - 1 : 0;
        std::int64_t passed = 0;
        for (auto const& block : program.blocks()) {
            if (!block.is_numbered) {
                auto const beside = passed == 0 ? 0 : passed - 1 < last ? passed - 1 : last;
                if ((beside >= first && beside < end) || layers == 0) visit(body_of(block, 0), std::int64_t{1});
                continue;
            }
            auto from = passed < first ? first : passed;
            auto const to = passed + block.count < end ? passed + block.count : end;
            while (from < to) {
                auto const body = body_of(block, block.first + from - passed);
                auto next = has_more ? from + 1 : to;
                while (next < to && body_of(block, block.first + next - passed) == body) ++next;
                visit(body, next - from);
                from = next;
            }
            passed += block.count;
        }
    }

private:
    /// What the layer `number` of a block's list runs.
    constexpr std::size_t grained_body(Block const& block, std::int64_t number) const {
        for (auto const& part : parts) {
            if (part.body != block.body || part.is_numbered != block.is_numbered || part.path.view() != block.module)
                continue;
            if (!part.is_numbered || (number >= part.first && number < part.first + part.count))
                return static_cast<std::size_t>(part.grained);
        }
        // PartFinder has made a part of each layer: its plain body would be another division among ranks. Single blocks may be around parts.
        SHARDWISE_ASSERT(!block.is_numbered);
        return static_cast<std::size_t>(block.body);
    }
};

namespace detail {

/// True where `path` is `name` or a module around it.
[[nodiscard]] constexpr bool is_around(std::string_view path, std::string_view name) {
    if (path.empty()) return true;
    return name.starts_with(path) && (name.size() == path.size() || name[path.size()] == '.');
}

class PartFinder {
public:
    constexpr PartFinder(Model const& model, bool is_per_layer)
        : model_(model), is_per_layer_(is_per_layer), has_layers_(model.tree.modules().size(), 0) {}

    constexpr ModelParts find() && {
        auto const& tree = model_.tree;
        if (tree.modules().empty()) return {};
        for (std::size_t id = 0; id < has_layers_.size(); ++id) {
            auto const& module = tree.module(static_cast<ModuleId>(id));
            for (std::uint32_t i = 0; i < module.child_count; ++i) {
                auto const& child = tree.child(module, i);
                if (child.role == ModuleRole::layer || has_layers_[child.module] != 0) has_layers_[id] = 1;
            }
        }
        visit(tree.root(), {}, ModuleRole::none, root_position(model_.config, tree, model_.family));
        anchor();
        for (std::size_t id = 0; id < model_.program.bodies().size(); ++id)
            out_.bodies.push_back({static_cast<std::int32_t>(id), {}});
        for (auto& part : out_.parts) part.grained = part.body;
        for (auto const& tie : tree.ties()) {
            auto const* tensor = find_tensor(tree, tie.other);
            if (tensor == nullptr) continue;
            auto const other = part_of(tie.other);
            auto position = out_.parts[other].position;
            position.class_name = class_of(tie.other);
            out_.ties.push_back({part_of(tie.first), other, *tensor, position});
        }
        return static_cast<ModelParts&&>(out_);
    }

private:
    static constexpr FixedText<96> joined(std::string_view path, std::string_view name) {
        if (path.empty()) return FixedText<96>{name};
        char buffer[200]{};
        std::size_t size = 0;
        for (char const c : path) {
            if (size < 150) buffer[size++] = c;
        }
        buffer[size++] = '.';
        for (char const c : name) {
            if (size < 199) buffer[size++] = c;
        }
        return FixedText<96>{std::string_view{buffer, size}};
    }

    constexpr void visit(ModuleId id, FixedText<96> const& path, ModuleRole role, LayerPosition const& position) {
        auto const& tree = model_.tree;
        auto const& module = tree.module(id);
        if (has_layers_[id] == 0) {
            ModelPart part;
            part.path = path;
            part.role = role;
            part.module = id;
            part.layer = out_.layers;
            part.position = position;
            part.body = single_body(path.view());
            out_.parts.push_back(part);
            return;
        }
        if (module.tensor_count > 0) {
            ModelPart part;
            part.path = path;
            part.role = role;
            part.module = id;
            part.is_own_tensors = true;
            part.layer = out_.layers;
            part.position = position;
            out_.parts.push_back(part);
        }
        for (std::uint32_t i = 0; i < module.child_count; ++i) {
            auto const& child = tree.child(module, i);
            auto const inner = position.inside(child, tree.module(child.module));
            if (child.role == ModuleRole::layer) {
                append_run(path, child, inner);
            } else if (child.name.empty()) {
                // Numbered modules around layers: no family has them; each is visited under its number.
                for (std::int32_t k = 0; k < child.count; ++k) visit(child.module, path, child.role, inner);
            } else {
                visit(child.module, joined(path.view(), child.name), child.role, inner);
            }
        }
    }

    /// A run of layers, cut where the program or, for mixtures, every layer's size changes.
    constexpr void append_run(FixedText<96> const& list, Child const& child, LayerPosition const& position) {
        std::int64_t at = child.first;
        auto const end = std::int64_t{child.first} + child.count;
        while (at < end) {
            ModelPart part;
            part.path = child.name.empty() ? list : joined(list.view(), child.name);
            part.role = ModuleRole::layer;
            part.module = child.module;
            part.is_numbered = child.name.empty();
            part.first = at;
            auto next = end;
            for (auto const& block : model_.program.blocks()) {
                if (!block.is_numbered || block.module != list.view()) continue;
                auto const last = std::int64_t{block.first} + block.count;
                if (at < block.first || at >= last) continue;
                part.body = block.body;
                if (last < next) next = last;
                break;
            }
            if (is_per_layer_) next = at + 1;
            part.count = next - at;
            part.layer = out_.layers;
            part.position = position;
            part.position.layer = out_.layers;
            out_.layers += part.count;
            out_.parts.push_back(part);
            at = next;
        }
    }

    /// The body of the single block that runs this module, the first of that name.
    constexpr std::int32_t single_body(std::string_view path) const {
        for (auto const& block : model_.program.blocks()) {
            if (!block.is_numbered && block.module == path) return block.body;
        }
        return -1;
    }

    /// Sets beside which layer each part outside of the layers stands: the one before its block in execution order.
    constexpr void anchor() {
        auto const last = out_.layers > 0 ? out_.layers - 1 : 0;
        for (auto& part : out_.parts) {
            if (part.role == ModuleRole::layer && part.position.layer >= 0) continue;
            auto beside = part.role == ModuleRole::embedding ? 0 : part.layer > 0 ? part.layer - 1 : 0;
            std::int64_t passed = 0;
            bool is_found = false;
            for (auto const& block : model_.program.blocks()) {
                if (block.is_numbered) {
                    passed += block.count;
                } else if (!block.module.empty() && !part.is_own_tensors &&
                           (is_around(block.module, part.path.view()) || is_around(part.path.view(), block.module))) {
                    beside = passed > 0 ? passed - 1 : 0;
                    is_found = true;
                    break;
                }
            }
            if (!is_found && (part.role == ModuleRole::head || part.role == ModuleRole::norm)) beside = last;
            part.layer = beside < last ? beside : last;
        }
    }

    constexpr std::size_t part_of(std::string_view name) const {
        std::size_t best = 0;
        std::size_t length = 0;
        for (std::size_t i = 0; i < out_.parts.size(); ++i) {
            auto const& part = out_.parts[i];
            auto const path = part.path.view();
            if (!is_around(path, name) || (length > 0 && path.size() < length)) continue;
            if (part.is_numbered) {
                auto const rest = path.empty() ? name : name.substr(path.size() + 1);
                auto const number = parse_number(rest.substr(0, rest.find('.')));
                if (!number || *number < part.first || *number >= part.first + part.count) continue;
            }
            best = i;
            length = path.size();
        }
        return best;
    }

    /// The class of the module that holds a tensor.
    constexpr std::string_view class_of(std::string_view full_name) const {
        auto const* module = &model_.tree.module(model_.tree.root());
        for (auto dot = full_name.find('.'); dot != std::string_view::npos; dot = full_name.find('.')) {
            auto const* child = find_child(model_.tree, *module, full_name.substr(0, dot));
            if (child == nullptr) break;
            module = &model_.tree.module(child->module);
            full_name.remove_prefix(dot + 1);
        }
        return module->class_name;
    }

    Model const& model_;
    bool is_per_layer_;
    List<std::int64_t> has_layers_;  // not bool: clang 14 cannot evaluate that vector
    ModelParts out_;
};

}  // namespace detail

/// Cuts a model into parts: runs of layers that run and weigh the same, and the modules before, between and after them.
[[nodiscard]] constexpr ModelParts find_parts(Model const& model, bool is_per_layer = false) {
    return detail::PartFinder(model, is_per_layer).find();
}

/// The sum of `measure(tensor, position)` over one instance of a part.
template <class Measure>
[[nodiscard]] constexpr auto sum_part(Model const& model, ModelPart const& part, Parallelism const& parallel,
                                      RankPlace const& place, Measure const& measure) {
    if (!part.is_own_tensors && part.grains.empty())
        return sum_body(model.tree, part.module, part.position, parallel, place, measure);
    if (!part.is_own_tensors) {
        auto const of_part = [&](Tensor const& tensor, LayerPosition position) {
            position.grain = part.grain_of(tensor);
            return measure(tensor, position);
        };
        return sum_body(model.tree, part.module, part.position, parallel, place, of_part);
    }
    auto const& module = model.tree.module(part.module);
    MeasureSum<Measure> sum{};
    for (std::uint32_t i = 0; i < module.tensor_count; ++i) sum += measure(model.tree.tensor(module, i), part.position);
    return sum;
}

/// The weights of one instance of a part on one rank.
[[nodiscard]] constexpr Bytes part_bytes(Model const& model, ModelPart const& part, EstimateRequest const& request,
                                         RankPlace const& place = {}) {
    return Bytes{sum_part(model, part, request.parallel, place, [&](Tensor const& tensor, LayerPosition const& at) {
        return shard_bytes(tensor, at, request, place).count();
    })};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
