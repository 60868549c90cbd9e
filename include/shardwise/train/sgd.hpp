// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/train/detail/optimizer_kernels.hpp>
#include <shardwise/train/optimizer.hpp>

#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Stochastic gradient descent with momentum. An element's step, each operation rounded to float by itself:
///
///     g = g * gradient_factor + weight_decay * w
///     b = momentum * b + g                 from b = 0 on
///     w = w - lr * b                       with Nesterov: w - lr * (g + momentum * b)
///
/// Memory  4 bytes for each element, none without momentum
/// Source  Sutskever et al., On the importance of initialization and momentum in deep learning, 2013; torch.optim.SGD without dampening
struct Sgd {
    static constexpr std::string_view name = "sgd";
    static constexpr std::int64_t share_multiple = 1;
    static constexpr bool needs_whole_matrix = false;

    double momentum = 0.9;
    bool is_nesterov = false;
    /// Added to the gradient, as torch does.
    double weight_decay = 0.0;

    /// Errors  invalid_argument
    [[nodiscard]] Result<> check() const {
        auto const bad = [](std::string_view field, std::string_view reason) {
            return Error{ErrorCode::invalid_argument}.in(name).at(field).because(reason);
        };
        if (!(momentum >= 0.0 && momentum < 1.0)) return bad("momentum", "is not from 0 to below 1");
        if (!(weight_decay >= 0.0 && weight_decay < 1e30)) return bad("weight_decay", "is no number from 0 on");
        if (is_nesterov && momentum == 0.0)
            return Error{bad("is_nesterov", "asks for a momentum")}.fix("set momentum, or leave Nesterov out");
        return {};
    }

    [[nodiscard]] StateArrays state(std::int64_t, UnitRange range) const {
        StateArrays arrays;
        if (momentum > 0.0) arrays.add({"momentum_buffer", Dtype::f32, range.size()});
        return arrays;
    }

    /// Order   on `stream`, on the threads of its context
    /// Errors  shape_mismatch, invalid_argument; what the stream says of its instruction set
    [[nodiscard]] Result<> update(OptimizerStep const& step, ParameterRange const& range, HostStream& stream) const {
        if (auto const checked = check(); !checked) return checked;
        auto const known = detail::check_update(name, step, range, state(range.elements, range.range), share_multiple);
        if (!known) return known;
        if (!stream.isa()) return stream.isa().error();
        auto const kernel = detail::choose_kernel<Kernel>(*stream.isa(), SHARDWISE_KERNEL_LEVELS(optimizers::sgd));
        auto* const weights = range.weights.data();
        auto const* const gradients = range.gradients.data();
        auto* const momenta = momentum > 0.0 ? reinterpret_cast<float*>(range.state[0]) : nullptr;
        detail::SgdTask const task{.gradient_factor = static_cast<float>(step.gradient_factor),
                                   .weight_decay = range.decays ? static_cast<float>(weight_decay) : 0.0F,
                                   .momentum = static_cast<float>(momentum),
                                   .learning_rate = static_cast<float>(step.learning_rate),
                                   .is_nesterov = is_nesterov};
        auto const update = [=](std::int64_t begin, std::int64_t end) {
            kernel(weights + begin, gradients + begin, momenta == nullptr ? nullptr : momenta + begin, end - begin,
                   task);
        };
        Host::launch(range.range.size(), update, stream, detail::optimizer_grain);
        return {};
    }

private:
    using Kernel = void (*)(float*, float const*, float*, std::int64_t, detail::SgdTask const&);
};
static_assert(OptimizerRule<Sgd>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
