// SPDX-License-Identifier: Apache-2.0
#include <shardwise/placement/fixes.hpp>
#include <shardwise/plan/closest_cut.hpp>
#include <shardwise/plan/plan_parallel.hpp>

#include "map_answer.hpp"
#include "plan_answer.hpp"
#include "text.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace shardwise::cli {

namespace {

/// Contexts are tried in steps of this part of what was asked for.
constexpr std::int64_t context_steps = 64;
/// Clusters larger than this are no fix.
constexpr std::int64_t max_devices = 1024;
/// Nor are clusters so many times as large.
constexpr std::int64_t max_growth = 64;

/// A node of at least this many devices is full: more devices come as more nodes.
constexpr std::size_t full_node = 8;

/// The accelerators that are added together: the last node's where nodes are full or several, else the last one.
[[nodiscard]] std::size_t devices_added_together(std::span<Device const> accelerators) {
    if (accelerators.empty()) return 0;
    auto const node = accelerators.back().node;
    std::size_t count = 0;
    while (count < accelerators.size() && accelerators[accelerators.size() - 1 - count].node == node) ++count;
    return count >= full_node || count < accelerators.size() ? count : 1;
}

/// The topology with `groups` copies of its last `count` accelerators, in nodes of their own where they are a node.
[[nodiscard]] Topology with_more(Topology const& topology, std::size_t count, std::int64_t groups) {
    auto const accelerators = topology.accelerators();
    bool const is_node = count > 1 || accelerators.back().node > 0;
    Topology more;
    more.devices.append(accelerators.data(), accelerators.data() + accelerators.size());
    auto node = accelerators.back().node;
    for (std::int64_t group = 0; group < groups; ++group) {
        node += is_node ? 1 : 0;
        for (auto i = accelerators.size() - count; i < accelerators.size(); ++i) {
            auto device = accelerators[i];
            device.node = node;
            device.id.index = static_cast<std::int32_t>(more.devices.size());
            more.devices.push_back(device);
        }
    }
    auto const added = static_cast<std::int32_t>(more.devices.size() - accelerators.size());
    for (auto i = accelerators.size(); i < topology.devices.size(); ++i) more.devices.push_back(topology.devices[i]);
    for (auto link : topology.links) {
        for (auto* end : {&link.first, &link.second}) {
            if (static_cast<std::size_t>(*end) >= accelerators.size()) *end += added;
        }
        more.links.push_back(link);
    }
    return more;
}

class PlanFixSearch {
public:
    explicit PlanFixSearch(PlanAnswer const& answer) : answer_(answer), model_(answer.model()) {}

    std::vector<PlanFix> run() {
        try_pins();
        bool const is_training = answer_.request.estimate.training.has_value();
        if (is_training) try_training();
        if (!is_training) try_cache(), try_dtype(), try_quant(8);
        try_batch();
        try_context();
        if (!is_training) try_quant(1);
        try_devices();
        return std::move(fixes_);
    }

private:
    [[nodiscard]] bool fits_on(Topology const& topology, PlanRequest const& request) const {
        return has_plan(model_, topology, request);
    }
    [[nodiscard]] bool fits(PlanRequest const& request) const { return fits_on(answer_.topology, request); }

    /// Another degree in place of a pinned one, which the search finds.
    template <class Pin, class Degree>
    void try_pin(std::string_view name, Optional<Pin> PlanPins::*pin, Degree PlanDegrees::*degree) {
        auto changed = answer_.request;
        auto const given = changed.pins.*pin;
        (changed.pins.*pin).reset();
        if (!given || !fits(changed)) return;
        auto const found = plan_parallel(model_, answer_.topology, changed);
        if (!found) return;
        std::int64_t const amount = found->degrees.*degree;
        auto flag = "--" + std::string(name);
        std::replace(flag.begin(), flag.end(), '_', '-');
        fixes_.push_back(
            {std::string(name),
             amount,
             {},
             "in place of " + flag + " " + std::to_string(*given) + ": " + flag + " " + std::to_string(amount)});
    }
    void try_pins() {
        try_pin("tp", &PlanPins::tp, &PlanDegrees::tp);
        try_pin("pp", &PlanPins::pp, &PlanDegrees::pp);
        try_pin("dp", &PlanPins::dp, &PlanDegrees::dp);
        try_pin("ep", &PlanPins::ep, &PlanDegrees::ep);
        try_pin("zero", &PlanPins::zero, &PlanDegrees::zero);
        try_pin("micro_batches", &PlanPins::micro_batches, &PlanDegrees::micro_batches);
    }

    /// What keeps less for the backward pass, or elsewhere, the cheapest first.
    void try_training() {
        auto changed = answer_.request;
        auto& plan = *changed.estimate.training;
        for (auto const& [what, word] :
             {std::pair{Recompute::selective, "selective"}, std::pair{Recompute::full, "full"}}) {
            if (!changed.is_recompute_fixed || plan.recompute >= what) continue;
            plan.recompute = what;
            if (!fits(changed)) continue;
            fixes_.push_back({"recompute", 0, word, "compute activations again: --recompute " + std::string(word)});
            break;
        }
        changed = answer_.request;
        for (auto const& [what, word] : {std::pair{Offload::optimizer, "optimizer"}, std::pair{Offload::all, "all"}}) {
            if (plan.offload >= what) continue;
            plan.offload = what;
            if (!fits(changed)) continue;
            fixes_.push_back(
                {"offload", 0, word, "keep training states in host memory: --offload " + std::string(word)});
            break;
        }
    }

    void try_cache() {
        auto const now = kv_dtype_of(answer_.request.estimate, model_.config);
        for (auto const dtype : {Dtype::bf16, Dtype::f8_e4m3}) {
            auto changed = answer_.request;
            changed.estimate.kv_dtype = dtype;
            if (bits(dtype) >= bits(now) || !fits(changed)) continue;
            std::string const word{traits(dtype).short_name};
            fixes_.push_back({"kv_dtype", 0, word, "store the key-value cache in " + word + ": --kv-dtype " + word});
            return;
        }
    }

    void try_dtype() {
        auto changed = answer_.request;
        auto const dtype = changed.estimate.dtype.value_or(model_.config.dtype_or(Dtype::f32));
        if (changed.estimate.quant || bits(dtype) <= 16) return;
        changed.estimate.dtype = Dtype::bf16;
        if (fits(changed)) fixes_.push_back({"dtype", 0, "bf16", "store the weights in bf16: --dtype bf16"});
    }

    /// The mildest packing that spends at least so many bits; none where a milder one was found.
    void try_quant(std::int64_t min_bits) {
        for (auto const& fix : fixes_) {
            if (fix.kind == "quant") return;
        }
        auto changed = answer_.request;
        for (auto const& scheme : smaller_schemes(model_, answer_.request.estimate)) {
            if (nominal_bits(scheme) < min_bits) return;
            changed.estimate.quant = scheme;
            if (!fits(changed)) continue;
            auto const word = quant_word(scheme);
            fixes_.push_back({"quant", 0, word, "quantise the weights to " + word + ": --quant " + word});
            return;
        }
    }

    void try_context() {
        auto const now = context_of(answer_.request.estimate, model_.config);
        auto const step = now / context_steps > 0 ? now / context_steps : 1;
        auto changed = answer_.request;
        auto const steps = largest_that([&](std::int64_t count) {
            changed.estimate.context = count * step;
            return count * step < now && fits(changed);
        });
        if (steps == 0) return;
        auto const context = steps * step;
        fixes_.push_back({"context",
                          context,
                          {},
                          "lower the context from " + grouped(now) + " to " + grouped(context) + " tokens: --context " +
                              std::to_string(context)});
    }

    void try_batch() {
        auto const now = answer_.request.estimate.batch;
        auto changed = answer_.request;
        // Pinned replicas and micro-batches have a sequence each.
        auto const least = smallest_batch(changed.pins);
        auto const batch = largest_that([&](std::int64_t count) {
            changed.estimate.batch = count;
            return count < now && (count < least || fits(changed));
        });
        if (batch < least) return;
        fixes_.push_back({"batch",
                          batch,
                          {},
                          "lower the batch from " + grouped(now) + " to " + counted(batch, "sequence") + ": --batch " +
                              std::to_string(batch)});
    }

    void try_devices() {
        auto const accelerators = answer_.topology.accelerators();
        auto const together = devices_added_together(accelerators);
        if (together == 0 || accelerators.back().id.kind != DeviceClass::gpu) return;
        auto const given = static_cast<std::int64_t>(accelerators.size());
        auto const largest = given * max_growth < max_devices ? given * max_growth : max_devices;
        auto const most = (largest - given) / static_cast<std::int64_t>(together);
        if (most < 1) return;
        auto const groups = smallest_that(most, [&](std::int64_t count) {
            return fits_on(with_more(answer_.topology, together, count), answer_.request);
        });
        if (!groups) return;
        auto const count = *groups * static_cast<std::int64_t>(together);
        auto const name = escaped(accelerators.back().name.view());
        auto const text = together == 1
                              ? "add " + grouped(count) + " more " + name
                              : "add " + counted(*groups, "more node") + " of " + std::to_string(together) + "x" + name;
        fixes_.push_back({"devices", count, {}, text});
    }

    PlanAnswer const& answer_;
    Model const& model_;
    std::vector<PlanFix> fixes_;
};

}  // namespace

std::vector<PlanFix> find_plan_fixes(PlanAnswer const& answer) {
    return PlanFixSearch(answer).run();
}

}  // namespace shardwise::cli
