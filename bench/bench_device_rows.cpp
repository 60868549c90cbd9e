// SPDX-License-Identifier: Apache-2.0
// Kernels over rows on a device: 64 MiB that no cache holds, by the rate of the vendor's copy in the same run; and one row of 4,096,
// by its time in a graph.

#include <shardwise/kernels/device/activation.hpp>
#include <shardwise/kernels/device/add.hpp>
#include <shardwise/kernels/device/add_row.hpp>
#include <shardwise/kernels/device/arg_max.hpp>
#include <shardwise/kernels/device/copy_rows.hpp>
#include <shardwise/kernels/device/embedding.hpp>
#include <shardwise/kernels/device/fill.hpp>
#include <shardwise/kernels/device/layer_norm.hpp>
#include <shardwise/kernels/device/residual_norm.hpp>
#include <shardwise/kernels/device/rms_norm.hpp>
#include <shardwise/kernels/device/rope.hpp>
#include <shardwise/kernels/device/rope_turns.hpp>
#include <shardwise/kernels/device/scale.hpp>
#include <shardwise/kernels/device/scale_rows.hpp>
#include <shardwise/kernels/device/soft_cap.hpp>
#include <shardwise/kernels/device/softmax.hpp>
#include <shardwise/kernels/device/store_step.hpp>
#include <shardwise/kernels/device/take_rows.hpp>

#include "device_bench.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

using namespace shardwise;
using bench::check;
using bench::Device;
using bench::DeviceBench;
using bench::Rotated;
using bench::scaled;
using bench::take;

using Ids = TensorView<std::int32_t const, 1, Device>;

constexpr std::int64_t width = 4096;
constexpr std::int64_t large_bytes = std::int64_t{64} << 20;
/// One row of 4,096 in a graph.
constexpr double row_limit = 3e-6;

template <class T>
constexpr char const* suffix = std::is_same_v<T, float>      ? ""
                               : std::is_same_v<T, Bfloat16> ? ", bf16"
                                                             : ", fp16";

/// Rows of `columns` elements of T that have `large_bytes` together.
template <class T>
std::int64_t many_rows(std::int64_t columns = width) {
    return std::max<std::int64_t>(1, scaled(large_bytes) / (columns * static_cast<std::int64_t>(sizeof(T))));
}

std::vector<std::int32_t> random_ids(std::int64_t count, std::int64_t limit) {
    std::mt19937 generator(7);
    std::vector<std::int32_t> ids(static_cast<std::size_t>(count));
    for (auto& id : ids) id = static_cast<std::int32_t>(generator() % static_cast<std::uint32_t>(limit));
    return ids;
}

template <class T>
TensorView<T const, 1, Device> row_of(bench::DeviceBench::Memory<T> const& memory) {
    return memory.view();
}

/// What a kernel over rows gets: up to three inputs and an output, other memory at each call.
template <class T>
struct Rows {
    DeviceBench& run;
    std::int64_t rows;
    std::int64_t columns;
    Rotated<T> first;
    Rotated<T> second;
    Rotated<T> out;

    Rows(DeviceBench& bench, std::int64_t row_count, std::int64_t row_width)
        : run(bench),
          rows(row_count),
          columns(row_width),
          first(bench, rows * columns, true),
          second(bench, rows * columns, true),
          out(bench, rows * columns, false) {}

    [[nodiscard]] TensorView<T const, 2, Device> in(std::int64_t i) { return first.rows(i, rows, columns); }
    [[nodiscard]] TensorView<T const, 2, Device> other(std::int64_t i) { return second.rows(i, rows, columns); }
    [[nodiscard]] TensorView<T, 2, Device> place(std::int64_t i) { return first.matrix(i, rows, columns); }
    [[nodiscard]] TensorView<T, 2, Device> to(std::int64_t i) { return out.matrix(i, rows, columns); }
};

/// Times call(rows, i): over large_bytes, which it reads and writes `passes` times together, and in one row.
template <class T, class Call>
void measure_rows(DeviceBench& run, std::string const& name, double passes, double goal, Call const& call) {
    run.section(name, [&] {
        Rows<T> large(run, many_rows<T>(), width);
        auto const seconds = run.time([&](std::int64_t i) { check(call(large, i)); });
        auto const bytes = static_cast<double>(large.rows * width) * sizeof(T);
        run.add_rate(name + suffix<T> + ", 64 MiB", passes * bytes, seconds, goal);
        Rows<T> one(run, 1, width);
        auto const row = run.time_in_graph([&](std::int64_t i) { check(call(one, i)); });
        run.add_time(name + suffix<T> + ", a row of 4096 in a graph", row, row_limit);
    });
}

template <class T>
void measure_norms(DeviceBench& run) {
    auto const weight = run.numbers<T>(width, 3);
    auto const bias = run.numbers<T>(width, 4);
    measure_rows<T>(run, "rms_norm", 2, 0.9, [&](Rows<T>& rows, std::int64_t i) {
        return rms_norm<T>(rows.in(i), row_of(weight), rows.to(i), 1e-5F, run.stream());
    });
    measure_rows<T>(run, "layer_norm", 2, 0.9, [&](Rows<T>& rows, std::int64_t i) {
        return layer_norm<T>(rows.in(i), row_of(weight), row_of(bias), rows.to(i), 1e-5F, run.stream());
    });
    measure_rows<T>(run, "residual_norm", 4, 0.9, [&](Rows<T>& rows, std::int64_t i) {
        return residual_norm<T>(rows.other(i), rows.place(i), row_of(weight), rows.to(i), 1e-5F, run.stream());
    });
}

template <class T>
void measure_softmax(DeviceBench& run) {
    measure_rows<T>(run, "softmax", 2, 0.9,
                    [&](Rows<T>& rows, std::int64_t i) { return softmax<T>(rows.in(i), rows.to(i), run.stream()); });
    run.section("softmax of a vocabulary", [&] {
        auto const columns = scaled(128 << 10, 64);
        Rows<T> large(run, many_rows<T>(columns), columns);
        auto const seconds =
            run.time([&](std::int64_t i) { check(softmax<T>(large.in(i), large.to(i), run.stream())); });
        run.add_rate(std::string("softmax") + suffix<T> + ", rows of 128 Ki",
                     2 * static_cast<double>(large.rows * columns) * sizeof(T), seconds, 0.9);
    });
}

template <class T>
void measure_elements(DeviceBench& run) {
    measure_rows<T>(run, "activation", 2, 0.9, [&](Rows<T>& rows, std::int64_t i) {
        return activation<T>(rows.in(i), rows.to(i), ActivationKind::silu, run.stream());
    });
    measure_rows<T>(run, "gated_activation", 3, 0.9, [&](Rows<T>& rows, std::int64_t i) {
        return gated_activation<T>(rows.in(i), rows.other(i), rows.to(i), ActivationKind::silu, run.stream());
    });
    measure_rows<T>(run, "gated_activation gelu", 3, 0.9, [&](Rows<T>& rows, std::int64_t i) {
        return gated_activation<T>(rows.in(i), rows.other(i), rows.to(i), ActivationKind::gelu, run.stream());
    });
    measure_rows<T>(run, "add", 3, 0.9, [&](Rows<T>& rows, std::int64_t i) {
        return add<T>(rows.in(i), rows.other(i), rows.to(i), run.stream());
    });
    measure_rows<T>(run, "scale", 2, 0.9, [&](Rows<T>& rows, std::int64_t i) {
        return scale<T>(rows.in(i), rows.to(i), 0.5F, run.stream());
    });
}

void measure_float_elements(DeviceBench& run) {
    auto const row = run.numbers<float>(width, 5);
    auto const gates = run.numbers<float>(many_rows<float>(), 6);
    measure_rows<float>(run, "add_row", 2, 0.9, [&](Rows<float>& rows, std::int64_t i) {
        return add_row<float>(row_of(row), rows.place(i), run.stream());
    });
    measure_rows<float>(run, "soft_cap", 2, 0.9, [&](Rows<float>& rows, std::int64_t i) {
        return soft_cap(rows.in(i), rows.to(i), 30.0F, run.stream());
    });
    measure_rows<float>(run, "scale_rows", 2, 0.9, [&](Rows<float>& rows, std::int64_t i) {
        TensorView<float const, 2, Device> const gate(gates.data(), {rows.rows, 1});
        return scale_rows(gate, rows.in(i), rows.to(i), ActivationKind::sigmoid, run.stream());
    });
    measure_rows<float>(run, "fill", 1, 0.9,
                        [&](Rows<float>& rows, std::int64_t i) { return fill<float>(rows.to(i), 0.5F, run.stream()); });
    auto const numbers = run.send(random_ids(many_rows<float>(), many_rows<float>()));
    measure_rows<float>(run, "take_rows", 2, 0.9, [&](Rows<float>& rows, std::int64_t i) {
        return take_rows<float>(Ids(numbers.data(), {rows.rows}), rows.in(i), rows.to(i), run.stream());
    });
}

template <class T>
void measure_rope(DeviceBench& run) {
    constexpr std::int64_t head = 128;
    auto const tokens = many_rows<T>();
    std::vector<std::int32_t> places(static_cast<std::size_t>(tokens));
    std::iota(places.begin(), places.end(), 0);
    std::vector<float> rates(head / 2);
    for (std::size_t i = 0; i < rates.size(); ++i)
        rates[i] = static_cast<float>(std::pow(500000.0, -2.0 * static_cast<double>(i) / head));
    auto const positions = run.send(places);
    auto const frequencies = run.send(rates);
    auto turns = run.memory<float>(tokens * head);
    run.section("rope_turns", [&] {
        auto const make = [&](std::int64_t count) {
            return [&, count](std::int64_t) {
                check(rope_turns(Ids(positions.data(), {count}), row_of(frequencies), turns.matrix(count, head),
                                 run.stream()));
            };
        };
        auto const all = run.time(make(tokens));
        auto const name = "rope_turns, " + std::to_string(tokens) + " tokens";
        run.add_rate(name, static_cast<double>(tokens * head) * 4, all, 0.0);
        run.add_time("rope_turns, a token in a graph", run.time_in_graph(make(1)), row_limit);
        make(tokens)(0);
    });
    auto const turned = [&](std::int64_t rows) {
        return TensorView<float const, 2, Device>(turns.data(), {rows, head});
    };
    auto const shares = 2.0 + static_cast<double>(head * 4) / static_cast<double>(width) / sizeof(T);
    for (auto const layout : {RopeLayout::half, RopeLayout::interleaved}) {
        std::string const name = layout == RopeLayout::half ? "rope by turns, halves" : "rope by turns, interleaved";
        measure_rows<T>(run, name, shares, 0.8, [&](Rows<T>& rows, std::int64_t i) {
            return rope<T>(rows.place(i), turned(rows.rows), head, layout, run.stream());
        });
    }
    measure_rows<T>(run, "rope by positions", 2, 0.8, [&](Rows<T>& rows, std::int64_t i) {
        return rope<T>(rows.place(i), Ids(positions.data(), {rows.rows}), row_of(frequencies), head, RopeLayout::half,
                       run.stream());
    });
}

template <class Cache>
void measure_store(DeviceBench& run, std::string const& name) {
    constexpr std::int64_t heads = 8;
    constexpr std::int64_t columns = heads * 128;
    constexpr std::int64_t page_rows = 16;
    run.section("store_rows " + name, [&] {
        auto const tokens = many_rows<float>(columns);
        auto const pages = (tokens + page_rows - 1) / page_rows;
        std::vector<std::int32_t> list(static_cast<std::size_t>(pages));
        std::iota(list.begin(), list.end(), 0);
        std::shuffle(list.begin(), list.end(), std::mt19937(3));
        auto table = take(StepTable<Device>::create(run.context(), {.tokens = tokens, .groups = 1, .pages = pages}));
        std::vector<std::int32_t> const ids(static_cast<std::size_t>(tokens), 1);
        std::array<std::span<std::int32_t const>, 1> const lists{list};
        std::array<StepSequence, 1> const sequences{StepSequence{.past = 0, .rows = tokens, .pages = lists}};
        std::array<std::int32_t, 1> const wanted{0};
        check(table.write({.ids = ids, .sequences = sequences, .wanted = wanted}, run.stream()));
        Rotated<float> in(run, tokens * columns, true);
        Rotated<Cache> cache(run, pages * page_rows * columns, false);
        Rotated<float> scales(run, pages * page_rows * heads, false);
        auto const seconds = run.time([&](std::int64_t i) {
            TensorView<float, 2, Device> scale{};
            if constexpr (std::is_same_v<Cache, std::int8_t>) scale = scales.matrix(i, pages * page_rows, heads);
            check(store_rows<Cache>(in.rows(i, tokens, columns), cache.matrix(i, pages * page_rows, columns), table, 0,
                                    run.stream(), scale));
        });
        // What decoding stores: a token of one sequence.
        std::array<StepSequence, 1> const token{StepSequence{.past = 100, .rows = 1, .pages = lists}};
        check(table.write({.ids = std::span(ids).first(1), .sequences = token, .wanted = wanted}, run.stream()));
        auto const one = run.time_in_graph([&](std::int64_t i) {
            TensorView<float, 2, Device> scale{};
            if constexpr (std::is_same_v<Cache, std::int8_t>) scale = scales.matrix(i, pages * page_rows, heads);
            check(store_rows<Cache>(in.rows(i, 1, columns), cache.matrix(i, pages * page_rows, columns), table, 0,
                                    run.stream(), scale));
        });
        run.add_time("store_rows, float to " + name + ", a token in a graph", one, row_limit);
        run.add_rate("store_rows, float to " + name + ", 64 MiB",
                     static_cast<double>(tokens * columns) * static_cast<double>(4 + sizeof(Cache)), seconds, 0.8);
    });
}

template <class T>
void measure_embedding(DeviceBench& run) {
    run.section("embedding", [&] {
        auto const tokens = many_rows<T>();
        auto const table_rows = scaled(32768);
        auto const table = run.numbers<T>(table_rows * width);
        auto const ids = run.send(random_ids(tokens, table_rows));
        Rotated<T> out(run, tokens * width, false);
        TensorView<T const, 2, Device> const from(table.data(), {table_rows, width});
        for (auto const count : {tokens, std::min<std::int64_t>(tokens, 64)}) {
            // All ids in turn, so that rows are as cold as those of other tokens.
            auto const groups = std::max<std::int64_t>(1, tokens / count);
            auto const call = [&](std::int64_t i) {
                check(embedding<T>(Ids(ids.data() + i % groups * count, {count}), from, out.matrix(i, count, width),
                                   run.stream()));
            };
            auto const seconds = count > 256 ? run.time(call) : run.time_in_graph(call);
            run.add_rate(std::string("embedding") + suffix<T> + ", " + std::to_string(count) + " tokens",
                         2 * static_cast<double>(count * width) * sizeof(T), seconds, 0.8);
        }
    });
}

void measure_table(DeviceBench& run, WeightFormat format) {
    std::string const name(traits(format).name);
    run.section("embedding of " + name, [&] {
        auto const table_rows = scaled(16384);
        auto const& known = traits(format);
        auto const row_bytes = width / known.block_elements * known.block_bytes;
        std::vector<std::byte> data(static_cast<std::size_t>(table_rows * row_bytes), std::byte{0x11});
        WeightSource source;
        source.format = format;
        source.outputs = table_rows;
        source.inputs = width;
        source.data = data;
        auto const table = take(Device::hold_weight(run.context(), source));
        auto const tokens = many_rows<float>();
        auto const ids = run.send(random_ids(tokens, table_rows));
        Rotated<float> out(run, tokens * width, false);
        auto const seconds = run.time(
            [&](std::int64_t i) { check(embedding(row_of(ids), table, out.matrix(i, tokens, width), run.stream())); });
        auto const bytes = static_cast<double>(tokens * width) * 4 + static_cast<double>(tokens) *
                                                                         static_cast<double>(table.bytes().count()) /
                                                                         static_cast<double>(table_rows);
        run.add_rate("embedding, table of " + name + ", " + std::to_string(tokens) + " tokens", bytes, seconds, 0.8);
    });
}

void measure_arg_max(DeviceBench& run) {
    run.section("arg_max", [&] {
        auto const columns = scaled(128 << 10, 64);
        auto const rows = many_rows<float>(columns);
        Rotated<float> logits(run, rows * columns, true);
        auto ids = run.memory<std::int32_t>(rows);
        auto const call = [&](std::int64_t count) {
            return [&, count](std::int64_t i) {
                TensorView<std::int32_t, 1, Device> const to(ids.data(), {count});
                check(arg_max(logits.rows(i, count, columns), to, run.stream()));
            };
        };
        run.add_rate("arg_max, rows of 128 Ki, 64 MiB", static_cast<double>(rows * columns) * 4, run.time(call(rows)),
                     0.9);
        run.add_time("arg_max, a row of 128 Ki in a graph", run.time_in_graph(call(1)), 12e-6);
    });
}

}  // namespace

int main(int argc, char** argv) {
    DeviceBench run("device_rows", argc, argv);
    run.attempt("norms", [&] { measure_norms<float>(run); });
    run.attempt("norms", [&] { measure_norms<Bfloat16>(run); });
    measure_softmax<float>(run);
    measure_softmax<Bfloat16>(run);
    measure_elements<float>(run);
    measure_elements<Bfloat16>(run);
    run.attempt("elements", [&] { measure_float_elements(run); });
    run.attempt("rope", [&] { measure_rope<float>(run); });
    run.attempt("rope", [&] { measure_rope<Bfloat16>(run); });
    measure_store<float>(run, "fp32");
    measure_store<Bfloat16>(run, "bf16");
    measure_store<std::int8_t>(run, "int8");
    measure_embedding<float>(run);
    measure_embedding<Bfloat16>(run);
    for (auto const format : {WeightFormat::bf16, WeightFormat::q8_0, WeightFormat::q4_0}) measure_table(run, format);
    measure_arg_max(run);
    return run.finish();
}
