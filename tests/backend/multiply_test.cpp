// SPDX-License-Identifier: Apache-2.0
#include <shardwise/backend/host/products.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cfenv>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <thread>
#include <utility>
#include <vector>

using namespace shardwise;

namespace {

HostOptions options_at(IsaLevel level, int threads = 2) {
    return {.threads = threads, .is_pinned = false, .streams = StreamMode::immediate, .isa = level};
}

std::vector<IsaLevel> levels() {
    std::vector<IsaLevel> found;
    for (auto const level : isa_level_list) {
        if (has_isa(level)) found.push_back(level);
    }
    return found;
}

std::vector<WeightFormat> const dense_formats{WeightFormat::f32, WeightFormat::bf16, WeightFormat::f16};

/// The bytes of values that the format holds exactly.
std::vector<std::byte> encode(WeightFormat format, std::vector<float> const& values) {
    std::vector<std::byte> bytes(values.size() * (format == WeightFormat::f32 ? 4U : 2U));
    for (std::size_t i = 0; i < values.size(); ++i) {
        auto const half = format == WeightFormat::bf16 ? to_bf16(values[i]) : to_f16(values[i]);
        if (format == WeightFormat::f32) {
            std::memcpy(bytes.data() + i * 4, &values[i], 4);
        } else {
            std::memcpy(bytes.data() + i * 2, &half, 2);
        }
    }
    return bytes;
}

/// A matrix with rows that lie further apart than they are long; what lies between is not a number.
struct Matrix {
    std::int64_t rows;
    std::int64_t columns;
    std::int64_t stride;
    std::vector<float> values;

    Matrix(std::int64_t rows_, std::int64_t columns_, std::int64_t gap = 3)
        : rows(rows_),
          columns(columns_),
          stride(columns_ + gap),
          values(static_cast<std::size_t>(rows_ * stride + 1), std::nanf("")) {}

    float& at(std::int64_t row, std::int64_t column) { return values[static_cast<std::size_t>(row * stride + column)]; }
    TensorView<float, 2, Host> view() { return {values.data(), {rows, columns}, stride}; }
    TensorView<float const, 2, Host> read() { return view(); }
};

/// Integers from -4 to 4 that no two places near each other share.
float integer_at(std::int64_t row, std::int64_t column) {
    return static_cast<float>((row * 7 + column * 13 + row * column) % 9 - 4);
}

struct Problem {
    std::int64_t outputs;
    std::int64_t inputs;
    std::vector<float> weight;
    Matrix in;
    std::vector<double> expected;
    std::vector<double> magnitude;

    template <class Weight, class In>
    Problem(std::int64_t rows, std::int64_t outputs_, std::int64_t inputs_, Weight&& weight_at, In&& in_at)
        : outputs(outputs_),
          inputs(inputs_),
          weight(static_cast<std::size_t>(outputs_ * inputs_)),
          in(rows, inputs_),
          expected(static_cast<std::size_t>(rows * outputs_)),
          magnitude(expected.size()) {
        for (std::int64_t o = 0; o < outputs; ++o) {
            for (std::int64_t k = 0; k < inputs; ++k)
                weight[static_cast<std::size_t>(o * inputs + k)] = weight_at(o, k);
        }
        for (std::int64_t row = 0; row < rows; ++row) {
            for (std::int64_t k = 0; k < inputs; ++k) in.at(row, k) = in_at(row, k);
            for (std::int64_t o = 0; o < outputs; ++o) {
                auto const place = static_cast<std::size_t>(row * outputs + o);
                for (std::int64_t k = 0; k < inputs; ++k) {
                    auto const product = static_cast<double>(in.at(row, k)) *
                                         static_cast<double>(weight[static_cast<std::size_t>(o * inputs + k)]);
                    expected[place] += product;
                    magnitude[place] += std::abs(product);
                }
            }
        }
    }
};

/// The product, row by row without gaps; checks that nothing else was written.
std::vector<float> multiply(HostContext& context, HostWeight const& weight, Matrix& in) {
    Matrix out(in.rows, weight.outputs());
    auto stream = context.make_stream();
    REQUIRE(Host::multiply(in.read(), weight, out.view(), stream));
    REQUIRE(stream.synchronize(Deadline::after(std::chrono::seconds(60))));
    std::vector<float> values;
    for (std::int64_t row = 0; row < in.rows; ++row) {
        for (std::int64_t o = 0; o < out.stride; ++o) {
            if (o < out.columns) {
                values.push_back(out.at(row, o));
            } else {
                REQUIRE(std::isnan(out.at(row, o)));
            }
        }
    }
    return values;
}

HostWeight hold(HostContext& context, WeightFormat format, std::int64_t outputs, std::int64_t inputs,
                std::vector<float> const& values) {
    auto const bytes = encode(format, values);
    auto held = Host::hold_weight(
        context, {.format = format, .outputs = outputs, .inputs = inputs, .data = bytes, .scales = {}});
    REQUIRE_MESSAGE(held, held.error().message());
    return std::move(*held);
}

bool same_bits(std::vector<float> const& a, std::vector<float> const& b) {
    return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

}  // namespace

TEST_CASE("multiply: integers come out exactly at every level, for every dense format and odd extents") {
    for (auto const level : levels()) {
        HostContext context(options_at(level));
        for (auto const format : dense_formats) {
            for (std::int64_t const outputs : {1, 15, 17, 33, 50}) {
                for (std::int64_t const inputs : {0, 1, 31, 33, 257}) {
                    for (std::int64_t const rows : {0, 1, 2, 3, 5, 16, 17}) {
                        Problem problem(rows, outputs, inputs, integer_at,
                                        [](auto row, auto k) { return integer_at(k, row + 5); });
                        auto const weight = hold(context, format, outputs, inputs, problem.weight);
                        auto const values = multiply(context, weight, problem.in);
                        bool is_exact = true;
                        for (std::size_t i = 0; i < values.size(); ++i) {
                            is_exact = is_exact && static_cast<double>(values[i]) == problem.expected[i];
                        }
                        CHECK_MESSAGE(is_exact, name_of(level), " ", name_of(format), " ", rows, " x ", outputs, " x ",
                                      inputs);
                    }
                }
            }
        }
    }
}

TEST_CASE(
    "multiply: the bits of a row depend neither on the rows beside it, nor on the outputs beside it, nor on threads") {
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    constexpr std::int64_t outputs = 37;
    constexpr std::int64_t inputs = 321;
    constexpr std::int64_t rows = 40;
    Problem problem(
        rows, outputs, inputs, [&](auto, auto) { return from_bf16(to_bf16(normal(random))); },
        [&](auto, auto) { return normal(random); });
    for (auto const level : levels()) {
        HostContext context(options_at(level));
        HostContext lonely(options_at(level, 1));
        for (auto const format : dense_formats) {
            auto const weight = hold(context, format, outputs, inputs, problem.weight);
            auto const whole = multiply(context, weight, problem.in);
            for (std::int64_t const count : {1, 2, 3, 4, 5, 7, 8, 9, 12, 13, 16, 17, 25}) {
                auto const first = (count * 5) % (rows - count + 1);
                Matrix some(count, inputs, 0);
                for (std::int64_t row = 0; row < count; ++row) {
                    for (std::int64_t k = 0; k < inputs; ++k) some.at(row, k) = problem.in.at(first + row, k);
                }
                std::vector<float> const expected(whole.begin() + first * outputs,
                                                  whole.begin() + (first + count) * outputs);
                CHECK_MESSAGE(same_bits(multiply(context, weight, some), expected), name_of(level), " ",
                              name_of(format), " ", count, " rows");
            }
            // A shard of the outputs, cut where no panel ends, held by a context of one thread.
            constexpr std::int64_t begin = 5;
            constexpr std::int64_t end = 30;
            auto const shard = hold(lonely, format, end - begin, inputs,
                                    {problem.weight.begin() + begin * inputs, problem.weight.begin() + end * inputs});
            auto const part = multiply(lonely, shard, problem.in);
            std::vector<float> expected;
            for (std::int64_t row = 0; row < rows; ++row) {
                for (auto o = begin; o < end; ++o)
                    expected.push_back(whole[static_cast<std::size_t>(row * outputs + o)]);
            }
            CHECK_MESSAGE(same_bits(part, expected), name_of(level), " ", name_of(format));
        }
    }
}

TEST_CASE("multiply: more rows, outputs and inputs than a block holds come out exactly") {
    constexpr std::int64_t rows = detail::block_rows + 7;
    constexpr std::int64_t outputs = (detail::result_panels * 3 / 2 + 1) * detail::panel_outputs + 3;
    constexpr std::int64_t inputs = detail::tile_inputs + 5;
    HostContext context(options_at(detect_isa(), 1));
    std::vector<float> weight(static_cast<std::size_t>(outputs * inputs));
    for (std::size_t i = 0; i < weight.size(); ++i) {
        weight[i] = integer_at(static_cast<std::int64_t>(i) / inputs, static_cast<std::int64_t>(i) % inputs);
    }
    Matrix in(rows, inputs);
    for (std::int64_t row = 0; row < rows; ++row) {
        for (std::int64_t k = 0; k < inputs; ++k) in.at(row, k) = integer_at(k, row + 5);
    }
    auto const values = multiply(context, hold(context, WeightFormat::f32, outputs, inputs, weight), in);
    // The integers repeat every 9 rows.
    bool is_exact = true;
    for (std::int64_t row = 0; row < rows; ++row) {
        for (std::int64_t o = 0; o < outputs; ++o) {
            auto const value = values[static_cast<std::size_t>(row * outputs + o)];
            if (row >= 9) {
                is_exact = is_exact && value == values[static_cast<std::size_t>((row - 9) * outputs + o)];
                continue;
            }
            float sum = 0.0F;
            for (std::int64_t k = 0; k < inputs; ++k) {
                sum += in.values[static_cast<std::size_t>(row * in.stride + k)] *
                       weight[static_cast<std::size_t>(o * inputs + k)];
            }
            is_exact = is_exact && value == sum;
        }
    }
    CHECK(is_exact);
}

TEST_CASE("multiply: the error stays within the bound of a sum of its length, for every dense format and level") {
    std::mt19937 random(11);
    std::normal_distribution<float> normal;
    constexpr std::int64_t inputs = 777;
    for (auto const format : dense_formats) {
        auto const held_value = [&](float value) {
            if (format == WeightFormat::f32) return value;
            return format == WeightFormat::bf16 ? from_bf16(to_bf16(value)) : from_f16(to_f16(value));
        };
        Problem problem(
            5, 19, inputs, [&](auto, auto) { return held_value(normal(random)); },
            [&](auto, auto) { return normal(random); });
        for (auto const level : levels()) {
            HostContext context(options_at(level));
            auto const weight = hold(context, format, 19, inputs, problem.weight);
            auto const values = multiply(context, weight, problem.in);
            double worst = 0.0;
            for (std::size_t i = 0; i < values.size(); ++i) {
                worst = std::max(worst,
                                 std::abs(static_cast<double>(values[i]) - problem.expected[i]) / problem.magnitude[i]);
            }
            // Blocks of 256 products in a row (a rounding for each product and each sum), then four sums of blocks.
            auto const unit = static_cast<double>(std::numeric_limits<float>::epsilon()) / 2;
            CHECK_MESSAGE(worst < (256 + 1 + 4) * unit, name_of(level), " ", name_of(format));
            CHECK(worst > 0.0);
        }
    }
}

TEST_CASE(
    "bf16 activations: bf16 weights multiply what is rounded, other formats take activations in full, at every level") {
    std::mt19937 random(12);
    std::normal_distribution<float> normal;
    constexpr std::int64_t inputs = 321;
    constexpr std::int64_t outputs = 37;
    for (auto const level : levels()) {
        auto options = options_at(level);
        HostContext full(options);
        options.product_activations = ProductActivations::bf16;
        HostContext context(options);
        for (auto const format : dense_formats) {
            for (std::int64_t const rows : {1, 3, 40}) {
                CAPTURE(name_of(level));
                CAPTURE(name_of(format));
                CAPTURE(rows);
                Problem problem(
                    rows, outputs, inputs, [&](auto, auto) { return from_bf16(to_bf16(normal(random))); },
                    [&](auto, auto) { return normal(random); });
                auto const values =
                    multiply(context, hold(context, format, outputs, inputs, problem.weight), problem.in);
                auto const unrounded = multiply(full, hold(full, format, outputs, inputs, problem.weight), problem.in);
                if (!has_bf16_product(format)) {
                    CHECK(same_bits(values, unrounded));
                    continue;
                }
                CHECK_FALSE(same_bits(values, unrounded));
                Problem const rounded(
                    rows, outputs, inputs,
                    [&](auto o, auto k) { return problem.weight[static_cast<std::size_t>(o * inputs + k)]; },
                    [&](auto row, auto k) { return from_bf16(to_bf16(problem.in.at(row, k))); });
                // The bound of the sums alone.
                auto const unit = static_cast<double>(std::numeric_limits<float>::epsilon()) / 2;
                bool is_within = true;
                for (std::size_t i = 0; i < values.size(); ++i) {
                    is_within = is_within && std::abs(static_cast<double>(values[i]) - rounded.expected[i]) <=
                                                 (256 + 1 + 4) * unit * rounded.magnitude[i];
                }
                CHECK(is_within);
                // A range that begins within a pair.
                UnitRange const range{5, inputs};
                auto stream = context.make_stream();
                auto const weight = hold(context, format, outputs, inputs, problem.weight);
                std::vector<float> part(values.size());
                std::vector<float> rest(values.size());
                auto const whole = TensorView<float const, 2, Host>(problem.in.read());
                REQUIRE(Host::multiply(whole.columns(0, 5), weight, {0, 5}, {part.data(), {rows, outputs}}, stream));
                REQUIRE(Host::multiply(whole.columns(5, inputs - 5), weight, range, {rest.data(), {rows, outputs}},
                                       stream));
                for (std::size_t i = 0; i < values.size(); ++i) {
                    is_within = is_within && std::abs(static_cast<double>(part[i]) + static_cast<double>(rest[i]) -
                                                      rounded.expected[i]) <= 300 * unit * rounded.magnitude[i];
                }
                CHECK(is_within);
            }
        }
    }
}

TEST_CASE("multiply: fp32 weights give the bits that gemm gives, at every level") {
    std::mt19937 random(5);
    std::normal_distribution<float> normal;
    Problem problem(
        21, 50, 530, [&](auto, auto) { return normal(random); }, [&](auto, auto) { return normal(random); });
    for (auto const level : levels()) {
        HostContext context(options_at(level));
        auto const held = hold(context, WeightFormat::f32, 50, 530, problem.weight);
        auto const values = multiply(context, held, problem.in);
        std::vector<float> plain(values.size());
        auto stream = context.make_stream();
        REQUIRE(Host::gemm<float>(problem.in.read(), {problem.weight.data(), {50, 530}}, {plain.data(), {21, 50}},
                                  {.is_b_transposed = true}, stream));
        CHECK_MESSAGE(same_bits(values, plain), name_of(level));
    }
}

TEST_CASE("multiply: infinities and what is not a number reach their rows only") {
    for (auto const level : levels()) {
        HostContext context(options_at(level));
        for (auto const format : dense_formats) {
            Problem problem(3, 17, 33, integer_at, [](auto row, auto k) { return integer_at(k, row); });
            problem.in.at(1, 32) = std::nanf("");
            problem.in.at(2, 0) = std::numeric_limits<float>::infinity();
            for (auto& value : problem.weight) value = 1.0F;
            auto const held = hold(context, format, 17, 33, problem.weight);
            auto const values = multiply(context, held, problem.in);
            for (std::size_t o = 0; o < 17; ++o) {
                REQUIRE(std::isfinite(values[o]));
                REQUIRE(std::isnan(values[17 + o]));
                REQUIRE(std::isinf(values[34 + o]));
            }
        }
    }
}

TEST_CASE("multiply: a context multiplies by a weight that another one holds on the threads of its own stream") {
    HostContext holder(options_at(IsaLevel::portable, 1));
    HostContext other(options_at(IsaLevel::portable, 3));
    constexpr std::int64_t outputs = 1024;
    constexpr std::int64_t inputs = 512;
    // A third has no exact sums: which way they are rounded shows which thread has made them.
    std::vector<float> const values(outputs * inputs, 1.0F / 3.0F);
    WeightSource source;
    source.outputs = outputs;
    source.inputs = inputs;
    source.data = std::as_bytes(std::span(values));
    auto const weight = Host::hold_weight(holder, source);
    REQUIRE(weight);
    std::vector<float> const in(inputs, 1.0F / 3.0F);
    auto const product = [&](HostStream& stream) {
        std::vector<float> out(outputs);
        REQUIRE(Host::multiply({in.data(), {1, inputs}}, *weight, {out.data(), {1, outputs}}, stream));
        return out;
    };
    auto own = holder.make_stream();
    auto const nearest = product(own);

    // All workers of the other context round upwards: each part waits until every thread has one.
    auto const caller = std::this_thread::get_id();
    std::atomic<int> arrived{0};
    auto const turn_up = [&](std::int64_t) {
        arrived.fetch_add(1);
        while (arrived.load() < other.pool().size()) std::this_thread::yield();
        if (std::this_thread::get_id() != caller) std::fesetround(FE_UPWARD);
    };
    auto stream = other.make_stream();
    auto const give_up = Deadline::after(std::chrono::seconds(30));
    bool has_helped = false;
    other.pool().run(other.pool().size(), turn_up);
    // A worker that sleeps is not waited for.
    while (!has_helped && !give_up.has_passed()) has_helped = product(stream) != nearest;
    CHECK(has_helped);

    // A stream without threads has its own one only.
    HostStream alone(StreamMode::immediate, nullptr, IsaLevel::portable);
    CHECK(product(alone) == nearest);
    CHECK(holder.products() > 2);
    CHECK(other.products() == 0);
}

TEST_CASE("multiply: extents that do not agree are named") {
    HostContext context(options_at(IsaLevel::portable));
    auto stream = context.make_stream();
    auto const weight = hold(context, WeightFormat::f32, 3, 4, std::vector<float>(12));
    std::vector<float> values(100);
    auto const message = [&](std::int64_t rows, std::int64_t inputs, std::int64_t out_rows, std::int64_t outputs) {
        auto const done =
            Host::multiply({values.data(), {rows, inputs}}, weight, {values.data(), {out_rows, outputs}}, stream);
        REQUIRE_FALSE(done);
        CHECK(done.error().code() == ErrorCode::shape_mismatch);
        return done.error().message();
    };
    CHECK(message(2, 5, 2, 3) ==
          "multiply: the activations have another width than the weight has inputs (got 5, expected 4)");
    CHECK(message(2, 4, 2, 4) ==
          "multiply: the result has another width than the weight has outputs (got 4, expected 3)");
    CHECK(message(2, 4, 3, 3) ==
          "multiply: the result has another number of rows than the activations (got 3, expected 2)");

    HostStream broken(StreamMode::immediate, nullptr, choose_isa("avx3"));
    auto const done = Host::multiply({values.data(), {2, 4}}, weight, {values.data(), {2, 3}}, broken);
    REQUIRE_FALSE(done);
    CHECK(done.error().subject() == "SHARDWISE_ISA");
}

TEST_CASE("A product is cut into parts that keep threads busy: none where it is small, rows too where panels are few") {
    auto const parts = [](std::int64_t rows, std::int64_t panels, std::int64_t inputs, std::int64_t threads) {
        auto const cut = detail::cut_product(rows, panels, inputs, threads);
        return std::pair{cut.panel_parts, cut.row_parts};
    };
    CHECK(parts(1, 4, 64, 8) == std::pair<std::int64_t, std::int64_t>{1, 1});
    CHECK(parts(1, 688, 4096, 1) == std::pair<std::int64_t, std::int64_t>{1, 1});
    CHECK(parts(1, 688, 4096, 2) == std::pair<std::int64_t, std::int64_t>{16, 1});
    CHECK(parts(512, 2, 4096, 4) == std::pair<std::int64_t, std::int64_t>{1, 32});
    CHECK(parts(0, 5, 10, 4) == std::pair<std::int64_t, std::int64_t>{1, 1});
}
