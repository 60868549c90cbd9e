// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/placement/quant_ladder.hpp>
#include <shardwise/plan/closest_cut.hpp>
#include <shardwise/plan/plan_words.hpp>

#include <cstdint>
#include <string>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Looks for the smallest changes with which a job would fit.
class PlanFixes {
public:
    PlanFixes(PlanSearch& search, Topology const& topology)
        : search_(search), model_(search.model()), topology_(topology), request_(search.request()) {}

    /// What to do, in words; each change suffices by itself.
    std::string advice() {
        try_pins();
        try_training();
        try_cache();
        try_quant();
        try_context();
        try_devices();
        if (changes_.empty()) return "use devices with more memory, or a smaller model";
        return changes_;
    }

private:
    void add(std::string const& change) { changes_ += (changes_.empty() ? "" : ", or ") + change; }
    bool fits(PlanRequest const& request) const {
        bool const is_alike = request.estimate.quant == request_.estimate.quant &&
                              request.estimate.kv_dtype == request_.estimate.kv_dtype;
        return has_plan(model_, topology_, request, is_alike ? &search_ : nullptr);
    }

    /// Without one of the pins.
    void try_pins() {
        auto const leave_out = [&](auto PlanPins::*pin, std::string_view name) {
            auto changed = request_;
            (changed.pins.*pin).reset();
            if (request_.pins.*pin && fits(changed)) add("leaving out " + std::string(name));
        };
        leave_out(&PlanPins::tp, "--tp");
        leave_out(&PlanPins::pp, "--pp");
        leave_out(&PlanPins::dp, "--dp");
        leave_out(&PlanPins::ep, "--ep");
        leave_out(&PlanPins::zero, "--zero");
        leave_out(&PlanPins::micro_batches, "--micro-batches");
    }

    void try_training() {
        if (!request_.estimate.training) return;
        for (auto const recompute : {Recompute::selective, Recompute::full}) {
            auto changed = request_;
            changed.estimate.training->recompute = recompute;
            if (request_.estimate.training->recompute >= recompute || !fits(changed)) continue;
            return add(recompute == Recompute::full ? "--recompute full" : "--recompute selective");
        }
    }

    void try_cache() {
        if (request_.estimate.training || bits(kv_dtype_of(request_.estimate, model_.config)) <= 8) return;
        auto changed = request_;
        changed.estimate.kv_dtype = Dtype::f8_e4m3;
        if (fits(changed)) add("--kv-dtype fp8");
    }

    void try_quant() {
        if (request_.estimate.training || request_.estimate.quant) return;
        auto changed = request_;
        for (auto const& scheme : smaller_schemes(model_, request_.estimate)) {
            // A search for each rung takes long; these are what engines serve.
            bool const is_tried = scheme == QuantScheme::fp8() || scheme == QuantScheme::int4();
            changed.estimate.quant = scheme;
            if (is_tried && fits(changed))
                return add("--quant " + std::string(scheme == QuantScheme::fp8() ? "fp8" : "int4"));
        }
    }

    void try_context() {
        auto const now = context_of(request_.estimate, model_.config);
        auto changed = request_;
        // A job that does not fit with next to no context needs no search.
        changed.estimate.context = now >> 11U > 0 ? now >> 11U : 1;
        if (!fits(changed)) return;
        std::int64_t good = 0;
        std::int64_t bad = now;
        while (bad - good > (good >> 6U) + 1) {
            auto const middle = good + (bad - good) / 2;
            changed.estimate.context = middle;
            (fits(changed) ? good : bad) = middle;
            if (bad <= now >> 10U) return;
        }
        if (good > 0) add("--context " + std::to_string(good));
    }

    void try_devices() {
        auto const accelerators = topology_.accelerators();
        auto const count = static_cast<std::int64_t>(accelerators.size());
        // One node grows; of several nodes another one of the same size begins.
        auto const last = accelerators.back().node;
        std::int64_t unit = 0;
        for (auto const& other : accelerators) unit += other.node == last ? 1 : 0;
        bool const has_nodes = accelerators.front().node != last;
        if (!has_nodes) unit = 1;
        auto const is_too_many = [&](std::int64_t added) { return added > max_added || added > max_times * count; };
        std::int64_t most = 1;
        while (!is_too_many(2 * most * unit)) most *= 2;
        // What the most of them do not mend needs no search.
        if (!fits_with(most * unit, has_nodes ? unit : 0)) return;
        std::int64_t bad = 0;
        std::int64_t good = 1;
        while (good < most && !fits_with(good * unit, has_nodes ? unit : 0)) {
            bad = good;
            good *= 2;
        }
        while (good - bad > 1) {
            auto const middle = bad + (good - bad) / 2;
            (fits_with(middle * unit, has_nodes ? unit : 0) ? good : bad) = middle;
        }
        add(count_text(good * unit, "more device", "more devices") + " like the last");
    }

    /// With more devices like the last; in nodes of so many, or in its own.
    bool fits_with(std::int64_t added, std::int64_t in_node) const {
        auto more = topology_;
        auto const accelerators = topology_.accelerators();
        auto device = accelerators.back();
        for (std::int64_t i = 0; i < added; ++i) {
            if (in_node > 0 && i % in_node == 0) ++device.node;
            ++device.id.index;
            more.devices.insert(more.devices.begin() + accelerators.size() + static_cast<std::size_t>(i), device);
        }
        return has_plan(model_, more, request_, &search_);
    }

    static constexpr std::int64_t max_added = 1024;
    static constexpr std::int64_t max_times = 64;

    PlanSearch& search_;
    Model const& model_;
    Topology const& topology_;
    PlanRequest const& request_;
    std::string changes_;
};

}  // namespace detail

/// Why a job fits nowhere: the cut that comes closest, what its fullest rank needs and has, and what would make it fit.
[[nodiscard]] inline Error plan_shortfall(PlanSearch& search, Topology const& topology) {
    auto const cut = find_closest_cut(search);
    if (cut.begins.empty()) {
        return Error{ErrorCode::size_overflow}
            .at("context")
            .because("a rank's share of the batch has more tokens than sizes are computed for")
            .fix("lower --batch or --context, or leave out what the degrees are to be");
    }
    auto const where = "the fullest rank of the closest cut (" + detail::degrees_text(cut.degrees) + ")";
    return Error{ErrorCode::out_of_memory}.in(where).needs(cut.needs).has(cut.has).fix(
        "try " + detail::PlanFixes(search, topology).advice());
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
