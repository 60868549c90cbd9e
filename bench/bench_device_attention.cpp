// SPDX-License-Identifier: Apache-2.0
// Attention over a step table on a device, heads as Llama-3-8B has them: decoding by the rate of the vendor's copy in the same run, each
// key and value once; a prompt by its time.

#include <shardwise/kernels/device/step_attention.hpp>

#include "device_bench.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

using namespace shardwise;
using bench::check;
using bench::Device;
using bench::DeviceBench;
using bench::Rotated;
using bench::scaled;
using bench::take;

namespace {

constexpr std::int64_t kv_heads = 8;
constexpr std::int64_t heads = 32;
constexpr std::int64_t page_rows = 16;

/// Sequences of one length with some new tokens each, pages in no order.
template <class Cache>
void measure(DeviceBench& run, std::string const& name, std::int64_t dim, std::int64_t batch, std::int64_t length,
             std::int64_t rows, double goal) {
    run.section(name, [&] {
        auto const count = bench::is_emulated ? std::min<std::int64_t>(batch, 2) : batch;
        auto const keys = std::max(scaled(length, 256), rows);
        auto const pages = (keys + page_rows - 1) / page_rows;
        auto const tokens = count * rows;
        auto table = take(StepTable<Device>::create(
            run.context(),
            {.tokens = tokens, .sequences = count, .groups = 1, .pages = pages, .page_rows = page_rows}));
        std::vector<std::int32_t> numbers(static_cast<std::size_t>(count * pages));
        std::iota(numbers.begin(), numbers.end(), 0);
        std::shuffle(numbers.begin(), numbers.end(), std::mt19937(3));
        std::vector<std::array<std::span<std::int32_t const>, 1>> lists;
        std::vector<StepSequence> sequences;
        lists.reserve(static_cast<std::size_t>(count));
        for (std::int64_t i = 0; i < count; ++i) {
            std::span<std::int32_t const> const all(numbers);
            lists.push_back({all.subspan(static_cast<std::size_t>(i * pages), static_cast<std::size_t>(pages))});
            sequences.push_back({.past = keys - rows, .rows = rows, .pages = lists.back()});
        }
        std::vector<std::int32_t> const ids(static_cast<std::size_t>(tokens), 1);
        check(table.write({.ids = ids, .sequences = sequences}, run.stream()));

        AttentionOptions options;
        options.shape = {.heads = heads, .kv_heads = kv_heads, .key_dim = dim, .value_dim = dim};
        auto const memory_rows = count * pages * page_rows;
        Rotated<Cache> k(run, memory_rows * kv_heads * dim, true, memory_rows * kv_heads * dim * 2);
        Rotated<Cache> v(run, memory_rows * kv_heads * dim, true, memory_rows * kv_heads * dim * 2);
        auto const scales = run.numbers<float>(std::is_same_v<Cache, std::int8_t> ? memory_rows * kv_heads : 1);
        auto q = run.numbers<float>(tokens * heads * dim);
        auto out = run.memory<float>(tokens * heads * dim);
        auto workspace = run.memory<float>(
            std::max<std::int64_t>(1, step_attention_workspace<Device>(options, tokens, count, keys)));
        TensorView<float const, 2, Device> none;
        TensorView<float const, 2, Device> const some(scales.data(), {memory_rows, kv_heads});
        auto const of_bytes = std::is_same_v<Cache, std::int8_t> ? some : none;
        auto const call = [&](std::int64_t i) {
            check(step_attention<Cache>(TensorView<float const, 2, Device>(q.data(), {tokens, heads * dim}),
                                        StepRows<Cache, Device>{k.rows(i, memory_rows, kv_heads * dim), of_bytes, 0},
                                        StepRows<Cache, Device>{v.rows(i, memory_rows, kv_heads * dim), of_bytes, 0},
                                        TensorView<float, 2, Device>(out.data(), {tokens, heads * dim}), table, options,
                                        run.stream(), workspace.view()));
        };
        auto const bytes = static_cast<double>(2 * count * keys * kv_heads) *
                           static_cast<double>(dim * static_cast<std::int64_t>(sizeof(Cache)) +
                                               (std::is_same_v<Cache, std::int8_t> ? 4 : 0));
        auto const seconds = rows == 1 && bytes < 1e8 ? run.time_in_graph(call) : run.time(call);
        run.add_time(name, seconds, 0.0);
        if (rows == 1) {
            run.add_rate(name + ", keys and values", bytes, seconds, goal);
            return;
        }
        // Of what causal queries see.
        auto const products = 4.0 * static_cast<double>(count * heads * dim) * static_cast<double>(rows) *
                              static_cast<double>(rows) / 2.0;
        run.add(name + ", products", products / seconds * 1e-12, "Tflop/s", "none", 0.0, 0.0, 0.0);
    });
}

}  // namespace

int main(int argc, char** argv) {
    DeviceBench run("device_attention", argc, argv);
    auto const decode = [&]<class Cache>(Cache, std::string const& element, std::int64_t dim) {
        for (auto const& [count, length] :
             {std::array<std::int64_t, 2>{1, 1024}, {1, 4096}, {1, 32768}, {32, 4096}, {32, 32768}}) {
            if (run.is_quick() && (!std::is_same_v<Cache, Bfloat16> || dim != 128) && length != 4096) continue;
            measure<Cache>(run,
                           "decode, " + element + ", " + std::to_string(dim) + " wide, " + std::to_string(count) +
                               " x " + std::to_string(length),
                           dim, count, length, 1, count * length >= 32768 ? 0.85 : 0.0);
        }
    };
    decode(Bfloat16{}, "bf16", 128);
    decode(std::int8_t{}, "int8", 128);
    decode(float{}, "fp32", 128);
    decode(Bfloat16{}, "bf16", 64);
    for (std::int64_t const rows : {128, 512, 2048})
        measure<Bfloat16>(run, "prefill, bf16, 128 wide, " + std::to_string(rows), 128, 1, rows,
                          bench::scaled(rows, 64), 0.0);
    return run.finish();
}
