// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/kernels/device/quantize.hpp>
#include <shardwise/kernels/quantize.hpp>

#include "stored_weight.hpp"
#include "test_rows.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

namespace {

using QuantizeBench = Bench<TestDevice>;

/// The bytes of a weight in a device's memory, with zeros for those between its parts, which nothing writes or reads.
std::vector<std::byte> bytes_of_weight(QuantizeBench& bench, DeviceWeight<TestDevice::VendorApi>& weight,
                                       std::int64_t group) {
    auto const count = weight.bytes().count();
    std::vector<std::byte> all(static_cast<std::size_t>(count));
    TensorView<std::byte const, 1, TestDevice> const from(weight.own_bytes(), {count});
    REQUIRE(TestDevice::copy<std::byte>(from, TensorView<std::byte, 1, Host>(all.data(), {count}), bench.stream()));
    bench.wait();
    auto const shared = traits(weight.format()).scales == ScalePlace::group
                            ? detail::device_group(weight.inputs(), group)
                            : std::int64_t{32};
    auto const layout = detail::device_row_layout(weight.format(), weight.inputs(), shared);
    auto const rows = weight.outputs();
    std::vector<std::byte> parts(all.size());
    auto const take = [&](std::int64_t begin, std::int64_t bytes) {
        std::copy_n(all.begin() + begin, bytes, parts.begin() + begin);
    };
    take(0, layout.first_plane(rows));
    take(layout.first_plane(rows), rows * layout.planes);
    take(layout.first_scale(rows), rows * layout.scales);
    take(layout.first_super(rows), rows * layout.supers);
    return parts;
}

/// A matrix quantised by the host, in a checkpoint's bytes.
struct HostQuantized {
    std::vector<std::byte> data;
    std::vector<std::byte> scales;
    WeightSource source;

    HostQuantized(WeightFormat format, TestRows<float> const& in, std::int64_t group)
        : source{format, in.rows, in.width, {}, {}, group} {
        auto const bytes = detail::source_bytes(source);
        REQUIRE(bytes);
        data.resize(static_cast<std::size_t>(bytes->data));
        scales.resize(static_cast<std::size_t>(bytes->scales));
        source.data = data;
        source.scales = scales;
        HostContext context({.threads = 1});
        auto stream = context.make_stream();
        REQUIRE(shardwise::quantize({in.values.data() + in.shift, {in.rows, in.width}, in.stride}, format, data, scales,
                                    stream, group));
    }
};

/// The device's weight has the bytes of the host's.
void check_quantize(QuantizeBench& bench, WeightFormat format, TestRows<float> const& in, std::int64_t group) {
    CAPTURE(std::string(name_of(format)));
    CAPTURE(in.rows);
    CAPTURE(in.width);
    CAPTURE(group);
    HostQuantized const expected(format, in, group);
    auto held = TestDevice::hold_weight(bench.context(), expected.source);
    REQUIRE(held);
    auto made = TestDevice::allocate_weight(bench.context(), format, in.rows, in.width, group);
    REQUIRE(made);
    auto from = bench.send(in.values);
    REQUIRE(quantize(TensorView<float const, 2, TestDevice>(in.view(from)), *made, bench.stream()));
    CHECK(made->bytes() == held->bytes());
    REQUIRE(bytes_of_weight(bench, *made, group) == bytes_of_weight(bench, *held, group));
    (void)in.fetched(bench, from);
}

/// Spans that have something of their own: values that are no numbers, zeros of both signs, two that are as far from zero, what is
/// halfway between codes, what overflows a half, what is subnormal.
std::vector<float> odd_spans() {
    constexpr auto infinity = std::numeric_limits<float>::infinity();
    auto const nan = std::numeric_limits<float>::quiet_NaN();
    std::vector<float> values;
    auto const add = [&](auto const& value_of) {
        for (int i = 0; i < 64; ++i) values.push_back(value_of(i));
    };
    auto const some = [](int i) { return static_cast<float>(i * 37 % 64 - 31) / 16.0F; };
    add([](int) { return 0.0F; });
    add([](int) { return -0.0F; });
    add([](int i) { return i % 32 == 9 ? 0.0F : -0.0F; });
    add([](int i) { return i % 32 == 9 ? -0.0F : i % 3 == 0 ? 0.0F : 1.0F; });
    add([](int i) { return i % 32 == 9 ? 0.0F : i % 3 == 0 ? -0.0F : -1.0F; });
    for (int const place : {0, 1, 5, 31}) {
        add([&](int i) { return i % 32 == place ? nan : some(i); });
        add([&](int i) { return i % 32 == place ? infinity : some(i); });
        add([&](int i) { return i % 32 == place ? -infinity : some(i); });
        // The farther of two is the first, whichever thread has it.
        add([&](int i) { return i % 32 == place ? 4.0F : i % 32 == 17 ? -4.0F : some(i); });
        add([&](int i) { return i % 32 == place ? -4.0F : i % 32 == 3 ? 4.0F : some(i); });
    }
    add([&](int) { return nan; });
    add([&](int i) { return i % 2 == 0 ? infinity : -infinity; });
    add([&](int) { return infinity; });
    add([&](int) { return -infinity; });
    add([](int) { return 3.5F; });
    // Halfway between codes of each scale.
    for (float const step : {1.0F, 0.5F, 0.25F, 0.125F}) {
        add([&](int i) { return i % 32 == 0 ? -8.0F * step : static_cast<float>(i % 32 - 16) * step / 2.0F; });
        add([&](int i) { return i % 32 == 0 ? 127.0F * step : static_cast<float>(i) * step + step / 2.0F; });
        add([&](int i) { return static_cast<float>(i % 32) * step / 2.0F; });
    }
    for (float const size : {1e-45F, 1e-40F, 1e-38F, 1e-6F, 7e4F, 1e6F, 1e30F, 3.4e38F}) {
        add([&](int i) { return some(i) / 2.0F * size; });
        add([&](int i) { return i % 32 == 4 ? -size : some(i) / 32.0F * size; });
    }
    return values;
}

/// Rows of those spans.
TestRows<float> odd_rows(std::int64_t width, std::int64_t stride, std::int64_t shift) {
    auto const values = odd_spans();
    auto const count = static_cast<std::int64_t>(values.size());
    TestRows<float> in(ceil_divide(count, width), width, stride, shift, 1);
    for (std::int64_t i = 0; i < in.rows * width; ++i) {
        in.set(i / width, i % width, values[static_cast<std::size_t>(i % count)]);
    }
    return in;
}

template <class T>
void check_dequantize(QuantizeBench& bench, StoredWeight const& weight, std::int64_t stride, std::int64_t shift) {
    auto const source = weight.source();
    HostContext context({.threads = 1});
    auto stream = context.make_stream();
    std::vector<float> expected(static_cast<std::size_t>(source.outputs * source.inputs));
    REQUIRE(shardwise::dequantize(source, {expected.data(), {source.outputs, source.inputs}}, stream));
    auto const held = TestDevice::hold_weight(bench.context(), source);
    REQUIRE(held);
    TestRows<T> const rows(source.outputs, source.inputs, stride, shift, 9);
    auto to = bench.send(rows.values);
    REQUIRE(dequantize(*held, rows.view(to), bench.stream()));
    auto const made = rows.fetched(bench, to);
    for (std::int64_t row = 0; row < source.outputs; ++row) {
        for (std::int64_t i = 0; i < source.inputs; ++i) {
            auto const value = T(expected[static_cast<std::size_t>(row * source.inputs + i)]);
            REQUIRE(std::memcmp(&made.values[made.place(row, i)], &value, sizeof value) == 0);
        }
    }
}

}  // namespace

TEST_SUITE_BEGIN("fibers");

TEST_CASE("quantize on a device makes the weight that the host's makes, bit for bit, of rows of any width and place") {
    auto const bench = open_bench<TestDevice>();
    if (!bench) return;
    for (auto const& unit : weight_format_table) {
        if (!can_quantize(unit.format)) continue;
        auto const block = row_multiple(unit.format);
        auto const check = [&](std::int64_t rows, std::int64_t width, std::int64_t apart, std::int64_t shift,
                               std::int64_t group = 32) {
            check_quantize(*bench, unit.format, TestRows<float>(rows, width, width + apart, shift, 7, 3.0F), group);
        };
        check(0, 2 * block, 0, 0);
        check(1, block, 0, 0);
        check(3, 3 * block, 1, 1);
        check(35, 64, 0, 0);
        // More spans than a block has teams; rows on packs that lie apart; rows off them.
        check(2, 64 * 70, 4, 0);
        check(2, 64 * 70, 0, 3);
        if (block > 2) continue;
        for (std::int64_t const width : {1, 5, 37, 255, 257, 1031}) {
            check(3, width, 0, 0);
            check(2, width, 2, 1, 64);
            check(2, width, 0, 0, 256);
            check(2, width, 0, 0, 4096);
        }
        check(2, 5000, 0, 0, 512);
    }
}

TEST_CASE("quantize on a device has the host's bits of what is no number, of ties, halves and subnormals") {
    auto const bench = open_bench<TestDevice>();
    if (!bench) return;
    for (auto const& unit : weight_format_table) {
        if (!can_quantize(unit.format)) continue;
        for (std::int64_t const width : {64, 640}) {
            check_quantize(*bench, unit.format, odd_rows(width, width, 0), 32);
            check_quantize(*bench, unit.format, odd_rows(width, width + 1, 1), 4096);
        }
    }
}

TEST_CASE("dequantize on a device has the host's bits of a weight in every format") {
    auto const bench = open_bench<TestDevice>();
    if (!bench) return;
    for (auto const& unit : weight_format_table) {
        CAPTURE(std::string(unit.name));
        for (std::int64_t const inputs : {32, 160, 37}) {
            auto const width = ceil_divide(inputs, unit.block_elements) * unit.block_elements;
            StoredWeight const weight(unit.format, 9, width, inputs == 160 ? 32 : 8);
            check_dequantize<float>(*bench, weight, width, 0);
            check_dequantize<float>(*bench, weight, width + 3, 1);
            check_dequantize<Bfloat16>(*bench, weight, width, 0);
            check_dequantize<Float16>(*bench, weight, width + 1, 3);
        }
    }
}

TEST_SUITE_END();

TEST_CASE("quantize on a device refuses formats, groups and shapes that do not go together") {
    auto const bench = open_bench<TestDevice>();
    if (!bench) return;
    auto& context = bench->context();
    auto from = bench->send(numbers(256, 3));
    auto const of = [&](std::int64_t rows, std::int64_t width) {
        return TensorView<float const, 2, TestDevice>(from.data(), {rows, width}, width);
    };
    auto known = TestDevice::allocate_weight(context, WeightFormat::q4_k, 1, 256);
    REQUIRE(known);
    auto const refused = quantize(of(1, 256), *known, bench->stream());
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code() == ErrorCode::unsupported);
    CHECK(refused.error().message().find("q4_k") != std::string::npos);

    auto weight = TestDevice::allocate_weight(context, WeightFormat::q8_0, 2, 64);
    REQUIRE(weight);
    CHECK(quantize(of(3, 64), *weight, bench->stream()).error().message() ==
          "quantize: the input has another shape than the weight: its rows (got 3, expected 2)");
    CHECK(quantize(of(2, 32), *weight, bench->stream()).error().message() ==
          "quantize: the input has another shape than the weight: its width (got 32, expected 64)");
    auto out = bench->send(numbers(256, 4));
    CHECK(dequantize(*weight, out.matrix(2, 32), bench->stream()).error().code() == ErrorCode::shape_mismatch);
    auto memory = weight->take_memory();
    CHECK(quantize(of(2, 64), *weight, bench->stream()).error().code() == ErrorCode::invalid_argument);

    CHECK(TestDevice::allocate_weight(context, WeightFormat::q8_0, 2, 48).error().code() == ErrorCode::shape_mismatch);
    CHECK(TestDevice::allocate_weight(context, WeightFormat::int4, 2, 48).error().code() == ErrorCode::shape_mismatch);
    CHECK(TestDevice::allocate_weight(context, WeightFormat::q8_0, -1, 32).error().code() == ErrorCode::shape_mismatch);
    for (std::int64_t const group : {16, 96, 40}) {
        auto const grouped = TestDevice::allocate_weight(context, WeightFormat::int4, 2, 128, group);
        REQUIRE_FALSE(grouped);
        CHECK(grouped.error().code() == ErrorCode::unsupported);
        CHECK(grouped.error().message().find("power of two times 32") != std::string::npos);
    }
}
