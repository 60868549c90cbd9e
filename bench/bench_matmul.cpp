// SPDX-License-Identifier: Apache-2.0
// Products of few and of many rows by a dense weight that is larger than the caches, against what the machine can do at best,
// Eigen and oneDNN, at the machine's best level and at lower ones.

#include <shardwise/backend/host/core_pin.hpp>
#include <shardwise/backend/host/products.hpp>
#include <shardwise/quant/half_types.hpp>

#include "busy_core.hpp"
#include "levels.hpp"
#include "machine_rates.hpp"
#include "matmul_peers.hpp"
#include "read_probe.hpp"
#include "turns.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace shardwise;
using bench::Contender;
using bench::Turns;

constexpr std::int64_t outputs = 11008;
constexpr std::int64_t inputs = 4096;

struct Report {
    bool is_json = false;
    bool is_everything_met = true;
    std::string rows;

    /// A row whose ratio is their time by ours; `theirs` is negative where the peer is not there.
    void add(std::string const& name, std::string_view peer, double ours, double theirs, double goal) {
        auto const ratio = theirs / ours;
        bool const is_there = theirs > 0.0 && theirs < 1e20;
        bool const is_met = ratio >= goal;
        is_everything_met = is_everything_met && (is_met || !is_there);
        char row[400];
        if (is_there) {
            std::snprintf(
                row, sizeof row,
                "%s{\"case\":\"%s\",\"ours\":%.4f,\"peer\":\"%.*s\",\"theirs\":%.4f,\"unit\":\"ms\",\"ratio\":"
                "%.3f,\"goal\":%.3f,\"met\":%s}",
                rows.empty() ? "" : ",", name.c_str(), ours * 1e3, static_cast<int>(peer.size()), peer.data(),
                theirs * 1e3, ratio, goal, is_met ? "true" : "false");
        } else {
            std::snprintf(
                row, sizeof row,
                "%s{\"case\":\"%s\",\"ours\":%.4f,\"peer\":\"%.*s\",\"theirs\":null,\"unit\":\"ms\",\"ratio\":"
                "null,\"goal\":%.3f,\"met\":null}",
                rows.empty() ? "" : ",", name.c_str(), ours * 1e3, static_cast<int>(peer.size()), peer.data(), goal);
        }
        rows += row;
        if (is_json) return;
        std::printf("%-28s %9.3f ms  %-22.*s", name.c_str(), ours * 1e3, static_cast<int>(peer.size()), peer.data());
        if (is_there) {
            std::printf(" %9.3f ms  ratio %5.2f (goal %.2f) %s\n", theirs * 1e3, ratio, goal,
                        is_met ? "met" : "MISSED");
        } else {
            std::printf(" is not here\n");
        }
    }
};

std::vector<Contender> contenders(bench::PeerWays ways, int threads) {
    std::vector<Contender> made;
    for (auto& way : ways)
        made.push_back({std::move(way), [threads] { bench::wake_openmp(threads); }, bench::rest_openmp});
    return made;
}

/// The longest that a product may take beside a neighbour, by what the cores' shares that are left would take.
constexpr double busy_goal = 1.3;

/// Products while a neighbour has half of the last core: in turns with windows in which it has not, averages of each.
void compare_beside_neighbour(Report& report, HostContext& context, std::string const& name,
                              std::function<void()> const& run) {
    constexpr double window = 0.3;
    constexpr int windows = 4;
    auto const cores = context.pool().size();
    auto const average = [&](std::vector<double>& averages) {
        double total = 0.0;
        int count = 0;
        for (; total < window || count < 2; ++count) total += bench::time_once(run);
        averages.push_back(total / count);
    };
    std::vector<double> alone;
    std::vector<double> beside;
    double share = 0.0;
    bool is_first = false;
    run();
    for (int i = 0; i < windows; ++i) {
        average(alone);
        bench::BusyCore neighbour(cores - 1);
        neighbour.restart();
        average(beside);
        share += neighbour.share() / windows;
        is_first = neighbour.is_first();
    }
    // What else the machine does makes windows longer, never shorter.
    auto const time = *std::min_element(beside.begin(), beside.end());
    auto const quiet = *std::min_element(alone.begin(), alone.end());
    auto const ideal = quiet * cores / (cores - share);
    report.add(name + " beside a busy core", "the cores' shares left", time, ideal, 1.0 / busy_goal);
    if (report.is_json) return;
    std::printf("               time by ideal %.2f (goal %.1f); the neighbour had %.2f of a core%s; alone %.3f ms\n",
                time / ideal, busy_goal, share, is_first ? "" : ", by turns with us", quiet * 1e3);
}

}  // namespace

/// bench_matmul [--json] [--levels all] [--busy-core] [ROWS]: all numbers of rows, or one. With --busy-core, products while another
/// has half of a core, and nothing else.
int main(int argc, char** argv) {
    bench::LevelArguments const arguments(argc, argv, true, "--busy-core");
    Report report;
    report.is_json = arguments.is_json;
    HostContext context({.is_pinned = true});
    auto const threads = context.pool().size();
    bench::pin_openmp(threads);
    CorePin const pin(0);
    if (!context.isa()) {
        std::fprintf(stderr, "%s\n", context.isa().error().message().c_str());
        return 1;
    }
    auto const best = *context.isa();
    auto const levels = bench::shown_levels(best, arguments.shows_all);
    std::vector<HostStream> streams;
    std::vector<HostStream> rounding_streams;
    for (auto const level : levels) {
        streams.emplace_back(StreamMode::immediate, &context.pool(), level);
        rounding_streams.emplace_back(StreamMode::immediate, &context.pool(), level, -1, ProductActivations::int8);
    }

    constexpr std::int64_t max_rows = 512;
    std::vector<float> weight(static_cast<std::size_t>(outputs * inputs));
    std::vector<float> in(static_cast<std::size_t>(max_rows * inputs));
    std::vector<float> out(static_cast<std::size_t>(max_rows * outputs));
    std::uint32_t state = 1;
    auto const fill = [&](std::vector<float>& values) {
        for (auto& value : values) {
            state = state * 1664525U + 1013904223U;
            // Exact in bfloat16, so that both formats multiply the same values.
            value = static_cast<float>(static_cast<int>(state >> 24U) - 128) / 128.0F;
        }
    };
    fill(weight);
    fill(in);
    std::vector<Bfloat16> narrow(weight.size());
    std::transform(weight.begin(), weight.end(), narrow.begin(), [](float value) { return Bfloat16(value); });
    WeightSource source{WeightFormat::f32, outputs, inputs, std::as_bytes(std::span(weight)), {}, 0};
    auto const wide_weight = Host::hold_weight(context, source);
    source.format = WeightFormat::bf16;
    source.data = std::as_bytes(std::span(narrow));
    auto const narrow_weight = Host::hold_weight(context, source);
    if (!wide_weight || !narrow_weight) {
        std::fprintf(stderr, "the weights do not fit into this machine's memory\n");
        return 1;
    }
    narrow = {};
    // Of whole numbers of a 127th, with activations of 8 bits: oneDNN's of the same sizes have no scales.
    std::vector<std::int8_t> codes(weight.size());
    std::transform(weight.begin(), weight.end(), codes.begin(),
                   [](float value) { return static_cast<std::int8_t>(std::max(value * 128.0F, -127.0F)); });
    std::vector<float> const scales(outputs, 1.0F / 127.0F);
    source.format = WeightFormat::int8;
    source.data = std::as_bytes(std::span(codes));
    source.scales = std::as_bytes(std::span(scales));
    auto const int8_weight = Host::hold_weight(context, source);
    if (!int8_weight) {
        std::fprintf(stderr, "the weights do not fit into this machine's memory\n");
        return 1;
    }
    codes = {};

    if (!report.is_json) {
        std::printf("weights %lld x %lld, %d threads, level %s; %.*s; %.*s\n", static_cast<long long>(outputs),
                    static_cast<long long>(inputs), threads, std::string(name_of(best)).c_str(),
                    static_cast<int>(bench::eigen_configuration().size()), bench::eigen_configuration().data(),
                    static_cast<int>(bench::onednn_configuration().size()), bench::onednn_configuration().data());
    }
    if (arguments.has_flag && threads < 2) {
        std::fprintf(stderr, "bench_matmul: --busy-core needs two cores\n");
        return 2;
    }
    for (std::int64_t const rows : {1, 16, 512}) {
        if (!arguments.has_flag || (!arguments.only.empty() && arguments.only != std::to_string(rows))) continue;
        for (auto const* const held : {&*wide_weight, &*narrow_weight, &*int8_weight}) {
            auto const name = std::string(name_of(held->format())) + " M=" + std::to_string(rows);
            compare_beside_neighbour(report, context, name, [&] {
                auto const done =
                    Host::multiply({in.data(), {rows, inputs}}, *held, {out.data(), {rows, outputs}}, streams.front());
                if (!done) std::abort();
            });
        }
    }
    for (std::int64_t const rows : {2, 4, 8, 16, 64, 512}) {
        if (arguments.has_flag) break;
        if (!arguments.only.empty() && arguments.only != std::to_string(rows)) continue;
        bench::PeerProduct product{weight.data(), in.data(), out.data(), rows, outputs, inputs, threads};
        auto const ours = [&](HostWeight const& held, HostStream& stream) {
            return Contender{[&held, &in, &out, &stream, rows] {
                                 auto const done = Host::multiply({in.data(), {rows, inputs}}, held,
                                                                  {out.data(), {rows, outputs}}, stream);
                                 if (!done) std::abort();
                             },
                             bench::waken(context)};
        };
        auto const memory_of = [](HostWeight const& held) {
            return std::span(held.packed().data, static_cast<std::size_t>(held.bytes().count()));
        };
        std::vector<Contender> wide;
        std::vector<Contender> half;
        for (auto& stream : streams) {
            wide.push_back(ours(*wide_weight, stream));
            half.push_back(ours(*narrow_weight, stream));
        }
        // As oneDNN's bf16 product has it: activations of bf16.
        HostStream narrow_stream(StreamMode::immediate, &context.pool(), best, -1, ProductActivations::bf16);
        auto both_half = ours(*narrow_weight, narrow_stream);
        std::vector<Contender> int8;
        for (auto& stream : rounding_streams) int8.push_back(ours(*int8_weight, stream));
        auto eigen = contenders(bench::eigen_ways(product), threads);
        auto onednn = contenders(bench::onednn_ways(product), threads);
        product.elements = bench::PeerElements::bf16;
        auto onednn_half = contenders(bench::onednn_ways(product), threads);
        product.elements = bench::PeerElements::int8;
        auto onednn_int8 = contenders(bench::onednn_ways(product), threads);
        bench::ReadProbe wide_memory(context, {memory_of(*wide_weight)});
        bench::ReadProbe half_memory(context, {memory_of(*narrow_weight)});
        auto reading_wide = wide_memory.contender();
        auto reading_half = half_memory.contender();
        std::vector<double> peak_flops(levels.size());
        std::vector<Contender> computing;
        for (std::size_t i = 0; i < levels.size(); ++i) {
            computing.push_back(
                {[&, i] { peak_flops[i] = bench::run_fp32_peak(context, levels[i]); }, bench::waken(context)});
        }
        bool const is_few = rows <= 16;
        // Whoever reads a weight comes after one that reads the other: nothing of it is left in a cache.
        std::vector<Contender*> racers;
        for (std::size_t i = 0; i < levels.size(); ++i) {
            racers.push_back(&wide[i]);
            racers.push_back(&half[i]);
            racers.push_back(&int8[i]);
        }
        if (is_few) racers.insert(racers.end(), {&reading_wide, &reading_half});
        racers.push_back(&both_half);
        for (auto& each : computing) racers.push_back(&each);
        for (auto* const ways : {&eigen, &onednn, &onednn_half, &onednn_int8}) {
            for (auto& way : *ways) racers.push_back(&way);
        }
        bench::race(racers, is_few ? Turns{24, 1.0} : Turns{rows == 64 ? 9 : 5, 0.0});

        auto const flops = 2.0 * static_cast<double>(rows * outputs * inputs);
        auto const onednn_half_best = bench::best_of(onednn_half);
        for (std::size_t i = 0; i < levels.size(); ++i) {
            auto const level = levels[i];
            bool const is_best = level == best;
            auto const fp32_time = flops / peak_flops[i] * computing[i].time();
            auto const wide_name = bench::at_level("fp32 M=" + std::to_string(rows), level, best);
            auto const half_name = bench::at_level("bf16 M=" + std::to_string(rows), level, best);
            auto const wide_time = wide[i].time();
            auto const half_time = half[i].time();
            auto const eigen_best = bench::best_of(eigen);
            if (is_few) {
                auto const share = is_best ? 0.75 : 0.6;
                auto const wide_bound = std::max(reading_wide.time(), fp32_time);
                // Tiles multiply faster than fp32's units.
                auto const half_bound =
                    level == IsaLevel::amx ? reading_half.time() : std::max(reading_half.time(), fp32_time);
                report.add(wide_name, "bound of the machine", wide_time, wide_bound, share);
                report.add(half_name, "bound of the machine", half_time, half_bound, share);
                // Twice Eigen, where that leaves room below the share of the bound.
                if (is_best)
                    report.add(wide_name, "Eigen", wide_time, eigen_best,
                               std::min(2.0, eigen_best * share / wide_bound));
            } else {
                if (is_best) report.add(wide_name, "Eigen", wide_time, eigen_best, 1.0);
                report.add(half_name, "our fp32", half_time, wide_time, 1.0);
            }
            if (is_best) {
                report.add(wide_name, "oneDNN", wide_time, bench::best_of(onednn), is_few ? 0.9 : 0.85);
                report.add(half_name + " bf16 activations", "oneDNN bf16", both_half.time(), onednn_half_best, 0.85);
                report.add("int8 M=" + std::to_string(rows), "oneDNN int8, unscaled", int8[i].time(),
                           bench::best_of(onednn_int8), 0.85);
            }
        }
        if (report.is_json) continue;
        std::printf("               fp32 peak %.1f GFLOP/s; bf16 %.1f, with bf16 activations %.1f, oneDNN %.1f",
                    1e-9 * peak_flops[0] / computing[0].time(), 1e-9 * flops / half[0].time(),
                    1e-9 * flops / both_half.time(), 1e-9 * flops / onednn_half_best);
        if (is_few) std::printf("; read rate %.1f GB/s", wide_memory.rate(reading_wide.time()) / 1e9);
        std::printf("; medians of turns: oneDNN bf16 by bf16 activations");
        for (auto const& way : onednn_half) std::printf(" %.2f", bench::median_ratio(way, both_half));
        std::printf(", by full ones");
        for (auto const& way : onednn_half) std::printf(" %.2f", bench::median_ratio(way, half[0]));
        std::printf("\n");
    }
    if (report.is_json) {
        std::printf("{\"schema\":\"shardwise.bench/1\",\"name\":\"matmul\",\"rows\":[%s]}\n", report.rows.c_str());
    }
    return report.is_everything_met || report.is_json ? 0 : 1;
}
