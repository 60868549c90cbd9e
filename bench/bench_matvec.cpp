// SPDX-License-Identifier: Apache-2.0
// Products of one row, and of some, by a quantised or dense weight that is larger than the caches: against the bandwidth of the
// memory, ggml, Eigen and oneDNN, and at lower levels than the machine's best against the bounds of these.

#include <shardwise/backend/host/core_pin.hpp>
#include <shardwise/backend/host/products.hpp>
#include <shardwise/quant/float_bits.hpp>
#include <shardwise/quant/weight_format.hpp>

#include "ggml_peer.hpp"
#include "levels.hpp"
#include "machine_rates.hpp"
#include "matmul_peers.hpp"
#include "read_probe.hpp"
#include "turns.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using namespace shardwise;
using bench::Contender;
using bench::Turns;

constexpr std::int64_t outputs = 11008;
constexpr std::int64_t inputs = 4096;
/// What all copies of a weight take at least: several times the largest cache, and three of them.
constexpr std::int64_t copies_bytes = std::int64_t{300} << 20;

struct Report {
    bool is_json = false;
    bool is_everything_met = true;
    std::string rows;

    /// A row whose ratio is their time by ours; without a time of theirs the peer is not there.
    void add(std::string const& name, std::string const& peer, double ours, double theirs, double goal) {
        bool const is_there = theirs < 1e20;
        auto const ratio = theirs / ours;
        bool const is_met = ratio >= goal;
        is_everything_met = is_everything_met && (is_met || !is_there);
        char tail[160];
        if (is_there) {
            std::snprintf(tail, sizeof tail, "%.4f,\"unit\":\"ms\",\"ratio\":%.3f,\"goal\":%.3f,\"met\":%s}",
                          theirs * 1e3, ratio, goal, is_met ? "true" : "false");
        } else {
            std::snprintf(tail, sizeof tail, "null,\"unit\":\"ms\",\"ratio\":null,\"goal\":%.3f,\"met\":null}", goal);
        }
        char head[160];
        std::snprintf(head, sizeof head,
                      "%s{\"case\":\"%s\",\"ours\":%.4f,\"peer\":\"%s\",\"theirs\":", rows.empty() ? "" : ",",
                      name.c_str(), ours * 1e3, peer.c_str());
        rows += std::string(head) + tail;
        if (is_json) return;
        std::printf("%-15s %9.3f ms  %-30s", name.c_str(), ours * 1e3, peer.c_str());
        if (is_there) {
            std::printf(" %9.3f ms  ratio %5.2f (goal %.2f) %s\n", theirs * 1e3, ratio, goal,
                        is_met ? "met" : "MISSED");
        } else {
            std::printf(" is not here\n");
        }
    }
};

struct Noise {
    std::uint64_t state = 88172645463325252U;
    std::uint64_t operator()() {
        state ^= state << 13U;
        state ^= state >> 7U;
        state ^= state << 17U;
        return state;
    }
    /// Between -1 and 1.
    float value() { return static_cast<float>(static_cast<std::int64_t>((*this)() >> 40U) - (1 << 23)) * 0x1p-23F; }
};

/// A weight of random codes and small scales, as a checkpoint has it.
struct Checkpoint {
    WeightSource source;
    std::vector<std::byte> data;
    std::vector<std::byte> scales;

    Checkpoint(WeightFormat format, Noise& noise) : source{format, outputs, inputs, {}, {}, 0} {
        if (format == WeightFormat::int4) source.group = 64;
        auto const bytes = *detail::source_bytes(source);
        data.resize(static_cast<std::size_t>(bytes.data));
        scales.resize(static_cast<std::size_t>(bytes.scales));
        auto const put = [](std::vector<std::byte>& to, std::size_t at, auto value) {
            std::memcpy(to.data() + at, &value, sizeof value);
        };
        if (format == WeightFormat::f32) {
            for (std::size_t i = 0; i < data.size(); i += 4) put(data, i, noise.value());
        } else if (format == WeightFormat::bf16 || format == WeightFormat::f16) {
            for (std::size_t i = 0; i < data.size(); i += 2) {
                put(data, i, format == WeightFormat::bf16 ? to_bf16(noise.value()) : to_f16(noise.value()));
            }
        } else {
            for (std::size_t i = 0; i + 8 <= data.size(); i += 8) put(data, i, noise());
        }
        auto const scale = [&] { return 0.01F * noise.value(); };
        auto const block = static_cast<std::size_t>(traits(format).block_bytes);
        bool const has_minimum = format == WeightFormat::q4_1 || format == WeightFormat::q5_1 ||
                                 format == WeightFormat::q4_k || format == WeightFormat::q5_k;
        for (std::size_t i = 0; block > 4 && i < data.size(); i += block) {
            put(data, i + (format == WeightFormat::q6_k ? 208 : 0), to_f16(scale()));
            if (has_minimum) put(data, i + 2, to_f16(scale()));
        }
        if (format == WeightFormat::mxfp4) std::fill(scales.begin(), scales.end(), std::byte{120});
        if (format == WeightFormat::int4) {
            for (std::size_t i = 0; i < scales.size(); i += 2) put(scales, i, to_f16(scale()));
        } else if (format != WeightFormat::mxfp4) {
            for (std::size_t i = 0; i < scales.size(); i += 4) put(scales, i, scale());
        }
        source.data = data;
        source.scales = scales;
    }
};

/// ggml's number for a format that is compared.
std::optional<bench::GgmlTypeNumber> ggml_type(WeightFormat format) {
    using enum bench::GgmlTypeNumber;
    for (auto const type : {q4_0, q4_1, q5_0, q5_1, q8_0, q4_k, q5_k, q6_k}) {
        if (weight_format(static_cast<GgmlType>(type)) == format) return type;
    }
    return std::nullopt;
}

/// Copies of one weight, multiplied one after another.
struct Copies {
    std::vector<HostWeight> weights;

    Copies(HostContext& context, WeightSource const& source) {
        auto const one = packed_weight_bytes(source.format, source.outputs, source.inputs, source.group);
        auto const count = std::max<std::int64_t>(ceil_divide(copies_bytes, one->count()), 3);
        for (std::int64_t i = 0; i < count; ++i) {
            auto held = Host::hold_weight(context, source);
            if (!held) {
                std::fprintf(stderr, "%s\n", held.error().message().c_str());
                std::exit(1);
            }
            weights.push_back(std::move(*held));
        }
    }
    [[nodiscard]] std::vector<std::span<std::byte const>> memory() const {
        std::vector<std::span<std::byte const>> all;
        for (auto const& weight : weights) {
            all.emplace_back(weight.packed().data, static_cast<std::size_t>(weight.bytes().count()));
        }
        return all;
    }
    [[nodiscard]] double bytes() const { return static_cast<double>(weights[0].bytes().count()); }
};

/// As much of a weight as stays in the second-level cache of one core.
struct Cached {
    HostWeight weight;
    /// How often it is multiplied by in a turn.
    int products = 20;

    Cached(HostContext& context, WeightSource source) : weight(hold(context, source)) {}

private:
    static HostWeight hold(HostContext& context, WeightSource source) {
        auto const row = static_cast<std::int64_t>(source.data.size()) / source.outputs;
        auto const kept = std::max<std::int64_t>((std::int64_t{400} << 10) / row / 32, 1) * 32;
        auto const part = [&](std::span<std::byte const> all) {
            return all.first(all.size() / static_cast<std::size_t>(source.outputs) * static_cast<std::size_t>(kept));
        };
        source.data = part(source.data);
        source.scales = part(source.scales);
        source.outputs = kept;
        auto held = Host::hold_weight(context, source);
        if (!held) {
            std::fprintf(stderr, "%s\n", held.error().message().c_str());
            std::exit(1);
        }
        return *std::move(held);
    }
};

/// Whether two results are of the same product: ggml rounds activations to eight bits.
bool is_alike(std::vector<float> const& ours, std::vector<float> const& theirs) {
    double difference = 0.0;
    double size = 0.0;
    for (std::size_t i = 0; i < ours.size(); ++i) {
        difference += std::pow(static_cast<double>(ours[i]) - static_cast<double>(theirs[i]), 2);
        size += std::pow(static_cast<double>(ours[i]), 2);
    }
    return difference <= 1e-3 * size;
}

/// The share of the read bandwidth that one row has to reach.
double share_goal(WeightFormat format) {
    return traits(format).bits >= 8 ? 0.9 : 0.7;
}

class Bench {
public:
    Bench(bool is_json, bool shows_all) : ggml_(bench::open_ggml()), stream_(context_.make_stream()) {
        bench::pin_openmp(context_.pool().size());
        pin_.emplace(0);
        report_.is_json = is_json;
        if (!stream_.isa()) return;
        auto const shown = bench::shown_levels(*stream_.isa(), shows_all);
        lower_.assign(shown.begin() + 1, shown.end());
    }

    int run(std::string_view only) {
        if (!stream_.isa()) {
            std::fprintf(stderr, "%s\n", stream_.isa().error().message().c_str());
            return 1;
        }
        if (!report_.is_json) {
            std::printf("weights %lld x %lld, %d threads, level %s; ggml: %s; %.*s; %.*s\n",
                        static_cast<long long>(outputs), static_cast<long long>(inputs), context_.pool().size(),
                        std::string(name_of(*stream_.isa())).c_str(), ggml_ ? "as it is and repacked" : "not here",
                        static_cast<int>(bench::eigen_configuration().size()), bench::eigen_configuration().data(),
                        static_cast<int>(bench::onednn_configuration().size()), bench::onednn_configuration().data());
            std::printf(
                "both sides in turns, a tenth of the turns were shorter than a time below; the read bandwidth is that "
                "of the same weights\n");
        }
        Noise noise;
        for (auto& value : in_) value = noise.value();
        for (auto const format :
             {WeightFormat::f32, WeightFormat::bf16, WeightFormat::int8, WeightFormat::q8_0, WeightFormat::q4_0,
              WeightFormat::q4_1, WeightFormat::q6_k, WeightFormat::q4_k, WeightFormat::q5_k, WeightFormat::q5_0,
              WeightFormat::q5_1, WeightFormat::int4, WeightFormat::nf4, WeightFormat::mxfp4}) {
            if (!only.empty() && only != name_of(format)) continue;
            Checkpoint const checkpoint(format, noise);
            Copies const copies(context_, checkpoint.source);
            compare(checkpoint, copies, 1);
            bool const is_usual = format == WeightFormat::q4_0 || format == WeightFormat::q4_1 ||
                                  format == WeightFormat::q8_0 || format == WeightFormat::q4_k;
            // What quantised weights are held to.
            if (format == WeightFormat::f32) compare(checkpoint, copies, 512);
            // A format that was asked for by its name shows all.
            if (is_usual || (!only.empty() && ggml_type(format))) {
                for (std::int64_t const rows : {4, 16, 512}) compare(checkpoint, copies, rows);
            }
        }
        if (report_.is_json) {
            std::printf("{\"schema\":\"shardwise.bench/1\",\"name\":\"matvec\",\"rows\":[%s]}\n", report_.rows.c_str());
        }
        return report_.is_everything_met || report_.is_json ? 0 : 1;
    }

private:
    void multiply(HostWeight const& weight, std::vector<float>& out, std::int64_t rows, HostStream& stream) {
        auto const done = Host::multiply({in_.data(), {rows, inputs}}, weight, {out.data(), {rows, outputs}}, stream);
        if (!done) std::abort();
    }

    void multiply_cached(Cached const& cached, std::vector<float>& out, HostStream& stream) {
        for (int i = 0; i < cached.products; ++i) {
            if (!Host::multiply({in_.data(), {1, inputs}}, cached.weight, {out.data(), {1, cached.weight.outputs()}},
                                stream)) {
                std::abort();
            }
        }
    }

    /// What is timed at a level below the machine's best.
    struct LowerLevel {
        IsaLevel level;
        HostStream stream;
        HostStream one_stream;
        Contender ours{};
        Contender instructions{};
        Contender computing{};
        double flops = 0.0;

        LowerLevel(ThreadPool& pool, ThreadPool& one, IsaLevel at)
            : level(at), stream(StreamMode::immediate, &pool, at), one_stream(StreamMode::immediate, &one, at) {}
    };

    void compare(Checkpoint const& checkpoint, Copies const& copies, std::int64_t rows) {
        auto const format = checkpoint.source.format;
        auto const name = std::string(name_of(format)) + " M=" + std::to_string(rows);
        std::vector<float> out(static_cast<std::size_t>(rows * outputs));
        // Many rows compute for so long that it does not matter where one weight lies.
        auto const used = rows > 16 ? std::size_t{1} : copies.weights.size();
        std::size_t next = 0;
        Contender ours{[&] { multiply(copies.weights[next++ % used], out, rows, stream_); }, bench::waken(context_)};
        Contender rounding{[&] { multiply(copies.weights[next++ % used], out, rows, rounding_stream_); },
                           bench::waken(context_)};
        std::vector<std::unique_ptr<bench::GgmlGraph>> graphs;
        if (auto const type = ggml_type(format); type && ggml_) {
            graphs =
                ggml_->prepare({*type, &checkpoint.data, static_cast<int>(used), in_.data(), rows, outputs, inputs},
                               context_.pool().size());
        }
        std::vector<Contender> theirs;
        for (auto& graph : graphs) {
            theirs.push_back({[&graph] { graph->run(); }, [&graph] { graph->wake(); }, [&graph] { graph->rest(); }});
            graph->rest();
        }
        std::vector<Contender> dense[2];
        if (format == WeightFormat::f32 && rows == 1) {
            bench::PeerProduct const product{reinterpret_cast<float const*>(checkpoint.data.data()),
                                             in_.data(),
                                             out.data(),
                                             rows,
                                             outputs,
                                             inputs,
                                             context_.pool().size(),
                                             bench::PeerElements::f32};
            auto const add = [&](std::vector<Contender>& to, bench::PeerWays ways) {
                auto const wake = [threads = product.threads] { bench::wake_openmp(threads); };
                for (auto& way : ways) to.push_back({std::move(way), wake, bench::rest_openmp});
            };
            add(dense[0], bench::eigen_ways(product));
            add(dense[1], bench::onednn_ways(product));
        }
        bench::ReadProbe memory(context_, copies.memory());
        auto reading = memory.contender();
        double peak_flops = 0.0;
        Contender computing{[&] { peak_flops = bench::run_fp32_peak(context_, *stream_.isa()); },
                            bench::waken(context_)};
        std::vector<Contender*> racers{&ours, &reading};
        if (rows > 1 && rows <= 16) racers.push_back(&computing);
        bool const rounds = ggml_type(format) && has_int8_product(format);
        if (rounds) racers.push_back(&rounding);
        Cached const cached(one_thread_, checkpoint.source);
        auto one_stream = one_thread_.make_stream();
        std::vector<float> some(static_cast<std::size_t>(cached.weight.outputs()));
        Contender instructions{[&] { multiply_cached(cached, some, one_stream); }};
        if (rows == 1) racers.push_back(&instructions);
        // Many rows at the portable level would take seconds each.
        std::vector<std::unique_ptr<LowerLevel>> lower;
        for (auto const level : lower_) {
            if (rows > 16 && level < IsaLevel::avx2) continue;
            lower.push_back(std::make_unique<LowerLevel>(context_.pool(), one_thread_.pool(), level));
            auto& each = *lower.back();
            each.ours = {[&] { multiply(copies.weights[next++ % used], out, rows, each.stream); },
                         bench::waken(context_)};
            racers.push_back(&each.ours);
            each.computing = {[&] { each.flops = bench::run_fp32_peak(context_, each.level); }, bench::waken(context_)};
            if (rows > 1 && rows <= 16) racers.push_back(&each.computing);
            each.instructions = {[&] { multiply_cached(cached, some, each.one_stream); }};
            if (rows == 1) racers.push_back(&each.instructions);
        }
        for (auto* const ways : {&theirs, &dense[0], &dense[1]}) {
            for (auto& way : *ways) racers.push_back(&way);
        }
        bench::race(racers, rows > 16 ? Turns{3, 0.0} : Turns{32, 1.0});

        auto const time = ours.time();
        // What the memory takes to give a weight's bytes, and the processor to compute in fp32.
        auto const read_time = reading.time();
        auto const flops = 2.0 * static_cast<double>(rows * outputs * inputs);
        auto const fp32_time = flops / peak_flops * computing.time();
        // What the instructions of all threads would take if the memory gave at once what they read.
        auto const all_threads = static_cast<double>(outputs) / cached.products /
                                 static_cast<double>(cached.weight.outputs() * context_.pool().size());
        auto const instruction_time = instructions.time() * all_threads;
        if (rows == 1) {
            bool const has_arithmetic = instruction_time > read_time;
            report_.add(name, has_arithmetic ? "instruction bound" : "read bandwidth", time,
                        std::max(read_time, instruction_time), share_goal(format));
        } else if (rows <= 16) {
            report_.add(name, "bound of the machine", time, std::max(read_time, fp32_time), 0.75);
        }
        for (auto const& each : lower) {
            auto const level_name = name + " " + std::string(name_of(each->level));
            auto const level_time = each->ours.time();
            if (rows == 1) {
                auto const in_cache = each->instructions.time() * all_threads;
                report_.add(level_name, in_cache > read_time ? "instruction bound" : "read bandwidth", level_time,
                            std::max(read_time, in_cache), share_goal(format));
            } else if (rows <= 16) {
                report_.add(level_name, "bound of the machine", level_time,
                            std::max(read_time, flops / each->flops * each->computing.time()), 0.6);
            } else {
                auto const found = fp32_many_.find(each->level);
                if (format == WeightFormat::f32) {
                    fp32_many_[each->level] = level_time;
                } else if (found != fp32_many_.end()) {
                    report_.add(level_name, "our fp32", level_time, found->second, 0.85);
                }
            }
        }
        if (ggml_type(format)) {
            for (auto& graph : graphs) {
                graph->wake();
                graph->run();
                graph->rest();
                for (auto* const stream : {&stream_, &rounding_stream_}) {
                    multiply(copies.weights[0], out, rows, *stream);
                    if (is_alike(out, graph->out())) continue;
                    std::fprintf(stderr, "%s: ggml's result is another\n", name.c_str());
                    report_.is_everything_met = false;
                }
            }
            auto const their_time = bench::best_of(theirs);
            // Where memory binds ggml too, nothing can be as much faster as is asked for: the row says what could be.
            char peer[80] = "ggml, 8-bit activations";
            if (rows == 1 && !theirs.empty()) {
                std::snprintf(peer, sizeof peer, "ggml (bandwidth allows %.2f)", their_time / read_time);
            }
            report_.add(name, peer, time, their_time, rows == 1 ? 1.5 : 1.0);
            report_.add(name + " int8", "ggml, both 8-bit activations", rounding.time(), their_time, 1.0);
        }
        if (format == WeightFormat::f32 && rows == 1) {
            report_.add(name, "Eigen", time, bench::best_of(dense[0]), 1.0);
            report_.add(name, "oneDNN", time, bench::best_of(dense[1]), 0.9);
        }
        if (report_.is_json) return;
        std::printf("             %.1f GB/s of %.1f, %.1f GFLOP/s", copies.bytes() / time / 1e9,
                    memory.rate(read_time) / 1e9, 1e-9 * flops / time);
        if (rows == 1)
            std::printf("; instructions alone %.3f ms, reading alone %.3f ms", instruction_time * 1e3, read_time * 1e3);
        if (rows > 1 && rows <= 16) std::printf(" of %.1f in fp32", 1e-9 * flops / fp32_time);
        std::printf("; %zu turns, medians of their ratios: read bandwidth %.2f", ours.times.size(),
                    bench::median_ratio(reading, ours));
        for (auto const& way : theirs) std::printf(", ggml %.2f", bench::median_ratio(way, ours));
        std::printf("\n");
    }

    Report report_;
    std::unique_ptr<bench::Ggml> ggml_;
    HostContext context_{HostOptions{.is_pinned = true}};
    HostContext one_thread_{HostOptions{.threads = 1}};
    std::optional<CorePin> pin_;
    HostStream stream_;
    /// Levels below the stream's that are shown.
    std::vector<IsaLevel> lower_;
    /// Seconds of 512 rows by fp32 at these.
    std::map<IsaLevel, double> fp32_many_;
    /// By the same threads, with activations of eight bits.
    HostStream rounding_stream_{StreamMode::immediate, &context_.pool(), context_.isa(), -1, ProductActivations::int8};
    std::vector<float> in_ = std::vector<float>(512 * inputs);
};

}  // namespace

/// bench_matvec [--json] [--levels all] [FORMAT]: all formats, or one.
int main(int argc, char** argv) {
    bench::LevelArguments const arguments(argc, argv, true);
    return Bench(arguments.is_json, arguments.shows_all).run(arguments.only);
}
