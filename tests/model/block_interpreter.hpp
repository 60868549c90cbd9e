// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/backward_program.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

/// Blocks computed in float64 by their definitions, forwards and by the steps of their backward pass, on one rank.
namespace shardwise::testing {

using Numbers = std::vector<double>;

class BlockInterpreter {
public:
    static constexpr std::int64_t tokens = 4;

    explicit BlockInterpreter(BackwardBody const& body) : body_(body) {
        for (auto const& value : body.values)
            values_.push_back(Numbers(static_cast<std::size_t>(tokens * value.width)));
        double next = 0.1;
        auto const fill = [&next](Numbers& numbers, double factor) {
            for (auto& number : numbers) number = factor * std::sin(next += 1.7);
        };
        fill(values_[0], 1.0);
        for (std::size_t i = 1; i < body.forward.values().size(); ++i) {
            if (body.values[i].is_external) fill(values_[i], 1.0);
        }
        for (auto const& op : body.forward.operations()) {
            for (std::size_t i = 0; i < 2; ++i) {
                auto const name = std::string(op.parameters[i]);
                if (name.empty() || parameters.contains(name)) continue;
                bool const is_matrix = i == 0 && op.kind != OpKind::norm;
                auto const columns = op.kind == OpKind::embedding ? op.in_features : op.out_features;
                parameters[name].resize(
                    static_cast<std::size_t>(is_matrix ? op.in_features * op.out_features : columns));
                fill(parameters[name], is_matrix ? 1.0 / std::sqrt(static_cast<double>(op.in_features)) : 1.0);
            }
        }
    }

    std::map<std::string, Numbers> parameters;
    std::map<std::string, Numbers> gradients;

    [[nodiscard]] Numbers& input() { return values_[0]; }
    [[nodiscard]] Numbers const& gradient(ValueId id) const { return values_[at(id)]; }
    [[nodiscard]] std::size_t out_elements() const { return values_[at(last())].size(); }

    Numbers forward() {
        for (auto const& op : body_.forward.operations()) run(op);
        return values_[at(last())];
    }
    /// What the backward pass does not keep is lost first.
    void backward(Numbers const& out_gradient) {
        auto const nan = std::numeric_limits<double>::quiet_NaN();
        for (std::size_t i = 0; i < values_.size(); ++i) {
            auto const id = static_cast<ValueId>(i);
            bool const is_kept = std::find(body_.saved.begin(), body_.saved.end(), id) != body_.saved.end();
            if (!is_kept) std::fill(values_[i].begin(), values_[i].end(), nan);
        }
        for (auto const& [name, values] : parameters) gradients[name].assign(values.size(), 0.0);
        values_[at(body_.out_gradient)] = out_gradient;
        for (auto const& step : body_.steps) {
            switch (step.part) {
                case GradientPart::reduction:
                    break;
                case GradientPart::sum:
                    for (std::size_t i = 0; i < values_[at(step.reads)].size(); ++i)
                        values_[at(step.writes[0])][i] += values_[at(step.reads)][i];
                    break;
                case GradientPart::inputs:
                    step_ = &step;
                    for (std::size_t i = 0; i < 4; ++i) {
                        if (step.writes[i] == no_value || step.is_added[i]) continue;
                        std::fill(values_[at(step.writes[i])].begin(), values_[at(step.writes[i])].end(), 0.0);
                    }
                    back(operation(step), values_[at(step.reads)], true);
                    break;
                case GradientPart::parameters:
                    back(operation(step), values_[at(step.reads)], false);
                    break;
            }
        }
    }

private:
    static std::size_t at(ValueId id) { return static_cast<std::size_t>(id); }
    static std::size_t at(std::int64_t row, std::int64_t width, std::int64_t i) {
        return static_cast<std::size_t>(row * width + i);
    }
    [[nodiscard]] ValueId last() const { return body_.forward.operations().back().output; }
    [[nodiscard]] Operation const& operation(GradientStep const& step) const {
        return body_.forward.operations()[static_cast<std::size_t>(step.of)];
    }
    [[nodiscard]] std::int64_t width(ValueId id) const { return body_.values[at(id)].width; }
    [[nodiscard]] double parameter(Operation const& op, std::size_t number, std::int64_t i, double without) const {
        auto const found = parameters.find(std::string(op.parameters[number]));
        return found == parameters.end() ? without : found->second[static_cast<std::size_t>(i)];
    }
    [[nodiscard]] double const* weight_row(Operation const& op, std::int64_t row) const {
        return parameters.at(std::string(op.parameters[0])).data() + row * op.in_features;
    }
    void add_parameter(Operation const& op, std::size_t number, std::int64_t i, double value) {
        if (!op.parameters[number].empty())
            gradients[std::string(op.parameters[number])][static_cast<std::size_t>(i)] += value;
    }
    void add_input(std::size_t number, std::size_t i, double value) {
        if (step_->writes[number] != no_value) values_[at(step_->writes[number])][i] += value;
    }

    static double activate(double x, ActivationKind kind) {
        auto const sigmoid = [](double z) { return 1.0 / (1.0 + std::exp(-z)); };
        switch (kind) {
            case ActivationKind::silu:
                return x * sigmoid(x);
            case ActivationKind::gelu:
                return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
            case ActivationKind::gelu_tanh:
            case ActivationKind::gelu_new:
            case ActivationKind::gelu_fast:
                return x * sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x));
            case ActivationKind::relu:
                return std::max(x, 0.0);
            case ActivationKind::relu_squared:
                return std::max(x, 0.0) * std::max(x, 0.0);
            case ActivationKind::tanh:
                return std::tanh(x);
            case ActivationKind::sigmoid:
                return sigmoid(x);
            case ActivationKind::quick_gelu:
            case ActivationKind::swiglu_clamped:
                return x * sigmoid(1.702 * x);
            case ActivationKind::xielu:
                // Has no gradient.
                break;
        }
        return x;
    }
    static double slope(double x, ActivationKind kind) {
        constexpr double step = 1e-5;
        return (activate(x + step, kind) - activate(x - step, kind)) / (2.0 * step);
    }
    static std::int64_t row_of(Operation const& op, std::int64_t token) {
        return (token * (op.table().index == TableIndex::token ? 3 : 1) + op.table().first_row) % op.in_features;
    }
    /// Calls pair(a, b, cosine, sine) for the places of each pair that turns.
    template <class Pair>
    void for_pairs(Operation const& op, std::int64_t token, Pair const& pair) const {
        auto const& shape = op.attention();
        auto const all = (shape.heads + shape.kv_heads) * shape.key_dim;
        auto const columns = width(op.output);
        auto const turning = columns == all + shape.kv_heads * shape.value_dim ? all : columns;
        for (std::int64_t head = 0; head < turning / shape.key_dim; ++head)
            for (std::int64_t i = 0; i < shape.key_dim / 2; ++i) {
                auto const angle = static_cast<double>(token) * std::pow(0.6, static_cast<double>(i));
                auto const a = at(token, columns, head * shape.key_dim + i);
                pair(a, a + static_cast<std::size_t>(shape.key_dim / 2), std::cos(angle), std::sin(angle));
            }
    }
    struct Heads {
        std::size_t q, k, v;  // of the first elements
        std::int64_t q_stride, k_stride, v_stride;
    };
    [[nodiscard]] Heads heads_of(Operation const& op, std::int64_t head) const {
        auto const& s = op.attention();
        auto const kv = head / (s.heads / s.kv_heads);
        bool const is_packed = op.inputs[0] == op.inputs[1];
        auto const k_at = is_packed ? s.heads * s.key_dim : 0;
        auto const v_at = is_packed ? (s.heads + s.kv_heads) * s.key_dim : 0;
        return {static_cast<std::size_t>(head * s.key_dim),
                static_cast<std::size_t>(k_at + kv * s.key_dim),
                static_cast<std::size_t>(v_at + kv * s.value_dim),
                width(op.inputs[0]),
                width(op.inputs[1]),
                width(op.inputs[2])};
    }
    /// The weights of a query's keys.
    [[nodiscard]] Numbers weights_of(Operation const& op, Heads const& at_head, std::int64_t query) const {
        auto const& s = op.attention();
        Numbers weights(static_cast<std::size_t>(tokens), 0.0);
        double sum = 0.0;
        for (std::int64_t key = 0; key < tokens; ++key) {
            if ((s.is_causal && key > query) || (s.window > 0 && std::abs(query - key) >= s.window)) continue;
            double score = 0.0;
            for (std::int64_t d = 0; d < s.key_dim; ++d)
                score += values_[at(op.inputs[0])][at_head.q + at(query, at_head.q_stride, d)] *
                         values_[at(op.inputs[1])][at_head.k + at(key, at_head.k_stride, d)];
            weights[static_cast<std::size_t>(key)] = std::exp(score / std::sqrt(static_cast<double>(s.key_dim)));
            sum += weights[static_cast<std::size_t>(key)];
        }
        for (auto& weight : weights) weight /= sum;
        return weights;
    }
    struct Norm {
        double mean = 0.0, inverse = 0.0, offset = 0.0;
    };
    [[nodiscard]] Norm norm_of(Operation const& op, Numbers const& in, std::size_t first) const {
        auto const count = static_cast<std::size_t>(op.in_features);
        Norm norm;
        norm.offset = op.norm().kind == NormKind::rms_offset || op.norm().kind == NormKind::layer_offset ? 1.0 : 0.0;
        double squares = 0.0;
        for (std::size_t i = 0; i < count && is_layer_norm(op.norm().kind); ++i)
            norm.mean += in[first + i] / static_cast<double>(count);
        for (std::size_t i = 0; i < count; ++i) squares += std::pow(in[first + i] - norm.mean, 2.0);
        norm.inverse = 1.0 / std::sqrt(squares / static_cast<double>(count) + 1e-5);
        return norm;
    }

    void run(Operation const& op) {
        auto& out = values_[at(op.output)];
        auto const columns = width(op.output);
        auto const& in = values_[at(op.inputs[0])];
        auto const in_width = width(op.inputs[0]);
        auto const other = op.inputs[1] == no_value ? op.inputs[0] : op.inputs[1];
        switch (op.kind) {
            case OpKind::embedding:
                for (std::int64_t t = 0; t < tokens; ++t)
                    for (std::int64_t i = 0; i < columns; ++i)
                        out[at(t, columns, i)] = parameter(op, 0, row_of(op, t) * columns + i, 0.0);
                break;
            case OpKind::norm:
                for (std::size_t first = 0; first < in.size(); first += static_cast<std::size_t>(op.in_features)) {
                    auto const norm = norm_of(op, in, first);
                    for (std::int64_t i = 0; i < op.in_features; ++i) {
                        auto const j = first + static_cast<std::size_t>(i);
                        out[j] = (in[j] - norm.mean) * norm.inverse * (parameter(op, 0, i, 1.0) + norm.offset) +
                                 parameter(op, 1, i, 0.0);
                    }
                }
                break;
            case OpKind::linear:
                for (std::int64_t t = 0; t < tokens; ++t)
                    for (std::int64_t o = 0; o < columns; ++o) {
                        double sum = parameter(op, 1, o, 0.0);
                        auto const* const weight = weight_row(op, o);
                        for (std::int64_t i = 0; i < op.in_features; ++i) sum += in[at(t, in_width, i)] * weight[i];
                        out[at(t, columns, o)] = sum;
                    }
                break;
            case OpKind::rope:
                out = in;
                for (std::int64_t t = 0; t < tokens; ++t)
                    for_pairs(op, t, [&](std::size_t a, std::size_t b, double cosine, double sine) {
                        out[a] = in[a] * cosine - in[b] * sine;
                        out[b] = in[b] * cosine + in[a] * sine;
                    });
                break;
            case OpKind::attention:
                std::fill(out.begin(), out.end(), 0.0);
                for (std::int64_t head = 0; head < op.attention().heads; ++head)
                    for (std::int64_t t = 0; t < tokens; ++t) {
                        auto const places = heads_of(op, head);
                        auto const weights = weights_of(op, places, t);
                        for (std::int64_t key = 0; key < tokens; ++key)
                            for (std::int64_t d = 0; d < op.attention().value_dim; ++d)
                                out[at(t, columns, head * op.attention().value_dim + d)] +=
                                    weights[static_cast<std::size_t>(key)] *
                                    values_[at(op.inputs[2])][places.v + at(key, places.v_stride, d)];
                    }
                break;
            case OpKind::activation:
                for (std::int64_t t = 0; t < tokens; ++t)
                    for (std::int64_t i = 0; i < columns; ++i) {
                        auto const half = op.inputs[1] == op.inputs[0] ? columns : 0;
                        auto const value = activate(in[at(t, in_width, i)], op.activation());
                        auto const factor =
                            op.inputs[1] == no_value ? 1.0 : values_[at(other)][at(t, width(other), half + i)];
                        out[at(t, columns, i)] = value * factor;
                    }
                break;
            case OpKind::add:
                for (std::size_t i = 0; i < out.size(); ++i) out[i] = in[i] + values_[at(other)][i];
                break;
            case OpKind::scale:
                for (std::size_t i = 0; i < out.size(); ++i) out[i] = in[i] * op.factor();
                break;
            case OpKind::last_token:
                out = in;
                break;
            case OpKind::route:
            case OpKind::experts:
            case OpKind::combine:
            case OpKind::gated_delta:
            case OpKind::part:
                // These have no gradient.
                break;
        }
    }

    /// Adds the gradients of an operation's inputs, or of its parameters.
    void back(Operation const& op, Numbers const& gradient, bool is_input) {
        auto const columns = width(op.output);
        auto const& in = values_[at(op.inputs[0])];
        auto const in_width = width(op.inputs[0]);
        switch (op.kind) {
            case OpKind::embedding:
                for (std::int64_t t = 0; t < tokens; ++t)
                    for (std::int64_t i = 0; i < columns; ++i)
                        add_parameter(op, 0, row_of(op, t) * columns + i, gradient[at(t, columns, i)]);
                break;
            case OpKind::norm:
                for (std::size_t first = 0; first < in.size(); first += static_cast<std::size_t>(op.in_features)) {
                    auto const norm = norm_of(op, in, first);
                    auto const n = static_cast<double>(op.in_features);
                    double lost = 0.0, share = 0.0;
                    for (int pass = 0; pass < 2; ++pass)
                        for (std::int64_t i = 0; i < op.in_features; ++i) {
                            auto const j = first + static_cast<std::size_t>(i);
                            auto const normal = (in[j] - norm.mean) * norm.inverse;
                            auto const inner = gradient[j] * (parameter(op, 0, i, 1.0) + norm.offset);
                            if (pass == 0) {
                                lost += is_layer_norm(op.norm().kind) ? inner / n : 0.0;
                                share += inner * normal / n;
                            } else if (is_input) {
                                add_input(0, j, norm.inverse * (inner - lost - normal * share));
                            } else {
                                add_parameter(op, 0, i, gradient[j] * normal);
                                add_parameter(op, 1, i, gradient[j]);
                            }
                        }
                }
                break;
            case OpKind::linear:
                for (std::int64_t t = 0; t < tokens; ++t)
                    for (std::int64_t o = 0; o < columns; ++o) {
                        auto const dy = gradient[at(t, columns, o)];
                        auto const* const weight = weight_row(op, o);
                        auto* const sums = gradients[std::string(op.parameters[0])].data() + o * op.in_features;
                        for (std::int64_t i = 0; i < op.in_features; ++i) {
                            if (is_input)
                                add_input(0, at(t, in_width, i), dy * weight[i]);
                            else
                                sums[i] += dy * in[at(t, in_width, i)];
                        }
                        if (!is_input) add_parameter(op, 1, o, dy);
                    }
                break;
            case OpKind::rope: {
                auto turned = gradient;
                for (std::int64_t t = 0; t < tokens; ++t)
                    for_pairs(op, t, [&](std::size_t a, std::size_t b, double cosine, double sine) {
                        turned[a] = gradient[a] * cosine + gradient[b] * sine;
                        turned[b] = gradient[b] * cosine - gradient[a] * sine;
                    });
                for (std::size_t i = 0; i < turned.size(); ++i) add_input(0, i, turned[i]);
                break;
            }
            case OpKind::attention:
                back_attention(op, gradient);
                break;
            case OpKind::activation:
                for (std::int64_t t = 0; t < tokens; ++t)
                    for (std::int64_t i = 0; i < columns; ++i) {
                        auto const dy = gradient[at(t, columns, i)];
                        auto const gate = at(t, in_width, i);
                        auto const rise = slope(in[gate], op.activation());
                        if (op.inputs[1] == no_value) {
                            add_input(0, gate, dy * rise);
                            continue;
                        }
                        auto const up = at(t, width(op.inputs[1]), i + (op.inputs[1] == op.inputs[0] ? columns : 0));
                        add_input(0, gate, dy * rise * values_[at(op.inputs[1])][up]);
                        add_input(1, up, dy * activate(in[gate], op.activation()));
                    }
                break;
            case OpKind::add:
                for (std::size_t i = 0; i < gradient.size(); ++i) {
                    add_input(0, i, gradient[i]);
                    add_input(1, i, gradient[i]);
                }
                break;
            case OpKind::scale:
                for (std::size_t i = 0; i < gradient.size(); ++i) add_input(0, i, gradient[i] * op.factor());
                break;
            case OpKind::last_token:
                for (std::size_t i = 0; i < gradient.size(); ++i) add_input(0, i, gradient[i]);
                break;
            case OpKind::route:
            case OpKind::experts:
            case OpKind::combine:
            case OpKind::gated_delta:
            case OpKind::part:
                // These have no gradient.
                break;
        }
    }
    void back_attention(Operation const& op, Numbers const& gradient) {
        auto const& s = op.attention();
        auto const columns = width(op.output);
        auto const scale = 1.0 / std::sqrt(static_cast<double>(s.key_dim));
        for (std::int64_t head = 0; head < s.heads; ++head)
            for (std::int64_t t = 0; t < tokens; ++t) {
                auto const places = heads_of(op, head);
                auto const weights = weights_of(op, places, t);
                double share = 0.0;
                for (std::int64_t d = 0; d < s.value_dim; ++d) {
                    auto const i = at(t, columns, head * s.value_dim + d);
                    share += gradient[i] * values_[at(op.output)][i];
                }
                for (std::int64_t key = 0; key < tokens; ++key) {
                    auto const weight = weights[static_cast<std::size_t>(key)];
                    if (weight == 0.0) continue;
                    double inner = -share;
                    for (std::int64_t d = 0; d < s.value_dim; ++d) {
                        auto const dy = gradient[at(t, columns, head * s.value_dim + d)];
                        auto const v = places.v + at(key, places.v_stride, d);
                        inner += dy * values_[at(op.inputs[2])][v];
                        add_input(2, v, weight * dy);
                    }
                    for (std::int64_t d = 0; d < s.key_dim; ++d) {
                        auto const q = places.q + at(t, places.q_stride, d);
                        auto const k = places.k + at(key, places.k_stride, d);
                        add_input(0, q, weight * inner * scale * values_[at(op.inputs[1])][k]);
                        add_input(1, k, weight * inner * scale * values_[at(op.inputs[0])][q]);
                    }
                }
            }
    }

    BackwardBody const& body_;
    std::vector<Numbers> values_;
    GradientStep const* step_ = nullptr;
};

}  // namespace shardwise::testing
