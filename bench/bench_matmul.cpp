// Products of few and of many rows by a dense weight that is larger than the caches, against what the machine can do at best,
// Eigen and oneDNN.

#include <shardwise/backend/host/core_pin.hpp>
#include <shardwise/backend/host/products.hpp>
#include <shardwise/quant/half_types.hpp>

#include "machine_rates.hpp"
#include "matmul_peers.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace shardwise;

constexpr std::int64_t outputs = 11008;
constexpr std::int64_t inputs = 4096;

/// Something that is timed: the best of its times counts.
struct Contender {
    std::function<void()> run;
    double best = 1e30;
};

/// Times contenders in turn, so that what else the machine does meets all of them.
void race(std::vector<Contender*> const& contenders, int rounds, bool is_short) {
    for (int round = 0; round < rounds; ++round) {
        for (auto* const contender : contenders) {
            // The first call brings caches and threads into the state that the second finds.
            if (is_short || round == 0) contender->run();
            contender->best = std::min(contender->best, bench::time_once(contender->run));
        }
    }
}

double best_of(std::vector<Contender> const& ways) {
    double best = 1e30;
    for (auto const& way : ways) best = std::min(best, way.best);
    return best;
}

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
        std::printf("%-14s %9.3f ms  %-22.*s", name.c_str(), ours * 1e3, static_cast<int>(peer.size()), peer.data());
        if (is_there) {
            std::printf(" %9.3f ms  ratio %5.2f (goal %.2f) %s\n", theirs * 1e3, ratio, goal,
                        is_met ? "met" : "MISSED");
        } else {
            std::printf(" is not here\n");
        }
    }
};

std::vector<Contender> contenders(bench::PeerWays ways) {
    std::vector<Contender> made;
    for (auto& way : ways) made.push_back({std::move(way)});
    return made;
}

}  // namespace

int main(int argc, char** argv) {
    Report report;
    report.is_json = argc > 1 && std::string_view{argv[1]} == "--json";
    HostContext context({.is_pinned = true});
    auto const threads = context.pool().size();
    bench::pin_openmp(threads);
    CorePin const pin(0);
    auto stream = context.make_stream();
    if (!stream.isa()) {
        std::fprintf(stderr, "%s\n", stream.isa().error().message().c_str());
        return 1;
    }

    constexpr std::int64_t most_rows = 512;
    std::vector<float> weight(static_cast<std::size_t>(outputs * inputs));
    std::vector<float> in(static_cast<std::size_t>(most_rows * inputs));
    std::vector<float> out(static_cast<std::size_t>(most_rows * outputs));
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

    double read_rate = bench::measure_read_rate(context);
    double peak = bench::measure_fp32_peak(context);
    if (!report.is_json) {
        std::printf("weights %lld x %lld, %d threads, level %s; %.*s; %.*s\n", static_cast<long long>(outputs),
                    static_cast<long long>(inputs), threads, std::string(name_of(*stream.isa())).c_str(),
                    static_cast<int>(bench::eigen_configuration().size()), bench::eigen_configuration().data(),
                    static_cast<int>(bench::onednn_configuration().size()), bench::onednn_configuration().data());
    }
    for (std::int64_t const rows : {2, 4, 8, 16, 512}) {
        bench::PeerProduct product{weight.data(), in.data(), out.data(), rows, outputs, inputs, threads, false};
        auto const ours = [&](HostWeight const& held) {
            return Contender{[&held, &in, &out, &stream, rows] {
                auto const done =
                    Host::multiply({in.data(), {rows, inputs}}, held, {out.data(), {rows, outputs}}, stream);
                if (!done) std::abort();
            }};
        };
        auto wide = ours(*wide_weight);
        auto half = ours(*narrow_weight);
        auto eigen = contenders(bench::eigen_ways(product));
        auto onednn = contenders(bench::onednn_ways(product));
        std::vector<Contender*> racers{&wide, &half};
        for (auto* const ways : {&eigen, &onednn}) {
            for (auto& way : *ways) racers.push_back(&way);
        }
        race(racers, rows >= 512 ? 5 : 16, rows < 512);
        read_rate = std::max(read_rate, bench::measure_read_rate(context, 0.5));
        peak = std::max(peak, bench::measure_fp32_peak(context, 0.3));

        auto const flops = 2.0 * static_cast<double>(rows * outputs * inputs);
        auto const bound = [&](HostWeight const& held) {
            return std::max(static_cast<double>(held.bytes().count()) / read_rate, flops / peak);
        };
        auto const wide_name = "fp32 M=" + std::to_string(rows);
        auto const half_name = "bf16 M=" + std::to_string(rows);
        auto const eigen_best = best_of(eigen);
        auto const onednn_best = best_of(onednn);
        if (rows < 512) {
            constexpr double share = 0.75;
            report.add(wide_name, "bound of the machine", wide.best, bound(*wide_weight), share);
            // Twice Eigen, where that leaves room below the share of the bound.
            auto const room = std::min(2.0, eigen_best * share / bound(*wide_weight));
            report.add(wide_name, "Eigen", wide.best, eigen_best, room);
            report.add(wide_name, "oneDNN", wide.best, onednn_best, 0.9);
            report.add(half_name, "bound of the machine", half.best, bound(*narrow_weight), share);
        } else {
            report.add(wide_name, "Eigen", wide.best, eigen_best, 1.0);
            report.add(wide_name, "oneDNN", wide.best, onednn_best, 0.85);
            report.add(half_name, "our fp32", half.best, wide.best, 1.0);
        }
    }
    if (report.is_json) {
        std::printf("{\"schema\":\"shardwise.bench/1\",\"name\":\"matmul\",\"rows\":[%s]}\n", report.rows.c_str());
    } else {
        std::printf("read rate %.1f GB/s, fp32 peak %.1f GFLOP/s\n", read_rate / 1e9, peak / 1e9);
    }
    return report.is_everything_met || report.is_json ? 0 : 1;
}
