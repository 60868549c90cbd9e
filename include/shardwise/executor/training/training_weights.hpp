// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/buffer.hpp>
#include <shardwise/backend/host.hpp>
#include <shardwise/backend/host/products.hpp>
#include <shardwise/comm/communicator.hpp>
#include <shardwise/core/fnv1a.hpp>
#include <shardwise/core/span.hpp>
#include <shardwise/executor/load_parameter.hpp>
#include <shardwise/executor/parameter_name.hpp>
#include <shardwise/executor/training/arrange_base.hpp>
#include <shardwise/executor/training/file_memory.hpp>
#include <shardwise/executor/training/frozen_products.hpp>
#include <shardwise/executor/training/held_base.hpp>
#include <shardwise/executor/training/initial_values.hpp>
#include <shardwise/executor/training/training_layout.hpp>
#include <shardwise/executor/training/turned_copies.hpp>
#include <shardwise/executor/training/weight_shares.hpp>
#include <shardwise/model/block_path.hpp>
#include <shardwise/quant/half_types.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
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

/// A model's parameters, as they are trained: by the tree's names, in the tree's shapes. Of tensor-parallel ranks each has
/// what its layout says, and of products that they share a copy that is cut along the other axis. Of data-parallel ranks each has all of
/// that, or its share of every parameter alone (ZeRO 3): see WeightShares. What is held in bf16 (WeightStorage) has halves, and no values.
///
/// Memory  bytes(layout, storage), allocated at creation
class TrainingWeights {
public:
    using Vector = TensorView<float, 1, Host>;

    /// What is allocated.
    [[nodiscard]] static Bytes bytes(TrainingLayout const& layout, WeightStorage const& storage = {}) {
        WeightShares const own(layout, storage);
        auto const floats = storage.is_mapped() ? 0 : own.elements() + own.turned_elements();
        auto const held = storage.is_direct() ? layout.held_bytes() : 0;
        return Bytes{(floats + layout.exchanged_elements()) * storage.width() + held};
    }

    /// The parameters of a checkpoint, those of tensor-parallel rank `place`; with an adapter its halves, which begin as PEFT's do: A
    /// uniform, by `seed`, and B zeros. The base's products and table are held as the adapter says (held_products of the same `quant`),
    /// all else in float32. They are held as `storage` says. `model` is what it was opened with, and outlives this.
    ///
    /// Errors  as StoredParameters::find and ParameterLoader; unsupported for packed weights and GGUF files without an adapter, and for
    ///         weights in bf16 with one; as initialise
    [[nodiscard]] static Result<TrainingWeights> load(HostContext& context, StoredParameters const& stored,
                                                      TrainingPlace const& place = {},
                                                      TrainedAdapter const& adapter = {}, std::uint64_t seed = 0,
                                                      Optional<QuantScheme> const& quant = {},
                                                      WeightStorage const& storage = {}) {
        if (stored.is_gguf() && adapter.empty()) {
            return Error{ErrorCode::unsupported}
                .in("training")
                .because("takes weights of safetensors files, not of GGUF, whose weights an adapter alone changes")
                .fix("give the original checkpoint, or train an adapter");
        }
        auto made = create(context, stored.model(), place, adapter, storage);
        if (!made) return made.error();
        LoadOptions options;
        options.quant = quant;
        ParameterLoader<Host> loader(context, stored, options);
        LoadOptions const float_options{.dtype = Dtype::f32};
        ParameterLoader<Host> float_loader(context, stored, float_options);
        auto const readers = detail::parameter_readers(stored.model());
        for (std::size_t i = 0; !adapter.empty() && i < made->layout_.parameters().size(); ++i) {
            if (!is_low_rank_b(made->layout_.parameters()[i].name)) made->begin_half(i, seed);
        }
        auto number = adapter.empty() ? std::size_t{0} : made->layout_.parameters().size();
        for (auto const& parameter : adapter.empty() ? made->layout_.parameters() : made->layout_.frozen()) {
            auto const& share = made->shares_[number++];
            auto const found = stored.find(parameter.name);
            if (!found) return found.error();
            auto const reader = readers.find(parameter.name);
            if (parameter.held) {
                auto const done = storage.is_direct()
                                      ? made->held_.load(parameter, reader->second, loader, *found)
                                      : FrozenProducts::load_words(parameter, reader->second, loader, *found, share.own,
                                                                   made->memory_.data() + share.begin, share.turned,
                                                                   made->turned_.data() + share.turned_begin);
                made->drop();
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
                              ? detail::matrix_floats(float_loader, *found)
                              : loader.floats(*found, parameter.whole_elements);
            if (auto const whole = stored.check_files(); !whole) return whole.error();
            if (!values) return values.error();
            if (reader != readers.end() && !adapter.empty())
                if (auto const done = detail::arrange_values(reader->second, stored, adapter, parameter, *values);
                    !done)
                    return done.error();
            auto const* const from = values->data();
            made->fill(parameter, share, [from](float* to, std::int64_t whole, std::int64_t count) {
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
                                                            InitialWeights const& how, TrainingPlace const& place = {},
                                                            WeightStorage const& storage = {}) {
        if (!(how.deviation > 0.0 && how.deviation < 1e6)) {
            return Error{ErrorCode::invalid_argument}.in("training").at("deviation").because("is no positive number");
        }
        auto made = create(context, model, place, {}, storage);
        if (!made) return made.error();
        std::set<std::string> ones;
        for (auto const& block : model.program.blocks()) {
            for (std::int32_t layer = 0; layer < block.count; ++layer) {
                auto const prefix = block_path(block, layer);
                for (auto const& op : model.program.body(block).operations()) {
                    if (op.kind == OpKind::norm && !op.parameters[0].empty() && !has_offset(op.norm().kind))
                        ones.insert(detail::parameter_name(prefix, op.parameters[0], 0));
                }
            }
        }
        for (std::size_t i = 0; i < made->layout_.parameters().size(); ++i) {
            auto const& parameter = made->layout_.parameters()[i];
            if (parameter.tensor->shape.rank() >= 2) {
                auto const stream = detail::fnv1a(parameter.name);
                made->fill(parameter, made->shares_[i],
                           [&how, stream](float* to, std::int64_t whole, std::int64_t count) {
                               detail::fill_normal(to, whole, count, how.deviation, how.seed, stream);
                           });
            } else {
                auto const value = ones.count(parameter.name) > 0 ? 1.0F : 0.0F;
                made->fill(parameter, made->shares_[i],
                           [value](float* to, std::int64_t, std::int64_t count) { std::fill_n(to, count, value); });
            }
        }
        return made;
    }

    /// The same weights in memory of another context: each rank of a process has its own.
    ///
    /// Errors  out_of_memory
    [[nodiscard]] static Result<TrainingWeights> copy(HostContext& context, TrainingWeights const& from) {
        auto made = create(context, from.model(), from.layout().place(), from.layout().adapter(), from.storage());
        if (!made) return made;
        std::copy_n(from.data(), from.memory_.size(), made->memory_.data());
        std::copy_n(from.halves_.data(), from.halves_.size(), made->halves_.data());
        std::copy_n(from.turned(), from.turned_.size(), made->turned_.data());
        std::copy_n(from.turned_halves_.data(), from.turned_halves_.size(), made->turned_halves_.data());
        made->held_.copy_from(from.held_);
        made->drop();
        from.drop();
        return made;
    }

    [[nodiscard]] TrainingLayout const& layout() const { return layout_; }
    [[nodiscard]] Model const& model() const { return *model_; }
    /// What data-parallel ranks hold.
    [[nodiscard]] WeightShares const& shares() const { return shares_; }
    [[nodiscard]] WeightStorage const& storage() const { return storage_; }
    /// Takes what lies in a file out of memory: FileMemory::drop.
    void drop() const {
        for (auto const* const each : {&memory_, &turned_}) each->drop();
        for (auto const* const each : {&halves_, &turned_halves_}) each->drop();
    }
    /// The elements of a parameter by its number in the layout: all, or shares()[parameter].own. None where they are held in bf16.
    [[nodiscard]] Vector values(std::size_t parameter) {
        return {memory_.data() + begin_in(memory_, parameter), {count_in(memory_, parameter)}};
    }
    [[nodiscard]] TensorView<float const, 1, Host> values(std::size_t parameter) const {
        return {memory_.data() + begin_in(memory_, parameter), {count_in(memory_, parameter)}};
    }
    /// The same in bf16; none where they are held in float32.
    [[nodiscard]] TensorView<Bfloat16, 1, Host> halves(std::size_t parameter) {
        return {halves_.data() + begin_in(halves_, parameter), {count_in(halves_, parameter)}};
    }
    [[nodiscard]] TensorView<Bfloat16 const, 1, Host> halves(std::size_t parameter) const {
        return {halves_.data() + begin_in(halves_, parameter), {count_in(halves_, parameter)}};
    }
    /// The memory of either.
    [[nodiscard]] Span<std::byte> memory(std::size_t parameter) {
        auto const bytes = static_cast<std::size_t>(shares_[parameter].own.size() * storage().width());
        auto* const half = reinterpret_cast<std::byte*>(halves(parameter).data());
        return {storage_.is_half() ? half : reinterpret_cast<std::byte*>(values(parameter).data()), bytes};
    }
    [[nodiscard]] Span<std::byte const> memory(std::size_t parameter) const {
        auto const bytes = static_cast<std::size_t>(shares_[parameter].own.size() * storage().width());
        auto const* const half = reinterpret_cast<std::byte const*>(halves(parameter).data());
        return {storage_.is_half() ? half : reinterpret_cast<std::byte const*>(values(parameter).data()), bytes};
    }
    /// The same of its copy that is cut along the other axis.
    [[nodiscard]] Vector turned_values(std::size_t parameter) { return turned_in(turned_, parameter); }
    [[nodiscard]] TensorView<float const, 1, Host> turned_values(std::size_t parameter) const {
        return turned_in(turned_, parameter);
    }
    [[nodiscard]] TensorView<Bfloat16, 1, Host> turned_halves(std::size_t parameter) {
        return turned_in(turned_halves_, parameter);
    }
    [[nodiscard]] TensorView<Bfloat16 const, 1, Host> turned_halves(std::size_t parameter) const {
        return turned_in(turned_halves_, parameter);
    }
    /// Frozen products that are held in formats of their own; empty where they are gathered by layers (GatheredLayers).
    [[nodiscard]] FrozenProducts const& held() const { return held_; }
    /// All elements, gaps included: in the order of the layout where data-parallel ranks do not share them.
    [[nodiscard]] float const* data() const { return memory_.data(); }
    /// Those of the copies that are cut along the other axis.
    [[nodiscard]] float const* turned() const { return turned_.data(); }

    /// Renews the copies that are cut along the other axis, once weights have changed. All tensor-parallel ranks call it, of whole
    /// weights; shares are gathered before: GatheredLayers.
    ///
    /// Order   on `stream`; this object and `comm` outlive what is in it
    /// Errors  a collective's error stops the stream
    template <Communicator C>
    void exchange(C& comm, HostStream& stream) {
        for (auto const& parameter : layout_.parameters()) {
            if (parameter.turned_elements == 0) continue;
            if (storage().is_half())
                detail::exchange_turned(parameter, halves_.data() + parameter.begin,
                                        turned_halves_.data() + parameter.turned_begin, exchanged_halves_.data(), comm,
                                        stream);
            else
                detail::exchange_turned(parameter, memory_.data() + parameter.begin,
                                        turned_.data() + parameter.turned_begin, exchanged_.data(), comm, stream);
            submit_drop(stream);
        }
    }
    /// Drops what lies in a file once `stream` is so far.
    void submit_drop(HostStream& stream) const {
        if (!storage_.is_mapped()) return;
        stream.submit([this] {
            drop();
            return Result<>{};
        });
    }
    /// Memory for what ranks send and get of one parameter, in float32 or bf16 as weights are held.
    [[nodiscard]] float* exchanged() { return exchanged_.data(); }
    [[nodiscard]] Bfloat16* exchanged_halves() { return exchanged_halves_.data(); }

private:
    TrainingWeights(Model const& model, TrainingLayout layout) : model_(&model), layout_(std::move(layout)) {}

    [[nodiscard]] static Result<TrainingWeights> create(HostContext& context, Model const& model,
                                                        TrainingPlace const& place, TrainedAdapter const& adapter = {},
                                                        WeightStorage const& storage = {}) {
        if (auto const checked = storage.check(!adapter.empty()); !checked) return checked.error();
        auto const cuts = TensorCuts::create(model, place, adapter);
        if (!cuts) return cuts.error();
        auto layout = TrainingLayout::create(model, *cuts, adapter);
        if (!layout) return layout.error();
        TrainingWeights out(model, std::move(*layout));
        out.shares_ = WeightShares(out.layout_, storage);
        out.storage_ = storage;
        auto const allocate = [&]<class T>(detail::FileValues<T>& values, std::int64_t elements,
                                           std::string const& folder) -> Result<> {
            auto memory = detail::FileValues<T>::allocate(context, elements, folder);
            if (!memory) return memory.error();
            values = std::move(*memory);
            return {};
        };
        auto const elements = out.shares_.elements();
        auto const either = [&](auto& floats, auto& halves, std::int64_t count, std::string const& folder = {}) {
            auto const half = storage.is_half() ? count : 0;
            auto const done = allocate(floats, count - half, folder);
            return done ? allocate(halves, half, folder) : done;
        };
        for (auto const& done : {either(out.memory_, out.halves_, elements, storage.folder),
                                 either(out.turned_, out.turned_halves_, out.shares_.turned_elements(), storage.folder),
                                 either(out.exchanged_, out.exchanged_halves_, out.layout_.exchanged_elements())}) {
            if (!done) return done.error();
        }
        if (storage.is_direct()) {
            auto held = FrozenProducts::create(context, out.layout_);
            if (!held) return held.error();
            out.held_ = std::move(*held);
        }
        return Result<TrainingWeights>(std::move(out));
    }

    /// The first half of a product's adapter.
    void begin_half(std::size_t number, std::uint64_t seed) {
        auto const& parameter = layout_.parameters()[number];
        auto const stream = detail::fnv1a(parameter.name);
        fill(parameter, shares_[number], [&, stream](float* to, std::int64_t whole, std::int64_t count) {
            detail::fill_uniform(to, whole, count, parameter.stride, seed, stream);
        });
    }
    template <class T>
    [[nodiscard]] std::int64_t begin_in(detail::FileValues<T> const& memory, std::size_t parameter) const {
        return memory.size() > 0 ? shares_[parameter].begin : 0;
    }
    template <class T>
    [[nodiscard]] std::int64_t count_in(detail::FileValues<T> const& memory, std::size_t parameter) const {
        return memory.size() > 0 ? shares_[parameter].own.size() : 0;
    }

    template <class T>
    [[nodiscard]] TensorView<T, 1, Host> turned_in(detail::FileValues<T>& memory, std::size_t parameter) {
        auto const& share = shares_[parameter];
        bool const is_other = memory.size() == 0;
        return {memory.data() + (is_other ? 0 : share.turned_begin), {is_other ? 0 : share.turned.size()}};
    }
    template <class T>
    [[nodiscard]] TensorView<T const, 1, Host> turned_in(detail::FileValues<T> const& memory,
                                                         std::size_t parameter) const {
        auto const& share = shares_[parameter];
        bool const is_other = memory.size() == 0;
        return {memory.data() + (is_other ? 0 : share.turned_begin), {is_other ? 0 : share.turned.size()}};
    }

    /// Writes elements of a whole parameter into one of the two that has memory.
    template <class Make>
    void put(detail::FileValues<float>& floats, detail::FileValues<Bfloat16>& halves, std::int64_t to,
             std::int64_t whole, std::int64_t count, Make const& make) const {
        if (storage_.dtype == Dtype::f32) return make(floats.data() + to, whole, count);
        std::array<float, 1024> some{};
        for (std::int64_t done = 0; done < count; done += std::ssize(some)) {
            auto const rest = std::min<std::int64_t>(std::ssize(some), count - done);
            make(some.data(), whole + done, rest);
            for (std::int64_t i = 0; i < rest; ++i)
                halves.data()[to + done + i] = Bfloat16(some[static_cast<std::size_t>(i)]);
        }
    }
    /// Calls `make(to, whole, count)` for all that this rank holds of a parameter: elements of the whole from `whole` on.
    template <class Make>
    void fill(TrainingParameter const& parameter, WeightShares::Share const& share, Make const& make) {
        parameter.for_each_run(share.own, [&](std::int64_t whole, std::int64_t at, std::int64_t count) {
            put(memory_, halves_, share.begin + at - share.own.begin, whole, count, make);
        });
        if (parameter.turned_elements == 0) return drop();
        parameter.cut.turned[parameter.rank].for_each_run(
            parameter.stride, [&](std::int64_t whole, std::int64_t at, std::int64_t count) {
                auto const from = std::max(at, share.turned.begin);
                auto const end = std::min(at + count, share.turned.end);
                if (from < end)
                    put(turned_, turned_halves_, share.turned_begin + from - share.turned.begin, whole + from - at,
                        end - from, make);
            });
        drop();
    }

    Model const* model_;
    TrainingLayout layout_;
    WeightShares shares_;
    WeightStorage storage_;
    detail::FileValues<float> memory_;
    detail::FileValues<Bfloat16> halves_;
    detail::FileValues<float> turned_;
    detail::FileValues<Bfloat16> turned_halves_;
    /// What ranks send and get of one parameter.
    detail::FileValues<float> exchanged_;
    detail::FileValues<Bfloat16> exchanged_halves_;
    FrozenProducts held_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
