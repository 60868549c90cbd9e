// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/buffer.hpp>
#include <shardwise/backend/host.hpp>
#include <shardwise/comm/host_communicator.hpp>
#include <shardwise/core/deadline.hpp>
#include <shardwise/core/optional.hpp>
#include <shardwise/executor/training/frozen_products.hpp>
#include <shardwise/executor/training/layer_parts.hpp>
#include <shardwise/executor/training/training_weights.hpp>
#include <shardwise/kernels/half_values.hpp>
#include <shardwise/parallel/collectives.hpp>
#include <shardwise/quant/half_types.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The weights of one layer at a time, of ranks each of which holds its share of every parameter alone (ZeRO 3): while a layer is computed
/// the next one is gathered, by a thread of its own, into the other of two buffers. All ranks take the same layers in the same order, also
/// one that has nothing to compute with them.
///
/// Also of weights in bf16, in float32 as layers compute with them: whole ones are widened when a layer is taken, into one buffer. And of
/// weights that lie in a file (offload): they are read as others are gathered.
///
/// Memory  bytes(...), allocated at creation
/// Source  Rajbhandari et al., ZeRO, 2020, section 5.3; prefetch as DeepSpeed's stage 3
class GatheredLayers {
public:
    using Number = Optional<std::size_t>;

    /// What `create` allocates.
    [[nodiscard]] static Bytes bytes(TrainingProgram const& program, WeightStorage const& storage) {
        if (storage.is_direct()) return Bytes{0};
        LayerParts const parts(program);
        return Bytes{slots(storage) * parts.elements() * static_cast<std::int64_t>(sizeof(float)) +
                     staged(parts, storage) * static_cast<std::int64_t>(sizeof(Bfloat16))};
    }

    /// `comm` is that of the ranks that share weights, null where they do not, and used by nothing else; it and the context outlive this. Where a thread of its own
    /// may not use it beside others of the group (MPI, Gloo), the caller gathers, and nothing overlaps.
    ///
    /// Errors  out_of_memory
    [[nodiscard]] static Result<GatheredLayers> create(HostContext& context, TrainingProgram const& program,
                                                       HostCommunicator* comm, WeightStorage const& storage,
                                                       std::chrono::nanoseconds timeout) {
        bool is_ahead = storage.is_mapped();
        if (comm != nullptr) {
            (void)comm->visit([&is_ahead](auto& one) -> Result<> {
                using Kind = std::remove_cvref_t<decltype(one)>;
                is_ahead = std::same_as<Kind, Threads> || std::same_as<Kind, SharedMemory>;
                return {};
            });
        }
        GatheredLayers out(LayerParts(program), comm, timeout, is_ahead, storage.is_mapped());
        for (std::int64_t i = 0; i < slots(storage); ++i) {
            auto memory = Buffer<float, Host>::allocate(context, out.parts().elements());
            if (!memory) return memory.error();
            auto& slot = out.state_->slots[static_cast<std::size_t>(i)];
            slot.memory = std::move(*memory);
            slot.products = products_in(out.parts(), slot.memory.data());
        }
        auto staging = Buffer<Bfloat16, Host>::allocate(context, staged(out.parts(), storage));
        if (!staging) return staging.error();
        out.state_->staging = std::move(*staging);
        return Result<GatheredLayers>(std::move(out));
    }

    /// What is gathered of each.
    [[nodiscard]] LayerParts const& parts() const { return state_->parts; }

    /// The weights of a layer, as `parts` places them, for what is put into `stream` until the next call; `next` is the layer that will be
    /// taken then, where that is known.
    ///
    /// Order   on `stream`; the weights outlive what is in it, and stay as they are until `forget`
    /// Errors  a collective's error stops the stream
    [[nodiscard]] float const* take(std::size_t layer, Number next, TrainingWeights const& weights,
                                    HostStream& stream) {
        auto& state = *state_;
        if (is_trimmed()) trim(stream);
        if (state.comm == nullptr && !state.is_mapped) {
            if (!state.held || *state.held != layer) widen(layer, weights, stream);
            state.held = layer;
            return state.slot().memory.data();
        }
        if (!state.held || *state.held != layer) {
            bool const is_ahead = state.ahead && *state.ahead == layer;
            ++(is_ahead ? state.taken.ahead : state.held ? state.taken.late : state.taken.first);
            if (!is_ahead) gather(layer, weights, stream);
            state.current = 1 - state.current;
            state.held = layer;
            state.ahead = {};
            wait(stream);
        }
        if (next && !state.ahead && *next != layer) gather(*next, weights, stream);
        return state.slot().memory.data();
    }
    /// Of the layer that was taken last, its frozen products in formats of their own, by their places among its parts.
    [[nodiscard]] FrozenProducts::Product const* products(std::size_t layer) const {
        return state_->slot().products[layer].data();
    }
    /// How many layers were taken so far: the first ones after `forget`, those that were gathered while the one before was computed, and
    /// those that were not.
    struct Taken {
        std::int64_t first = 0;
        std::int64_t ahead = 0;
        std::int64_t late = 0;
    };
    [[nodiscard]] Taken const& taken() const { return state_->taken; }
    /// How long streams have waited for layers so far; and how long ranks took to gather them. For after what is in the stream.
    [[nodiscard]] std::chrono::nanoseconds waited() const { return state_->waited; }
    [[nodiscard]] std::chrono::nanoseconds gathered() const {
        return state_->comm == nullptr ? std::chrono::nanoseconds{0} : state_->comm->time_of_calls();
    }

    /// Whether they come from other ranks.
    [[nodiscard]] bool is_gathering() const { return state_->comm != nullptr; }
    /// Is called in the stream before each layer: gives back what the layer before has written.
    void set_trim(std::function<void()> trim) { state_->trim = std::move(trim); }
    [[nodiscard]] bool is_trimmed() const { return state_->trim != nullptr; }
    void trim(HostStream& stream) {
        stream.submit([state = state_.get()] {
            state->trim();
            return Result<>{};
        });
    }

    /// Weights have changed: nothing that was gathered counts any more. Nothing may be gathered ahead then.
    void forget() { state_->held = state_->ahead = {}; }

    /// Takes part in what other ranks gather for a forward pass, and for a backward pass or the losses of a sequence, where this one has no
    /// sequence; of a pipeline's rank, in the passes through one of its chunks. A backward pass may be followed: ChunkPass::is_followed.
    ///
    /// Order, Errors  as take
    void join_forward(TrainingWeights const& weights, HostStream& stream, std::size_t chunk = 0) {
        forget();
        auto const range = parts().chunk(chunk);
        for (auto i = range.begin; i < range.end; ++i) (void)take(at(i), parts().after(at(i), chunk), weights, stream);
    }
    void join_backward(TrainingWeights const& weights, HostStream& stream, bool is_followed, std::size_t chunk = 0) {
        auto const first = parts().first_back(chunk);
        auto const last = at(parts().chunk(chunk).begin);
        auto const after = is_followed ? Number(first) : Number();
        for (auto i = first + 1; i-- > last;) (void)take(i, i > last ? Number(i - 1) : after, weights, stream);
    }
    void join_losses(TrainingWeights const& weights, HostStream& stream) {
        (void)take(parts().head_number(), Number(), weights, stream);
    }

    /// Renews the copies that are cut along the other axis, once weights have changed: each parameter is gathered, its copy exchanged, and
    /// this rank's share of that kept. Of whole weights in bf16 the copies alone are exchanged.
    ///
    /// Order   on `stream`; the weights and both communicators outlive what is in it
    /// Errors  a collective's error stops the stream
    void exchange(TrainingWeights& weights, HostCommunicator& tensor, HostStream& stream) {
        if (state_->comm == nullptr)
            weights.exchange(tensor, stream);
        else if (weights.storage().is_half())
            exchange_shares(
                weights, weights.exchanged_halves(), tensor, stream,
                [&](std::size_t i) { return std::as_const(weights).halves(i); },
                [&](std::size_t i) { return weights.turned_halves(i); });
        else
            exchange_shares(
                weights, weights.exchanged(), tensor, stream,
                [&](std::size_t i) { return std::as_const(weights).values(i); },
                [&](std::size_t i) { return weights.turned_values(i); });
        forget();
    }
    /// What a rank takes from the others in `exchange`.
    [[nodiscard]] static CollectiveTraffic exchange_traffic(TrainingLayout const& layout,
                                                            WeightStorage const& storage) {
        auto out = detail::exchange_traffic(layout, storage.width());
        for (auto const& parameter : layout.parameters()) {
            if (parameter.turned_elements > 0) out += LayerParts::traffic_of(parameter.elements, storage);
        }
        return out;
    }

private:
    template <class T, class Own, class Turned>
    void exchange_shares(TrainingWeights& weights, T* exchanged, HostCommunicator& tensor, HostStream& stream,
                         Own const& values, Turned const& copies) {
        auto const& parameters = weights.layout().parameters();
        for (std::size_t i = 0; i < parameters.size(); ++i) {
            auto const& parameter = parameters[i];
            if (parameter.turned_elements == 0) continue;
            // Memory of floats, which are not read before the next are gathered.
            auto* const whole = reinterpret_cast<T*>(state_->slots[0].memory.data());
            auto* const turned = whole + round_up(parameter.elements, TrainingLayout::alignment);
            bring_together<T>(values(i), {whole, {parameter.elements}}, stream);
            detail::exchange_turned<T>(parameter, whole, turned, exchanged, tensor, stream);
            auto const own = weights.shares()[i].turned;
            stream.submit([to = copies(i), from = turned + own.begin] {
                std::copy_n(from, to.elements(), to.data());
                return Result<>{};
            });
            weights.submit_drop(stream);
        }
    }

    struct Slot {
        Buffer<float, Host> memory;
        /// By layer: those that are there while it is.
        std::vector<std::vector<FrozenProducts::Product>> products;
        /// What was gathered into it; what read it last.
        HostEvent gathered;
        HostEvent used;
    };
    /// In one place, which the gathering thread knows.
    struct State {
        State(LayerParts all, HostCommunicator* ranks, std::chrono::nanoseconds limit, bool is_ahead, bool maps)
            : parts(std::move(all)),
              comm(ranks),
              is_mapped(maps),
              timeout(limit),
              gathers(is_ahead ? StreamMode::queued : StreamMode::immediate) {}

        [[nodiscard]] Slot& slot() { return slots[current]; }

        LayerParts parts;
        HostCommunicator* comm;
        bool is_mapped;
        std::chrono::nanoseconds timeout;
        std::function<void()> trim;
        /// The second is empty where nothing is gathered.
        std::array<Slot, 2> slots;
        /// Of a parameter in bf16, as ranks gather it.
        Buffer<Bfloat16, Host> staging;
        /// The slot of the layer that was taken last, and of the other one what is gathered.
        std::size_t current = 0;
        Number held;
        Number ahead;
        Taken taken;
        std::chrono::nanoseconds waited{0};
        HostStream gathers;
    };

    [[nodiscard]] static std::size_t at(std::int64_t layer) { return static_cast<std::size_t>(layer); }
    [[nodiscard]] static std::int64_t slots(WeightStorage const& storage) {
        return storage.shares.ranks > 1 || storage.is_mapped() ? 2 : 1;
    }
    [[nodiscard]] static std::int64_t staged(LayerParts const& parts, WeightStorage const& storage) {
        return storage.is_half() && storage.shares.ranks > 1 ? parts.largest_parameter() : 0;
    }

    GatheredLayers(LayerParts parts, HostCommunicator* comm, std::chrono::nanoseconds timeout, bool is_ahead, bool maps)
        : state_(std::make_unique<State>(std::move(parts), comm, timeout, is_ahead, maps)) {}

    [[nodiscard]] static std::vector<std::vector<FrozenProducts::Product>> products_in(LayerParts const& parts,
                                                                                       float const* memory) {
        std::vector<std::vector<FrozenProducts::Product>> out(parts.size());
        auto const at = [memory](std::int64_t begin) { return reinterpret_cast<std::byte const*>(memory + begin); };
        for (std::size_t layer = 0; layer < parts.size(); ++layer) {
            for (auto const& part : parts[layer]) {
                auto& product = out[layer].emplace_back();
                if (part.held != nullptr && part.elements > 0)
                    product.own = FrozenProducts::product_at(*part.held, at(part.begin));
                if (part.held_turned != nullptr && part.turned_elements > 0)
                    product.turned = FrozenProducts::product_at(*part.held_turned, at(part.turned_begin));
            }
        }
        return out;
    }
    /// Holds `stream` up until the layer of the current slot is there.
    void wait(HostStream& stream) {
        stream.submit([state = state_.get(), event = state_->slot().gathered] {
            auto const begin = std::chrono::steady_clock::now();
            auto const there = event.synchronize(Deadline::after(state->timeout));
            state->waited += std::chrono::steady_clock::now() - begin;
            return there;
        });
    }
    /// Begins to gather a layer into the slot that is not in use, behind what read it last.
    void gather(std::size_t layer, TrainingWeights const& weights, HostStream& stream) {
        auto& state = *state_;
        auto& slot = state.slots[1 - state.current];
        slot.used.record(stream);
        slot.used.block(state.gathers, state.timeout);
        for (auto const& part : state.parts[layer]) {
            auto* const memory = slot.memory.data();
            if (state.comm == nullptr) {
                read(part, weights, memory);
                continue;
            }
            bool const is_half = weights.storage().is_half();
            if (part.elements > 0 && is_half)
                bring_halves(weights.halves(part.parameter), {memory + part.begin, {part.elements}}, state.gathers);
            else if (part.elements > 0)
                bring_together<float>(weights.values(part.parameter), {memory + part.begin, {part.elements}},
                                      state.gathers);
            if (part.turned_elements > 0 && is_half)
                bring_halves(weights.turned_halves(part.parameter),
                             {memory + part.turned_begin, {part.turned_elements}}, state.gathers);
            else if (part.turned_elements > 0)
                bring_together<float>(weights.turned_values(part.parameter),
                                      {memory + part.turned_begin, {part.turned_elements}}, state.gathers);
        }
        weights.submit_drop(state.gathers);
        slot.gathered.record(state.gathers);
        state.ahead = layer;
    }
    /// A parameter that lies in a file.
    void read(LayerParts::Part const& part, TrainingWeights const& weights, float* memory) {
        auto& stream = state_->gathers;
        if (weights.storage().is_half()) {
            widen(weights.halves(part.parameter).data(), memory + part.begin, part.elements, stream);
            widen(weights.turned_halves(part.parameter).data(), memory + part.turned_begin, part.turned_elements,
                  stream);
        } else {
            stream.submit([&weights, part, memory] {
                std::copy_n(weights.values(part.parameter).data(), part.elements, memory + part.begin);
                std::copy_n(weights.turned_values(part.parameter).data(), part.turned_elements,
                            memory + part.turned_begin);
                return Result<>{};
            });
        }
        weights.submit_drop(stream);
    }
    /// Whole weights in bf16.
    void widen(std::size_t layer, TrainingWeights const& weights, HostStream& stream) {
        for (auto const& part : state_->parts[layer]) {
            auto* const to = state_->slot().memory.data();
            widen(weights.halves(part.parameter).data(), to + part.begin, part.elements, stream);
            widen(weights.turned_halves(part.parameter).data(), to + part.turned_begin, part.turned_elements, stream);
        }
    }
    static void widen(Bfloat16 const* from, float* to, std::int64_t count, HostStream& stream) {
        static_assert(sizeof(Bfloat16) == sizeof(std::uint16_t));
        unpack_half(reinterpret_cast<std::uint16_t const*>(from), to, count, Dtype::bf16, stream);
    }
    void bring_halves(TensorView<Bfloat16 const, 1, Host> own, TensorView<float, 1, Host> to, HostStream& stream) {
        auto* const staging = state_->staging.data();
        bring_together<Bfloat16>(own, TensorView<Bfloat16, 1, Host>{staging, {to.elements()}}, stream);
        widen(staging, to.data(), to.elements(), stream);
    }
    template <class T>
    void bring_together(TensorView<T const, 1, Host> own, TensorView<T, 1, Host> to, HostStream& stream) {
        auto const count = [elements = to.elements(), ranks = state_->comm->size()](std::int32_t rank) {
            return optimizer_share(elements, ranks, rank).size();
        };
        submit_all_gather(*state_->comm, own, to, count, stream);
    }

    std::unique_ptr<State> state_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
