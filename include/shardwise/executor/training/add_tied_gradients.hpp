// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/executor/training/training_layout.hpp>
#include <shardwise/kernels/backward/add.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Adds the gradients of tied names, summed over all leaves, to those of the parameter: once, after all other sums.
///
/// Shapes  gradients [layout.gradient_elements()]
/// Order   on `stream`
[[nodiscard]] inline Result<> add_tied_gradients(TrainingLayout const& layout, TensorView<float, 1, Host> gradients,
                                                 HostStream& stream) {
    for (auto const& tie : layout.ties()) {
        auto const& parameter = layout.parameters()[tie.parameter];
        TensorView<float const, 2, Host> const from(gradients.data() + tie.begin, {1, parameter.elements});
        TensorView<float, 2, Host> const to(gradients.data() + parameter.begin, {1, parameter.elements});
        if (auto const done = add_backward(from, to, true, stream); !done) return done;
    }
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
