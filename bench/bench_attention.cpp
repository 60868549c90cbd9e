// SPDX-License-Identifier: Apache-2.0
// Attention on the host: decoding against the rate at which the machine reads memory, prefill against torch; at the machine's best
// level and at lower ones.

#include <shardwise/backend/host.hpp>
#include <shardwise/backend/host/core_pin.hpp>
#include <shardwise/backend/host/huge_pages.hpp>
#include <shardwise/json/value.hpp>
#include <shardwise/kernels/attention.hpp>

#include "levels.hpp"
#include "read_probe.hpp"
#include "turns.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace shardwise;

/// Keys and values are taken in turn from copies of this size together: several times any cache.
constexpr std::int64_t rotated_bytes = std::int64_t{512} << 20;
constexpr double seconds_per_case = 1.5;
constexpr AttentionShape shape{.heads = 32, .kv_heads = 8, .key_dim = 128, .value_dim = 128};

struct Case {
    std::int64_t queries;
    std::int64_t keys;
    bool is_bf16;
    /// The least part of the read rate (decoding), the least ratio to torch.
    double rate_goal;
    double peer_goal;

    [[nodiscard]] std::string name() const {
        return std::string(queries == 1 ? "decode, context " : "prefill, tokens ") + std::to_string(keys) +
               (is_bf16 ? ", bf16" : ", fp32");
    }
    /// Bytes of keys and values.
    [[nodiscard]] std::int64_t bytes() const { return 2 * keys * shape.kv_heads * shape.key_dim * (is_bf16 ? 2 : 4); }
};

/// Seconds of a call, and of reading its keys and values alone in the same turns.
struct CaseTimes {
    double call = -1.0;
    double reading = 0.0;
};

template <class T>
CaseTimes time_case(HostContext& context, HostStream& stream, Case const& wanted) {
    auto const width = shape.kv_heads * shape.key_dim;
    auto const copies = std::max<std::int64_t>(1, ceil_divide(rotated_bytes, wanted.bytes()));
    auto const per_copy = 2 * wanted.keys * width;
    std::vector<T> cache;
    cache.reserve(static_cast<std::size_t>(copies * per_copy));
    // As KvCache holds them.
    detail::prefer_huge_pages(cache.data(), copies * per_copy * static_cast<std::int64_t>(sizeof(T)));
    cache.resize(cache.capacity());
    std::vector<T> queries(static_cast<std::size_t>(wanted.queries * shape.heads * shape.key_dim));
    std::vector<T> out(queries.size());
    std::uint32_t state = 1;
    auto const fill = [&](std::vector<T>& values) {
        for (auto& value : values) {
            state = state * 1664525U + 1013904223U;
            value = T(static_cast<float>(state >> 8U) * 0x1p-23F - 1.0F);
        }
    };
    fill(cache);
    fill(queries);
    AttentionOptions const options{.shape = shape, .first_query = wanted.keys - wanted.queries};
    std::vector<float> workspace(static_cast<std::size_t>(attention_workspace(options, wanted.queries, wanted.keys)));
    std::int64_t turn = 0;
    bool is_done = true;
    bench::Contender ours{[&] {
                              auto const* const k = cache.data() + turn++ % copies * per_copy;
                              auto const done = attention<T, T>(
                                  {queries.data(), {wanted.queries, shape.heads * shape.key_dim}},
                                  {k, {wanted.keys, width}}, {k + wanted.keys * width, {wanted.keys, width}},
                                  {out.data(), {wanted.queries, shape.heads * shape.value_dim}}, options, stream,
                                  {workspace.data(), {static_cast<std::int64_t>(workspace.size())}});
                              is_done = is_done && done;
                          },
                          bench::waken(context)};
    std::vector<std::span<std::byte const>> pieces;
    for (std::int64_t i = 0; i < copies; ++i) {
        pieces.push_back(std::as_bytes(
            std::span(cache).subspan(static_cast<std::size_t>(i * per_copy), static_cast<std::size_t>(per_copy))));
    }
    bench::ReadProbe memory(context, pieces);
    auto reading = memory.contender();
    std::vector<bench::Contender*> racers{&ours};
    if (wanted.rate_goal > 0.0) racers.push_back(&reading);
    bench::race(racers, {5, seconds_per_case});
    return {is_done ? ours.time() : -1.0, wanted.rate_goal > 0.0 ? reading.time() : 0.0};
}

struct Peer {
    std::string version;
    std::vector<double> seconds;
    std::vector<std::string> forms;
};

/// torch's times; nothing where there is no Python with torch.
std::optional<Peer> ask_peer(std::vector<Case> const& cases, int threads) {
    char const* const python = std::getenv("SHARDWISE_PYTHON");
    if (python == nullptr || *python == '\0') return std::nullopt;
    std::string wanted = "[";
    for (auto const& one : cases) {
        wanted += std::string(wanted.size() > 1 ? "," : "") + "{\"queries\":" + std::to_string(one.queries) +
                  ",\"keys\":" + std::to_string(one.keys) + ",\"heads\":" + std::to_string(shape.heads) +
                  ",\"kv_heads\":" + std::to_string(shape.kv_heads) + ",\"head_dim\":" + std::to_string(shape.key_dim) +
                  ",\"dtype\":\"" + (one.is_bf16 ? "bfloat16" : "float32") +
                  "\",\"threads\":" + std::to_string(threads) + ",\"bytes\":" + std::to_string(rotated_bytes) +
                  ",\"seconds\":" + std::to_string(seconds_per_case) + "}";
    }
    auto const script = std::filesystem::path(__FILE__).parent_path() / "attention_peer.py";
    auto const command = "'" + std::string(python) + "' '" + script.string() + "' '" + wanted + "]' 2>/dev/null";
    std::string output;
    if (auto* const pipe = ::popen(command.c_str(), "r"); pipe != nullptr) {
        char buffer[4096];
        for (std::size_t got = 0; (got = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) output.append(buffer, got);
        if (::pclose(pipe) != 0) return std::nullopt;
    }
    Peer peer;
    for (std::size_t begin = 0; begin < output.size();) {
        auto const end = std::min(output.find('\n', begin), output.size());
        auto const document = parse_json(std::string_view{output}.substr(begin, end - begin));
        if (!document) return std::nullopt;
        auto const root = document->root();
        if (auto const version = root.find("version")) peer.version = std::string(version->string().value_or(""));
        if (auto const seconds = root.find("seconds")) {
            peer.seconds.push_back(seconds->real().value_or(0.0));
            auto const form = root.find("form");
            peer.forms.emplace_back(form ? form->string().value_or("") : "");
        }
        begin = end + 1;
    }
    if (peer.seconds.size() != cases.size()) return std::nullopt;
    return peer;
}

struct Report {
    bool is_json = false;
    bool is_everything_met = true;
    std::string rows;

    void add(std::string const& name, double ours, std::string const& peer, std::optional<double> theirs,
             std::string_view unit, double ratio, double goal) {
        bool const is_met = theirs && ratio >= goal;
        if (theirs && !is_met) is_everything_met = false;
        char row[512];
        char number[32] = "null";
        char quotient[32] = "null";
        if (theirs) {
            std::snprintf(number, sizeof number, "%.6g", *theirs);
            std::snprintf(quotient, sizeof quotient, "%.4g", ratio);
        }
        std::snprintf(row, sizeof row,
                      "%s{\"case\":\"%s\",\"ours\":%.6g,\"peer\":\"%s\",\"theirs\":%s,\"unit\":\"%.*s\",\"ratio\":%s,"
                      "\"goal\":%g,\"met\":%s}",
                      rows.empty() ? "" : ",", name.c_str(), ours, peer.c_str(), number, static_cast<int>(unit.size()),
                      unit.data(), quotient, goal,
                      !theirs  ? "null"
                      : is_met ? "true"
                               : "false");
        rows += row;
        if (is_json) return;
        std::printf("%-46s %10.4g %-5.*s %-34s %10s   ratio %s (goal %g)\n", name.c_str(), ours,
                    static_cast<int>(unit.size()), unit.data(), peer.c_str(), number, quotient, goal);
    }
};

}  // namespace

/// bench_attention [--json] [--levels all]
int main(int argc, char** argv) {
    bench::LevelArguments const arguments(argc, argv, false);
    Report report;
    report.is_json = arguments.is_json;
    // A process of its own runs the peer: before this thread is pinned.
    HostContext context({.is_pinned = true});
    if (!context.isa())
        return std::fprintf(stderr, "bench_attention: %s\n", context.isa().error().message().c_str()), 1;
    auto const threads = context.pool().size();
    std::vector<Case> const cases{
        {1, 4096, false, 0.85, 1.0}, {1, 32768, false, 0.85, 1.0}, {1, 4096, true, 0.7, 1.0},
        {1, 32768, true, 0.7, 1.0},  {512, 512, false, 0.0, 1.0},  {2048, 2048, false, 0.0, 1.0},
        {512, 512, true, 0.0, 1.0},
    };
    if (!report.is_json) {
        std::printf(
            "%d threads, %s; 32 heads, 8 key-value heads of 128; keys and values in turn from %lld MiB; a tenth of "
            "the calls of %.1f s were shorter\n",
            threads, std::string(name_of(*context.isa())).c_str(), static_cast<long long>(rotated_bytes >> 20U),
            seconds_per_case);
    }
    auto const peer = ask_peer(cases, threads);
    CorePin const pin(0);
    auto const best = *context.isa();
    for (auto const level : bench::shown_levels(best, arguments.shows_all)) {
        bool const is_best = level == best;
        for (std::size_t i = 0; i < cases.size(); ++i) {
            auto const& wanted = cases[i];
            // The longest ones would take minutes without vectors.
            if (level < IsaLevel::avx2 && !is_best && wanted.queries * wanted.keys > 512 * 512) continue;
            auto stream = HostStream(StreamMode::immediate, &context.pool(), level);
            auto const [seconds, reading] = wanted.is_bf16 ? time_case<Bfloat16>(context, stream, wanted)
                                                           : time_case<float>(context, stream, wanted);
            if (seconds < 0.0) return std::fprintf(stderr, "bench_attention: %s failed\n", wanted.name().c_str()), 1;
            auto const name = bench::at_level(wanted.name(), level, best);
            if (wanted.rate_goal > 0.0) {
                auto const bytes = static_cast<double>(wanted.bytes());
                report.add(name + ", of read rate", bytes / seconds * 1e-9, "read rate, in turns",
                           bytes / reading * 1e-9, "GB/s", reading / seconds, wanted.rate_goal);
            }
            auto const theirs = peer && is_best ? std::optional<double>{peer->seconds[i] * 1e3} : std::nullopt;
            report.add(name, seconds * 1e3, peer ? "torch " + peer->version + " sdpa, " + peer->forms[i] : "torch",
                       theirs, "ms", theirs ? *theirs / (seconds * 1e3) : 0.0, wanted.peer_goal);
        }
    }
    if (report.is_json) {
        std::printf("{\"schema\":\"shardwise.bench/1\",\"name\":\"attention\",\"rows\":[%s]}\n", report.rows.c_str());
    }
    return report.is_everything_met || report.is_json ? 0 : 1;
}
