// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/buffer.hpp>
#include <shardwise/backend/compute_backend.hpp>
#include <shardwise/core/assert.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/executor/hold_floats.hpp>
#include <shardwise/executor/layer_rope.hpp>
#include <shardwise/kernels/rope.hpp>
#include <shardwise/kernels/rope_turns.hpp>
#include <shardwise/kernels/step_table.hpp>
#include <shardwise/model/config.hpp>
#include <shardwise/model/files/rope_divisors.hpp>
#include <shardwise/op/operation.hpp>
#include <shardwise/op/rope_layout.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Where in each head elements rotate, and which are pairs.
struct RotatedHeads {
    std::int64_t head_dim = 0;
    /// The first element of a head that rotates.
    std::int64_t first = 0;
    RopeLayout layout = RopeLayout::half;
};

/// The rotations of a rank's layers, each kind held once: a step makes the cosines and sines of its positions once for each kind.
///
/// Memory  the frequencies of each kind, and a cosine and a sine of each for every token of the largest step
template <ComputeBackend Backend>
class StepRotations {
public:
    using Context = typename Backend::Context;
    using Stream = typename Backend::Stream;

    /// The number of a layer's rotation, which is held if it is the first of its kind. `sequence` is the longest that is computed.
    ///
    /// Errors  as layer_rope; out_of_memory
    [[nodiscard]] Result<std::size_t> add(Context& context, ModelConfig const& config, AttentionShape const& shape,
                                          std::int64_t sequence, RopeDivisors const& divisors) {
        auto const kind = rotation_kind(config, shape);
        auto const found =
            std::find_if(kinds_.begin(), kinds_.end(), [&](Kind const& held) { return held.kind == kind; });
        auto const number = static_cast<std::size_t>(found - kinds_.begin());
        if (found != kinds_.end()) return number;
        auto const made = layer_rope(config, shape, sequence, divisors);
        if (!made) return made.error();
        auto frequencies = hold_floats<Backend>(context, made->frequencies);
        if (!frequencies) return frequencies.error();
        kinds_.push_back({kind, std::move(*frequencies), made->scale, {}});
        return number;
    }

    /// What `allocate` takes for a kind with so many frequencies.
    ///
    /// Units  floats
    [[nodiscard]] static constexpr std::int64_t step_floats(std::int64_t tokens, std::int64_t frequencies) {
        return tokens * 2 * frequencies;
    }
    /// Makes room for steps of so many tokens.
    ///
    /// Errors  out_of_memory
    [[nodiscard]] Result<> allocate(Context& context, std::int64_t tokens) {
        for (auto& kind : kinds_) {
            auto turns = Buffer<float, Backend>::allocate(context, step_floats(tokens, kind.frequencies.size()));
            if (!turns) return turns.error();
            kind.turns = std::move(*turns);
        }
        return {};
    }
    /// Of what `allocate` has made.
    [[nodiscard]] Bytes bytes() const {
        Bytes sum{0};
        for (auto const& kind : kinds_) sum += kind.turns.bytes();
        return sum;
    }

    /// Makes the cosines and sines of a step, which the table has.
    ///
    /// Order   on `stream`; the table's step is not replaced until it is done
    [[nodiscard]] Result<> prepare(StepTable<Backend> const& table, Stream& stream) {
        for (auto& kind : kinds_) {
            TensorView<float const, 1, Backend> const frequencies = kind.frequencies.view();
            TensorView<float, 2, Backend> const turns(kind.turns.data(), {table.tokens(), 2 * kind.frequencies.size()});
            auto const done = rope_turns(table.positions(), frequencies, turns, stream, kind.scale);
            if (!done) return done;
        }
        return {};
    }

    /// Whether `rotate` takes rows of so many columns by the kind of that number: asked once.
    ///
    /// Errors  as rope
    [[nodiscard]] Result<> check(std::size_t number, std::int64_t columns, RotatedHeads const& heads) const {
        if constexpr (HasHostMemory<Backend>) {
            auto const& kind = kinds_[number];
            // Only columns are asked; a small partial_rotary_factor leaves no pair, and heads as they are.
            float const any = 0.0F;
            TensorView<float const, 2, Backend> const row(&any, {1, columns});
            TensorView<float const, 2, Backend> const turns(kind.frequencies.data(), {1, 2 * kind.frequencies.size()});
            return detail::check_turned(row, turns, heads.head_dim, heads.first);
        } else {
            return {};
        }
    }

    /// Rotates a row of heads for each token of the step that was prepared last, by the kind of that number, which has taken the
    /// columns (`check`).
    ///
    /// Shapes  values [tokens, heads * head_dim]
    /// Order   on `stream`
    /// Errors  as rope, on devices
    template <ActivationElement T>
    [[nodiscard]] Result<> rotate(std::size_t number, TensorView<T, 2, Backend> values, StepTable<Backend> const& table,
                                  RotatedHeads const& heads, Stream& stream) const {
        auto const& kind = kinds_[number];
        TensorView<float const, 2, Backend> const turns(kind.turns.data(),
                                                        {table.tokens(), 2 * kind.frequencies.size()});
        SHARDWISE_ASSERT(values.extent(0) == table.tokens());
        if constexpr (HasHostMemory<Backend>)
            return detail::rope_bound<T>(values, turns, heads.head_dim, heads.layout, stream, heads.first);
        else
            return rope<T>(values, turns, heads.head_dim, heads.layout, stream, heads.first);
    }

private:
    struct Kind {
        RotationKind kind;
        Buffer<float, Backend> frequencies;
        /// What multiplies cosines and sines.
        float scale = 1.0F;
        /// [tokens, 2 * frequencies], the cosines first.
        Buffer<float, Backend> turns;
    };

    std::vector<Kind> kinds_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
