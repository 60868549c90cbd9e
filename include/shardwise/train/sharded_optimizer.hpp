// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/buffer.hpp>
#include <shardwise/backend/host.hpp>
#include <shardwise/comm/all_gather.hpp>
#include <shardwise/comm/barrier.hpp>
#include <shardwise/comm/traffic.hpp>
#include <shardwise/core/checked.hpp>
#include <shardwise/core/list.hpp>
#include <shardwise/core/span.hpp>
#include <shardwise/executor/training/file_memory.hpp>
#include <shardwise/kernels/half_values.hpp>
#include <shardwise/parallel/place.hpp>
#include <shardwise/quant/half_types.hpp>
#include <shardwise/train/kahan_sum.hpp>
#include <shardwise/train/optimizer.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A parameter that an optimizer changes.
struct OptimizedParameter {
    std::string name;
    /// All of it, on every rank; or this rank's share alone (ZeRO 3).
    TensorView<float, 1, Host> weights;
    /// Whether weight decay applies: decays_weight(name, dimensions) as a rule.
    bool decays = true;
    /// Where `weights` are a share, the elements of the whole; else 0.
    std::int64_t whole = 0;
    /// In place of `weights` where they are held in bf16, which KahanSum changes.
    TensorView<Bfloat16, 1, Host> halves{};
    /// Where this is a tensor-parallel rank's part of a parameter, the elements of that; else 0. See detail::check_cut.
    std::int64_t parted = 0;

    [[nodiscard]] bool is_share() const { return whole > 0; }
    [[nodiscard]] bool is_half() const { return halves.elements() > 0; }
    /// Those that are in memory, and all.
    [[nodiscard]] std::int64_t held() const { return is_half() ? halves.elements() : weights.elements(); }
    [[nodiscard]] std::int64_t elements() const { return is_share() ? whole : held(); }
    /// Of the model's parameter, on whichever ranks: the rule is asked by those what it keeps.
    [[nodiscard]] std::int64_t of_model() const { return parted > 0 ? parted : elements(); }
};

/// An optimizer with its state, of all of a model's parameters or of a rank's share of each (ZeRO 1, 2 and 3): `step` changes the
/// weights of the share, `gather` brings all ranks' shares together where ranks have whole weights. Shares are whole blocks of 256
/// elements, so that any number of ranks gives the bits of one.
///
/// Memory  the state of this rank's shares, and of weights in bf16 some floats at a time, allocated at creation: state_bytes
template <OptimizerRule Rule>
class ShardedOptimizer {
public:
    using Vector = TensorView<float, 1, Host>;
    using ConstVector = TensorView<float const, 1, Host>;

    /// What `create` allocates.
    ///
    /// Units  bytes
    [[nodiscard]] static Bytes state_bytes(Rule const& rule, Span<OptimizedParameter const> parameters,
                                           TensorPlace const& place, bool is_offloaded = false) {
        auto const scratch = scratch_floats(parameters, place) * static_cast<std::int64_t>(sizeof(float));
        return Bytes{scratch + (is_offloaded ? 0 : array_bytes(rule, parameters, place))};
    }
    /// Of the state's arrays, wherever they lie.
    [[nodiscard]] static std::int64_t array_bytes(Rule const& rule, Span<OptimizedParameter const> parameters,
                                                  TensorPlace const& place) {
        std::int64_t sum = 0;
        for (auto const& parameter : parameters) {
            auto const own = optimizer_share(parameter.elements(), place.ranks, place.rank);
            for (auto const& array : rule.state(parameter.of_model(), own)) sum += padded_bytes(array);
        }
        return sum;
    }

    /// `context` and the weights outlive this object. With a folder the state lies in a file there (offload), of which what the next
    /// parameters need is read ahead.
    ///
    /// Errors  invalid_argument; unsupported for ranks of an optimizer that needs whole matrices; out_of_memory; file_unwritable
    [[nodiscard]] static Result<ShardedOptimizer> create(HostContext& context, Rule const& rule,
                                                         List<OptimizedParameter> parameters,
                                                         TensorPlace const& place = {},
                                                         std::string const& folder = {}) {
        if (auto const checked = rule.check(); !checked) return checked.error();
        if (auto const checked = detail::check_place(Rule::name, place); !checked) return checked.error();
        if (Rule::needs_whole_matrix && place.ranks > 1) {
            return Error{ErrorCode::unsupported}
                .in(Rule::name)
                .because("needs whole matrices, which ranks do not share")
                .fix("use one rank, or another optimizer");
        }
        for (auto const& parameter : parameters) {
            if (auto const known = check_views(parameter.name, parameter.weights); !known) return known.error();
            auto const own = optimizer_share(parameter.elements(), place.ranks, place.rank).size();
            if (auto const known = check_views(parameter.name, parameter.halves); !known) return known.error();
            if (parameter.is_half() && detail::weights_dtype<Rule> != Dtype::bf16)
                return Error{ErrorCode::unsupported}
                    .in(Rule::name)
                    .at(parameter.name)
                    .because("is held in bfloat16, in which small steps are lost")
                    .fix("use KahanSum of it");
            if (parameter.is_share() && parameter.held() != own)
                return Error{ErrorCode::shape_mismatch}
                    .in(Rule::name)
                    .at(parameter.name)
                    .because("has other weights than this rank's share")
                    .got(parameter.held())
                    .expected(own);
        }
        auto memory = detail::FileMemory::allocate(context, array_bytes(rule, parameters, place), folder);
        if (!memory) return memory.error();
        auto scratch = Buffer<float, Host>::allocate(context, scratch_floats(parameters, place));
        if (!scratch) return scratch.error();
        ShardedOptimizer out(rule, std::move(parameters), place, std::move(*memory));
        out.scratch_ = std::move(*scratch);
        return Result<ShardedOptimizer>(std::move(out));
    }

    [[nodiscard]] Rule const& rule() const { return rule_; }
    /// Whether the state lies in a file; and takes it out of memory: FileMemory::drop.
    [[nodiscard]] bool is_offloaded() const { return memory_.is_mapped(); }
    void drop() const { memory_.drop(); }
    /// Is called in the stream after each parameter: gives back what was read and written of weights and gradients.
    void set_trim(std::function<void()> trim) { trim_ = std::move(trim); }
    [[nodiscard]] List<OptimizedParameter> const& parameters() const { return parameters_; }
    /// The elements of a parameter that this rank changes.
    [[nodiscard]] UnitRange share(std::size_t parameter) const {
        return optimizer_share(parameters_[parameter].elements(), place_.ranks, place_.rank);
    }
    /// The arrays of a parameter's state, of this rank's share, and where they lie: what a checkpoint writes and reads.
    [[nodiscard]] StateArrays state(std::size_t parameter) const {
        return rule_.state(parameters_[parameter].of_model(), share(parameter));
    }
    [[nodiscard]] Span<std::byte> state_memory(std::size_t parameter, std::size_t array) {
        auto const arrays = state(parameter);
        return {memory_.data() + places_[parameter][array], static_cast<std::size_t>(bytes_of(arrays.arrays[array]))};
    }

    /// What a rank takes from the others in one `gather`.
    [[nodiscard]] static CollectiveTraffic gather_traffic(Span<OptimizedParameter const> parameters,
                                                          TensorPlace const& place) {
        CollectiveTraffic out;
        if (place.ranks == 1) return out;
        for (auto const& parameter : parameters) {
            auto const elements = parameter.elements();
            auto const others = elements - optimizer_share(elements, place.ranks, place.rank).size();
            ++out.calls;
            out.messages += others > 0 ? 1 : 0;
            out.bytes += others * static_cast<std::int64_t>(parameter.is_half() ? sizeof(Bfloat16) : sizeof(float));
        }
        return out;
    }

    /// Changes the weights of this rank's shares. `gradients` are those of all parameters, each whole or of the share alone.
    ///
    /// Order   on `stream`; this object and the views outlive what is in it
    /// Errors  shape_mismatch; as the rule's update
    [[nodiscard]] Result<> step(OptimizerStep const& step, Span<ConstVector const> gradients, HostStream& stream) {
        Error wrong{ErrorCode::shape_mismatch};
        wrong.in(Rule::name);
        if (gradients.size() != parameters_.size())
            return wrong.because("there is not one gradient for each parameter")
                .got(static_cast<std::int64_t>(gradients.size()))
                .expected(static_cast<std::int64_t>(parameters_.size()));
        // All are looked at before any changes.
        for (std::size_t i = 0; i < gradients.size(); ++i) {
            auto const& parameter = parameters_[i];
            auto const elements = gradients[i].elements();
            if (auto const known = check_views(parameter.name, gradients[i]); !known) return known;
            if (elements != parameter.elements() && elements != share(i).size())
                return wrong.at(parameter.name)
                    .because("the gradient is neither that of the parameter nor of the share")
                    .got(elements)
                    .expected(share(i).size());
        }
        fetch(0, stream);
        for (std::size_t i = 0; i < gradients.size(); ++i) {
            fetch(i + 1, stream);
            auto const& parameter = parameters_[i];
            auto const own = share(i);
            bool const is_whole = gradients[i].elements() == parameter.elements();
            ParameterRange range{.name = parameter.name,
                                 .elements = parameter.of_model(),
                                 .part = parameter.elements(),
                                 .range = own,
                                 .weights = own_part(parameter, parameter.weights, own),
                                 .gradients = is_whole ? gradients[i].part(own.begin, own.size()) : gradients[i],
                                 .state = {},
                                 .decays = parameter.decays};
            for (std::size_t array = 0; array < state(i).count; ++array)
                range.state[array] = memory_.data() + places_[i][array];
            auto const done = parameter.is_half()
                                  ? step_halves(step, range, own_part(parameter, parameter.halves, own), stream)
                                  : rule_.update(step, range, stream);
            if (!done) return done;
            if (memory_.is_mapped() || trim_) {
                stream.submit([this, i] {
                    if (trim_) trim_();
                    memory_.release(places_[i][0], bytes_of_parameter(i));
                    // What the system does not take at once stays its own.
                    memory_.drop();
                    return Result<>{};
                });
            }
        }
        return {};
    }

    /// Brings the ranks' shares of all weights together, of which every rank has the whole. Where they have one copy, that is so once all
    /// have changed their shares: they wait for each other.
    ///
    /// Order   on `stream`; this object and `comm` outlive what is in it
    /// Errors  invalid_argument for another group; as a collective
    template <Communicator C>
    [[nodiscard]] Result<> gather(C& comm, HostStream& stream, bool has_one_copy = false) {
        if (auto const checked = detail::check_group(Rule::name, place_, comm); !checked) return checked;
        if (has_one_copy) {
            stream.submit([&comm] { return barrier(comm); });
            return {};
        }
        if (place_.ranks == 1) return {};
        for (auto const& parameter : parameters_) {
            if (parameter.is_share())
                return Error{ErrorCode::invalid_argument}
                    .in(Rule::name)
                    .at(parameter.name)
                    .because("is a share, which has no memory for the others'");
        }
        stream.submit([this, &comm]() -> Result<> {
            for (std::size_t i = 0; i < parameters_.size(); ++i) {
                auto const& parameter = parameters_[i];
                auto const done = parameter.is_half() ? gather_one(comm, parameter.halves, share(i))
                                                      : gather_one(comm, parameter.weights, share(i));
                if (!done) return done;
                if (trim_) trim_();
            }
            return {};
        });
        return {};
    }

private:
    using Places = std::array<std::int64_t, StateArrays::most>;

    ShardedOptimizer(Rule const& rule, List<OptimizedParameter> parameters, TensorPlace const& place,
                     detail::FileMemory memory)
        : rule_(rule), parameters_(std::move(parameters)), place_(place), memory_(std::move(memory)) {
        std::int64_t next = 0;
        for (std::size_t i = 0; i < parameters_.size(); ++i) {
            Places places{};
            std::size_t which = 0;
            for (auto const& array : state(i)) {
                places[which++] = next;
                next += padded_bytes(array);
            }
            places_.push_back(places);
        }
    }

    /// Weights in bf16 that are widened at a time: whole blocks.
    static constexpr std::int64_t half_chunk = std::int64_t{1} << 18U;

    [[nodiscard]] static std::int64_t scratch_floats(Span<OptimizedParameter const> parameters,
                                                     TensorPlace const& place) {
        std::int64_t most = 0;
        for (auto const& parameter : parameters) {
            auto const own = optimizer_share(parameter.elements(), place.ranks, place.rank).size();
            if (parameter.is_half()) most = std::max(most, std::min(own, half_chunk));
        }
        return most;
    }
    /// Of what is held of a parameter this rank's share.
    template <class T>
    [[nodiscard]] static TensorView<T, 1, Host> own_part(OptimizedParameter const& parameter,
                                                         TensorView<T, 1, Host> held, UnitRange own) {
        bool const is_other = held.elements() == 0;
        return parameter.is_share() || is_other ? held : held.part(own.begin, own.size());
    }
    /// From the first of a parameter's arrays on, which lie one after another.
    [[nodiscard]] std::int64_t bytes_of_parameter(std::size_t parameter) const {
        std::int64_t sum = 0;
        for (auto const& array : state(parameter)) sum += padded_bytes(array);
        return sum;
    }
    /// Begins to read the state of a parameter from a file.
    void fetch(std::size_t parameter, HostStream& stream) {
        if (!memory_.is_mapped() || parameter >= parameters_.size()) return;
        stream.submit([this, parameter] {
            memory_.fetch(places_[parameter][0], bytes_of_parameter(parameter));
            return Result<>{};
        });
    }
    template <class C, class T>
    [[nodiscard]] Result<> gather_one(C& comm, TensorView<T, 1, Host> weights, UnitRange own) {
        List<std::int64_t> counts(static_cast<std::size_t>(place_.ranks));
        for (std::size_t rank = 0; rank < counts.size(); ++rank)
            counts[rank] = optimizer_share(weights.elements(), place_.ranks, static_cast<std::int64_t>(rank)).size();
        TensorView<T const, 1, Host> const part = weights.part(own.begin, own.size());
        return all_gather(comm, part, weights, std::span<std::int64_t const>{counts.data(), counts.size()});
    }
    /// A step of weights in bf16, some at a time.
    [[nodiscard]] Result<> step_halves(OptimizerStep const& step, ParameterRange const& whole,
                                       TensorView<Bfloat16, 1, Host> halves, HostStream& stream) {
        auto const arrays = rule_.state(whole.elements, whole.range);
        for (std::int64_t first = 0; first < halves.elements(); first += half_chunk) {
            auto const count = std::min(half_chunk, halves.elements() - first);
            auto const begin = whole.range.begin + first;
            auto some = whole;
            some.range = {begin, begin + count};
            some.weights = {scratch_.data(), {count}};
            some.gradients = whole.gradients.part(first, count);
            auto const before = rule_.state(whole.elements, {whole.range.begin, begin});
            for (std::size_t array = 0; array < arrays.count; ++array)
                some.state[array] += bytes_of(before.arrays[array]);
            auto* const bits = reinterpret_cast<std::uint16_t*>(halves.data() + first);
            unpack_half(bits, scratch_.data(), count, Dtype::bf16, stream);
            if (auto const done = rule_.update(step, some, stream); !done) return done;
            pack_half(scratch_.data(), bits, count, Dtype::bf16, stream);
        }
        return {};
    }

    [[nodiscard]] static std::int64_t bytes_of(StateArray const& array) {
        return array.elements * (bits(array.dtype) / 8);
    }
    /// Arrays begin where registers may load from.
    [[nodiscard]] static std::int64_t padded_bytes(StateArray const& array) {
        return round_up(bytes_of(array), static_cast<std::int64_t>(Host::alignment));
    }

    Rule rule_;
    List<OptimizedParameter> parameters_;
    TensorPlace place_;
    detail::FileMemory memory_;
    std::function<void()> trim_;
    List<Places> places_;
    /// Of weights in bf16.
    Buffer<float, Host> scratch_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
