// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/buffer.hpp>
#include <shardwise/backend/host.hpp>
#include <shardwise/backend/host/products.hpp>
#include <shardwise/core/fnv1a.hpp>
#include <shardwise/executor/load_parameter.hpp>
#include <shardwise/executor/parameter_name.hpp>
#include <shardwise/executor/training/training_layout.hpp>
#include <shardwise/kernels/philox.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How a model's weights begin where there is no checkpoint.
struct InitialWeights {
    std::uint64_t seed = 0;
    /// Of matrices; biases begin at 0, norms at 1.
    double deviation = 0.02;
};

/// A model's parameters in float32, as they are trained: by the tree's names, in the tree's shapes.
///
/// Memory  weight_elements() of the layout, allocated at creation
class TrainingWeights {
public:
    using Vector = TensorView<float, 1, Host>;

    /// The parameters of a checkpoint. `model` is what it was opened with, and outlives this.
    ///
    /// Errors  as StoredParameters::find; unsupported for packed weights and GGUF's order of rows; out_of_memory
    [[nodiscard]] static Result<TrainingWeights> load(HostContext& context, StoredParameters const& stored) {
        if (stored.is_gguf()) {
            return Error{ErrorCode::unsupported}
                .in("training")
                .because("takes weights of safetensors files, not of GGUF")
                .fix("give the original checkpoint");
        }
        auto made = create(context, stored.model());
        if (!made) return made.error();
        LoadOptions const options;
        ParameterLoader<Host> loader(context, stored, options);
        for (std::size_t i = 0; i < made->layout_.parameters().size(); ++i) {
            auto const& parameter = made->layout_.parameters()[i];
            auto const found = stored.find(parameter.name);
            if (!found) return found.error();
            if (!found->packed.empty() || !found->scales.empty() || traits(found->format).block_elements != 1) {
                return Error{ErrorCode::unsupported}
                    .in(parameter.name)
                    .at(name_of(found->format))
                    .because("is packed, and float weights alone are trained");
            }
            auto const values = loader.floats(*found, parameter.elements);
            if (auto const whole = stored.check_files(); !whole) return whole.error();
            if (!values) return values.error();
            std::copy(values->begin(), values->end(), made->values(i).data());
        }
        return made;
    }

    /// Weights of a seed: normal, each element a function of (seed, parameter's name, element) alone, so that no order and no
    /// sharding changes one.
    ///
    /// A normal number is the sum of eight uniform ones of 16 bits, an integer: the C library's logarithm plays no part. It has the
    /// deviation that was asked for, and never more than 4.9 of it.
    ///
    /// Errors  invalid_argument for a deviation that is no positive number; out_of_memory
    [[nodiscard]] static Result<TrainingWeights> initialise(HostContext& context, Model const& model,
                                                            InitialWeights const& how) {
        if (!(how.deviation > 0.0 && how.deviation < 1e6)) {
            return Error{ErrorCode::invalid_argument}.in("training").at("deviation").because("is no positive number");
        }
        auto made = create(context, model);
        if (!made) return made.error();
        std::set<std::string> ones;
        for (auto const& block : model.program.blocks()) {
            for (std::int32_t layer = 0; layer < block.count; ++layer) {
                auto prefix = std::string(block.module);
                if (block.is_numbered) prefix += "." + std::to_string(block.first + layer);
                for (auto const& op : model.program.body(block).operations()) {
                    bool const is_raised = op.norm == NormKind::rms_offset || op.norm == NormKind::layer_offset;
                    if (op.kind == OpKind::norm && !op.parameters[0].empty() && !is_raised)
                        ones.insert(detail::parameter_name(prefix, op.parameters[0], 0));
                }
            }
        }
        for (std::size_t i = 0; i < made->layout_.parameters().size(); ++i) {
            auto const& parameter = made->layout_.parameters()[i];
            auto const values = made->values(i);
            if (parameter.tensor->shape.rank() >= 2) {
                fill_normal(values, how, parameter.name);
            } else {
                std::fill_n(values.data(), values.elements(), ones.count(parameter.name) > 0 ? 1.0F : 0.0F);
            }
        }
        return made;
    }

    /// The same weights in memory of another context: each rank of a process has its own.
    ///
    /// Errors  out_of_memory
    [[nodiscard]] static Result<TrainingWeights> copy(HostContext& context, TrainingWeights const& from) {
        auto made = create(context, from.model());
        if (made) std::copy_n(from.data(), from.layout().weight_elements(), made->memory_.data());
        return made;
    }

    [[nodiscard]] TrainingLayout const& layout() const { return layout_; }
    [[nodiscard]] Model const& model() const { return *model_; }
    /// The elements of a parameter by its number in the layout.
    [[nodiscard]] Vector values(std::size_t parameter) {
        auto const& of = layout_.parameters()[parameter];
        return {memory_.data() + of.begin, {of.elements}};
    }
    [[nodiscard]] TensorView<float const, 1, Host> values(std::size_t parameter) const {
        auto const& of = layout_.parameters()[parameter];
        return {memory_.data() + of.begin, {of.elements}};
    }
    /// All elements, gaps included.
    [[nodiscard]] float const* data() const { return memory_.data(); }

private:
    TrainingWeights(Model const& model, TrainingLayout layout, Buffer<float, Host> memory)
        : model_(&model), layout_(std::move(layout)), memory_(std::move(memory)) {}

    [[nodiscard]] static Result<TrainingWeights> create(HostContext& context, Model const& model) {
        auto layout = TrainingLayout::create(model);
        if (!layout) return layout.error();
        auto memory = Buffer<float, Host>::allocate(context, layout->weight_elements());
        if (!memory) return memory.error();
        std::fill_n(memory->data(), memory->size(), 0.0F);
        return Result<TrainingWeights>(TrainingWeights(model, std::move(*layout), std::move(*memory)));
    }

    static void fill_normal(Vector values, InitialWeights const& how, std::string_view name) {
        auto const stream = detail::fnv1a(name);
        // Eight uniform numbers of 0 to 2^16 - 1 have 8 * (2^32 - 1) / 12 as the square of their sum's deviation.
        auto const scale = how.deviation / std::sqrt(8.0 * 4294967295.0 / 12.0);
        for (std::int64_t i = 0; i < values.elements(); ++i) {
            std::int64_t sum = 0;
            for (auto const word : random_words(how.seed, stream, static_cast<std::uint64_t>(i)))
                sum += (word & 0xFFFFU) + (word >> 16U);
            values.data()[i] = static_cast<float>(static_cast<double>(2 * sum - 8 * 65535) * (0.5 * scale));
        }
    }

    Model const* model_;
    TrainingLayout layout_;
    Buffer<float, Host> memory_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
