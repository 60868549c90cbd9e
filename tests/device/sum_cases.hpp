// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/parallel/detail/product_tree.hpp>

#include "pair_sample.hpp"
#include "product_cases.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

namespace {

/// A fixed tree over products by pieces of a weight, as some ranks compute it: each from the columns that it holds, and what they have
/// is added up here, in the tree's order.
template <class B, class T = float>
class SumOfRanks {
public:
    SumOfRanks(Bench<B>& bench, StoredWeight const& weight, InputPieces const& pieces, std::int64_t outputs)
        : bench_(bench), weight_(weight), pieces_(pieces), outputs_(outputs) {}

    /// Rows [first, first + rows) of `in`, whose rows are `in_row` apart.
    [[nodiscard]] std::vector<float> operator()(Buffer<T, B> const& in, std::int64_t in_row, std::int64_t first,
                                                std::int64_t rows, std::int64_t ranks) const {
        std::vector<std::vector<float>> nodes;
        for (std::int64_t rank = 0; rank < ranks; ++rank) {
            TensorPlace const place{ranks, rank};
            detail::TreePlan const plan(pieces_.count, ranks, rank);
            auto const own = pieces_.inputs_of_rank(ranks, rank);
            if (own.size() == 0) continue;
            auto const held = B::hold_weight(bench_.context(), weight_.columns(own).source());
            REQUIRE(held);
            auto const sums = detail::product_sums(plan, pieces_, place, 0);
            auto const size = rows * outputs_;
            // Sums and rows that lie apart.
            auto const row = outputs_ + 1;
            auto const apart = rows * row + 3;
            auto out = bench_.send(std::vector<float>(static_cast<std::size_t>(plan.own() * apart), 77.0F));
            TensorView<T const, 2, B> const from(in.data() + first * in_row + own.begin, {rows, own.size()}, in_row);
            TensorView<float, 3, B> const to(out.data(), {plan.own(), rows, outputs_}, {apart, row, 1});
            REQUIRE(B::multiply_sums(from, *held, sums, to, bench_.stream()));
            auto const made = bench_.fetch(out);
            for (std::int64_t sum = 0; sum < plan.own(); ++sum) {
                std::vector<float> node;
                for (std::int64_t i = 0; i < size; ++i) {
                    auto const at = sum * apart + i / outputs_ * row + i % outputs_;
                    node.push_back(made[static_cast<std::size_t>(at)]);
                }
                nodes.push_back(node);
                REQUIRE(made[static_cast<std::size_t>(sum * apart + outputs_)] == 77.0F);
                REQUIRE(made[static_cast<std::size_t>((sum + 1) * apart - 1)] == 77.0F);
            }
        }
        detail::TreePlan const whole(pieces_.count, ranks, 0);
        for (auto const& step : whole.after()) {
            auto& to = nodes[static_cast<std::size_t>(step.to)];
            for (std::size_t i = 0; i < to.size(); ++i) to[i] += nodes[static_cast<std::size_t>(step.from)][i];
        }
        return nodes[0];
    }

private:
    Bench<B>& bench_;
    StoredWeight const& weight_;
    InputPieces pieces_;
    std::int64_t outputs_;
};

/// Against float64, and where the back end is a device the same bits over ranks and over rows that are computed together.
template <class B, class T>
void check_sums(Bench<B>& bench, WeightFormat format, std::int64_t outputs, InputPieces const& pieces, bool is_aligned,
                bool has_ranks = true) {
    CAPTURE(name_of(format));
    CAPTURE(pieces.inputs);
    CAPTURE(pieces.count);
    CAPTURE(is_aligned);
    StoredWeight const weight(format, outputs, pieces.inputs);
    SumOfRanks<B, T> const sum(bench, weight, pieces, outputs);
    constexpr std::int64_t most = 6;
    auto const in_row = is_aligned ? round_up(pieces.inputs, 8) + 8 : pieces.inputs + 1;
    auto const values = numbers<T>(most * in_row, 91);
    auto const in = bench.send(values);
    auto const all = sum(in, in_row, 0, most, 1);
    for (std::int64_t output = 0; output < outputs; ++output) {
        auto const factors = weight.row(output);
        auto const offsets = weight.offsets(output);
        for (std::int64_t row = 0; row < most; ++row) {
            double wanted = 0.0;
            double magnitude = 0.0;
            for (std::int64_t i = 0; i < pieces.inputs; ++i) {
                auto const x =
                    static_cast<double>(static_cast<float>(values[static_cast<std::size_t>(row * in_row + i)]));
                auto const factor = static_cast<double>(factors[static_cast<std::size_t>(i)]);
                wanted += factor * x;
                magnitude += (std::abs(factor) + 2 * std::abs(offsets[static_cast<std::size_t>(i)])) * std::abs(x);
            }
            // As of multiply, and the tree's additions.
            auto const error = static_cast<double>(pieces.inputs + pieces.count + 6) * 0x1p-24 * magnitude;
            REQUIRE(std::abs(static_cast<double>(all[static_cast<std::size_t>(row * outputs + output)]) - wanted) <=
                    error);
        }
    }
    for (std::int64_t const ranks : {2, 3, 5}) {
        if (!has_ranks) break;
        CAPTURE(ranks);
        REQUIRE(sum(in, in_row, 0, most, ranks) == all);
    }
    for (std::int64_t const rows : {1, 2, 3}) {
        CAPTURE(rows);
        auto const some = sum(in, in_row, 2, rows, has_ranks ? rows : 1);
        for (std::int64_t i = 0; i < rows * outputs; ++i)
            REQUIRE(some[static_cast<std::size_t>(i)] == all[static_cast<std::size_t>(2 * outputs + i)]);
    }
}

/// The finest blocks that a format's inputs are parted by.
std::int64_t block_of(WeightFormat format) {
    return format == WeightFormat::int4 ? 64 : row_multiple(format);
}

}  // namespace

TEST_SUITE_BEGIN("fibers");

TEST_CASE_TEMPLATE(
    "multiply_sums is within the rounding of its sums, with the same bits on any ranks and beside any rows", B,
    SHARDWISE_TEST_BACKENDS) {
    auto const bench = open_bench<B>();
    if (!bench) return;
    for (auto const& unit : weight_format_table) {
        auto const format = unit.format;
        // The host multiplies int8 by blocks of 32 that pieces here would part.
        auto const block = format == WeightFormat::int8 ? 32 : block_of(format);
        check_sums<B, float>(*bench, format, 19, leaf_pieces(7 * std::max<std::int64_t>(block, 32), block), true);
        check_sums<B, float>(*bench, format, 5, head_pieces(8, 96, block), false);
    }
}

TEST_CASE("multiply_sums on a device takes pieces that begin anywhere, and rows of every type") {
    using Device = shardwise::testing::TestDevice;
    auto const bench = open_bench<Device>();
    if (!bench) return;
    std::size_t number = 0;
    for (auto const& unit : weight_format_table) {
        auto const block = block_of(unit.format);
        auto const pieces = leaf_pieces(6 * std::max<std::int64_t>(block, 24), block);
        ++number;
        if (takes_alternative(number, 0, 2)) check_sums<Device, Bfloat16>(*bench, unit.format, 17, pieces, true);
        if (takes_alternative(number, 1, 2)) check_sums<Device, Float16>(*bench, unit.format, 3, pieces, false);
    }
    for (auto const format : {WeightFormat::f32, WeightFormat::bf16, WeightFormat::f16, WeightFormat::int8}) {
        // Pieces of 12 elements; of one, three and four; of 37 and 38; and as many as a call takes, and one more than a level has.
        check_sums<Device, float>(*bench, format, 18, {7 * 12, 12, 7}, true);
        check_sums<Device, float>(*bench, format, 2, {10, 1, 3}, true);
        check_sums<Device, Bfloat16>(*bench, format, 2, {150, 1, 4}, true);
        check_sums<Device, Float16>(*bench, format, 33, {128 * 4, 4, 128}, true);
        check_sums<Device, float>(*bench, format, 1, {65 * 8, 8, 65}, false);
    }
    // A row that ends within a block, whose columns this test does not cut.
    check_sums<Device, float>(*bench, WeightFormat::int4, 3, {201, 64, 4}, true, false);
}

TEST_CASE_TEMPLATE("multiply_sums of integers is exact, and what is beside a range does not count", B,
                   SHARDWISE_TEST_BACKENDS) {
    auto const bench = open_bench<B>();
    if (!bench) return;
    constexpr std::int64_t inputs = 29;
    std::vector<float> values(2 * inputs);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(static_cast<int>(i % 17) - 8);
    values[0] = std::nanf("");
    values[28] = std::numeric_limits<float>::infinity();
    std::vector<std::byte> data(values.size() * 4);
    std::memcpy(data.data(), values.data(), data.size());
    auto const held = B::hold_weight(bench->context(), {WeightFormat::f32, 2, inputs, data, {}});
    REQUIRE(held);
    ProductSums sums;
    sums.inputs = {1, 28};
    sums.steps = {{{1, 7}, 1}, {{7, 7}, 2}, {{}, 1, 2}, {{7, 20}, 0}, {{20, 28}, 2}, {{}, 0, 2}, {{}, 1, 2}};
    sums.sums = 2;
    sums.scratch = 1;
    std::vector<float> x(27);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(static_cast<int>(i % 11) - 5);
    auto const in = bench->send(x);
    auto out = bench->send(std::vector<float>(4));
    REQUIRE(B::multiply_sums(TensorView<float const, 2, B>(in.data(), {1, 27}), *held, sums,
                             TensorView<float, 3, B>(out.data(), {2, 1, 2}), bench->stream()));
    auto const made = bench->fetch(out);
    auto const part = [&](std::size_t output, std::size_t first, std::size_t last) {
        float sum = 0.0F;
        for (auto i = first; i < last; ++i) sum += values[output * inputs + i] * x[i - 1];
        return sum;
    };
    for (std::size_t output = 0; output < 2; ++output) {
        CHECK(made[output] == part(output, 7, 28));
        CHECK(made[2 + output] == part(output, 1, 7) + part(output, 20, 28));
    }
}

TEST_CASE("multiply_sums on a device refuses steps that its call does not hold") {
    using Device = shardwise::testing::TestDevice;
    auto const bench = open_bench<Device>();
    if (!bench) return;
    StoredWeight const weight(WeightFormat::q8_0, 4, 8192);
    auto const held = Device::hold_weight(bench->context(), weight.source());
    REQUIRE(held);
    auto const in = bench->send(numbers(8192, 1));
    auto out = bench->send(std::vector<float>(8));
    auto const refused = [&](List<ProductStep> steps, UnitRange inputs, std::int64_t scratch = 1,
                             std::int64_t given = 1) {
        ProductSums sums;
        sums.inputs = inputs;
        sums.steps = std::move(steps);
        sums.sums = 1;
        sums.scratch = scratch;
        auto const done =
            Device::multiply_sums(TensorView<float const, 2, Device>(in.data(), {1, inputs.size()}), *held, sums,
                                  TensorView<float, 3, Device>(out.data(), {given, 1, 4}), bench->stream());
        return done ? std::string() : done.error().message();
    };
    auto const has = [](std::string const& message, char const* part) {
        return message.find(part) != std::string::npos;
    };
    CHECK(refused({{{0, 32}, 0}, {{32, 64}, 1}, {{}, 0, 1}}, {0, 64}).empty());
    CHECK(has(refused({{{0, 32}, 0}}, {0, 64}), "do not make up"));
    CHECK(has(refused({{{0, 32}, 0}, {{64, 96}, 1}}, {0, 96}), "do not follow"));
    CHECK(has(refused({{{0, 16}, 0}, {{16, 64}, 1}}, {0, 64}), "parts a block"));
    CHECK(has(refused({{{0, 32}, 0}, {{32, 0}, 1}, {{0, 64}, 1}}, {0, 64}), "ends before"));
    CHECK(has(refused({{{0, 64}, 1}}, {0, 64}), "no product"));
    CHECK(has(refused({{{0, 64}, 0}, {{}, 0, 1}}, {0, 64}), "no product"));
    CHECK(has(refused({{{0, 64}, 2}}, {0, 64}), "slot that is none"));
    CHECK(has(refused({{{0, 64}, 0}, {{}, 0, -2}}, {0, 64}), "slot that is none"));
    CHECK(has(refused({{{0, 64}, 0}}, {0, 64}, 1, 2), "another number of sums"));
    CHECK(has(refused({{{0, 64}, 0}}, {0, 64}, 256), "more slots"));
    List<ProductStep> many;
    for (std::int64_t i = 0; i < 129; ++i) many.push_back({{32 * i, 32 * (i + 1)}, i == 0 ? 0 : 1});
    CHECK(has(refused(many, {0, 32 * 129}), "more products"));
    List<ProductStep> additions{{{0, 32}, 0}, {{32, 64}, 1}};
    for (int i = 0; i < 129; ++i) additions.push_back({{}, 0, 1});
    CHECK(has(refused(additions, {0, 64}), "more additions"));
    bench->wait();
}

TEST_SUITE_END();
