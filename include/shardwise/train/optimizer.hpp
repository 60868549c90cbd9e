// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/core/bytes.hpp>
#include <shardwise/core/check_views.hpp>
#include <shardwise/core/dtype.hpp>
#include <shardwise/core/split.hpp>
#include <shardwise/core/text.hpp>
#include <shardwise/executor/training/optimizer_share.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Where a run is when its weights change: the same on all ranks.
struct OptimizerStep {
    /// Counted from 1: the steps that changed weights, this one included. A step that was skipped does not count.
    std::int64_t number = 1;
    double learning_rate = 3e-4;
    /// What gradients are multiplied with first: the clip coefficient, over the loss scaler's scale.
    double gradient_factor = 1.0;
};

/// One array of an optimizer's state.
struct StateArray {
    /// As checkpoints name it: "exp_avg".
    std::string_view name;
    Dtype dtype = Dtype::f32;
    std::int64_t elements = 0;
    /// Of the parameter, those that each of these is of: a number for every block. It counts blocks from the parameter's first element on.
    std::int64_t block = 1;
};

/// What an optimizer keeps of a range of a parameter.
struct StateArrays {
    static constexpr std::size_t most = 5;

    std::array<StateArray, most> arrays{};
    std::size_t count = 0;

    [[nodiscard]] constexpr StateArray const* begin() const { return arrays.data(); }
    [[nodiscard]] constexpr StateArray const* end() const { return arrays.data() + count; }
    /// The bytes of all arrays together.
    [[nodiscard]] constexpr Bytes bytes() const {
        std::int64_t sum = 0;
        for (auto const& array : *this) sum += array.elements * (bits(array.dtype) / 8);
        return Bytes{sum};
    }
    constexpr void add(StateArray const& array) { arrays[count++] = array; }
};

/// A range of a parameter with what belongs to it. A rank that owns a share of the parameter (ZeRO) gives that range alone.
struct ParameterRange {
    /// For errors.
    std::string_view name;
    /// Of the whole parameter, on whichever ranks: it decides about what is kept of any range.
    std::int64_t elements = 0;
    /// Where tensor-parallel ranks share it, this rank's, which are whole blocks (share_multiple) one after another; 0: it has all.
    std::int64_t part = 0;
    /// Which of the rank's these are.
    UnitRange range;
    TensorView<float, 1, Host> weights;
    TensorView<float const, 1, Host> gradients;
    /// In the order of the optimizer's `state(elements, range)`; all zero before the first step.
    std::array<std::byte*, StateArrays::most> state{};
    /// Whether weight decay applies: see decays_weight.
    bool decays = true;

    /// The rank's.
    [[nodiscard]] std::int64_t held() const { return part > 0 ? part : elements; }
};

/// Whether weight decay applies to a parameter: not to biases, and not to the weights of norms, which are the parameters of one
/// dimension and those of modules that are called so (a norm of each head has two).
///
/// Source  Loshchilov and Hutter, Decoupled Weight Decay Regularization, 2019; what transformers' Trainer leaves out
[[nodiscard]] constexpr bool decays_weight(std::string_view name, std::size_t dimensions) {
    auto const dot = name.rfind('.');
    auto const last = dot == std::string_view::npos ? name : name.substr(dot + 1);
    if (dimensions < 2 || last == "bias" || last.ends_with("_bias")) return false;
    auto const owner = dot == std::string_view::npos ? std::string_view() : name.substr(0, dot);
    auto const module = owner.substr(owner.rfind('.') + 1);
    for (std::size_t i = 0; i + 4 <= module.size(); ++i) {
        if (equal_ignoring_case(module.substr(i, 4), "norm")) return false;
    }
    return true;
}

/// An optimizer has a name: the one that `--optimizer` and checkpoints use.
template <class R>
concept HasOptimizerName = requires {
    { R::name } -> std::convertible_to<std::string_view>;
};
/// An optimizer says whether its settings make sense.
template <class R>
concept ChecksItsSettings = requires(R const& rule) {
    { rule.check() } -> std::same_as<Result<>>;
};
/// An optimizer says what it keeps of a range of a parameter, so that memory is planned and checkpoints are laid out before.
template <class R>
concept DescribesState = requires(R const& rule, std::int64_t elements, UnitRange range) {
    { rule.state(elements, range) } -> std::same_as<StateArrays>;
};
/// An optimizer says where a parameter may be cut so that its shares give the bits of the whole: every share begins at a multiple
/// of this many elements. One that needs whole matrices cannot be cut at all.
template <class R>
concept SaysWhereToCut = requires {
    { R::share_multiple } -> std::convertible_to<std::int64_t>;
    { R::needs_whole_matrix } -> std::convertible_to<bool>;
};
/// An optimizer changes the weights of a range.
template <class R>
concept UpdatesRange = requires(R const& rule, OptimizerStep const& step, ParameterRange const& range,
                                HostStream& stream) {
    { rule.update(step, range, stream) } -> std::same_as<Result<>>;
};

/// How weights change by their gradients: a value without state of its own, which lies in arrays that the caller owns. The
/// operations on an element are written in an order that no compiler changes and read nothing but the element (or its block), so
/// that results do not depend on threads, shares or instruction sets.
template <class R>
concept OptimizerRule = std::copyable<R> && HasOptimizerName<R> && ChecksItsSettings<R> && DescribesState<R> &&
    SaysWhereToCut<R> && UpdatesRange<R>;

namespace detail {

/// What every optimizer asks of a range and a step.
[[nodiscard]] inline Result<> check_update(std::string_view optimizer, OptimizerStep const& step,
                                           ParameterRange const& range, StateArrays const& state,
                                           std::int64_t multiple) {
    if (auto const known = check_views(range.name, range.weights, range.gradients); !known) return known;
    auto const& cut = range.range;
    Error wrong{ErrorCode::shape_mismatch};
    wrong.in(optimizer).at(range.name);
    if (cut.begin < 0 || cut.end < cut.begin || cut.end > range.held())
        return wrong.because("the range is not of the parameter").got(cut.end).between(0, range.held());
    if (cut.size() > 0 && cut.begin % multiple != 0)
        return wrong.because("a share begins within a block").got(cut.begin).multiple_of(multiple);
    if (cut.end != range.held() && cut.end % multiple != 0)
        return wrong.because("a share ends within a block").got(cut.end).multiple_of(multiple);
    if (range.weights.elements() != cut.size())
        return wrong.because("the weights are not those of the range")
            .got(range.weights.elements())
            .expected(cut.size());
    if (range.gradients.elements() != cut.size())
        return wrong.because("the gradients are not those of the range")
            .got(range.gradients.elements())
            .expected(cut.size());
    for (std::size_t i = 0; i < state.count; ++i) {
        if (range.state[i] == nullptr && state.arrays[i].elements > 0)
            return Error{ErrorCode::invalid_argument}
                .in(optimizer)
                .at(range.name)
                .because("the state has an array without memory")
                .got(static_cast<std::int64_t>(i));
    }
    Error bad{ErrorCode::invalid_argument};
    bad.in(optimizer);
    if (step.number < 1) return bad.at("step").because("steps are counted from 1").got(step.number).at_least(1);
    // The negations are true for NaN, too.
    if (!(step.learning_rate >= 0.0 && step.learning_rate < 1e30))
        return bad.at("learning_rate").because("is no number from 0 on");
    if (!(step.gradient_factor >= 0.0 && step.gradient_factor < 1e30))
        return bad.at("gradient_factor").because("is no number from 0 on");
    return {};
}

/// base^exponent by squaring: a fixed order of products, where the C library's pow differs between machines.
[[nodiscard]] constexpr double whole_power(double base, std::int64_t exponent) {
    double power = 1.0;
    for (; exponent > 0; exponent /= 2) {
        if (exponent % 2 != 0) power *= base;
        base *= base;
    }
    return power;
}

/// Elements that are worth a thread: a page of each of four arrays.
inline constexpr std::int64_t optimizer_grain = 4096;

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
