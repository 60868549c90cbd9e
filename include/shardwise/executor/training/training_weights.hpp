// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/buffer.hpp>
#include <shardwise/backend/host.hpp>
#include <shardwise/backend/host/products.hpp>
#include <shardwise/comm/communicator.hpp>
#include <shardwise/core/fnv1a.hpp>
#include <shardwise/executor/load_parameter.hpp>
#include <shardwise/executor/parameter_name.hpp>
#include <shardwise/executor/training/frozen_products.hpp>
#include <shardwise/executor/training/held_base.hpp>
#include <shardwise/executor/training/training_layout.hpp>
#include <shardwise/kernels/philox.hpp>
#include <shardwise/parallel/collectives.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How a model's weights begin where there is no checkpoint.
struct InitialWeights {
    std::uint64_t seed = 0;
    /// Of matrices; biases begin at 0, norms at 1.
    double deviation = 0.02;
};

/// A model's parameters in float32, as they are trained: by the tree's names, in the tree's shapes. Of tensor-parallel ranks each has
/// what its layout says, and of products that they share a copy that is cut along the other axis.
///
/// Memory  bytes(layout), allocated at creation
class TrainingWeights {
public:
    using Vector = TensorView<float, 1, Host>;

    /// What is allocated.
    [[nodiscard]] static Bytes bytes(TrainingLayout const& layout) {
        return Bytes{(layout.weight_elements() + layout.turned_elements() + layout.exchanged_elements()) *
                         static_cast<std::int64_t>(sizeof(float)) +
                     layout.held_bytes()};
    }

    /// The parameters of a checkpoint, those of tensor-parallel rank `place`; with an adapter its halves, which begin as PEFT's do: A
    /// uniform, by `seed`, and B zeros. The base's products are held as the adapter says (held_products of the same `quant`), all else in
    /// float32. `model` is what it was opened with, and outlives this.
    ///
    /// Errors  as StoredParameters::find and ParameterLoader; unsupported for packed weights and GGUF files without an adapter; out_of_memory
    [[nodiscard]] static Result<TrainingWeights> load(HostContext& context, StoredParameters const& stored,
                                                      TensorPlace const& place = {}, TrainedAdapter const& adapter = {},
                                                      std::uint64_t seed = 0, Optional<QuantScheme> const& quant = {}) {
        if (stored.is_gguf() && adapter.empty()) {
            return Error{ErrorCode::unsupported}
                .in("training")
                .because("takes weights of safetensors files, not of GGUF, whose weights an adapter alone changes")
                .fix("give the original checkpoint, or train an adapter");
        }
        auto made = create(context, stored.model(), place, adapter);
        if (!made) return made.error();
        LoadOptions options;
        options.quant = quant;
        ParameterLoader<Host> loader(context, stored, options);
        LoadOptions const float_options{.dtype = Dtype::f32};
        ParameterLoader<Host> float_loader(context, stored, float_options);
        auto const readers = detail::parameter_readers(stored.model());
        for (std::size_t i = 0; i < adapter.halves().size(); ++i) {
            if (adapter.halves()[i].is_a) made->fill_uniform(made->layout_.parameters()[i], seed);
        }
        for (auto const& parameter : adapter.empty() ? made->layout_.parameters() : made->layout_.frozen()) {
            auto const found = stored.find(parameter.name);
            if (!found) return found.error();
            auto const reader = readers.find(parameter.name);
            if (parameter.held) {
                auto const done = made->held_.load(parameter, reader->second, loader, *found);
                if (!done) return done.error();
                if (auto const whole = stored.check_files(); !whole) return whole.error();
                continue;
            }
            bool const is_product = reader != readers.end() && reader->second.operation->kind == OpKind::linear;
            if (stored.is_gguf() && is_product && reader->second.is_in_layer && reader->second.slot == 0)
                return Error{ErrorCode::unsupported}
                    .in(parameter.name)
                    .because("is of a GGUF file, whose products an adapter's base holds as they are")
                    .fix("give the adapter what held_products says");
            bool const is_packed = !found->packed.empty() || detail::is_packed(found->format);
            if (is_packed && adapter.empty()) {
                return Error{ErrorCode::unsupported}
                    .in(parameter.name)
                    .at(name_of(found->format))
                    .because("is packed, and float weights alone are trained");
            }
            auto values = is_packed && parameter.tensor->shape.rank() == 2
                              ? matrix_floats(float_loader, *found)
                              : loader.floats(*found, parameter.whole_elements);
            if (auto const whole = stored.check_files(); !whole) return whole.error();
            if (!values) return values.error();
            if (reader != readers.end() && !adapter.empty())
                if (auto const done = arrange(reader->second, stored, *found, adapter, parameter, *values); !done)
                    return done.error();
            auto const* const from = values->data();
            made->fill(parameter, [from](float* to, std::int64_t whole, std::int64_t count) {
                std::copy_n(from + whole, count, to);
            });
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
                                                            InitialWeights const& how, TensorPlace const& place = {}) {
        if (!(how.deviation > 0.0 && how.deviation < 1e6)) {
            return Error{ErrorCode::invalid_argument}.in("training").at("deviation").because("is no positive number");
        }
        auto made = create(context, model, place);
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
                auto const stream = detail::fnv1a(parameter.name);
                made->fill(parameter, [&how, stream](float* to, std::int64_t whole, std::int64_t count) {
                    fill_normal(to, whole, count, how, stream);
                });
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
        auto made = create(context, from.model(), from.layout().place(), from.layout().adapter());
        if (!made) return made;
        std::copy_n(from.data(), from.layout().weight_elements(), made->memory_.data());
        std::copy_n(from.turned(), from.layout().turned_elements(), made->turned_.data());
        made->held_.copy_from(from.held_);
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
    /// Frozen products that are held in formats of their own.
    [[nodiscard]] FrozenProducts const& held() const { return held_; }
    /// All elements, gaps included.
    [[nodiscard]] float const* data() const { return memory_.data(); }
    /// Those of the copies that are cut along the other axis.
    [[nodiscard]] float const* turned() const { return turned_.data(); }

    /// Renews the copies that are cut along the other axis, once weights have changed. All tensor-parallel ranks call it.
    ///
    /// Order   on `stream`; this object and `comm` outlive what is in it
    /// Errors  a collective's error stops the stream
    template <Communicator C>
    void exchange(C& comm, HostStream& stream) {
        auto const ranks = static_cast<std::size_t>(layout_.place().ranks);
        for (auto const& parameter : layout_.parameters()) {
            if (parameter.turned_elements == 0) continue;
            auto* const sent = exchanged_.data();
            auto* const got = sent + round_up(parameter.elements, TrainingLayout::alignment);
            auto const* const cut = &parameter.cut;
            auto const own = parameter.rank;
            auto const* const values = memory_.data() + parameter.begin;
            auto* const turned = turned_.data() + parameter.turned_begin;
            stream.submit([=, stride = parameter.stride] {
                auto* to = sent;
                for (std::size_t rank = 0; rank < ranks; ++rank) {
                    common(*cut, own, rank)
                        .for_each_run(stride, [&](std::int64_t whole, std::int64_t, std::int64_t count) {
                            auto const at = cut->own[own].at(whole / stride, whole % stride);
                            to = std::copy_n(values + at, count, to);
                        });
                }
                return Result<>{};
            });
            submit_all_to_all(
                comm, TensorView<float const, 1, Host>{sent, {parameter.counted}},
                [cut, own](std::int32_t rank) { return common(*cut, own, static_cast<std::size_t>(rank)).elements(); },
                TensorView<float, 1, Host>{got, {parameter.turned_elements}},
                [cut, own](std::int32_t rank) { return common(*cut, static_cast<std::size_t>(rank), own).elements(); },
                stream);
            stream.submit([=, stride = parameter.stride] {
                auto const* from = got;
                for (std::size_t rank = 0; rank < ranks; ++rank) {
                    common(*cut, rank, own)
                        .for_each_run(stride, [&](std::int64_t whole, std::int64_t, std::int64_t count) {
                            auto const at = cut->turned[own].at(whole / stride, whole % stride);
                            std::copy_n(from, count, turned + at);
                            from += count;
                        });
                }
                return Result<>{};
            });
        }
    }
    /// What a rank takes from the others in one exchange.
    [[nodiscard]] static CollectiveTraffic exchange_traffic(TrainingLayout const& layout) {
        CollectiveTraffic out;
        for (auto const& parameter : layout.parameters()) {
            if (parameter.turned_elements == 0) continue;
            auto const kept = common(parameter.cut, parameter.rank, parameter.rank).elements();
            auto const others = parameter.turned_elements - kept;
            out += {1, others > 0 ? 1 : 0, others * static_cast<std::int64_t>(sizeof(float))};
        }
        return out;
    }

private:
    TrainingWeights(Model const& model, TrainingLayout layout) : model_(&model), layout_(std::move(layout)) {}

    [[nodiscard]] static Result<TrainingWeights> create(HostContext& context, Model const& model,
                                                        TensorPlace const& place, TrainedAdapter const& adapter = {}) {
        auto const cuts = TensorCuts::create(model, place, adapter);
        if (!cuts) return cuts.error();
        auto layout = TrainingLayout::create(model, *cuts, adapter);
        if (!layout) return layout.error();
        TrainingWeights out(model, std::move(*layout));
        auto const allocate = [&](Buffer<float, Host>& buffer, std::int64_t elements) -> Result<> {
            auto memory = Buffer<float, Host>::allocate(context, elements);
            if (!memory) return memory.error();
            buffer = std::move(*memory);
            std::fill_n(buffer.data(), buffer.size(), 0.0F);
            return {};
        };
        if (auto const done = allocate(out.memory_, out.layout_.weight_elements()); !done) return done.error();
        if (auto const done = allocate(out.turned_, out.layout_.turned_elements()); !done) return done.error();
        if (auto const done = allocate(out.exchanged_, out.layout_.exchanged_elements()); !done) return done.error();
        auto held = FrozenProducts::create(context, out.layout_);
        if (!held) return held.error();
        out.held_ = std::move(*held);
        return Result<TrainingWeights>(std::move(out));
    }

    /// All of a packed matrix.
    [[nodiscard]] static Result<std::vector<float>> matrix_floats(ParameterLoader<Host>& loader,
                                                                  StoredParameter const& found) {
        auto const& shape = found.tensor->shape;
        if (found.tensor->is_transposed)
            return Error{ErrorCode::unsupported}.in(found.name).because("is packed by columns, outside of layers");
        auto const matrix = loader.matrix(found, {.outputs = shape[0], .inputs = shape[1]});
        if (!matrix) return matrix.error();
        auto const& data = matrix->source().data;
        std::vector<float> out(data.size() / sizeof(float));
        std::memcpy(out.data(), data.data(), data.size());
        return out;
    }
    /// Biases in the order of a held product's rows; norms as the model's files have them, where GGUF adds 1.
    [[nodiscard]] static Result<> arrange(detail::ParameterReader const& reader, StoredParameters const& stored,
                                          StoredParameter const& found, TrainedAdapter const& adapter,
                                          TrainingParameter const& parameter, std::vector<float>& values) {
        auto const& op = *reader.operation;
        if (op.kind == OpKind::norm && op.norm == NormKind::rms_offset && stored.is_gguf()) {
            for (auto& value : values) value -= 1.0F;
        }
        if (op.kind != OpKind::linear || reader.slot == 0) return {};
        auto const weight = parameter.name.substr(0, parameter.name.rfind('.')) + ".weight";
        if (adapter.options().held.count(weight) == 0) return {};
        std::vector<float> ordered;
        for (auto const& range : FrozenProducts::rows_of(reader, stored, found, {{0, op.out_features}}))
            ordered.insert(ordered.end(), values.begin() + range.begin, values.begin() + range.end);
        if (ordered.size() != values.size())
            return Error{ErrorCode::shape_mismatch}.in(parameter.name).because("is another vector than its product's");
        values = std::move(ordered);
        return {};
    }

    /// Calls `make(to, whole, count)` for all that this rank holds of a parameter: elements of the whole from `whole` on.
    template <class Make>
    void fill(TrainingParameter const& parameter, Make const& make) {
        auto* const own = memory_.data() + parameter.begin;
        parameter.for_each_run({0, parameter.elements}, [&](std::int64_t whole, std::int64_t at, std::int64_t count) {
            make(own + at, whole, count);
        });
        if (parameter.turned_elements == 0) return;
        auto* const turned = turned_.data() + parameter.turned_begin;
        parameter.cut.turned[parameter.rank].for_each_run(
            parameter.stride,
            [&](std::int64_t whole, std::int64_t at, std::int64_t count) { make(turned + at, whole, count); });
    }
    /// What rank `from` has, and no rank before it, and rank `to` has a copy of: of either axis one of them has all.
    [[nodiscard]] static ParameterPiece common(ParameterCut const& cut, std::size_t from, std::size_t to) {
        auto const& own = cut.own[from];
        auto const& turned = cut.turned[to];
        bool const has_rows = ParameterPiece::count(own.rows) < ParameterPiece::count(cut.turned[from].rows);
        return has_rows ? ParameterPiece{cut.counted[from].rows, turned.columns}
                        : ParameterPiece{turned.rows, own.columns};
    }

    /// Kaiming's uniform numbers with a slope of sqrt(5): as far as 1 / sqrt(inputs). Of 24 bits.
    void fill_uniform(TrainingParameter const& parameter, std::uint64_t seed) {
        auto const stream = detail::fnv1a(parameter.name);
        auto const reach = 1.0 / std::sqrt(static_cast<double>(parameter.stride));
        fill(parameter, [&](float* to, std::int64_t whole, std::int64_t count) {
            for (std::int64_t i = 0; i < count; ++i) {
                auto const word = random_words(seed, stream, static_cast<std::uint64_t>(whole + i))[0] >> 8U;
                to[i] = static_cast<float>(reach * (static_cast<double>(word) / 8388608.0 - 1.0));
            }
        });
    }
    static void fill_normal(float* to, std::int64_t first, std::int64_t count, InitialWeights const& how,
                            std::uint64_t stream) {
        // Eight uniform numbers of 0 to 2^16 - 1 have 8 * (2^32 - 1) / 12 as the square of their sum's deviation.
        auto const scale = how.deviation / std::sqrt(8.0 * 4294967295.0 / 12.0);
        for (std::int64_t i = 0; i < count; ++i) {
            std::int64_t sum = 0;
            for (auto const word : random_words(how.seed, stream, static_cast<std::uint64_t>(first + i)))
                sum += (word & 0xFFFFU) + (word >> 16U);
            to[i] = static_cast<float>(static_cast<double>(2 * sum - 8 * 65535) * (0.5 * scale));
        }
    }

    Model const* model_;
    TrainingLayout layout_;
    Buffer<float, Host> memory_;
    Buffer<float, Host> turned_;
    /// What ranks send and get of one parameter.
    Buffer<float, Host> exchanged_;
    FrozenProducts held_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
