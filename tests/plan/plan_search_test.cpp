// SPDX-License-Identifier: Apache-2.0
#include <shardwise/hardware/presets.hpp>
#include <shardwise/hardware/spec.hpp>
#include <shardwise/model/architectures.hpp>
#include <shardwise/model/presets.hpp>
#include <shardwise/plan/plan_parallel.hpp>

#include <doctest/doctest.h>

#include "plan_oracle.hpp"

#include <random>

using namespace shardwise;

namespace {

/// Small models, clusters and requests, the same ones every time.
class RandomCases {
public:
    explicit RandomCases(std::uint32_t seed) : random_(seed) {}

    std::int64_t from(std::int64_t low, std::int64_t high) {
        return low + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(high - low + 1));
    }

    ModelConfig config() {
        ModelConfig config;
        constexpr std::string_view families[] = {"llama", "gpt2", "mixtral", "gemma2"};
        config.model_type = families[from(0, 3)];
        config.heads = from(1, 5);
        config.head_dim = 16 * from(1, 3);
        config.hidden_size = config.heads * config.head_dim;
        config.kv_heads = config.heads % 2 == 0 && from(0, 1) == 1 ? config.heads / 2 : config.heads;
        config.intermediate_size = 8 * from(2, 200);
        config.layers = from(1, 4);
        config.vocab_size = from(50, 20000);
        config.max_positions = 2048;
        config.dtype = Dtype::bf16;
        config.tie_word_embeddings = from(0, 1) == 1;
        if (config.model_type == "mixtral") {
            config.experts = from(2, 4);
            config.experts_per_token = from(1, 2);
        }
        if (config.model_type == "gemma2") config.sliding_window = 64;
        return config;
    }

    /// As a description that `calibrate` wrote says it: faster or slower than others of its name.
    void measure(Device& device) {
        auto const share = [&] { return static_cast<double>(from(1, 12)) / 10.0; };
        device.measured.products.bf16 = device.peak.bf16 * share();
        device.measured.products.fp32 = device.peak.fp32 * share();
        device.measured.bandwidth = device.bandwidth * share();
        if (from(0, 1) == 0) device.measured.one_row.bf16 = device.bandwidth * share();
        if (from(0, 2) == 0) device.measured.launch = 1e-5;
        if (from(0, 2) == 0) device.kind = DeviceKind::cpu;
        device.link.is_measured = from(0, 1) == 0;
    }

    /// What processors' ranks share: their sums take other messages and bytes than those over links.
    Link shared_memory() {
        return {LinkType::memory_bus, 1e9 * static_cast<double>(from(1, 40)), 1e-6 * static_cast<double>(from(1, 20))};
    }

    Topology topology(Bytes model) {
        constexpr std::string_view names[] = {"H100-80GB", "RTX4090", "A100-40GB", "T4"};
        auto const count = from(1, 5);
        auto const per_node = from(1, 4);
        bool const is_mixed = from(0, 2) == 0;
        auto device = *find_device_preset(names[from(0, 3)]);
        Topology topology;
        // Memory for the runtime, and for between a tenth and twice of the model.
        auto const capacity = [&] { return 512_MiB + Bytes{model.count() * from(1, 20) / 10}; };
        // Half of the machines have limits, the others memories that plans use a share of.
        bool const is_whole = from(0, 1) == 0;
        auto const fill = [&] {
            device.memory = capacity();
            device.is_whole_memory = is_whole;
        };
        fill();
        if (from(0, 3) == 0) device.link = shared_memory();
        for (std::int64_t i = 0; i < count; ++i) {
            if (is_mixed && from(0, 1) == 1) {
                device = *find_device_preset(names[from(0, 3)]);
                fill();
                if (from(0, 3) == 0) device.link = shared_memory();
                if (from(0, 2) == 0) measure(device);
            }
            device.id = DeviceId::gpu(static_cast<std::int32_t>(i));
            device.node = static_cast<std::int32_t>(i / per_node);
            topology.devices.push_back(device);
        }
        if (count > 2 && from(0, 3) == 0) topology.links.push_back({0, 2, {LinkType::nvlink, 100e9, 4e-6}});
        return topology;
    }

    PlanRequest request() {
        PlanRequest request;
        request.estimate.batch = from(1, 6);
        request.estimate.context = 32 * from(1, 16);
        // From chunks of a few tokens to more than any batch has.
        request.estimate.prefill_chunk = std::int64_t{1} << from(2, 12);
        request.objective = static_cast<PlanObjective>(from(0, 2));
        if (from(0, 1) == 0) return request;
        request.estimate.training = TrainingPlan{.recompute = static_cast<Recompute>(from(0, 2))};
        request.estimate.parallel.sequence_parallel = from(0, 1) == 1;
        request.is_recompute_fixed = from(0, 1) == 1;
        request.is_sequence_parallel_fixed = from(0, 2) > 0;
        return request;
    }

private:
    std::mt19937 random_;
};

/// The best of all ways that the request leaves open, each tried by itself.
std::optional<testing::TriedPlan> best_tried(Model const& model, Topology const& topology, PlanRequest const& request) {
    std::optional<testing::TriedPlan> best;
    for (auto const recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
        for (bool const is_sequence_parallel : {false, true}) {
            auto own = request;
            if (request.estimate.training) {
                bool const is_other = recompute != request.estimate.training->recompute;
                if (is_other && request.is_recompute_fixed) continue;
                own.estimate.training->recompute = recompute;
            } else if (recompute != Recompute::none) {
                continue;
            }
            bool const is_asked = is_sequence_parallel == request.estimate.parallel.sequence_parallel;
            if (!is_asked && (!request.estimate.training || request.is_sequence_parallel_fixed)) continue;
            own.estimate.parallel.sequence_parallel = is_sequence_parallel;
            auto const found = testing::PlanOracle({model, topology, own}).best();
            if (!found) continue;
            auto const ranks = found->degrees.ranks();
            bool const is_fewer = request.objective == PlanObjective::devices && best && ranks != best->degrees.ranks();
            if (!best || (is_fewer ? ranks < best->degrees.ranks() : found->seconds < best->seconds)) best = found;
        }
    }
    return best;
}

/// How many of so many random jobs have a plan; each is checked against all that can be tried.
int check_cases(std::uint32_t seed, int count) {
    RandomCases cases(seed);
    int planned = 0;
    for (int i = 0; i < count; ++i) {
        CAPTURE(i);
        auto const model = describe(cases.config());
        if (!model) continue;
        auto const request = cases.request();
        auto const size = estimate_memory(*model, request.estimate)->total - 512_MiB;
        auto const topology = cases.topology(size);
        auto const expected = best_tried(*model, topology, request);
        auto const plan = plan_parallel(*model, topology, request);
        REQUIRE(plan.has_value() == expected.has_value());
        if (!plan) {
            CHECK(plan.error().code() == ErrorCode::out_of_memory);
            continue;
        }
        ++planned;
        CAPTURE(expected->degrees.tp);
        CAPTURE(expected->degrees.pp);
        CAPTURE(expected->degrees.dp);
        CAPTURE(expected->degrees.ep);
        CAPTURE(expected->degrees.zero);
        CAPTURE(expected->degrees.micro_batches);
        CAPTURE(plan->degrees.tp);
        CAPTURE(plan->degrees.pp);
        CAPTURE(plan->degrees.dp);
        CAPTURE(plan->degrees.ep);
        CAPTURE(plan->degrees.zero);
        CAPTURE(plan->degrees.micro_batches);
        if (request.objective == PlanObjective::devices) CHECK(plan->degrees.ranks() == expected->degrees.ranks());
        CHECK(plan->cost.step.total() == doctest::Approx(expected->seconds).epsilon(1e-12));

        std::vector<std::int64_t> begins;
        for (auto const& stage : plan->stages) begins.push_back(stage.first_layer);
        begins.push_back(plan->stages.back().first_layer + plan->stages.back().layer_count);
        auto chosen = request;
        if (chosen.estimate.training) chosen.estimate.training->recompute = plan->recompute;
        chosen.estimate.parallel.sequence_parallel = plan->is_sequence_parallel;
        testing::PlanOracle const oracle({*model, topology, chosen});
        auto const memory = oracle.estimate(plan->degrees, begins);
        REQUIRE(plan->ranks.size() == memory.devices.size());
        for (auto const& device : memory.devices) {
            auto const found = std::find_if(plan->ranks.begin(), plan->ranks.end(),
                                            [&](PlanRank const& rank) { return rank.place == device.place; });
            REQUIRE(found != plan->ranks.end());
            auto expected_terms = device.terms;
            expected_terms.overhead += oracle.runtime_of(topology.devices[static_cast<std::size_t>(found->device)]);
            CHECK(found->terms == expected_terms);
            CHECK(found->terms.total() <=
                  topology.devices[static_cast<std::size_t>(found->device)].usable(default_utilization));
        }
    }
    return planned;
}

/// What an even plan is, told anew.
bool is_even_by_rule(ModelConfig const& config, PlanDegrees const& degrees) {
    if (config.heads % degrees.tp != 0) return false;
    if (config.kv_heads % degrees.tp != 0 && degrees.tp % config.kv_heads != 0) return false;
    return config.experts == 0 || config.experts % degrees.ep == 0;
}

/// Holds a search with pins to the best of all that was tried and that has them.
void check_pinned(Model const& model, Topology const& topology, PlanRequest const& request,
                  std::vector<testing::TriedPlan> const& each) {
    auto const& pins = request.pins;
    auto const expected = testing::PlanOracle::best_of(each, request, [&](PlanDegrees const& degrees) {
        if (pins.tp.value_or(degrees.tp) != degrees.tp || pins.pp.value_or(degrees.pp) != degrees.pp) return false;
        if (pins.dp.value_or(degrees.dp) != degrees.dp || pins.ep.value_or(degrees.ep) != degrees.ep) return false;
        bool const is_usual_zero = degrees.zero == 0 || degrees.dp > 1;
        if (pins.zero ? *pins.zero != degrees.zero : !is_usual_zero) return false;
        if (request.is_even && !is_even_by_rule(model.config, degrees)) return false;
        if (pins.micro_batches) return *pins.micro_batches == degrees.micro_batches;
        return testing::PlanOracle::usual_pieces(request, degrees).count(degrees.micro_batches) > 0;
    });
    CAPTURE(pins.tp.value_or(0));
    CAPTURE(pins.pp.value_or(0));
    CAPTURE(pins.dp.value_or(0));
    CAPTURE(pins.ep.value_or(0));
    CAPTURE(pins.zero.value_or(-1));
    CAPTURE(pins.micro_batches.value_or(0));
    CAPTURE(request.is_even);
    PlanSearch search(model, topology, request);
    auto const cuts = search.run();
    auto const* const found = detail::best_cut(cuts, request.objective);
    REQUIRE((found != nullptr) == expected.has_value());
    CHECK(find_closest_cut(search).fits() == expected.has_value());
    CHECK((has_cut(search) == expected.has_value()));
    if (found == nullptr) return;
    auto const& degrees = found->degrees;
    if (request.objective == PlanObjective::devices) CHECK(degrees.ranks() == expected->degrees.ranks());
    CHECK(found->cost.step.total() == doctest::Approx(expected->seconds).epsilon(1e-12));
    CHECK(pins.tp.value_or(degrees.tp) == degrees.tp);
    CHECK(pins.pp.value_or(degrees.pp) == degrees.pp);
    CHECK(pins.dp.value_or(degrees.dp) == degrees.dp);
    CHECK(pins.ep.value_or(degrees.ep) == degrees.ep);
    CHECK(pins.zero.value_or(degrees.zero) == degrees.zero);
    CHECK(pins.micro_batches.value_or(degrees.micro_batches) == degrees.micro_batches);
    for (auto const& cut : cuts) {
        if (cut.is_found && request.is_even) CHECK(is_even_by_rule(model.config, cut.degrees));
    }
}

/// Calls `visit` with the request with every combination of pins that is legal, or with every so-many-th.
template <class Visit>
int for_each_pins(Model const& model, std::int64_t layers, Topology const& topology, PlanRequest request, int every,
                  Visit const& visit) {
    auto const devices = static_cast<std::int64_t>(topology.accelerators().size());
    auto const pin = [](std::int64_t degree) {
        return degree > 0 ? Optional<std::int64_t>{degree} : Optional<std::int64_t>{};
    };
    int count = 0;
    auto const stages = request.estimate.training ? 3 : 0;
    for (std::int64_t tp = 0; tp <= std::min(devices, model.config.heads); ++tp)
        for (std::int64_t pp = 0; pp <= std::min(devices, layers); ++pp)
            for (std::int64_t dp = 0; dp <= std::min(devices, request.estimate.batch); ++dp)
                for (std::int64_t ep = 0; ep <= std::min(devices, std::max<std::int64_t>(1, model.config.experts));
                     ++ep)
                    for (std::int32_t zero = -1; zero <= stages; ++zero)
                        for (std::int64_t micro_batches = 0; micro_batches <= request.estimate.batch; ++micro_batches)
                            for (bool const is_even : {false, true}) {
                                request.pins = {pin(tp), pin(pp), pin(dp), pin(ep), {}, pin(micro_batches)};
                                if (zero >= 0) request.pins.zero = zero;
                                request.is_even = is_even;
                                if (!check_pins(request, {model.config, layers, devices, {}})) continue;
                                if (count++ % every == 0) visit(request);
                            }
    return count;
}

/// How many legal combinations of pins so many random jobs have; every so-many-th is checked against all that can be tried.
int check_pins_of_cases(std::uint32_t seed, int count, int every) {
    RandomCases cases(seed);
    int combinations = 0;
    for (int i = 0; i < count; ++i) {
        CAPTURE(i);
        auto const model = describe(cases.config());
        if (!model) continue;
        auto request = cases.request();
        request.is_recompute_fixed = request.is_sequence_parallel_fixed = true;
        auto const topology = cases.topology(estimate_memory(*model, request.estimate)->total - 512_MiB);
        auto const each = testing::PlanOracle({*model, topology, request}).best_of_each();
        auto const layers = find_parts(*model, false).layers;
        combinations += for_each_pins(*model, layers, topology, request, every,
                                      [&](PlanRequest const& own) { check_pinned(*model, topology, own, each); });
    }
    return combinations;
}

}  // namespace

TEST_CASE("plan: with any legal pins, even degrees or both nothing that has them is better than the search") {
    // A prime, so that every pin has its turn.
    CHECK(check_pins_of_cases(7, 60, 13) > 5000);
}

TEST_CASE("plan: an encoder's step reads whole sequences, and is cut as well as it can be") {
    auto config = presets::bert_base;
    config.layers = 3;
    auto const model = describe(config);
    REQUIRE(model);
    for (std::int64_t const batch : {1, 5}) {
        for (std::string_view const devices : {"4xT4", "2x(2xT4)", "3xA100-80GB"}) {
            CAPTURE(devices);
            auto const topology = parse_topology(devices);
            REQUIRE(topology);
            PlanRequest const request{.estimate = {.batch = batch, .context = 512}};
            auto const expected = testing::PlanOracle({*model, *topology, request}).best();
            auto const plan = plan_parallel(*model, *topology, request);
            REQUIRE(plan);
            REQUIRE(expected);
            CHECK(plan->cost.step.total() == doctest::Approx(expected->seconds).epsilon(1e-12));
            CHECK(plan->cost.prefill.total() == 0.0);
            CHECK(plan->cost.tokens_per_second ==
                  doctest::Approx(static_cast<double>(batch) * 512.0 / plan->cost.step.total()).epsilon(1e-12));
        }
    }
}

TEST_CASE("plan: a batch that no rank could count by itself is split over ranks that can") {
    auto const model = describe(presets::llama_3_8b);
    REQUIRE(model);
    auto const topology = parse_topology("16x(8xH100-80GB)");
    REQUIRE(topology);
    PlanRequest request{.estimate = {.batch = 32768, .context = 8192, .training = TrainingPlan{}}};
    auto const whole = check_sizes(*model, request.estimate);
    REQUIRE_FALSE(whole);
    CHECK(whole.error().code() == ErrorCode::size_overflow);
    auto const plan = plan_parallel(*model, *topology, request);
    REQUIRE(plan);
    auto const& degrees = plan->degrees;
    auto rank = request.estimate;
    rank.batch = rank_batch(rank.batch, degrees);
    CHECK(check_sizes(*model, rank));
    rank.parallel = {.tp = degrees.tp,
                     .pp = degrees.pp,
                     .ep = degrees.ep,
                     .dp = degrees.dp,
                     .sequence_parallel = plan->is_sequence_parallel};
    rank.training->recompute = plan->recompute;
    rank.micro_batches = degrees.micro_batches;
    rank.training->zero = degrees.zero;
    auto const estimate = estimate_memory(*model, rank);
    REQUIRE(estimate);
    Bytes most{};
    for (auto const& given : plan->ranks) most = std::max(most, given.terms.total());
    CHECK(most > 0_B);
    if (degrees.pp == 1) CHECK(most == estimate->largest_device().total());

    auto const few = parse_topology("4xH100-80GB");
    REQUIRE(few);
    request.estimate.batch = 262144;
    auto const refused = plan_parallel(*model, *few, request);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code() == ErrorCode::size_overflow);
}

TEST_CASE("plan: no degrees, micro-batches, stages, layouts that fit are better than the plan, whatever is asked for") {
    CHECK(check_cases(1, 400) > 200);
}

TEST_SUITE("long") {
    TEST_CASE("plan: the same with every combination of pins") {
        CHECK(check_pins_of_cases(8, 60, 1) > 5000);
    }
    TEST_CASE("plan: the same for thousands of jobs") {
        CHECK(check_cases(2, 3000) > 1500);
    }
}
