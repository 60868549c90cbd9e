// SPDX-License-Identifier: Apache-2.0
#include <shardwise/kernels/attention.hpp>
#include <shardwise/kernels/store_rows.hpp>

#include <doctest/doctest.h>

#include "row_matrices.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

using namespace shardwise;
using testing::levels;

namespace {

struct Problem {
    std::string name;
    AttentionOptions options;
    std::int64_t queries;
    std::int64_t keys;
    bool has_sinks = false;
    bool has_slopes = false;
};

template <class T>
struct Tensors {
    std::vector<T> q, k, v, out;
    std::vector<float> sinks, slopes;

    explicit Tensors(Problem const& problem) {
        auto const& shape = problem.options.shape;
        std::mt19937 random(11);
        std::normal_distribution<float> values(0.0F, 1.0F);
        auto const fill = [&](auto& list, std::int64_t count) {
            list.resize(static_cast<std::size_t>(count));
            for (auto& value : list) value = std::decay_t<decltype(value)>(values(random));
        };
        fill(q, problem.queries * shape.heads * shape.key_dim);
        fill(k, problem.keys * shape.kv_heads * shape.key_dim);
        fill(v, problem.keys * shape.kv_heads * shape.value_dim);
        out.resize(static_cast<std::size_t>(problem.queries * shape.heads * shape.value_dim));
        if (problem.has_sinks) fill(sinks, shape.heads);
        // ALiBi's own for 4 heads: 1/4, 1/16, ...
        for (std::int64_t head = 0; problem.has_slopes && head < shape.heads; ++head) {
            slopes.push_back(std::exp2f(-2.0F * static_cast<float>(head + 1)));
        }
    }
};

template <class T>
Result<> run(Problem const& problem, Tensors<T>& tensors, HostStream& stream, std::vector<float>& workspace) {
    auto const matrix = [](auto& values, std::int64_t rows) {
        using Value = std::remove_reference_t<decltype(values[0])>;
        return TensorView<Value, 2, Host>{values.data(), {rows, static_cast<std::int64_t>(values.size()) / rows}};
    };
    auto const vector = [](auto& values) {
        using Value = std::remove_reference_t<decltype(values[0])>;
        return TensorView<Value, 1, Host>{values.data(), {static_cast<std::int64_t>(values.size())}};
    };
    return attention<T, T>(
        matrix(std::as_const(tensors.q), problem.queries), matrix(std::as_const(tensors.k), problem.keys),
        matrix(std::as_const(tensors.v), problem.keys), matrix(tensors.out, problem.queries), problem.options, stream,
        vector(workspace), vector(std::as_const(tensors.sinks)), vector(std::as_const(tensors.slopes)));
}

/// Queries are the last of the keys unless a problem says otherwise.
std::int64_t first_query_of(Problem const& problem) {
    return problem.options.first_query.value_or(problem.keys - problem.queries);
}

/// The definition in float64: the values of a query's head.
template <class T>
std::vector<double> reference(Problem const& problem, Tensors<T> const& tensors, std::int64_t query,
                              std::int64_t head) {
    auto const& shape = problem.options.shape;
    auto const value = [](T stored) { return static_cast<double>(static_cast<float>(stored)); };
    auto const position = first_query_of(problem) + query;
    auto const kv_head = head / (shape.heads / shape.kv_heads);
    std::vector<double> scores;
    double largest = -INFINITY;
    for (std::int64_t key = 0; key < problem.keys; ++key) {
        auto const distance = position - key;
        bool const is_hidden =
            (shape.is_causal && distance < 0) || (shape.window > 0 && std::abs(distance) >= shape.window) ||
            (shape.chunk > 0 && key / shape.chunk != position / shape.chunk);
        double score = is_hidden ? -INFINITY : 0.0;
        auto const* const q = tensors.q.data() + (query * shape.heads + head) * shape.key_dim;
        auto const* const k = tensors.k.data() + (key * shape.kv_heads + kv_head) * shape.key_dim;
        for (std::int64_t d = 0; d < shape.key_dim && !is_hidden; ++d) score += value(q[d]) * value(k[d]);
        score *= problem.options.scale > 0.0F ? static_cast<double>(problem.options.scale)
                                              : 1.0 / std::sqrt(static_cast<double>(shape.key_dim));
        if (problem.options.soft_cap > 0.0F && !is_hidden) {
            auto const cap = static_cast<double>(problem.options.soft_cap);
            score = cap * std::tanh(score / cap);
        }
        if (shape.has_rounded_slopes) {
            auto const slope = tensors.slopes[static_cast<std::size_t>(head)];
            auto const bias = static_cast<float>(Bfloat16(slope * static_cast<float>(Bfloat16(static_cast<float>(key)))));
            score += static_cast<double>(bias) / std::sqrt(static_cast<double>(shape.key_dim));
        } else if (problem.has_slopes)
            score -= static_cast<double>(tensors.slopes[static_cast<std::size_t>(head)]) *
                     static_cast<double>(std::abs(distance));
        scores.push_back(score);
        largest = std::max(largest, score);
    }
    auto const sink =
        problem.has_sinks ? static_cast<double>(tensors.sinks[static_cast<std::size_t>(head)]) : -INFINITY;
    largest = std::max(largest, sink);
    double sum = std::exp(sink - largest);
    std::vector<double> out(static_cast<std::size_t>(shape.value_dim));
    for (std::int64_t key = 0; key < problem.keys; ++key) {
        auto const weight = std::exp(scores[static_cast<std::size_t>(key)] - largest);
        if (weight == 0.0) continue;
        sum += weight;
        auto const* const v = tensors.v.data() + (key * shape.kv_heads + kv_head) * shape.value_dim;
        for (std::size_t i = 0; i < out.size(); ++i) out[i] += weight * value(v[i]);
    }
    for (auto& element : out) element /= sum;
    return out;
}

/// Roundings that a result has in float, of the size of its values. A score is a float sum of key_dim products; its error moves
/// a weight by as much, relatively, and the weights and values are summed over the keys.
double roundings_of(Problem const& problem) {
    return 4.0 * static_cast<double>(problem.options.shape.key_dim) + 10.0 + static_cast<double>(problem.keys) / 8.0;
}

/// How many elements differ.
template <class T>
std::size_t count_differences(std::vector<T> const& a, std::vector<T> const& b) {
    std::size_t count = 0;
    for (std::size_t i = 0; i < a.size(); ++i) count += static_cast<float>(a[i]) == static_cast<float>(b[i]) ? 0U : 1U;
    return count;
}

AttentionShape shape_of(std::int64_t heads, std::int64_t kv_heads, std::int64_t key_dim, std::int64_t value_dim,
                        std::int64_t window = 0, bool is_causal = true) {
    return {.heads = heads,
            .kv_heads = kv_heads,
            .key_dim = key_dim,
            .value_dim = value_dim,
            .window = window,
            .is_causal = is_causal};
}

AttentionShape in_chunks(AttentionShape shape, std::int64_t chunk) {
    shape.chunk = chunk;
    return shape;
}

AttentionShape with_rounded_slopes(AttentionShape shape) {
    shape.has_rounded_slopes = true;
    return shape;
}

std::vector<Problem> problems() {
    return {
        {"prefill of many heads", {.shape = shape_of(4, 4, 16, 16)}, 70, 70},
        {"grouped queries after a past", {.shape = shape_of(6, 2, 8, 12), .first_query = 300}, 5, 305},
        {"one query, one key-value head", {.shape = shape_of(8, 1, 32, 32), .first_query = 999}, 1, 1000},
        {"few rows of wide heads", {.shape = shape_of(6, 2, 70, 75), .first_query = 299}, 1, 300},
        {"every token sees all", {.shape = shape_of(3, 3, 8, 8, 0, false)}, 20, 20},
        {"a sliding window", {.shape = shape_of(2, 1, 8, 8, 37), .first_query = 530}, 9, 539},
        {"a window to both sides", {.shape = shape_of(2, 2, 8, 8, 5, false)}, 30, 30},
        {"a soft cap and a scale of its own", {.shape = shape_of(2, 2, 8, 8), .scale = 0.3F, .soft_cap = 2.0F}, 12, 12},
        {"sinks", {.shape = shape_of(4, 2, 8, 8, 3), .first_query = 4}, 6, 10, true},
        {"ALiBi", {.shape = shape_of(4, 4, 8, 8), .first_query = 290}, 4, 294, false, true},
        {"falcon's ALiBi", {.shape = with_rounded_slopes(shape_of(4, 4, 8, 8)), .first_query = 290}, 4, 294, false, true},
        {"chunks", {.shape = in_chunks(shape_of(2, 1, 8, 8), 7), .first_query = 530}, 9, 539},
        {"chunks within windows", {.shape = in_chunks(shape_of(2, 1, 8, 8, 300), 300), .first_query = 590}, 20, 610},
    };
}

}  // namespace

TEST_CASE_TEMPLATE("attention: equals the definition in float64, with and without a split context", T, float, Bfloat16,
                   Float16) {
    for (auto const& problem : problems()) {
        auto const& shape = problem.options.shape;
        CAPTURE(problem.name);
        Tensors<T> tensors(problem);
        std::vector<double> expected;
        for (std::int64_t row = 0; row < problem.queries * shape.heads; ++row) {
            auto const values = reference(problem, tensors, row / shape.heads, row % shape.heads);
            expected.insert(expected.end(), values.begin(), values.end());
        }
        for (auto const level : levels()) {
            CAPTURE(name_of(level));
            std::vector<T> first;
            for (int const threads : {1, 3}) {
                HostContext context({.threads = threads, .isa = level});
                auto stream = context.make_stream();
                std::vector<float> workspace(static_cast<std::size_t>(
                    threads == 1 ? 0 : attention_workspace(problem.options, problem.queries, problem.keys)));
                std::fill(tensors.out.begin(), tensors.out.end(), T(77.0F));
                REQUIRE(run(problem, tensors, stream, workspace));
                // The same bits, however the work is split.
                if (first.empty()) first = tensors.out;
                CHECK(count_differences(first, tensors.out) == 0);
            }
            int wrong = 0;
            for (std::size_t i = 0; i < expected.size(); ++i) {
                auto const got = static_cast<double>(static_cast<float>(first[i]));
                // Values are of the size of 1; what is stored is rounded once.
                auto const allowed =
                    roundings_of(problem) * 0x1p-24 + 1.01 * testing::unit_roundoff<T> * std::abs(expected[i]);
                wrong += std::abs(got - expected[i]) <= allowed ? 0 : 1;
            }
            CHECK(wrong == 0);
        }
    }
}

TEST_CASE_TEMPLATE("attention: a query's bits do not depend on the queries beside it, nor on keys that it does not see",
                   T, float, Bfloat16, Float16) {
    Problem const problem{"many rows", {.shape = shape_of(5, 1, 34, 21, 40), .first_query = 250}, 20, 270};
    auto const& shape = problem.options.shape;
    for (auto const level : levels()) {
        CAPTURE(name_of(level));
        HostContext context({.threads = 2, .isa = level});
        auto stream = context.make_stream();
        std::vector<float> workspace;
        Tensors<T> together(problem);
        REQUIRE(run(problem, together, stream, workspace));
        for (std::int64_t const query : {0, 6, 19}) {
            auto alone_problem = problem;
            alone_problem.queries = 1;
            alone_problem.options.first_query = first_query_of(problem) + query;
            Tensors<T> alone(problem);
            auto const row = static_cast<std::size_t>(shape.heads * shape.key_dim);
            alone.q.erase(alone.q.begin(), alone.q.begin() + static_cast<std::ptrdiff_t>(row) * query);
            alone.q.resize(row);
            alone.out.resize(static_cast<std::size_t>(shape.heads * shape.value_dim));
            // Keys after the query and in front of its window are not numbers.
            for (std::int64_t key = 0; key < problem.keys; ++key) {
                auto const position = first_query_of(problem) + query;
                if (key <= position && key > position - shape.window) continue;
                for (std::int64_t i = 0; i < shape.key_dim; ++i)
                    alone.k[static_cast<std::size_t>(key * shape.key_dim + i)] = T(NAN);
                for (std::int64_t i = 0; i < shape.value_dim; ++i)
                    alone.v[static_cast<std::size_t>(key * shape.value_dim + i)] = T(key % 2 == 0 ? NAN : INFINITY);
            }
            REQUIRE(run(alone_problem, alone, stream, workspace));
            std::vector<T> const same(
                together.out.begin() + static_cast<std::ptrdiff_t>(alone.out.size()) * query,
                together.out.begin() + static_cast<std::ptrdiff_t>(alone.out.size()) * (query + 1));
            CHECK(count_differences(same, alone.out) == 0);
            // The same among all queries.
            alone.q = together.q;
            alone.out = together.out;
            REQUIRE(run(problem, alone, stream, workspace));
            std::vector<T> const beside(alone.out.begin() + static_cast<std::ptrdiff_t>(same.size()) * query,
                                        alone.out.begin() + static_cast<std::ptrdiff_t>(same.size()) * (query + 1));
            CHECK(count_differences(same, beside) == 0);
        }
    }
}

TEST_CASE("attention: no queries, no keys, one key, a score that is no number") {
    for (auto const level : levels()) {
        CAPTURE(name_of(level));
        HostContext context({.threads = 2, .isa = level});
        auto stream = context.make_stream();
        AttentionOptions options{.shape = shape_of(2, 1, 3, 5)};
        std::vector<float> q{1, 2, 3, 4, 5, 6};
        std::vector<float> k{1, -1, 2};
        std::vector<float> v{5, 4, 3, 2, 1};
        std::vector<float> out(10, 77.0F);
        auto const attend = [&](std::int64_t queries, std::int64_t keys) {
            return attention<float, float>({q.data(), {queries, 6}}, {k.data(), {keys, 3}}, {v.data(), {keys, 5}},
                                           {out.data(), {queries, 10}}, options, stream);
        };
        REQUIRE(attend(0, 1));
        CHECK(out[0] == 77.0F);
        REQUIRE(attend(1, 0));
        CHECK(out == std::vector<float>(10, 0.0F));
        REQUIRE(attend(1, 1));
        CHECK(out == std::vector<float>{5, 4, 3, 2, 1, 5, 4, 3, 2, 1});
        q[1] = NAN;
        REQUIRE(attend(1, 1));
        CHECK(std::isnan(out[0]));
        CHECK(out[9] == 1.0F);
    }
}

TEST_CASE("attention: shapes that do not go together are refused with the numbers") {
    HostContext context({.threads = 1});
    auto stream = context.make_stream();
    std::vector<float> workspace;
    auto problem = problems()[1];
    Tensors<float> tensors(problem);
    problem.options.shape.kv_heads = 4;
    CHECK(run(problem, tensors, stream, workspace)
              .error()
              .message()
              .find("no multiple of the key-value heads (got 6, expected a multiple of 4)") != std::string::npos);
    problem = problems()[1];
    problem.options.shape.key_dim = 9;
    CHECK(run(problem, tensors, stream, workspace).error().code() == ErrorCode::shape_mismatch);
    problem = problems()[1];
    workspace.resize(3);
    CHECK(run(problem, tensors, stream, workspace).error().message().find("workspace is too small") !=
          std::string::npos);
}

namespace {

/// Keys or values in pages of 16 that lie apart, or some one after another, in whatever order.
template <class Cache>
struct Paged {
    std::vector<Cache> memory;
    std::vector<float> scales;
    std::vector<std::int32_t> pages;
    std::int64_t heads;
    std::int64_t rows;

    Paged(std::vector<float> const& from, std::int64_t count, std::int64_t kv_heads) : heads(kv_heads), rows(count) {
        auto const width = static_cast<std::int64_t>(from.size()) / count;
        auto const used = (count + 15) / 16;
        // Two one after another, then two far away.
        for (std::int64_t i = 0; i < used; ++i)
            pages.push_back(static_cast<std::int32_t>(i / 2 % 2 == 0 ? i : 2 * used - 1 - i));
        memory.resize(static_cast<std::size_t>(2 * used * 16 * width));
        scales.resize(static_cast<std::size_t>(2 * used * 16 * heads), 1e30F);
        HostContext context({.threads = 1});
        auto stream = context.make_stream();
        REQUIRE(store_rows<Cache>({from.data(), {count, width}}, {memory.data(), {2 * used * 16, width}}, view(), 0,
                                  stream, {scales.data(), {2 * used * 16, heads}}));
    }
    [[nodiscard]] CachedRows<Cache, Host> view() const {
        auto const all = static_cast<std::int64_t>(scales.size()) / heads;
        return {{memory.data(), {all, static_cast<std::int64_t>(memory.size()) / all}},
                pages,
                16,
                rows,
                {scales.data(), {all, heads}}};
    }
    /// What an element is after it was rounded.
    [[nodiscard]] float value(std::int64_t row, std::int64_t column) const {
        auto const stored = view().row(row)[column];
        if constexpr (std::same_as<Cache, std::int8_t>) {
            auto const head = column / (view().width() / heads);
            return static_cast<float>(stored) * view().scale(row, head);
        } else {
            return static_cast<float>(stored);
        }
    }
};

}  // namespace

TEST_CASE_TEMPLATE("attention: keys and values in pages of any order give the bits of those in one piece", Cache, float,
                   Bfloat16, std::int8_t) {
    for (auto const& problem : problems()) {
        CAPTURE(problem.name);
        Tensors<float> tensors(problem);
        auto const& shape = problem.options.shape;
        Paged<Cache> const k(tensors.k, problem.keys, shape.kv_heads);
        Paged<Cache> const v(tensors.v, problem.keys, shape.kv_heads);
        // What a cache rounds away: of bytes at most half a step of the head's greatest element.
        auto const round = [](std::vector<float>& values, Paged<Cache> const& paged, std::int64_t dim) {
            auto const width = paged.view().width();
            int wrong = 0;
            for (std::size_t head = 0; head < values.size(); head += static_cast<std::size_t>(dim)) {
                float most = 0.0F;
                for (std::size_t i = head; i < head + static_cast<std::size_t>(dim); ++i)
                    most = std::max(most, std::abs(values[i]));
                for (std::size_t i = head; i < head + static_cast<std::size_t>(dim); ++i) {
                    auto const at = static_cast<std::int64_t>(i);
                    auto const stored = paged.value(at / width, at % width);
                    auto const bound = std::same_as<Cache, float>      ? 0.0F
                                       : std::same_as<Cache, Bfloat16> ? std::abs(values[i]) * 0x1p-8F
                                                                       : most / 254.0F * 1.001F;
                    wrong += std::abs(stored - values[i]) <= bound ? 0 : 1;
                    values[i] = stored;
                }
            }
            CHECK(wrong == 0);
        };
        auto exact = tensors;
        round(exact.k, k, shape.key_dim);
        round(exact.v, v, shape.value_dim);
        for (auto const level : levels()) {
            CAPTURE(name_of(level));
            HostContext context({.threads = 2, .isa = level});
            auto stream = context.make_stream();
            std::vector<float> workspace(
                static_cast<std::size_t>(attention_workspace(problem.options, problem.queries, problem.keys)));
            REQUIRE(run(problem, exact, stream, workspace));
            auto const once = exact.out;
            auto const row = static_cast<std::int64_t>(tensors.q.size()) / problem.queries;
            auto const out = static_cast<std::int64_t>(tensors.out.size()) / problem.queries;
            for (bool const is_split : {false, true}) {
                std::fill(tensors.out.begin(), tensors.out.end(), 77.0F);
                REQUIRE(attention<float, Cache>(
                    {tensors.q.data(), {problem.queries, row}}, k.view(), v.view(),
                    {tensors.out.data(), {problem.queries, out}}, problem.options, stream,
                    {workspace.data(), {is_split ? static_cast<std::int64_t>(workspace.size()) : 0}},
                    {tensors.sinks.data(), {static_cast<std::int64_t>(tensors.sinks.size())}},
                    {tensors.slopes.data(), {static_cast<std::int64_t>(tensors.slopes.size())}}));
                if constexpr (std::same_as<Cache, std::int8_t>) {
                    // Both have their roundings; scales are multiplied in last, each of a key and of a value with one.
                    double most = 0.0;
                    for (std::size_t i = 0; i < once.size(); ++i)
                        most = std::max(most, static_cast<double>(std::abs(once[i] - tensors.out[i])));
                    CHECK(most <= 2.0 * (roundings_of(problem) + 2.0) * 0x1p-24);
                } else {
                    CHECK(count_differences(once, tensors.out) == 0);
                }
            }
        }
    }
}
