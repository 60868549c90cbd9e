// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/product/source.hpp>

#include "row_cases.hpp"
#include "stored_weight.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <vector>

namespace {

/// Inputs of a format that are about as many.
std::int64_t whole_blocks(WeightFormat format, std::int64_t inputs) {
    return round_up(inputs, row_multiple(format));
}

template <class B>
void check_multiply(Bench<B>& bench, WeightFormat format, std::int64_t outputs, std::int64_t inputs, std::int64_t rows,
                    std::int64_t group = 64) {
    CAPTURE(name_of(format));
    CAPTURE(outputs);
    CAPTURE(inputs);
    CAPTURE(rows);
    CAPTURE(group);
    StoredWeight const weight(format, outputs, inputs, group);
    auto const held = B::hold_weight(bench.context(), weight.source());
    REQUIRE(held);
    CHECK(held->outputs() == outputs);
    CHECK(held->inputs() == inputs);
    // Rows that lie apart, on a multiple of 16 bytes or not, and an output beside which nothing is written.
    auto const in_row = inputs + (rows % 2 == 0 ? 4 : 3);
    auto in = numbers(rows * in_row, 61);
    for (std::int64_t i = 0; i < rows * in_row; ++i) {
        if (i % in_row >= inputs) in[static_cast<std::size_t>(i)] = std::numeric_limits<float>::quiet_NaN();
    }
    auto const device_in = bench.send(in);
    auto device_out = bench.send(std::vector<float>(static_cast<std::size_t>(rows * (outputs + 2)), 77.0F));
    TensorView<float const, 2, B> const from(device_in.data(), {rows, inputs}, in_row);
    TensorView<float, 2, B> const to(device_out.data(), {rows, outputs}, outputs + 2);
    REQUIRE(B::multiply(from, *held, to, bench.stream()));
    auto const out = bench.fetch(device_out);
    auto const at = [&](std::int64_t row, std::int64_t output) {
        return static_cast<double>(out[static_cast<std::size_t>(row * (outputs + 2) + output)]);
    };
    for (std::int64_t output = 0; output < outputs; ++output) {
        auto const values = weight.row(output);
        auto const offsets = weight.offsets(output);
        for (std::int64_t row = 0; row < rows; ++row) {
            double sum = 0.0;
            double magnitude = 0.0;
            for (std::int64_t i = 0; i < inputs; ++i) {
                auto const x = static_cast<double>(in[static_cast<std::size_t>(row * in_row + i)]);
                auto const value = static_cast<double>(values[static_cast<std::size_t>(i)]);
                sum += value * x;
                magnitude += (std::abs(value) + 2 * std::abs(offsets[static_cast<std::size_t>(i)])) * std::abs(x);
            }
            // As many products and additions as inputs, in any order; the scale's product, the offset's, and their roundings in
            // the reference.
            REQUIRE(std::abs(at(row, output) - sum) <= static_cast<double>(inputs + 6) * 0x1p-24 * magnitude);
        }
    }
    for (std::int64_t row = 0; row < rows; ++row) {
        CHECK(at(row, outputs) == 77.0);
        CHECK(at(row, outputs + 1) == 77.0);
    }
}

/// A range of a weight's inputs has the bits of a weight that holds them alone.
template <class B>
void check_multiply_range(Bench<B>& bench, WeightFormat format, std::int64_t inputs, UnitRange range,
                          std::int64_t rows) {
    CAPTURE(name_of(format));
    CAPTURE(range.begin);
    CAPTURE(rows);
    constexpr std::int64_t outputs = 11;
    StoredWeight const weight(format, outputs, inputs);
    auto const part = weight.columns(range);
    auto const in = bench.send(numbers(rows * inputs, 62));
    TensorView<float const, 2, B> const from(in.data() + range.begin, {rows, range.size()}, inputs);
    auto const product = [&](StoredWeight const& source, UnitRange taken) {
        auto const held = B::hold_weight(bench.context(), source.source());
        REQUIRE(held);
        auto out = bench.send(std::vector<float>(static_cast<std::size_t>(rows * outputs)));
        REQUIRE(B::multiply(from, *held, taken, out.matrix(rows, outputs), bench.stream()));
        return bench.fetch(out);
    };
    CHECK(product(weight, range) == product(part, {0, range.size()}));
}

}  // namespace

TEST_SUITE_BEGIN("fibers");

TEST_CASE_TEMPLATE("multiply is within the rounding of its sums for every format", B, SHARDWISE_TEST_BACKENDS) {
    auto const bench = open_bench<B>();
    if (!bench) return;
    for (auto const& unit : weight_format_table) {
        auto const format = unit.format;
        check_multiply(*bench, format, 37, whole_blocks(format, 96), 1);
        check_multiply(*bench, format, 5, whole_blocks(format, 32), 4);
        check_multiply(*bench, format, 18, 1024, 6);
        check_multiply(*bench, format, 3, whole_blocks(format, 64), 17);
        // Tiles of matrices, whole and not; devices take them for many results only.
#if defined(SHARDWISE_HAS_CUDA) || defined(SHARDWISE_HAS_HIP)
        check_multiply(*bench, format, 4200, whole_blocks(format, 96), 101);
#endif
        check_multiply(*bench, format, 130, whole_blocks(format, 96), 25);
        check_multiply(*bench, format, 20, whole_blocks(format, 160), 70);
        // More than activations are staged at once.
        check_multiply(*bench, format, 2, 4352, 2);
    }
    // Rows that end within a device's 16 bytes.
    for (auto const format :
         {WeightFormat::f32, WeightFormat::bf16, WeightFormat::f16, WeightFormat::int8, WeightFormat::int4}) {
        check_multiply(*bench, format, 33, 61, 26);
        check_multiply(*bench, format, 9, 37, 2);
        check_multiply(*bench, format, 1, 1, 1);
    }
    // Groups that are no powers of two, are a whole row, or part 32 elements.
    for (std::int64_t const group : {32, 96, 128, 192, 1000, 5, 16}) {
        check_multiply(*bench, WeightFormat::int4, 7, 192, 2, group);
        check_multiply(*bench, WeightFormat::int4, 7, 201, 2, group);
    }
}

TEST_CASE_TEMPLATE("multiply of integers is exact, and takes zeros, infinities and NaN as arithmetic has them", B,
                   SHARDWISE_TEST_BACKENDS) {
    auto const bench = open_bench<B>();
    if (!bench) return;
    constexpr auto infinity = std::numeric_limits<float>::infinity();
    constexpr std::int64_t inputs = 70;
    std::vector<float> values(3 * inputs);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(static_cast<int>(i % 17) - 8);
    values[inputs + 69] = infinity;
    values[2 * inputs + 1] = std::nanf("");
    std::vector<std::byte> data(values.size() * 4);
    std::memcpy(data.data(), values.data(), data.size());
    auto const held = B::hold_weight(bench->context(), {WeightFormat::f32, 3, inputs, data, {}});
    REQUIRE(held);
    constexpr std::int64_t rows = 26;
    std::vector<float> in(rows * inputs);
    for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(static_cast<int>(i % 23) - 11);
    in[inputs + 69] = 0.0F;
    auto from = bench->send(in);
    auto out = bench->send(std::vector<float>(3 * rows));
    for (std::int64_t const taken : {std::int64_t{2}, rows}) {
        REQUIRE(B::multiply(TensorView<float const, 2, B>(from.matrix(taken, inputs)), *held, out.matrix(taken, 3),
                            bench->stream()));
        auto const made = bench->fetch(out);
        for (std::size_t row = 0; row < static_cast<std::size_t>(taken); ++row) {
            float sum = 0.0F;
            for (std::size_t i = 0; i < inputs; ++i) sum += values[i] * in[row * inputs + i];
            CHECK(made[3 * row] == sum);
            CHECK(std::isnan(made[3 * row + 2]));
        }
        CHECK(made[1] == (in[69] > 0.0F ? infinity : -infinity));
        CHECK(std::isnan(made[4]));
    }
    // What lies beside a range does not count, no number or not.
    REQUIRE(B::multiply(TensorView<float const, 2, B>(from.data(), {2, 67}, inputs), *held, {2, 69}, out.matrix(2, 3),
                        bench->stream()));
    auto const beside = bench->fetch(out);
    for (std::size_t i = 0; i < 6; ++i) CHECK(std::isfinite(beside[i]));
}

TEST_CASE_TEMPLATE("multiply takes a range of inputs that begins anywhere with the bits of a weight of its own", B,
                   SHARDWISE_TEST_BACKENDS) {
    auto const bench = open_bench<B>();
    if (!bench) return;
    for (auto const& unit : weight_format_table) {
        auto const block = std::max<std::int64_t>(unit.block_elements, unit.format == WeightFormat::int4 ? 64 : 32);
        check_multiply_range(*bench, unit.format, 5 * block, {block, 4 * block}, 1);
        check_multiply_range(*bench, unit.format, 5 * block, {3 * block, 5 * block}, 5);
    }
    // On words, within them, up to the end of the weight's memory, and so many rows that a vendor's product would be taken.
    for (auto const format : {WeightFormat::f32, WeightFormat::bf16, WeightFormat::f16, WeightFormat::int8}) {
        // The host multiplies int8 in blocks of 32.
        if (std::is_same_v<B, Host> && format == WeightFormat::int8) continue;
        for (auto const range : {UnitRange{4, 61}, UnitRange{5, 44}, UnitRange{31, 61}, UnitRange{60, 61}}) {
            check_multiply_range(*bench, format, 61, range, 2);
            check_multiply_range(*bench, format, 61, range, 18);
        }
    }
    StoredWeight const weight(WeightFormat::q8_0, 4, 64);
    auto const held = B::hold_weight(bench->context(), weight.source());
    REQUIRE(held);
    auto const in = bench->send(numbers(64, 1));
    auto out = bench->send(std::vector<float>(4));
    TensorView<float const, 2, B> const from(in.data(), {1, 48});
    for (auto const range : {UnitRange{16, 64}, UnitRange{0, 48}, UnitRange{32, 80}}) {
        auto const refused = B::multiply(from, *held, range, out.matrix(1, 4), bench->stream());
        REQUIRE_FALSE(refused);
        CHECK(refused.error().code() == ErrorCode::shape_mismatch);
    }
}

#if !defined(SHARDWISE_HAS_CUDA) && !defined(SHARDWISE_HAS_HIP)
TEST_CASE("multiply on a device without a unit for matrices makes many rows by the kernel of few, with their bits") {
    using Device = shardwise::testing::TestDevice;
    constexpr std::int64_t rows = 70;
    constexpr std::int64_t inputs = 192;
    constexpr std::int64_t outputs = 33;
    StoredWeight const weight(WeightFormat::q8_0, outputs, inputs);
    for (bool const has_unit : {true, false}) {
        CAPTURE(has_unit);
        shardwise::testing::FakeMachine::get().has_matrix_unit = has_unit;
        auto const bench = open_bench<Device>();
        shardwise::testing::FakeMachine::get().has_matrix_unit = true;
        REQUIRE(bench);
        auto const held = Device::hold_weight(bench->context(), weight.source());
        REQUIRE(held);
        auto const in = bench->send(numbers(rows * inputs, 5));
        auto const made = [&](std::int64_t first, std::int64_t count) {
            auto out = bench->send(std::vector<float>(static_cast<std::size_t>(count * outputs)));
            TensorView<float const, 2, Device> const from(in.data() + first * inputs, {count, inputs});
            REQUIRE(Device::multiply(from, *held, out.matrix(count, outputs), bench->stream()));
            return bench->fetch(out);
        };
        std::vector<float> apart;
        for (std::int64_t first = 0; first < rows; first += 7) {
            auto const some = made(first, 7);
            apart.insert(apart.end(), some.begin(), some.end());
        }
        CHECK((made(0, rows) == apart) == !has_unit);
    }
}
#endif

TEST_CASE("multiply on a device gives a row of a range the same bits whatever rows and outputs are beside it") {
    using Device = shardwise::testing::TestDevice;
    auto const bench = open_bench<Device>();
    if (!bench) return;
    for (auto const& unit : weight_format_table) {
        CAPTURE(unit.name);
        constexpr std::int64_t inputs = 768;
        constexpr std::int64_t most = 19;
        auto const in = bench->send(numbers(most * inputs, 63));
        auto const product = [&](std::int64_t rows, std::int64_t outputs, std::int64_t first) {
            StoredWeight const weight(unit.format, outputs, inputs);
            auto const held = Device::hold_weight(bench->context(), weight.source());
            REQUIRE(held);
            auto out = bench->send(std::vector<float>(static_cast<std::size_t>(rows * outputs)));
            TensorView<float const, 2, Device> const from(in.data() + first * inputs, {rows, inputs}, inputs);
            REQUIRE(Device::multiply(from, *held, {0, inputs}, out.matrix(rows, outputs), bench->stream()));
            return bench->fetch(out);
        };
        auto const all = product(most, 9, 0);
        for (std::int64_t const rows : {1, 2, 3, 7}) {
            // Formats' scales depend on the count of those before, so that the first outputs are the same of both weights.
            for (std::int64_t const outputs : {9, 3}) {
                auto const some = product(rows, outputs, 5);
                for (std::int64_t row = 0; row < rows; ++row) {
                    for (std::int64_t output = 0; output < outputs; ++output) {
                        REQUIRE(some[static_cast<std::size_t>(row * outputs + output)] ==
                                all[static_cast<std::size_t>((5 + row) * 9 + output)]);
                    }
                }
            }
        }
    }
}

TEST_CASE("embedding on a device decodes rows of a weight of every format as the format's reference does") {
    using Device = shardwise::testing::TestDevice;
    auto const bench = open_bench<Device>();
    if (!bench) return;
    constexpr std::int64_t first_row = 50;
    for (auto const& unit : weight_format_table) {
        CAPTURE(unit.name);
        for (std::int64_t const inputs : {32, 160, 37}) {
            auto const width = whole_blocks(unit.format, inputs);
            StoredWeight const weight(unit.format, 9, width, inputs == 160 ? 32 : 8);
            auto const table = Device::hold_weight(bench->context(), weight.source());
            REQUIRE(table);
            auto const ids = some_ids(12, first_row, 9);
            auto const tokens = bench->send(ids);
            TestRows<float> const made(12, width, width + 3, 1, 7);
            TestRows<float> const aligned(12, width, round_up(width, 4), 0, 7);
            for (auto const* const rows : {&made, &aligned}) {
                auto to = bench->send(rows->values);
                REQUIRE(embedding(TensorView<std::int32_t const, 1, Device>(tokens.view()), *table, rows->view(to),
                                  bench->stream(), first_row));
                auto const out = rows->fetched(*bench, to);
                for (std::int64_t token = 0; token < 12; ++token) {
                    auto const row = ids[static_cast<std::size_t>(token)] - first_row;
                    auto const values = row >= 0 && row < 9 ? weight.row(row) : std::vector<float>();
                    for (std::int64_t i = 0; i < width; ++i) {
                        REQUIRE(out.at(token, i) ==
                                (values.empty() ? 0.0 : static_cast<double>(values[static_cast<std::size_t>(i)])));
                    }
                }
            }
        }
    }
}

TEST_SUITE_END();

TEST_CASE_TEMPLATE("hold_weight counts the device's bytes and refuses sizes that do not fit", B,
                   SHARDWISE_TEST_BACKENDS) {
    auto const bench = open_bench<B>();
    if (!bench) return;
    {
        StoredWeight const weight(WeightFormat::q8_0, 4, 64);
        auto const held = B::hold_weight(bench->context(), weight.source());
        REQUIRE(held);
        CHECK(held->bytes() >= Bytes{4 * 2 * 34});
        CHECK(bench->context().memory().current() == held->bytes());
    }
    CHECK(bench->context().memory().current() == Bytes{0});
    StoredWeight short_data(WeightFormat::q4_0, 4, 64);
    short_data.data().pop_back();
    CHECK(B::hold_weight(bench->context(), short_data.source()).error().code() == ErrorCode::shape_mismatch);
    StoredWeight no_scales(WeightFormat::int8, 4, 64);
    no_scales.scales().clear();
    CHECK(B::hold_weight(bench->context(), no_scales.source()).error().code() == ErrorCode::shape_mismatch);
    auto half_block = StoredWeight(WeightFormat::q8_0, 4, 64);
    auto source = half_block.source();
    source.inputs = 48;
    CHECK(B::hold_weight(bench->context(), source).error().code() == ErrorCode::shape_mismatch);
}
