// SPDX-License-Identifier: Apache-2.0
// How should a model be cut over a cluster, and why like that?
#include <shardwise/hardware/spec.hpp>
#include <shardwise/plan/plan_parallel.hpp>
#include <shardwise/shardwise.hpp>

#include <cstdio>

namespace {

void print(char const* what, shardwise::ParallelPlan const& plan) {
    using namespace shardwise;
    auto const& cut = plan.degrees;
    std::printf("-- %s\n", what);
    std::printf("tensor parallel %lld, pipeline %lld, data %lld, expert %lld\n", static_cast<long long>(cut.tp),
                static_cast<long long>(cut.pp), static_cast<long long>(cut.dp), static_cast<long long>(cut.ep));
    for (auto const& reason : plan.reasons) std::printf("- %s\n", reason.c_str());
    for (auto const& stage : plan.stages) {
        std::printf("stage of layers %lld to %lld\n", static_cast<long long>(stage.first_layer),
                    static_cast<long long>(stage.first_layer + stage.layer_count - 1));
    }
    auto const& first = plan.ranks.front();
    std::printf("%zu ranks; the first holds %s, of which weights %s\n", plan.ranks.size(),
                to_text(first.terms.total()).c_str(), to_text(first.terms.weights).c_str());
    // Every term of the cost model has a name; the largest says what to buy next.
    auto terms = CostTerms::cost_term_names();
    auto const* largest = &terms[0];
    for (auto const& term : terms) {
        if (plan.cost.step.*term.term > plan.cost.step.*largest->term) largest = &term;
    }
    std::printf("most of a token's time goes to: %s\n", std::string(largest->name).c_str());
    auto const& second = plan.alternatives.front();
    std::printf("runner-up: tp %lld, pp %lld, dp %lld\n", static_cast<long long>(second.degrees.tp),
                static_cast<long long>(second.degrees.pp), static_cast<long long>(second.degrees.dp));
}

}  // namespace

int main() {
    using namespace shardwise;

    auto const model = describe(presets::llama_3_70b);
    // Two nodes of eight GPUs: within a node they talk over NVLink, between nodes over the network.
    auto const cluster = parse_topology("2x(8xA100-80GB)");
    if (!model || !cluster) return 1;

    PlanRequest request;
    request.estimate = {.batch = 64, .context = 4096};
    for (auto const objective : {PlanObjective::latency, PlanObjective::devices}) {
        request.objective = objective;
        auto const plan = plan_parallel(*model, *cluster, request);
        if (!plan) return std::puts(plan.error().message().c_str()), 1;
        print(std::string(name_of(objective)).c_str(), *plan);
    }

    // What cannot be cut so that it fits is an error that says how far it is from fitting.
    request.estimate.context = 1'000'000;
    auto const none = plan_parallel(*model, *cluster, request);
    std::printf("-- a context of a million tokens\n%s\n", none ? "fits" : none.error().message().c_str());
}
