// SPDX-License-Identifier: Apache-2.0
// Tensor-parallel layers alone: your weights, your threads, no model file and no runtime. Each rank holds its share of an MLP, and the
// ranks meet once per call, in the sum after the second layer.
#include <shardwise/comm/threads.hpp>
#include <shardwise/kernels/activation.hpp>
#include <shardwise/parallel/tensor_parallel.hpp>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <span>
#include <vector>

namespace {

using namespace shardwise;

constexpr std::int64_t tokens = 3;
constexpr std::int64_t hidden = 64;
// A width that no number of ranks in this example divides.
constexpr std::int64_t ffn = 1021;

std::vector<float> made_up(std::int64_t count, float step) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = 0.1F * std::sin(step * static_cast<float>(i + 1));
    return values;
}

/// A weight as a checkpoint stores it: [outputs, inputs].
WeightSource as_weight(std::vector<float> const& values, std::int64_t outputs, std::int64_t inputs) {
    WeightSource weight;
    weight.outputs = outputs;
    weight.inputs = inputs;
    weight.data = std::as_bytes(std::span(values));
    return weight;
}

auto const input = made_up(tokens * hidden, 0.7F);
auto const gate_and_up = made_up(2 * ffn * hidden, 1.3F);
auto const down = made_up(hidden * ffn, 2.1F);

struct Answer {
    std::vector<float> values;
    std::int64_t bytes = 0;
};

/// The MLP over `ranks` threads; what each of them ends with.
template <class Policy>
Result<std::vector<Answer>> run(std::int32_t ranks) {
    std::vector<Answer> answers(static_cast<std::size_t>(ranks));
    auto const done = run_threads(ranks, [&](Threads& comm) -> Result<> {
        HostContext context({.threads = 1});
        auto stream = context.make_stream();

        // Cutting is done here: the rank keeps its rows of the first weight and its columns of the second.
        TensorParallel<Host, Policy> const group(context, comm);
        auto const second_weight = as_weight(down, hidden, ffn);
        auto const pieces = group.ffn_pieces(ffn, second_weight);
        auto const first = group.packed_gate_up(as_weight(gate_and_up, 2 * ffn, hidden), pieces);
        if (!first) return first.error();
        auto const second = group.row_linear(second_weight, pieces);
        if (!second) return second.error();

        auto& answer = answers[static_cast<std::size_t>(comm.rank())];
        answer.bytes = (first->bytes() + second->bytes()).count();
        answer.values.resize(tokens * hidden);
        // The rank's gates, then what they multiply: down(silu(gate) * up).
        std::vector<float> between(static_cast<std::size_t>(tokens * first->outputs()));
        TensorView<float, 2, Host> const made(between.data(), {tokens, first->outputs()});
        auto const gate = made.columns(0, second->inputs());
        TensorView<float const, 2, Host> const up = made.columns(second->inputs(), second->inputs());
        auto const multiplied = first->forward({input.data(), {tokens, hidden}}, made, stream);
        if (!multiplied) return multiplied;
        TensorView<float const, 2, Host> const gates = gate;
        auto const activated = gated_activation(gates, up, gate, ActivationKind::silu, stream);
        if (!activated) return activated;

        std::vector<float> workspace(static_cast<std::size_t>(second->workspace(tokens)));
        auto const size = static_cast<std::int64_t>(workspace.size());
        auto const ran =
            second->forward(gates, {answer.values.data(), {tokens, hidden}}, {workspace.data(), {size}}, comm, stream);
        if (!ran) return ran;
        // The sum over the ranks is work in the stream like any other: here is where it must have happened.
        return stream.synchronize(Deadline::after(std::chrono::seconds(10)));
    });
    if (!done) return done.error();
    return answers;
}

double largest_difference(std::vector<float> const& a, std::vector<float> const& b) {
    double largest = 0.0;
    for (std::size_t i = 0; i < a.size(); ++i)
        largest = std::fmax(largest, std::fabs(static_cast<double>(a[i] - b[i])));
    return largest;
}

}  // namespace

int main() {
    auto const alone = run<Deterministic>(1);
    if (!alone) return std::puts(alone.error().message().c_str()), 1;
    for (std::int32_t const ranks : {2, 3, 4}) {
        auto const fast = run<Fast>(ranks);
        auto const fixed = run<Deterministic>(ranks);
        if (!fast || !fixed) return 1;
        std::int64_t most = 0;
        bool has_same_bits = true;
        for (auto const& each : *fixed) {
            most = each.bytes > most ? each.bytes : most;
            has_same_bits = has_same_bits && each.values == alone->front().values;
        }
        std::printf("%d ranks hold at most %.0f %% each; %s; %s\n", static_cast<int>(ranks),
                    100.0 * static_cast<double>(most) / static_cast<double>(alone->front().bytes),
                    largest_difference(fast->front().values, alone->front().values) < 1e-6 ? "Fast is equal to rounding"
                                                                                           : "Fast differs",
                    has_same_bits ? "Deterministic has the same bits" : "Deterministic differs");
    }

    // Attention is cut by heads: what cannot be cut is said before anything is loaded.
    HostContext context;
    TensorParallel<Host> const group(context, TensorPlace{.ranks = 16, .rank = 0});
    auto const heads = group.heads(9, 3, head_pieces(9, 64));
    std::puts(heads ? "16 ranks have heads" : heads.error().message().c_str());
}
