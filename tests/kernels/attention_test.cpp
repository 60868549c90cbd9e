#include <shardwise/kernels/attention.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

using namespace shardwise;

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

/// The definition in float64.
template <class T>
double reference(Problem const& problem, Tensors<T> const& tensors, std::int64_t query, std::int64_t head,
                 std::int64_t i) {
    auto const& shape = problem.options.shape;
    auto const value = [](T stored) { return static_cast<double>(static_cast<float>(stored)); };
    auto const position = problem.options.first_query + query;
    auto const kv_head = head / (shape.heads / shape.kv_heads);
    std::vector<double> scores;
    double largest = -INFINITY;
    for (std::int64_t key = 0; key < problem.keys; ++key) {
        double score = 0.0;
        for (std::int64_t d = 0; d < shape.key_dim; ++d) {
            score += value(tensors.q[static_cast<std::size_t>((query * shape.heads + head) * shape.key_dim + d)]) *
                     value(tensors.k[static_cast<std::size_t>((key * shape.kv_heads + kv_head) * shape.key_dim + d)]);
        }
        score *= problem.options.scale > 0.0F ? static_cast<double>(problem.options.scale)
                                              : 1.0 / std::sqrt(static_cast<double>(shape.key_dim));
        if (problem.options.soft_cap > 0.0F) {
            auto const cap = static_cast<double>(problem.options.soft_cap);
            score = cap * std::tanh(score / cap);
        }
        auto const distance = position - key;
        if (problem.has_slopes)
            score -= static_cast<double>(tensors.slopes[static_cast<std::size_t>(head)]) *
                     static_cast<double>(std::abs(distance));
        bool const is_hidden =
            (shape.is_causal && distance < 0) || (shape.window > 0 && std::abs(distance) >= shape.window);
        scores.push_back(is_hidden ? -INFINITY : score);
        largest = std::max(largest, scores.back());
    }
    if (problem.has_sinks)
        largest = std::max(largest, static_cast<double>(tensors.sinks[static_cast<std::size_t>(head)]));
    double sum = problem.has_sinks
                     ? std::exp(static_cast<double>(tensors.sinks[static_cast<std::size_t>(head)]) - largest)
                     : 0.0;
    double out = 0.0;
    for (std::int64_t key = 0; key < problem.keys; ++key) {
        auto const weight = std::exp(scores[static_cast<std::size_t>(key)] - largest);
        sum += weight;
        out +=
            weight * value(tensors.v[static_cast<std::size_t>((key * shape.kv_heads + kv_head) * shape.value_dim + i)]);
    }
    return out / sum;
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

std::vector<Problem> problems() {
    return {
        {"prefill of many heads", {.shape = shape_of(4, 4, 16, 16)}, 70, 70},
        {"grouped queries behind a past", {.shape = shape_of(6, 2, 8, 12), .first_query = 300}, 5, 305},
        {"one query, one key-value head", {.shape = shape_of(8, 1, 32, 32), .first_query = 999}, 1, 1000},
        {"every token sees all", {.shape = shape_of(3, 3, 8, 8, 0, false)}, 20, 20},
        {"a sliding window", {.shape = shape_of(2, 1, 8, 8, 37), .first_query = 530}, 9, 539},
        {"a window to both sides", {.shape = shape_of(2, 2, 8, 8, 5, false)}, 30, 30},
        {"a soft cap and a scale of its own", {.shape = shape_of(2, 2, 8, 8), .scale = 0.3F, .soft_cap = 2.0F}, 12, 12},
        {"sinks", {.shape = shape_of(4, 2, 8, 8, 3), .first_query = 4}, 6, 10, true},
        {"ALiBi", {.shape = shape_of(4, 4, 8, 8), .first_query = 290}, 4, 294, false, true},
    };
}

}  // namespace

TEST_CASE_TEMPLATE("attention: equals the definition in float64, with and without a split context", T, float,
                   Bfloat16) {
    for (auto const& problem : problems()) {
        auto const& shape = problem.options.shape;
        Tensors<T> tensors(problem);
        std::vector<T> first;
        for (int const threads : {1, 3}) {
            HostContext context({.threads = threads});
            auto stream = context.make_stream();
            for (bool const splits : {false, true}) {
                std::vector<float> workspace(splits ? static_cast<std::size_t>(attention_workspace(
                                                          problem.options, problem.queries, problem.keys))
                                                    : 0);
                std::fill(tensors.out.begin(), tensors.out.end(), T(77.0F));
                REQUIRE(run(problem, tensors, stream, workspace));
                // The same bits, however the work is dealt.
                if (first.empty()) first = tensors.out;
                bool is_equal = true;
                for (std::size_t i = 0; i < first.size(); ++i)
                    is_equal = is_equal && static_cast<float>(first[i]) == static_cast<float>(tensors.out[i]);
                CAPTURE(problem.name);
                CHECK(is_equal);
            }
        }
        // A score is a float sum of key_dim products; its error moves a weight by as much, relatively, and the weights
        // and values are summed over the keys.
        auto const roundings =
            4.0 * static_cast<double>(shape.key_dim) + 10.0 + static_cast<double>(problem.keys) / 8.0;
        auto const stored = std::same_as<T, float> ? 0x1p-24 : 0x1p-8;
        int wrong = 0;
        for (std::int64_t query = 0; query < problem.queries; ++query) {
            for (std::int64_t head = 0; head < shape.heads; ++head) {
                for (std::int64_t i = 0; i < shape.value_dim; ++i) {
                    auto const expected = reference(problem, tensors, query, head, i);
                    auto const got = static_cast<double>(static_cast<float>(
                        first[static_cast<std::size_t>((query * shape.heads + head) * shape.value_dim + i)]));
                    // Values are of the size of 1.
                    if (!(std::abs(got - expected) <=
                          roundings * 0x1p-24 + 1.01 * stored * std::max(1.0, std::abs(expected))))
                        ++wrong;
                }
            }
        }
        CAPTURE(problem.name);
        CHECK(wrong == 0);
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
              .find("no multiple of the key-value heads (got 6, expected 4)") != std::string::npos);
    problem = problems()[1];
    problem.options.shape.key_dim = 9;
    CHECK(run(problem, tensors, stream, workspace).error().code() == ErrorCode::shape_mismatch);
    problem = problems()[1];
    workspace.resize(3);
    CHECK(run(problem, tensors, stream, workspace).error().message().find("workspace is too small") !=
          std::string::npos);
}
