// SPDX-License-Identifier: Apache-2.0
// What routes tokens to experts and multiplies by them, gated delta rules, and what chooses tokens on a device: each call by its time in a
// graph, what moves much memory by the rate of the vendor's copy in the same run.

#include <shardwise/kernels/device/combine_rows.hpp>
#include <shardwise/kernels/device/expert_table.hpp>
#include <shardwise/kernels/device/gated_delta.hpp>
#include <shardwise/kernels/device/order_experts.hpp>
#include <shardwise/kernels/device/route.hpp>
#include <shardwise/kernels/device/sample.hpp>
#include <shardwise/kernels/device/xielu.hpp>

#include "device_bench.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

namespace {

using namespace shardwise;
using bench::check;
using bench::Device;
using bench::DeviceBench;
using bench::Rotated;
using bench::scaled;
using bench::take;

/// A router, and the model that has it.
struct Router {
    char const* model;
    std::int64_t experts;
    RouterOptions options;
    bool has_correction = false;
};

std::vector<Router> const routers{
    {"mixtral", 8, {.experts_per_token = 2, .renormalises = true}},
    {"qwen3_moe", 128, {.experts_per_token = 8, .renormalises = true}},
    {"deepseek_v3",
     256,
     {.experts_per_token = 8,
      .score = RouterScore::sigmoid,
      .renormalises = true,
      .scale = 2.5F,
      .groups = 8,
      .kept_groups = 4,
      .group_rank = GroupRank::best_two},
     true},
    {"qwen3_next", 512, {.experts_per_token = 10, .renormalises = true}},
};

void measure_route(DeviceBench& run, Router const& router) {
    std::string const model = router.model;
    run.section("route " + model, [&] {
        auto const chosen = router.options.experts_per_token;
        for (std::int64_t const tokens : {std::int64_t{1}, std::int64_t{32}, scaled(4096, 1024)}) {
            auto logits = run.numbers<float>(tokens * router.experts);
            auto correction = run.numbers<float>(router.has_correction ? router.experts : 0, 2);
            auto ids = run.memory<std::int32_t>(tokens * chosen);
            auto weights = run.memory<float>(tokens * chosen);
            auto order = run.memory<std::int32_t>(tokens * chosen);
            auto first = run.memory<std::int32_t>(router.experts + 1);
            TensorView<float const, 2, Device> const in(logits.data(), {tokens, router.experts});
            TensorView<std::int32_t, 2, Device> const to(ids.data(), {tokens, chosen});
            auto const choose = [&](std::int64_t) {
                check(route(in, TensorView<float const, 1, Device>(correction.data(), {correction.size()}), to,
                            TensorView<float, 2, Device>(weights.data(), {tokens, chosen}), router.options,
                            run.stream()));
            };
            auto const what = ", " + model + ", " + std::to_string(tokens) + " tokens";
            run.add_time("route" + what, run.time_in_graph(choose), tokens <= 32 ? 5e-6 : 0.0);
            auto const put_in_order = [&](std::int64_t) {
                check(order_experts(TensorView<std::int32_t const, 2, Device>(to), RoutingOrder::token_of_row,
                                    order.view(), first.view(), run.stream()));
            };
            run.add_time("order_experts" + what, run.time_in_graph(put_in_order), tokens <= 32 ? 5e-6 : 0.0);
        }
    });
}

void measure_combine(DeviceBench& run) {
    run.section("combine_rows", [&] {
        constexpr std::int64_t chosen = 8;
        constexpr std::int64_t width = 2048;
        for (std::int64_t const tokens : {std::int64_t{1}, scaled(1024, 1024)}) {
            auto const pairs = tokens * chosen;
            Rotated<float> rows(run, pairs * width, true);
            std::vector<std::int32_t> places(static_cast<std::size_t>(pairs));
            std::iota(places.rbegin(), places.rend(), 0);
            auto const sent = run.send(places);
            auto weights = run.numbers<float>(pairs);
            auto out = run.memory<float>(tokens * width);
            auto const call = [&](std::int64_t i) {
                check(combine_rows(rows.rows(i, pairs, width),
                                   TensorView<std::int32_t const, 1, Device>(sent.data(), {pairs}),
                                   TensorView<float const, 2, Device>(weights.data(), {tokens, chosen}),
                                   TensorView<float, 2, Device>(out.data(), {tokens, width}), run.stream()));
            };
            auto const name = "combine_rows, 8 of 2048, " + std::to_string(tokens) + " tokens";
            if (tokens == 1) {
                run.add_time(name, run.time_in_graph(call), 4e-6);
            } else {
                run.add_rate(name, static_cast<double>(pairs + tokens) * width * 4, run.time(call), 0.8);
            }
        }
    });
}

/// The experts of qwen3_moe 30B-A3B's up projections, and rows of some tokens, each of which goes to eight others.
void measure_experts(DeviceBench& run) {
    run.section("multiply_experts", [&] {
        auto const experts = scaled(128, 32);
        constexpr std::int64_t outputs = 768;
        constexpr std::int64_t inputs = 2048;
        constexpr std::int64_t bytes = outputs * inputs * 2;
        std::vector<std::byte> data(static_cast<std::size_t>(bytes));
        for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i % 2 == 0 ? i * 37 : 60);
        std::vector<Device::Weight> weights;
        for (std::int64_t i = 0; i < experts; ++i) {
            weights.push_back(take(Device::hold_weight(
                run.context(), {.format = WeightFormat::bf16, .outputs = outputs, .inputs = inputs, .data = data, .scales = {}})));
        }
        std::vector<ExpertFactor<Device>> factors;
        for (auto const& weight : weights) factors.push_back({&weight, {}});
        auto const table = take(ExpertTable<Device>::create(run.context(), factors));
        for (std::int64_t const tokens : {1, 8, 32}) {
            auto const rows = scaled(8 * tokens, 64);
            std::vector<std::int32_t> order(static_cast<std::size_t>(rows));
            std::vector<std::int32_t> first(static_cast<std::size_t>(experts + 1));
            // Rows spread evenly over the experts.
            for (std::int64_t i = 0; i <= experts; ++i)
                first[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(i * rows / experts);
            for (std::size_t i = 0; i < order.size(); ++i)
                order[i] = static_cast<std::int32_t>(i % static_cast<std::size_t>(tokens));
            auto const sent_order = run.send(order);
            auto const sent_first = run.send(first);
            auto in = run.numbers<float>(tokens * inputs);
            auto out = run.memory<float>(rows * outputs);
            auto const seconds = run.time_in_graph(
                [&](std::int64_t) {
                    check(table.multiply(TensorView<float const, 2, Device>(in.data(), {tokens, inputs}),
                                         TensorView<std::int32_t const, 1, Device>(sent_order.data(), {rows}),
                                         TensorView<std::int32_t const, 1, Device>(sent_first.data(), {experts + 1}),
                                         TensorView<float, 2, Device>(out.data(), {rows, outputs}), run.stream()));
                },
                16);
            auto const read = static_cast<double>(std::min(rows, experts)) * static_cast<double>(bytes);
            run.add_rate("multiply_experts, 128 of 768 x 2048 bf16, " + std::to_string(tokens) + " tokens to 8 each",
                         read, seconds, 0.0);
        }
    });
}

/// A layer of qwen3_next 80B-A3B.
void measure_gated_delta(DeviceBench& run) {
    run.section("gated_delta", [&] {
        DeltaShape const shape{
            .key_heads = scaled(16, 16), .value_heads = scaled(32, 16), .key_dim = 128, .value_dim = 128, .kernel = 4};
        auto const heads = shape.key_heads;
        auto const convolution = run.numbers<float>(heads * shape.channels() * shape.kernel);
        auto const factors = run.numbers<float>(shape.value_heads);
        auto const decay = run.send(std::vector<float>(static_cast<std::size_t>(shape.value_heads), -0.5F));
        auto const norm = run.numbers<float>(shape.value_dim);
        DeltaWeights<Device> const weights{convolution.view(), factors.view(), decay.view(), norm.view(), 1e-6F};
        auto state = run.numbers<float>(shape.state_elements(heads));
        for (std::int64_t const tokens : {std::int64_t{1}, scaled(512, 256)}) {
            auto const width = heads * (shape.channels() + shape.value_columns());
            auto in = run.numbers<float>(tokens * width);
            auto ba = run.numbers<float>(tokens * 2 * shape.value_heads);
            auto out = run.memory<float>(tokens * shape.value_heads * shape.value_dim);
            auto workspace = run.memory<float>(gated_delta_workspace<Device>(shape, heads, tokens));
            auto const call = [&](std::int64_t) {
                check(
                    gated_delta(TensorView<float const, 2, Device>(in.data(), {tokens, width}),
                                TensorView<float const, 2, Device>(ba.data(), {tokens, 2 * shape.value_heads}), shape,
                                weights, false, state.view(), workspace.view(),
                                TensorView<float, 2, Device>(out.data(), {tokens, shape.value_heads * shape.value_dim}),
                                run.stream()));
            };
            run.add_time("gated_delta of qwen3_next, " + std::to_string(tokens) + " tokens",
                         run.time_in_graph(call, 16), 0.0);
        }
    });
}

void measure_xielu(DeviceBench& run) {
    run.section("xielu", [&] {
        auto const rows = scaled(4096, 1024);
        constexpr std::int64_t width = 4096;
        auto const numbers = run.send(std::vector<float>{0.8F, 0.7F, 0.5F, -1e-6F});
        Rotated<float> in(run, rows * width, true, rows * width * 4);
        auto out = run.memory<float>(rows * width);
        auto const seconds = run.time([&](std::int64_t i) {
            check(xielu(in.rows(i, rows, width), TensorView<float const, 1, Device>(numbers.view()),
                        TensorView<float, 2, Device>(out.data(), {rows, width}), run.stream()));
        });
        run.add_rate("xielu, 64 MiB", 8.0 * static_cast<double>(rows * width), seconds, 0.9);
    });
}

void measure_sample(DeviceBench& run, std::string const& name, SamplingOptions const& options, double limit,
                    std::int64_t history = 0) {
    run.section("sample " + name, [&] {
        auto const vocabulary = scaled(128 << 10, 64);
        std::vector<std::int32_t> past(static_cast<std::size_t>(history));
        for (std::size_t i = 0; i < past.size(); ++i)
            past[i] = static_cast<std::int32_t>(i * 7919 % static_cast<std::size_t>(vocabulary));
        for (std::int64_t const rows : {1, 32}) {
            // As spread as a model's: a few nats apart.
            std::vector<float> values(static_cast<std::size_t>(rows * vocabulary));
            std::mt19937 generator(9);
            for (auto& value : values) {
                float sum = 0.0F;
                for (int i = 0; i < 4; ++i) sum += static_cast<float>(generator()) / 2147483648.0F - 1.0F;
                value = 3.0F * sum;
            }
            auto const logits = run.send(values);
            auto ids = run.memory<std::int32_t>(rows);
            MemoryCounter pinned;
            auto table = take(SamplingTable<Device>::create(
                run.context(), pinned, {.rows = rows, .vocabulary = vocabulary, .history = rows * history}));
            std::vector<SamplingRow> said(static_cast<std::size_t>(rows), {options, past, 1, 2});
            check(table.write(said, run.stream()));
            auto const call = [&](std::int64_t) {
                check(sample(TensorView<float const, 2, Device>(logits.data(), {rows, vocabulary}), table, ids.view(),
                             run.stream()));
            };
            auto const what =
                "sample of 128 Ki, " + name + ", " + std::to_string(rows) + (rows == 1 ? " row" : " rows");
            run.add_time(what, run.time_in_graph(call, 16), rows == 1 ? limit : 0.0);
        }
    });
}

}  // namespace

int main(int argc, char** argv) {
    DeviceBench run("device_routing", argc, argv);
    for (auto const& router : routers) measure_route(run, router);
    measure_combine(run);
    measure_experts(run);
    measure_gated_delta(run);
    measure_xielu(run);
    measure_sample(run, "greedy", {}, 12e-6);
    measure_sample(run, "all", {.temperature = 1.0F}, 60e-6);
    measure_sample(run, "top_k 40", {.temperature = 0.8F, .top_k = 40}, 60e-6);
    measure_sample(run, "top_p 0.9", {.temperature = 1.0F, .top_p = 0.9F}, 60e-6);
    measure_sample(run, "top_k 50, top_p 0.95, min_p 0.05, penalty",
                   {.temperature = 0.8F, .top_k = 50, .top_p = 0.95F, .min_p = 0.05F, .repetition_penalty = 1.1F},
                   60e-6, 512);
    return run.finish();
}
