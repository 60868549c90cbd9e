// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/core/check_views.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/unfused.hpp>
#include <shardwise/kernels/delta_weights.hpp>
#include <shardwise/kernels/detail/check_gated_delta.hpp>
#include <shardwise/kernels/step_table.hpp>
#include <shardwise/op/operation.hpp>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Floats of workspace for so many key heads.
[[nodiscard]] constexpr std::int64_t gated_delta_workspace(DeltaShape const& shape, std::int64_t heads) {
    return heads * (shape.channels() + shape.value_dim);
}

/// The same, of a call with so many tokens.
template <class Backend>
requires std::same_as<Backend, Host>
[[nodiscard]] constexpr std::int64_t gated_delta_workspace(DeltaShape const& shape, std::int64_t heads, std::int64_t) {
    return gated_delta_workspace(shape, heads);
}

namespace detail {

SHARDWISE_UNFUSED_BEGIN

/// One key head of one sequence: its tokens one after another.
class DeltaHead {
public:
    DeltaHead(DeltaShape const& shape, DeltaWeights<Host> const& weights, std::int64_t heads, std::int64_t head,
              float* state, float* workspace)
        : shape_(shape),
          weights_(weights),
          heads_(heads),
          head_(head),
          inputs_(state + head * shape.channels() * (shape.kernel - 1)),
          matrices_(state + heads * shape.channels() * (shape.kernel - 1) +
                    head * shape.values_per_key() * shape.key_dim * shape.value_dim),
          mixed_(workspace + head * (shape.channels() + shape.value_dim)),
          read_(mixed_ + shape.channels()) {}

    void forget() {
        std::fill_n(inputs_, shape_.channels() * (shape_.kernel - 1), 0.0F);
        std::fill_n(matrices_, shape_.values_per_key() * shape_.key_dim * shape_.value_dim, 0.0F);
    }
    /// `in` are q, k, v and z of the head, `ba` its b and a, `out` its values.
    void take(float const* in, float const* ba, float* out) {
        convolve(in);
        auto const dim = shape_.key_dim;
        shorten(mixed_, 1.0F / std::sqrt(static_cast<float>(dim)));
        shorten(mixed_ + dim, 1.0F);
        auto const count = shape_.values_per_key();
        for (std::int64_t i = 0; i < count; ++i) {
            auto const* const z = in + shape_.channels() + i * shape_.value_dim;
            auto* const to = out + i * shape_.value_dim;
            step(i, ba[i], ba[count + i], to);
            normalise(to, z);
        }
    }

private:
    [[nodiscard]] static float silu(float x) { return x / (1.0F + std::exp(-x)); }

    /// The head's channels lie apart in the convolution's weights: all q, all k, all v.
    [[nodiscard]] float const* weights_of(std::int64_t channel) const {
        auto const dim = shape_.key_dim;
        auto const values = shape_.value_columns();
        auto at = head_ * dim + channel;
        if (channel >= dim) at = heads_ * dim + head_ * dim + channel - dim;
        if (channel >= 2 * dim) at = 2 * heads_ * dim + head_ * values + channel - 2 * dim;
        return weights_.convolution.data() + at * shape_.kernel;
    }
    void convolve(float const* in) {
        auto const past = shape_.kernel - 1;
        for (std::int64_t channel = 0; channel < shape_.channels(); ++channel) {
            auto const* const weight = weights_of(channel);
            auto* const seen = inputs_ + channel * past;
            auto sum = weight[past] * in[channel];
            for (std::int64_t i = 0; i < past; ++i) sum += weight[i] * seen[i];
            for (std::int64_t i = 0; i + 1 < past; ++i) seen[i] = seen[i + 1];
            if (past > 0) seen[past - 1] = in[channel];
            mixed_[channel] = silu(sum);
        }
    }
    /// Divides a query or a key by its length, times `scale`.
    void shorten(float* values, float scale) const {
        auto squares = 0.0F;
        for (std::int64_t i = 0; i < shape_.key_dim; ++i) squares += values[i] * values[i];
        auto const factor = scale / std::sqrt(squares + 1e-6F);
        for (std::int64_t i = 0; i < shape_.key_dim; ++i) values[i] *= factor;
    }
    void step(std::int64_t i, float b, float a, float* out) {
        auto const value_head = head_ * shape_.values_per_key() + i;
        auto const lifted = a + weights_.dt_bias.data()[value_head];
        auto const softplus = lifted > 20.0F ? lifted : std::log1p(std::exp(lifted));
        auto const kept = std::exp(weights_.decay.data()[value_head] * softplus);
        auto const beta = 1.0F / (1.0F + std::exp(-b));
        auto const rows = shape_.key_dim;
        auto const width = shape_.value_dim;
        auto const* const query = mixed_;
        auto const* const key = mixed_ + rows;
        auto const* const value = mixed_ + 2 * rows + i * width;
        auto* const matrix = matrices_ + i * rows * width;
        std::fill_n(read_, width, 0.0F);
        for (std::int64_t row = 0; row < rows; ++row) {
            auto* const line = matrix + row * width;
            for (std::int64_t j = 0; j < width; ++j) {
                line[j] *= kept;
                read_[j] += line[j] * key[row];
            }
        }
        for (std::int64_t j = 0; j < width; ++j) read_[j] = (value[j] - read_[j]) * beta;
        std::fill_n(out, width, 0.0F);
        for (std::int64_t row = 0; row < rows; ++row) {
            auto* const line = matrix + row * width;
            for (std::int64_t j = 0; j < width; ++j) {
                line[j] += key[row] * read_[j];
                out[j] += line[j] * query[row];
            }
        }
    }
    void normalise(float* values, float const* gate) const {
        auto const width = shape_.value_dim;
        auto squares = 0.0F;
        for (std::int64_t j = 0; j < width; ++j) squares += values[j] * values[j];
        auto const factor = 1.0F / std::sqrt(squares / static_cast<float>(width) + weights_.epsilon);
        for (std::int64_t j = 0; j < width; ++j) values[j] *= factor * weights_.norm.data()[j] * silu(gate[j]);
    }

    DeltaShape const& shape_;
    DeltaWeights<Host> const& weights_;
    std::int64_t heads_;
    std::int64_t head_;
    float* inputs_;
    float* matrices_;
    float* mixed_;
    float* read_;
};

SHARDWISE_UNFUSED_END

/// The tokens of one sequence as a gated delta rule takes them, and its state.
struct DeltaSequence {
    TensorView<float const, 2, Host> in;
    TensorView<float const, 2, Host> ba;
    TensorView<float, 2, Host> out;
    float* state;
    float* workspace;
    bool is_first;

    void run(DeltaShape const& shape, DeltaWeights<Host> const& weights, std::int64_t head) const {
        auto const values = shape.value_columns();
        DeltaHead of(shape, weights, shape.key_heads, head, state, workspace);
        if (is_first) of.forget();
        for (std::int64_t token = 0; token < in.extent(0); ++token) {
            of.take(in.row(token) + head * (shape.channels() + values),
                    ba.row(token) + head * 2 * shape.values_per_key(), out.row(token) + head * values);
        }
    }
};

/// What a call for all sequences of a step refuses of the step and of its states.
[[nodiscard]] inline Result<> check_delta_step(StepTable<Host> const& table, std::int64_t rows, std::int64_t states) {
    auto const refused = [](std::string_view name) {
        return Error{ErrorCode::shape_mismatch}.in("gated_delta").at(name);
    };
    if (rows < table.tokens())
        return refused("in").because("has fewer rows than the step").got(rows).at_least(table.tokens());
    auto const* const slots = table.data() + table.layout().slot;
    for (std::int64_t sequence = 0; sequence < table.sequences(); ++sequence) {
        auto const slot = slots[sequence];
        if (slot >= states)
            return refused("states").because("are fewer than a sequence's slot names").got(states).at_least(slot + 1);
        if (std::find(slots, slots + sequence, slot) != slots + sequence)
            return refused("slot").because("is that of two sequences").got(slot);
    }
    return {};
}

/// gated_delta of all sequences of a step for what is known to fit.
[[nodiscard]] inline Result<> gated_delta_bound(TensorView<float const, 2, Host> in,
                                                TensorView<float const, 2, Host> ba, DeltaShape const& shape,
                                                DeltaWeights<Host> const& weights, TensorView<float, 2, Host> states,
                                                StepTable<Host> const& table, TensorView<float, 1, Host> workspace,
                                                TensorView<float, 2, Host> out, HostStream& stream) {
    auto const of_sequence = gated_delta_workspace(shape, shape.key_heads);
    auto const run = [=, layout = table.layout(), numbers = table.data()](std::int64_t begin, std::int64_t end) {
        for (auto item = begin; item < end; ++item) {
            auto const number = item / shape.key_heads;
            std::int64_t const first = numbers[layout.first + number];
            std::int64_t const rows = numbers[layout.rows + number];
            DeltaSequence const sequence{in.rows(first, rows),
                                         ba.rows(first, rows),
                                         out.rows(first, rows),
                                         states.row(numbers[layout.slot + number]),
                                         workspace.data() + number * of_sequence,
                                         numbers[layout.past + number] == 0};
            sequence.run(shape, weights, item % shape.key_heads);
        }
    };
    Host::launch(table.sequences() * shape.key_heads, run, stream, 1);
    return {};
}

}  // namespace detail

/// The gated delta rule over the tokens of one sequence (op/gated_delta.hpp), key heads side by side. `state` is what the tokens
/// before left (DeltaShape::state_elements); with `is_first` there are none, and it may hold anything.
///
/// Shapes  in [tokens, heads * (channels + value_columns)], ba [tokens, heads * 2 * values_per_key], out
///         [tokens, heads * value_columns]; `heads` are those of the shape
/// Memory  workspace of gated_delta_workspace; allocates nothing
/// Order   on `stream`
/// Errors  shape_mismatch
/// Source  transformers 4.57 models/qwen3_next/modeling_qwen3_next.py: torch_recurrent_gated_delta_rule, Qwen3NextGatedDeltaNet
[[nodiscard]] inline Result<> gated_delta(TensorView<float const, 2, Host> in, TensorView<float const, 2, Host> ba,
                                          DeltaShape const& shape, DeltaWeights<Host> const& weights, bool is_first,
                                          TensorView<float, 1, Host> state, TensorView<float, 1, Host> workspace,
                                          TensorView<float, 2, Host> out, HostStream& stream) {
    auto const needed = gated_delta_workspace(shape, shape.key_heads);
    auto const checked = detail::check_gated_delta(in, ba, shape, weights, state, workspace, needed, out);
    if (!checked) return checked;
    detail::DeltaSequence const sequence{in, ba, out, state.data(), workspace.data(), is_first};
    auto const run = [=](std::int64_t begin, std::int64_t end) {
        for (auto head = begin; head < end; ++head) sequence.run(shape, weights, head);
    };
    Host::launch(shape.key_heads, run, stream, 1);
    return {};
}

/// The gated delta rule over the tokens of all sequences of a step in one call, sequences and key heads side by side: the bits of a
/// call for each of them. What the tokens of a sequence before left is the row of `states` that the table has as its slot; where it
/// has no past, that row may hold anything. Rows beyond the step's are left alone.
///
/// Shapes  in, ba and out as above, with the step's tokens or more; states [slots, state_elements(heads)]; the sequences of a step
///         have slots of their own
/// Memory  workspace of gated_delta_workspace for each sequence; allocates nothing. The table stays alive, and its step is not
///         replaced, until it is done
/// Order   on `stream`
/// Errors  shape_mismatch
[[nodiscard]] inline Result<> gated_delta(TensorView<float const, 2, Host> in, TensorView<float const, 2, Host> ba,
                                          DeltaShape const& shape, DeltaWeights<Host> const& weights,
                                          TensorView<float, 2, Host> states, StepTable<Host> const& table,
                                          TensorView<float, 1, Host> workspace, TensorView<float, 2, Host> out,
                                          HostStream& stream) {
    auto const of_sequence = gated_delta_workspace(shape, shape.key_heads);
    if (auto const known = check_views("gated_delta", states); !known) return known;
    TensorView<float, 1, Host> const state(states.data(), {states.extent(1)});
    auto const checked =
        detail::check_gated_delta(in, ba, shape, weights, state, workspace, table.sequences() * of_sequence, out);
    if (!checked) return checked;
    if (auto const step = detail::check_delta_step(table, in.extent(0), states.extent(0)); !step) return step;
    return detail::gated_delta_bound(in, ba, shape, weights, states, table, workspace, out, stream);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
