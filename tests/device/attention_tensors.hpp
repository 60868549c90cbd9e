// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "attention_problem.hpp"
#include "backends.hpp"
#include "test_step.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace {

using namespace shardwise;
using namespace shardwise::testing;

/// Keys or values of a step in memory, each with the value that it stands for; what no sequence may see is no number.
template <class Cache>
struct AttentionRows {
    std::int64_t heads;
    std::int64_t width;
    std::int64_t stride;
    std::int64_t shift;
    std::vector<Cache> elements;
    std::vector<float> scales;

    AttentionRows(std::int64_t rows, std::int64_t kv_heads, std::int64_t dim, AttentionProblem const& problem,
                  unsigned seed, std::vector<bool> const& is_seen)
        : heads(kv_heads),
          width(kv_heads * dim),
          stride(width + problem.gap),
          shift(problem.shift),
          elements(static_cast<std::size_t>(rows * stride + shift)) {
        std::mt19937 random(seed);
        std::normal_distribution<float> values(0.0F, 1.0F);
        auto const none = std::numeric_limits<float>::quiet_NaN();
        for (std::size_t i = 0; i < elements.size(); ++i) {
            auto const at = static_cast<std::int64_t>(i) - shift;
            bool const is_own = at >= 0 && at % stride < width && is_seen[static_cast<std::size_t>(at / stride)];
            if constexpr (std::is_same_v<Cache, std::int8_t>) {
                elements[i] = static_cast<std::int8_t>(static_cast<int>(random() % 255) - 127);
            } else {
                elements[i] = Cache(is_own ? values(random) : none);
            }
        }
        if constexpr (!std::is_same_v<Cache, std::int8_t>) return;
        for (std::int64_t row = 0; row < rows; ++row) {
            for (std::int64_t head = 0; head < heads; ++head) {
                auto const scale = (1.0F + static_cast<float>(random() % 64)) / 2048.0F;
                scales.push_back(is_seen[static_cast<std::size_t>(row)] ? scale : none);
            }
        }
    }
    [[nodiscard]] double at(std::int64_t row, std::int64_t head, std::int64_t i) const {
        auto const dim = width / heads;
        auto const place = static_cast<std::size_t>(shift + row * stride + head * dim + i);
        auto const value = static_cast<double>(static_cast<float>(elements[place]));
        return scales.empty() ? value
                              : value * static_cast<double>(scales[static_cast<std::size_t>(row * heads + head)]);
    }
};

/// A problem's tensors on the host. Pages of the sequences lie anywhere, by `seed`; their contents do not depend on it.
template <class Cache>
class AttentionTensors {
public:
    static constexpr std::int64_t page_rows = 16;

    AttentionTensors(AttentionProblem const& of, unsigned seed)
        : problem(of), shape(of.options.shape), steps(make_steps(of, seed)) {
        std::vector<bool> is_seen(static_cast<std::size_t>(memory_rows()), false);
        for (std::size_t i = 0; i < problem.sequences.size(); ++i) {
            for (std::int64_t key = 0; key < problem.length(i); ++key)
                is_seen[static_cast<std::size_t>(place(i, key))] = true;
        }
        keys.emplace(memory_rows(), shape.kv_heads, shape.key_dim, problem, 5U, is_seen);
        values.emplace(memory_rows(), shape.kv_heads, shape.value_dim, problem, 6U, is_seen);
        // The same contents wherever they lie.
        std::vector<bool> const all(static_cast<std::size_t>(memory_rows()), true);
        AttentionRows<Cache> const some_keys(memory_rows(), shape.kv_heads, shape.key_dim, problem, 7U, all);
        AttentionRows<Cache> const some_values(memory_rows(), shape.kv_heads, shape.value_dim, problem, 8U, all);
        std::int64_t from = 0;
        for (std::size_t i = 0; i < problem.sequences.size(); ++i) {
            for (std::int64_t key = 0; key < problem.length(i); ++key, ++from) {
                move_row(some_keys, from, *keys, place(i, key));
                move_row(some_values, from, *values, place(i, key));
            }
        }
        auto const fill = [&](std::vector<float>& list, std::int64_t count, unsigned number) {
            list = numbers<float>(count, number);
        };
        q_stride = shape.heads * shape.key_dim + problem.gap;
        out_stride = shape.heads * shape.value_dim + problem.gap;
        fill(q, rows() * q_stride + problem.shift, 9U);
        for (auto& value : q) value *= 2.0F;
        if (problem.has_sinks) fill(sinks, shape.heads, 10U);
        if (problem.has_slopes || shape.bias_reach > 0) fill(slopes, shape.heads * score_numbers(shape), 11U);
        for (auto& slope : slopes) slope = shape.has_rounded_slopes ? rounded(slope) : slope;
    }

    /// Two more than the step's, which are left alone.
    [[nodiscard]] std::int64_t rows() const { return problem.tokens() + 2; }
    [[nodiscard]] std::int64_t pages() const { return pages_of(problem); }
    [[nodiscard]] std::int64_t memory_rows() const {
        if (problem.is_own) return rows();
        return static_cast<std::int64_t>(problem.sequences.size()) * pages() * page_rows + 3 * page_rows;
    }
    /// The row of the memory in which a key lies.
    [[nodiscard]] std::int64_t place(std::size_t sequence, std::int64_t key) const {
        if (problem.is_own) {
            for (std::size_t i = 0; i < sequence; ++i) key += problem.sequences[i].rows;
            return key;
        }
        return steps.sequences[sequence].pages[1][static_cast<std::size_t>(key / page_rows)] * page_rows +
               key % page_rows;
    }
    [[nodiscard]] StepBounds bounds() const {
        return {.tokens = rows(),
                .sequences = static_cast<std::int64_t>(problem.sequences.size()) + 1,
                .wanted = 1,
                .groups = 2,
                .pages = pages(),
                .page_rows = page_rows};
    }

    /// The definition in float64, and how far a float may be from it.
    void check_row(std::size_t sequence, std::int64_t row, std::int64_t query, std::int64_t head,
                   std::vector<float> const& out) const {
        auto const length = problem.length(sequence);
        auto const position = problem.past(sequence) + query;
        auto const kv_head = head / (shape.heads / shape.kv_heads);
        auto const scale = problem.options.scale > 0.0F ? static_cast<double>(problem.options.scale)
                                                        : 1.0 / std::sqrt(static_cast<double>(shape.key_dim));
        std::vector<double> scores;
        double largest = -std::numeric_limits<double>::infinity();
        double error = 0.0;
        for (std::int64_t key = 0; key < length; ++key) {
            auto const distance = position - key;
            if ((shape.is_causal && distance < 0) || (shape.window > 0 && std::abs(distance) >= shape.window) ||
                (shape.chunk > 0 && key / shape.chunk != position / shape.chunk)) {
                scores.push_back(-std::numeric_limits<double>::infinity());
                continue;
            }
            double score = 0.0;
            double size = 0.0;
            auto const* const from = q.data() + problem.shift + row * q_stride + head * shape.key_dim;
            for (std::int64_t i = 0; i < shape.key_dim; ++i) {
                auto const product = static_cast<double>(from[i]) * keys->at(place(sequence, key), kv_head, i);
                score += product * scale;
                size += std::abs(product) * scale;
            }
            if (shape.bias_reach > 0) {
                auto const at = std::clamp(-distance, -shape.bias_reach, shape.bias_reach) + shape.bias_reach;
                auto const bias = slopes[static_cast<std::size_t>(head * score_numbers(shape) + at)];
                score += static_cast<double>(bias);
                size += std::abs(static_cast<double>(bias));
            }
            if (shape.has_rounded_slopes) {
                auto const slope = slopes[static_cast<std::size_t>(head)];
                auto const bias = static_cast<double>(rounded(slope * rounded(static_cast<float>(key)))) * scale;
                score += bias;
                size += std::abs(bias);
            }
            auto const cap = static_cast<double>(problem.options.soft_cap);
            if (cap > 0.0) score = cap * std::tanh(score / cap);
            if (problem.has_slopes && !shape.has_rounded_slopes) {
                auto const fall = static_cast<double>(slopes[static_cast<std::size_t>(head)]) *
                                  static_cast<double>(std::abs(distance));
                score -= fall;
                size += std::abs(fall);
            }
            // The longest chain of a score, and what follows it: scale, bias, cap (of three units in the last place), slope, shift.
            error = std::max(error, size * (static_cast<double>(shape.key_dim) + 12.0) * roundoff<float>);
            scores.push_back(score);
            largest = std::max(largest, score);
        }
        auto const sink = problem.has_sinks ? static_cast<double>(sinks[static_cast<std::size_t>(head)])
                                            : -std::numeric_limits<double>::infinity();
        largest = std::max(largest, sink);
        double sum = std::isinf(sink) ? 0.0 : std::exp(sink - largest);
        std::vector<double> expected(static_cast<std::size_t>(shape.value_dim));
        std::vector<double> sizes(expected.size());
        double farthest = 0.0;
        for (std::int64_t key = 0; key < length; ++key) {
            auto const score = scores[static_cast<std::size_t>(key)];
            if (std::isinf(score)) continue;
            farthest = std::max(farthest, std::min(largest - score, 90.0));
            auto const weight = std::exp(score - largest);
            sum += weight;
            for (std::size_t i = 0; i < expected.size(); ++i) {
                auto const value = values->at(place(sequence, key), kv_head, static_cast<std::int64_t>(i));
                expected[i] += weight * value;
                sizes[i] += weight * std::abs(value);
            }
        }
        // A part's values are a chain of 256, and each part's merging rounds four times.
        auto const chain = 256.0 + 4.0 * (static_cast<double>(length) / 256.0 + 1.0) + 16.0;
        auto const relative = 2.0 * (error + farthest * roundoff<float>)+2.0 * chain * roundoff<float>;
        auto const* const made = out.data() + problem.shift + row * out_stride + head * shape.value_dim;
        double worst = 0.0;
        for (std::size_t i = 0; i < expected.size(); ++i) {
            auto const divisor = sum == 0.0 ? 1.0 : sum;
            auto const bound = relative * sizes[i] / divisor + 0x1p-120;
            auto const off = std::abs(static_cast<double>(made[i]) - expected[i] / divisor);
            worst = std::max(worst, std::isnan(off) ? std::numeric_limits<double>::infinity() : off / bound);
        }
        CAPTURE(sequence);
        CAPTURE(query);
        CAPTURE(head);
        CHECK(worst <= 1.0);
    }
    void check(std::vector<float> const& out) const {
        std::int64_t row = 0;
        for (std::size_t i = 0; i < problem.sequences.size(); ++i) {
            for (std::int64_t query = 0; query < problem.sequences[i].rows; ++query, ++row) {
                for (std::int64_t head = 0; head < shape.heads; ++head) check_row(i, row, query, head, out);
            }
        }
        // Between the rows, before them and behind the step's nothing has changed.
        for (std::size_t i = 0; i < out.size(); ++i) {
            auto const at = static_cast<std::int64_t>(i) - problem.shift;
            bool const is_made = at >= 0 && at / out_stride < row && at % out_stride < out_stride - problem.gap;
            if (!is_made) REQUIRE(out[i] == 77.0F);
        }
    }

    /// What a back end makes of it, with a share of the workspace; of one sequence alone, or of all; of the first heads.
    template <class B, class T = float>
    [[nodiscard]] std::vector<T> run(Bench<B>& bench, double share = 1.0, std::optional<std::size_t> only = {},
                                     std::int64_t heads = 0) const {
        auto table = StepTable<B>::create(bench.context(), bounds());
        REQUIRE(table);
        auto input = steps.input();
        auto options = problem.options;
        if (heads > 0) options.shape.heads = heads;
        heads = options.shape.heads;
        std::int64_t first = 0;
        auto count = rows();
        if (only) {
            for (std::size_t i = 0; i < *only; ++i) first += problem.sequences[i].rows;
            count = problem.sequences[*only].rows;
            input.ids = input.ids.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
            input.sequences = input.sequences.subspan(*only, 1);
        }
        REQUIRE(table->write(input, bench.stream()));
        std::vector<T> rows_of_queries;
        for (auto const value : q) rows_of_queries.push_back(T(value));
        auto const queries = bench.send(rows_of_queries);
        auto const of_keys = bench.send(keys->elements);
        auto const of_values = bench.send(values->elements);
        auto const key_scales = bench.send(keys->scales);
        auto const value_scales = bench.send(values->scales);
        auto const some_sinks = bench.send(sinks);
        auto const some_slopes = bench.send(slopes);
        auto out = bench.send(std::vector<T>(static_cast<std::size_t>(rows() * out_stride + problem.shift), T(77.0F)));
        auto const floats = step_attention_workspace<B>(options, rows(), bounds().sequences, pages() * page_rows);
        auto workspace = bench.send(std::vector<float>(static_cast<std::size_t>(share * static_cast<double>(floats))));
        auto const rows_of = [&](AttentionRows<Cache> const& from, Buffer<Cache, B> const& memory,
                                 Buffer<float, B> const& scales) {
            TensorView<Cache const, 2, B> all(memory.data() + from.shift, {memory_rows(), from.width}, from.stride);
            TensorView<float const, 2, B> some;
            if (!from.scales.empty()) some = {scales.data(), {memory_rows(), from.heads}};
            if (!problem.is_own) return StepRows<Cache, B>{all, some, 1};
            return StepRows<Cache, B>{all.rows(first, count), some.empty() ? some : some.rows(first, count), -1};
        };
        TensorView<T const, 2, B> const from(queries.data() + problem.shift, {rows(), heads * shape.key_dim}, q_stride);
        TensorView<T, 2, B> const to(out.data() + problem.shift, {rows(), heads * shape.value_dim}, out_stride);
        auto const done =
            step_attention<Cache>(from.rows(first, count), rows_of(*keys, of_keys, key_scales),
                                  rows_of(*values, of_values, value_scales), to.rows(first, count), *table, options,
                                  bench.stream(), workspace.view(), some_sinks.view(), some_slopes.view());
        INFO(std::string(done ? "" : done.error().message()));
        REQUIRE(done);
        return bench.fetch(out);
    }

    AttentionProblem problem;
    AttentionShape shape;
    TestStep steps;
    std::optional<AttentionRows<Cache>> keys;
    std::optional<AttentionRows<Cache>> values;
    std::vector<float> q;
    std::vector<float> sinks;
    std::vector<float> slopes;
    std::int64_t q_stride = 0;
    std::int64_t out_stride = 0;

private:
    static float rounded(float value) { return from_bf16(to_bf16(value)); }
    static std::int64_t pages_of(AttentionProblem const& problem) {
        std::int64_t most = 1;
        for (std::size_t i = 0; i < problem.sequences.size(); ++i)
            most = std::max(most, (problem.held(i) + page_rows - 1) / page_rows);
        return most;
    }
    static TestStep make_steps(AttentionProblem const& problem, unsigned seed) {
        auto const most = pages_of(problem);
        // Pages 0, 1 and 2 are nobody's.
        Pages all(problem.sequences.size() * static_cast<std::size_t>(most));
        std::iota(all.begin(), all.end(), 3);
        std::shuffle(all.begin(), all.end(), std::mt19937(seed));
        std::vector<TestSequence> sequences;
        auto next = all.begin();
        for (std::size_t i = 0; i < problem.sequences.size(); ++i) {
            Pages const pages(next, next + most);
            next += most;
            // Lists of the other group name pages that nobody may read here.
            auto const& of = problem.sequences[i];
            sequences.push_back({problem.past(i), of.rows, {Pages(pages.size(), 1), pages}, of.source});
        }
        return TestStep(sequences, {});
    }
    static void move_row(AttentionRows<Cache> const& from, std::int64_t row, AttentionRows<Cache>& to,
                         std::int64_t to_row) {
        std::copy_n(from.elements.begin() + (from.shift + row * from.stride), from.width,
                    to.elements.begin() + (to.shift + to_row * to.stride));
        if (!from.scales.empty())
            std::copy_n(from.scales.begin() + row * from.heads, from.heads, to.scales.begin() + to_row * to.heads);
    }
};

/// Each sequence by the host's call for one: the definition of the host's bits.
template <class Cache>
std::vector<float> attended_one_by_one(AttentionTensors<Cache> const& tensors) {
    HostContext context({.threads = 1});
    auto stream = context.make_stream();
    auto const& problem = tensors.problem;
    auto const& shape = tensors.shape;
    std::vector<float> out(static_cast<std::size_t>(tensors.rows() * tensors.out_stride + problem.shift), 77.0F);
    std::int64_t first = 0;
    for (std::size_t i = 0; i < problem.sequences.size(); ++i) {
        auto const rows = problem.sequences[i].rows;
        auto options = problem.options;
        // Queries see all of a source wherever they stand.
        if (!shape.is_cross) options.first_query = problem.past(i);
        auto const rows_of = [&](AttentionRows<Cache> const& from) {
            TensorView<Cache const, 2, Host> const memory(from.elements.data() + from.shift,
                                                          {tensors.memory_rows(), from.width}, from.stride);
            TensorView<float const, 2, Host> no_scales;
            TensorView<float const, 2, Host> const some(from.scales.data(), {tensors.memory_rows(), from.heads});
            auto const scales = from.scales.empty() ? no_scales : some;
            if (problem.is_own)
                return CachedRows<Cache, Host>(memory.rows(first, rows),
                                               scales.empty() ? scales : scales.rows(first, rows));
            return CachedRows<Cache, Host>(memory, tensors.steps.sequences[i].pages[1], 16, problem.length(i), scales);
        };
        auto const vector = [](std::vector<float> const& values) {
            return TensorView<float const, 1, Host>(values.data(), {static_cast<std::int64_t>(values.size())});
        };
        TensorView<float const, 2, Host> const q(tensors.q.data() + problem.shift + first * tensors.q_stride,
                                                 {rows, shape.heads * shape.key_dim}, tensors.q_stride);
        TensorView<float, 2, Host> const to(out.data() + problem.shift + first * tensors.out_stride,
                                            {rows, shape.heads * shape.value_dim}, tensors.out_stride);
        REQUIRE(attention<float, Cache>(q, rows_of(*tensors.keys), rows_of(*tensors.values), to, options, stream, {},
                                        vector(tensors.sinks), vector(tensors.slopes)));
        first += rows;
    }
    return out;
}

}  // namespace
