// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/plan/plan_search.hpp>
#include <shardwise/plan/plan_words.hpp>
#include <shardwise/plan/rank_loads.hpp>
#include <shardwise/plan/variant_search.hpp>

#include <string>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How much worse a cut's objective is than the chosen one's: 0.25 is a quarter more time or devices, or a quarter less
/// throughput. Of cuts on equally many devices the objective `devices` makes no difference, so that their loss is 0.
[[nodiscard]] inline double plan_loss(FoundCut const& other, FoundCut const& chosen, PlanObjective objective) {
    auto const& one = other.cost;
    switch (objective) {
        case PlanObjective::devices:
            return static_cast<double>(other.degrees.ranks()) / static_cast<double>(chosen.degrees.ranks()) - 1.0;
        case PlanObjective::throughput:
            return 1.0 - one.tokens_per_second / chosen.cost.tokens_per_second;
        case PlanObjective::latency:
            break;
    }
    return one.step.total() / chosen.cost.step.total() - 1.0;
}

/// Why a runner-up is worse: what it spends its time on, or the devices that it takes.
[[nodiscard]] inline std::string alternative_reason(FoundCut const& other, FoundCut const& chosen,
                                                    PlanObjective objective) {
    auto const more = other.degrees.ranks() - chosen.degrees.ranks();
    if (objective == PlanObjective::devices && more > 0)
        return "needs " + detail::count_text(more, "device", "devices") + " more";
    CostTerms::Name most{};
    double difference = 0.0;
    for (auto const& name : CostTerms::cost_term_names()) {
        auto const own = other.cost.step.*name.term - chosen.cost.step.*name.term;
        if (own > difference) most = name, difference = own;
    }
    auto const ratio = other.cost.step.total() / chosen.cost.step.total();
    if (ratio < 1.0 + 1e-9 || most.term == nullptr) {
        if (other.cost.prefill.total() > chosen.cost.prefill.total() * (1.0 + 1e-9)) {
            return "as fast in a step, but prompts take " +
                   detail::decimal_text(other.cost.prefill.total() / chosen.cost.prefill.total(), 2) + " times as long";
        }
        return more > 0 ? "as fast, on " + detail::count_text(more, "device", "devices") + " more" : "as fast";
    }
    return detail::times_text(ratio) + ", above all for " + std::string(detail::term_text(most.name)) + ": " +
           detail::seconds_text(other.cost.step.*most.term) + " instead of " +
           detail::seconds_text(chosen.cost.step.*most.term);
}

namespace detail {

/// Puts into words why a cut is what it is; asks the search what its neighbours would cost.
class ReasonWriter {
public:
    ReasonWriter(VariantSearch& variants, PlanVariant const& variant, FoundCut const& cut)
        : variants_(variants), variant_(variant), search_(variants.at(variant)), cut_(cut), degrees_(cut.degrees) {}

    List<std::string> write() && {
        explain_ranks();
        if (search_.request().is_even)
            say("even, as asked for: degrees divide query heads, key-value heads and experts");
        explain_tensor();
        explain_pipeline();
        explain_data();
        explain_experts();
        explain_zero();
        explain_recompute();
        explain_sequence();
        explain_uneven();
        explain_memory();
        return static_cast<List<std::string>&&>(reasons_);
    }

private:
    void say(std::string text) { reasons_.push_back(static_cast<std::string&&>(text)); }

    /// What a neighbour costs against the chosen cut: "would cost 1.4 times the step".
    std::string verdict(PlanDegrees const& other) { return verdict(search_, other); }
    std::string verdict(PlanSearch& search, PlanDegrees const& other) {
        auto const found = search.best_of(other);
        if (!found.is_found) return "would not fit";
        auto const ratio = found.cost.step.total() / cut_.cost.step.total();
        if (search_.request().objective == PlanObjective::devices && found.degrees.ranks() > degrees_.ranks())
            return "would take " + count_text(found.degrees.ranks() - degrees_.ranks(), "device", "devices") + " more";
        return ratio < 1.0005 ? "would be no faster" : "would cost " + times_text(ratio);
    }
    /// Lowers other degrees than the one in question, none that are pinned, until there are devices enough; says so in
    /// `note`. False where there are not, or where the search could not have looked at the degrees.
    bool shrink(PlanDegrees& other, std::int64_t PlanDegrees::*kept, std::string& note) const {
        struct Named {
            std::int64_t PlanDegrees::*degree;
            Optional<std::int64_t> const& pin;
            std::string_view name;
        };
        auto const devices = search_.sites().count();
        auto const& pins = search_.request().pins;
        for (auto const& [degree, pin, name] :
             {Named{&PlanDegrees::dp, pins.dp, "dp"}, Named{&PlanDegrees::pp, pins.pp, "pp"},
              Named{&PlanDegrees::ep, pins.ep, "ep"}, Named{&PlanDegrees::tp, pins.tp, "tp"}}) {
            if (degree == kept || pin || other.ranks() <= devices || other.*degree == 1) continue;
            while (other.ranks() > devices && other.*degree > 1) other.*degree /= 2;
            note += " with " + std::string(name) + " " + std::to_string(other.*degree);
        }
        return other.ranks() <= devices && is_open(other);
    }
    /// True where the search could have looked at these degrees, but for what is in question.
    bool is_open(PlanDegrees const& other) const {
        bool const is_odd = search_.request().is_even && !is_even(search_.model().config, other);
        return !is_odd && search_.request().limits.has(other) && search_.can_count(other);
    }
    /// True of a degree that the request gives, which is said.
    bool is_given(Optional<std::int64_t> const& pin, std::string const& text) {
        if (pin) say(text + ", as asked for");
        return pin.has_value();
    }
    /// The next degree that may be asked about: the smallest of at least twice `degree`, else the largest; 0 if none.
    static std::int64_t next_of(List<std::int64_t> const& degrees, std::int64_t degree) {
        for (auto const other : degrees) {
            if (other >= 2 * degree) return other;
        }
        auto const last = degrees.empty() ? 0 : degrees[degrees.size() - 1];
        return last > degree ? last : 0;
    }

    void explain_ranks() {
        auto const devices = search_.sites().count();
        auto const ranks = degrees_.ranks();
        if (search_.request().objective == PlanObjective::devices) {
            say(ranks == 1 ? "one device holds it" : "no cut on fewer than " + std::to_string(ranks) + " devices fits");
        } else if (ranks < devices) {
            say(std::to_string(ranks) + " of " + std::to_string(devices) +
                " devices: no cut on more of them has a shorter step");
        } else {
            say((devices == 1 ? std::string("the one device: ") : "all " + std::to_string(devices) + " devices: ") +
                (search_.examined() == 1 ? "the only way to cut"
                                         : "the best of " + std::to_string(search_.examined()) + " ways to cut"));
        }
    }

    void explain_tensor() {
        auto const most = search_.limits().tp;
        auto const heads = search_.model().config.heads;
        auto const tp = degrees_.tp;
        if (is_given(search_.request().pins.tp, "tensor parallel " + std::to_string(tp))) return;
        auto const start =
            tp == 1 ? std::string{"no tensor parallelism: "} : "tensor parallel stops at " + std::to_string(tp) + ": ";
        if (auto const refusal = search_.sites().classes().tensor_refusal();
            !refusal.empty() && search_.sites().count() > 1) {
            say(start + std::string(refusal));
            return;
        }
        if (tp >= heads) {
            say(start + "the model has " + count_text(heads, "query head", "query heads"));
            return;
        }
        if (tp >= most) {
            say(start + "there " + (most == 1 ? "is " : "are ") + count_text(most, "device", "devices"));
            return;
        }
        auto other = degrees_;
        other.tp = next_of(search_.choices().tp, tp);
        if (other.tp == 0) {
            bool const is_limited = !search_.request().limits.tp.empty();
            say(start + "no larger one that there are devices for is " + (is_limited ? "run by the trainer" : "even"));
            return;
        }
        std::string note;
        if (!shrink(other, &PlanDegrees::tp, note)) return;
        auto const node = search_.sites().largest_node();
        auto const next = std::to_string(other.tp) + note;
        bool const is_leaving = search_.sites().node_count() > 1 && tp <= node && other.tp > node;
        if (!is_leaving) {
            say(start + next + " " + verdict(other));
            return;
        }
        auto const& device = search_.sites().device(0);
        auto const network = device.network.type == LinkType::none ? default_network.type : device.network.type;
        say(start +
            (node == tp ? "the node's " + std::string(link_text(device.link.type)) + " domain; " : std::string{}) +
            next + " would cross the network (" + std::string(link_text(network)) + ") and " +
            verdict(other).substr(std::string_view{"would "}.size()));
    }

    void explain_pipeline() {
        auto const pp = degrees_.pp;
        if (search_.limits().pp == 1) return;
        auto other = degrees_;
        std::string note;
        bool const is_pinned =
            is_given(search_.request().pins.pp, "a pipeline of " + count_text(pp, "stage", "stages"));
        if (is_pinned && pp == 1) return;
        if (pp == 1) {
            other.pp = 2;
            if (shrink(other, &PlanDegrees::pp, note)) say("no pipeline: 2 stages" + note + " " + verdict(other));
            return;
        }
        other.pp = pp / 2;
        if (!is_pinned) {
            say("a pipeline of " + std::to_string(pp) + " stages, cut where the step is shortest: " +
                count_text(other.pp, "stage", "stages") + " " + verdict(other));
        }
        auto const waiting = cut_.cost.step.bubble / cut_.cost.step.total();
        say(count_text(degrees_.micro_batches, "micro-batch", "micro-batches") + " of " +
            count_text(micro_batch(), "sequence", "sequences") +
            (search_.request().pins.micro_batches ? ", as asked for" : "") + ": stages wait " +
            decimal_text(100.0 * waiting, 0) + " % of the step");
    }

    void explain_data() {
        auto const batch = search_.job().batch;
        auto const dp = degrees_.dp;
        if (batch == 1) {
            say("one replica: the batch is one sequence");
            return;
        }
        auto const replicas = count_text(dp, "replica", "replicas") + ", " +
                              count_text(rank_batch(batch, degrees_), "sequence", "sequences") +
                              (degrees_.ep > 1 ? " on each rank" : " each");
        if (is_given(search_.request().pins.dp, replicas)) return;
        if (dp > 1) {
            auto other = degrees_;
            other.dp = dp / 2;
            say(replicas + ": " + std::to_string(other.dp) + " " + verdict(other));
            return;
        }
        auto other = degrees_;
        other.dp = 2;
        std::string note;
        if (shrink(other, &PlanDegrees::dp, note)) say("one replica: 2" + note + " " + verdict(other));
    }

    void explain_experts() {
        auto const experts = search_.model().config.experts;
        if (experts == 0) return;
        auto other = degrees_;
        auto const shards = "experts sharded over " + std::to_string(degrees_.ep) + " ranks, at most " +
                            std::to_string(ceil_divide(experts, degrees_.ep)) + " each";
        auto const what = degrees_.ep > 1 ? shards : std::string("experts are not sharded");
        if (is_given(search_.request().pins.ep, what)) return;
        if (degrees_.ep > 1) {
            other.ep = 1;
            say(what + ": all on each rank " + verdict(other));
            return;
        }
        other.ep = next_of(search_.choices().ep, 1);
        std::string note;
        if (other.ep > 1 && shrink(other, &PlanDegrees::ep, note))
            say(what + ": over " + std::to_string(other.ep) + " ranks" + note + " " + verdict(other));
    }

    void explain_zero() {
        if (!search_.job().training || degrees_.dp == 1) return;
        auto const stage = "ZeRO stage " + std::to_string(degrees_.zero);
        if (search_.request().pins.zero) {
            say(stage + ", as asked for");
            return;
        }
        if (degrees_.zero == 0) {
            say("no ZeRO: everything fits without");
            return;
        }
        auto other = cut_;
        --other.degrees.zero;
        auto const ranks = search_.ranks_of(other);
        auto const before = "; stage " + std::to_string(other.degrees.zero);
        if (!fit_devices(ranks, search_.sites())) {
            say(stage + before + " would need " + to_text(fullest_rank(ranks)) + " on the fullest rank");
            return;
        }
        auto stages = search_.stages_of(other);
        say(stage + before + " would cost " +
            times_text(search_.price(other, stages).step.total() / cut_.cost.step.total()));
    }

    void explain_recompute() {
        if (!search_.job().training) return;
        auto const what = [&]() -> std::string {
            switch (variant_.recompute) {
                case Recompute::full:
                    return "full recomputation";
                case Recompute::selective:
                    return "selective recomputation, of attention";
                case Recompute::none:
                    break;
            }
            return "no recomputation";
        }();
        if (search_.request().is_recompute_fixed) {
            say(what + ", as asked for");
            return;
        }
        auto other = variant_;
        if (variant_.recompute == Recompute::none) {
            other.recompute = Recompute::full;
            say(what + ": in full it " + verdict(variants_.at(other), degrees_));
            return;
        }
        other.recompute = Recompute::none;
        say(what + ": keeping all activations " + verdict(variants_.at(other), degrees_));
    }

    void explain_sequence() {
        // Who trains adapters is not sequence-parallel.
        if (!search_.job().training || degrees_.tp == 1 || trains_adapter(search_.job())) return;
        auto const what = std::string(variant_.is_sequence_parallel ? "sequence parallel" : "not sequence parallel");
        if (search_.request().is_sequence_parallel_fixed) {
            say(what + ", as asked for");
            return;
        }
        auto other = variant_;
        other.is_sequence_parallel = !variant_.is_sequence_parallel;
        say(what + (variant_.is_sequence_parallel ? ": without it these degrees " : ": with it these degrees ") +
            verdict(variants_.at(other), degrees_));
    }

    void explain_uneven() {
        auto const& config = search_.model().config;
        auto const tp = degrees_.tp;
        std::string what;
        auto const check = [&](std::int64_t count, std::string_view name) {
            if (count > 0 && count % tp != 0)
                what += (what.empty() ? "" : ", ") + std::to_string(count) + " " + std::string(name);
        };
        check(config.heads, "query heads");
        check(config.intermediate_size, "columns of the feed-forward");
        check(config.vocab_size, "rows of the vocabulary");
        if (!what.empty())
            say("uneven but legal: " + what + " do not divide by " + std::to_string(tp) +
                ", the first ranks hold more");
        if (config.kv_heads > 0 && config.kv_lora_rank == 0 && config.kv_heads % tp != 0) {
            say("several ranks hold the same of the " +
                count_text(config.kv_heads, "key-value head", "key-value heads"));
        }
        auto const ep = degrees_.ep;
        if (ep > 1 && config.experts % ep != 0)
            say("uneven but legal: " + std::to_string(config.experts) + " experts do not divide by " +
                std::to_string(ep));
    }

    void explain_memory() {
        auto const [bytes, capacity] = most_loaded(search_.ranks_of(cut_), search_.sites());
        say("the fullest rank takes " + to_text(bytes) + " of " + to_text(capacity));
    }

    std::int64_t micro_batch() const {
        return ceil_divide(rank_batch(search_.job().batch, degrees_), degrees_.micro_batches);
    }

    VariantSearch& variants_;
    PlanVariant variant_;
    PlanSearch& search_;
    FoundCut const& cut_;
    PlanDegrees const& degrees_;
    List<std::string> reasons_;
};

}  // namespace detail

/// Why each degree of a cut is what it is, in words and with the numbers of its neighbours.
[[nodiscard]] inline List<std::string> plan_reasons(VariantSearch& variants, PlanVariant const& variant,
                                                    FoundCut const& cut) {
    return detail::ReasonWriter(variants, variant, cut).write();
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
