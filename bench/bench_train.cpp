// SPDX-License-Identifier: Apache-2.0
// Training on the host against torch on the CPU, in turns: whole steps of two llamas, and the parts that take most of a step.
// SHARDWISE_PYTHON names a Python with torch. Ours are Deterministic: the same bits on any ranks and threads.

#include <shardwise/backend/host/products.hpp>
#include <shardwise/calibrate/memory_rates.hpp>
#include <shardwise/kernels/attention.hpp>
#include <shardwise/kernels/backward/attention.hpp>
#include <shardwise/kernels/backward/cross_entropy.hpp>
#include <shardwise/train/train_ranks.hpp>

#include "overlap.hpp"
#include "peer_process.hpp"
#include "pipelines.hpp"
#include "train_report.hpp"
#include "training.hpp"
#include "turns.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace {

using namespace shardwise;
using bench::race_peer;
using bench::Report;
using bench::stop;
using bench::take;
using bench::threads;
using bench::Training;

std::string job_of(std::string const& fields, int of_threads = threads) {
    return "{\"threads\":" + std::to_string(of_threads) + "," + fields + "}";
}

/// The shortest of some calls of what a stream then does.
double shortest(int calls, HostStream& stream, std::function<Result<>()> const& call) {
    double best = 1e30;
    for (int i = 0; i < calls; ++i) {
        best = std::min(best, bench::time_once([&] {
                            auto done = call();
                            if (done) done = stream.synchronize(Deadline::after(std::chrono::seconds(60)));
                            if (!done) stop(done.error().message());
                        }));
    }
    return best;
}

std::vector<float> some_values(std::int64_t count) {
    std::vector<float> values(static_cast<std::size_t>(count));
    std::uint32_t state = 1;
    for (auto& value : values) {
        state = state * 1664525U + 1013904223U;
        value = static_cast<float>(static_cast<std::int32_t>(state)) * 4.6566129e-10F;
    }
    return values;
}

std::string llama(std::int64_t width, std::int64_t ffn, std::int64_t heads, std::int64_t layers,
                  std::int64_t vocabulary, bool is_tied, std::int64_t context) {
    return R"({"model_type":"llama","architectures":["LlamaForCausalLM"],"hidden_act":"silu","rms_norm_eps":1e-05,)"
           R"("rope_theta":10000.0,"torch_dtype":"float32","tie_word_embeddings":)" +
           std::string(is_tied ? "true" : "false") + ",\"hidden_size\":" + std::to_string(width) +
           ",\"intermediate_size\":" + std::to_string(ffn) + ",\"num_attention_heads\":" + std::to_string(heads) +
           ",\"num_key_value_heads\":" + std::to_string(heads) + ",\"num_hidden_layers\":" + std::to_string(layers) +
           ",\"vocab_size\":" + std::to_string(vocabulary) + ",\"max_position_embeddings\":" + std::to_string(context) +
           "}";
}
struct StepCase {
    std::string name;
    std::string config;
    std::int64_t vocabulary;
    std::int64_t batch;
    std::int64_t context;
};
StepCase demo_case() {
    return {"step, demo model, 8 x 256", llama(128, 352, 4, 4, 1024, true, 256), 1024, 8, 256};
}

std::string step_job(StepCase const& one, int ranks, bool is_compiled) {
    return job_of("\"kind\":\"step\",\"config\":" + one.config + ",\"batch\":" + std::to_string(one.batch) +
                      ",\"context\":" + std::to_string(one.context) + ",\"ranks\":" + std::to_string(ranks) +
                      ",\"compiled\":" + (is_compiled ? "true" : "false"),
                  threads / ranks);
}
/// Ranks are threads of this process, or processes of one thread each.
void compare_steps(Report& report, StepCase const& one, std::int32_t ranks, int calls, int rounds, double goal,
                   bool is_processes = false) {
    Training const training(one.config, one.vocabulary, one.batch, one.context);
    auto const kind = is_processes ? " processes" : " threads";
    auto const name = one.name + (ranks > 1 ? ", dp " + std::to_string(ranks) + kind : "");
    race_peer(
        report, name, goal,
        [&](int some) { return is_processes ? training.step_in_processes(some, ranks) : training.step(some, ranks); },
        {{" eager", step_job(one, ranks, false)}, {" compiled", step_job(one, ranks, true)}}, calls, rounds);
}

/// Two ways of our own to take a step, in turns: `ours` is to be at least `goal` times as fast as `other`.
void compare_ways(Report& report, std::string const& name, std::function<double()> const& ours,
                  std::string const& other_name, std::function<double()> const& other, int rounds, double goal) {
    (void)ours();
    std::vector<double> own, others, ratios;
    for (int round = 0; round < rounds; ++round) {
        own.push_back(ours());
        others.push_back(other());
        ratios.push_back(others.back() / own.back());
    }
    for (auto* const values : {&own, &others, &ratios}) std::sort(values->begin(), values->end());
    auto const middle = static_cast<std::size_t>(rounds / 2);
    report.add(name, own[middle] * 1e3, other_name, others[middle] * 1e3, "ms", ratios[middle], goal);
}
/// Steps in fp32 and in bf16, that of the default first: which of both `--precision auto` had better be.
void compare_precisions(Report& report, StepCase const& one, int calls, int rounds) {
    Training const training(one.config, one.vocabulary, one.batch, one.context);
    auto const level = choose_isa();
    bool const is_bf16 = level && has_bf16_unit(*level);
    compare_ways(
        report, one.name + (is_bf16 ? ", auto (bf16)" : ", auto (fp32)"),
        [&] { return training.step(calls, 1, is_bf16 ? Dtype::bf16 : Dtype::f32); },
        is_bf16 ? "ours in fp32" : "ours in bf16",
        [&] { return training.step(calls, 1, is_bf16 ? Dtype::f32 : Dtype::bf16); }, rounds, 1.0);
}
/// What the same bits on any ranks cost.
void compare_fast(Report& report, StepCase const& one, std::int32_t ranks, int calls, int rounds) {
    Training const training(one.config, one.vocabulary, one.batch, one.context);
    compare_ways(
        report, one.name + (ranks > 1 ? ", dp " + std::to_string(ranks) : "") + ", Deterministic",
        [&] { return training.step(calls, ranks); }, "ours, Fast",
        [&] { return training.step(calls, ranks, Dtype::f32, true); }, rounds, 1.0 / 1.15);
}

/// A checkpoint of a model of 83 M parameters, which with both moments are 1 GB, beside eight steps: about as long as it is written. On a busy
/// machine there are fewer rounds.
void compare_checkpoint(Report& report) {
    auto const config = llama(768, 2048, 12, 10, 8192, false, 256);
    Training const training(config, 8192, 1, 256);
    bench::PeerProcess peer(__FILE__, "train_peer.py",
                            job_of("\"kind\":\"checkpoint\",\"config\":" + config + ",\"batch\":1,\"context\":256"));
    constexpr int rounds = 3;
    constexpr int steps = 8;
    auto const end = std::chrono::steady_clock::now() + std::chrono::seconds(40);
    std::vector<double> factor, total, their_factor, their_total;
    double bytes = 0.0;
    for (int round = 0; round < rounds && (round == 0 || std::chrono::steady_clock::now() < end); ++round) {
        auto const saved = training.save(steps);
        factor.push_back(saved.factor);
        total.push_back(saved.total);
        bytes = saved.bytes;
        auto const theirs = peer.ask(std::to_string(steps), std::array<std::string_view, 2>{"factor", "total"});
        if (theirs[0]) their_factor.push_back(*theirs[0]);
        if (theirs[1]) their_total.push_back(*theirs[1]);
    }
    auto const middle = [](std::vector<double> values) -> std::optional<double> {
        if (values.empty()) return std::nullopt;
        std::sort(values.begin(), values.end());
        return values[values.size() / 2];
    };
    char name[64];
    std::snprintf(name, sizeof name, "checkpoint of %.2f GB", bytes / 1e9);
    auto const of_peer = "torch " + peer.version() + " async_save";
    // The goal is ours alone: 5 % longer at most.
    report.add(std::string(name) + ", 8 steps beside it", *middle(factor), of_peer, middle(their_factor), "x",
               1.05 / *middle(factor), 1.0);
    auto const theirs = middle(their_total);
    report.add(std::string(name) + ", written", *middle(total), of_peer, theirs, "s",
               theirs.value_or(0.0) / *middle(total), 1.0);
}

/// The most that a process of ours takes which trains the demo model, and torch's; imports count, as they do for users.
void compare_memory(Report& report) {
    auto const one = demo_case();
    std::array<int, 2> from{};
    if (::pipe(from.data()) != 0) stop("no pipe");
    auto const child = ::fork();
    if (child == 0) {
        {
            Training const training(one.config, one.vocabulary, one.batch, one.context);
            (void)training.step(2, 1);
        }
        std::ifstream status("/proc/self/status");
        double peak = 0.0;
        for (std::string line; std::getline(status, line);) {
            if (line.starts_with("VmHWM:")) peak = std::strtod(line.c_str() + 6, nullptr) * 1024;
        }
        (void)!::write(from[1], &peak, sizeof peak);
        ::_exit(0);
    }
    double ours = 0.0;
    (void)!::read(from[0], &ours, sizeof ours);
    (void)::waitpid(child, nullptr, 0);
    bench::PeerProcess peer(__FILE__, "train_peer.py", step_job(one, 1, false));
    auto const theirs = peer.ask("2", "process");
    report.add("memory of the process, demo model", ours / 1e6, "torch " + peer.version(),
               theirs ? std::optional(*theirs / 1e6) : std::nullopt, "MB", theirs.value_or(0.0) / ours, 8.0);
}

void compare_adamw(Report& report, HostContext& context, HostStream& stream) {
    constexpr std::int64_t count = 50'000'000;
    auto weights = some_values(count);
    auto const gradients = some_values(count);
    auto optimizer = take(ShardedOptimizer<AdamW>::create(
        context, AdamW{}, {{"weights", {weights.data(), {count}}, true}}, TensorPlace{}));
    std::int64_t number = 0;
    auto const step = [&](int calls) {
        return shortest(calls, stream, [&]() -> Result<> {
            List<TensorView<float const, 1, Host>> const held{{gradients.data(), {count}}};
            return optimizer.step({.number = ++number, .learning_rate = 3e-4, .gradient_factor = 1.0}, held, stream);
        });
    };
    race_peer(report, "AdamW, 50 M elements", 1.0, step,
              {{" fused", job_of("\"kind\":\"adamw\",\"elements\":50000000")}}, 3, 5);
    // Four floats of each element are read and three are written; a copy reads and writes each byte.
    constexpr double bytes = 7.0 * sizeof(float) * static_cast<double>(count);
    compare_ways(
        report, "AdamW, 50 M elements, the memory it moves", [&] { return step(3); }, "copied by all threads",
        [&] { return bytes / 2.0 / take(measure_copy_rate(context, {})); }, 5, 0.8);
}

void compare_products(Report& report, HostStream& stream) {
    struct Shape {
        char const* name;
        std::int64_t m, n, k;
    };
    for (auto const& [name, m, n, k] : {Shape{"demo", 2048, 704, 128}, Shape{"d 512", 2048, 1408, 512}}) {
        auto const x = some_values(m * k), w = some_values(n * k), g = some_values(m * n);
        std::vector<float> out(static_cast<std::size_t>(std::max({m * n, m * k, n * k})));
        using View = TensorView<float const, 2, Host>;
        View const in(x.data(), {m, k}), weight(w.data(), {n, k}), gradient(g.data(), {m, n});
        std::vector<std::pair<char const*, std::function<Result<>()>>> const forms{
            {"NT",
             [&] {
                 return Host::gemm<float>(in, weight, {out.data(), {m, n}}, {.is_b_transposed = true}, stream);
             }},
            {"NN",
             [&] {
                 return Host::gemm<float>(gradient, weight, {out.data(), {m, k}}, {}, stream);
             }},
            {"TN", [&] {
                 return Host::gemm<float>(gradient, in, {out.data(), {n, k}}, {.is_a_transposed = true}, stream);
             }}};
        for (auto const& [form, call] : forms) {
            race_peer(
                report, std::string("product ") + form + ", " + name, 1.0,
                [&, &run = call](int calls) { return shortest(calls, stream, run); },
                {{"", job_of("\"kind\":\"product\",\"m\":" + std::to_string(m) + ",\"n\":" + std::to_string(n) +
                             ",\"k\":" + std::to_string(k) + ",\"form\":\"" + form + "\"")}},
                20, 5);
        }
    }
}

void compare_attention(Report& report, HostStream& stream) {
    constexpr std::int64_t tokens = 2048, heads = 8, width = 64;
    AttentionShape const shape{.heads = heads, .kv_heads = heads, .key_dim = width, .value_dim = width};
    AttentionOptions const options{.shape = shape};
    auto const q = some_values(tokens * heads * width), k = q, v = q, gradient = q;
    std::vector<float> out(q.size()), dq(q.size()), dk(q.size()), dv(q.size());
    std::vector<float> log_sums(static_cast<std::size_t>(tokens * heads));
    std::vector<float> workspace(static_cast<std::size_t>(attention_backward_workspace(shape, tokens, tokens)));
    auto const read = [](std::vector<float> const& from) {
        return TensorView<float const, 2, Host>{from.data(), {tokens, heads * width}};
    };
    auto const write = [](std::vector<float>& to) {
        return TensorView<float, 2, Host>{to.data(), {tokens, heads * width}};
    };
    TensorView<float, 2, Host> const sums{log_sums.data(), {tokens, heads}};
    auto const forward =
        attention<float, float>(read(q), read(k), read(v), write(out), options, stream, {}, {}, {}, sums);
    if (!forward) stop(forward.error().message());
    AttentionForward const in{read(q), read(k), read(v), read(out), {log_sums.data(), {tokens, heads}}, read(gradient)};
    AttentionGradients const to{write(dq), write(dk), write(dv)};
    race_peer(
        report, "attention backward, 8 heads of 64, 2,048", 1.2,
        [&](int calls) {
            return shortest(calls, stream, [&] {
                return attention_backward(in, to, options,
                                          {workspace.data(), {static_cast<std::int64_t>(workspace.size())}}, stream);
            });
        },
        {{" sdpa", job_of("\"kind\":\"attention\",\"tokens\":2048,\"heads\":8,\"kv_heads\":8,\"head_dim\":64")}}, 3, 5);
}

void compare_head(Report& report, HostStream& stream) {
    constexpr std::int64_t tokens = 1024, width = 512, vocabulary = 32000;
    auto const x = some_values(tokens * width), head = some_values(vocabulary * width);
    std::vector<std::int32_t> targets(tokens);
    for (std::size_t i = 0; i < targets.size(); ++i) targets[i] = static_cast<std::int32_t>(i * 31 % vocabulary);
    std::vector<float> loss(tokens), dx(x.size()), dhead(head.size());
    std::vector<float> workspace(static_cast<std::size_t>(head_cross_entropy_workspace(tokens, vocabulary)));
    HeadLoss const in{.in = {x.data(), {tokens, width}},
                      .head = {head.data(), {vocabulary, width}},
                      .targets = {targets.data(), {tokens}}};
    HeadLossGradients const to{.loss = {loss.data(), {tokens}},
                               .in = {dx.data(), {tokens, width}},
                               .head = {dhead.data(), {vocabulary, width}}};
    race_peer(
        report, "head and cross entropy, 32,000 ids", 1.0,
        [&](int calls) {
            return shortest(calls, stream, [&] {
                return head_cross_entropy(in, to, {}, {workspace.data(), {static_cast<std::int64_t>(workspace.size())}},
                                          stream);
            });
        },
        {{"", job_of("\"kind\":\"head\",\"tokens\":1024,\"hidden\":512,\"vocabulary\":32000")}}, 2, 3);
    bench::PeerProcess peer(__FILE__, "train_peer.py",
                            job_of("\"kind\":\"head\",\"tokens\":1024,\"hidden\":512,\"vocabulary\":32000"));
    auto const peak = peer.ask("2", "peak");
    // What is neither an input nor a result.
    auto const given = static_cast<double>(2 * (x.size() + head.size()) * sizeof(float));
    auto const ours = static_cast<double>(workspace.size() * sizeof(float));
    report.add("memory of head and cross entropy", ours / 1e6, "torch " + peer.version(),
               peak ? std::optional((*peak - given) / 1e6) : std::nullopt, "MB", peak ? (*peak - given) / ours : 0.0,
               8.0);
}

}  // namespace

/// bench_train [--json] [memory|demo|d512|dp|dp-processes|fast|overlap|pipelines|precision|checkpoint|parts]
int main(int argc, char** argv) {
    Report report;
    std::string_view only;
    for (int i = 1; i < argc; ++i) {
        if (std::string_view{argv[i]} == "--json")
            report.is_json = true;
        else
            only = argv[i];
    }
    auto const is_asked = [only](std::string_view name) { return only.empty() || only == name; };
    // Before this process has threads.
    if (is_asked("memory")) compare_memory(report);
    if (is_asked("demo")) compare_steps(report, demo_case(), 1, 5, 5, 1.1);
    StepCase const large{"step, d 512, 8 layers, 4 x 512", llama(512, 1408, 8, 8, 8192, false, 512), 8192, 4, 512};
    if (is_asked("d512")) compare_steps(report, large, 1, 1, 3, 1.1);
    if (is_asked("dp")) compare_steps(report, demo_case(), 2, 5, 5, 1.35);
    if (is_asked("dp-processes")) compare_steps(report, demo_case(), 2, 5, 5, 1.35, true);
    if (is_asked("fast")) {
        compare_fast(report, demo_case(), 1, 5, 7);
        compare_fast(report, large, 1, 1, 5);
        compare_fast(report, demo_case(), 2, 5, 7);
    }
    if (is_asked("overlap")) {
        auto const one = demo_case();
        Training const training(one.config, one.vocabulary, one.batch, one.context);
        using std::chrono::microseconds;
        for (auto const latency : {microseconds(100), microseconds(500)}) {
            bench::compare_overlap(report, training, {"demo model", ZeroStage::none, 1, latency});
            bench::compare_overlap(report, training, {"demo model, zero 2", ZeroStage::gradients, 1, latency});
            bench::compare_overlap(report, training,
                                   {"demo model, zero 2, 3 sequences", ZeroStage::gradients, 3, latency});
        }
        Training const of_large(large.config, large.vocabulary, large.batch, large.context);
        for (auto const latency : {microseconds(100), microseconds(500)}) {
            bench::compare_overlap(report, of_large, {"d 512", ZeroStage::none, 1, latency, 1, 3});
            bench::compare_overlap(report, of_large, {"d 512, zero 2", ZeroStage::gradients, 1, latency, 1, 3});
        }
    }
    if (is_asked("pipelines")) {
        auto const one = demo_case();
        Training const demo(one.config, one.vocabulary, one.batch, one.context);
        bench::compare_pipelines(report, one.name, demo, one.batch, 5, 7);
        Training const wide(large.config, large.vocabulary, large.batch, large.context);
        bench::compare_pipelines(report, large.name, wide, large.batch, 1, 3);
    }
    if (is_asked("precision")) {
        compare_precisions(report, demo_case(), 5, 5);
        compare_precisions(report, large, 1, 3);
    }
    if (is_asked("checkpoint")) compare_checkpoint(report);
    if (is_asked("parts")) {
        HostContext context({.threads = threads});
        auto stream = context.make_stream();
        compare_adamw(report, context, stream);
        compare_products(report, stream);
        compare_attention(report, stream);
        compare_head(report, stream);
    }
    if (report.is_json)
        std::printf("{\"schema\":\"shardwise.bench/1\",\"name\":\"train\",\"rows\":[%s]}\n", report.rows.c_str());
    return report.is_everything_met || report.is_json ? 0 : 1;
}
