#pragma once

#include <shardwise/plan/plan_search.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline v0_2_0 {

/// The cut whose fullest rank asks for the least more than its device has.
struct ClosestCut {
    PlanDegrees degrees{};
    List<std::int64_t> begins;
    Bytes needs{};
    Bytes has{};
    /// The stage of that rank.
    std::int64_t stage = 0;

    [[nodiscard]] bool fits() const { return !begins.empty() && needs <= has; }
};

namespace detail {

/// Looks at cuts by what their weights, states and cache need at least, with pieces of the batch as small as they can
/// be and the most of ZeRO.
class ClosestSearch {
public:
    explicit ClosestSearch(PlanSearch& search) : search_(search) {}

    ClosestCut find() {
        enumerate();
        heap_.build();
        for (int looked_at = 0; !heap_.empty() && !best_.fits() && looked_at < most_tried; ++looked_at) {
            auto const candidate = heap_.pop();
            auto const least = Bytes{static_cast<std::int64_t>(candidate.seconds)} - search_.largest_memory();
            bool const is_tried_only = looked_at >= most_looked_at;
            if (!best_.begins.empty() && (best_.needs - best_.has <= least || (is_tried_only && least > Bytes{0})))
                break;
            PlanDegrees const degrees{.tp = candidate.tp, .pp = candidate.pp, .dp = candidate.dp, .ep = candidate.ep};
            look_at(degrees, is_tried_only);
        }
        return static_cast<ClosestCut&&>(best_);
    }

private:
    /// Beyond so many cuts of ever larger needs none comes notably closer: others are only tried as they are. A cluster
    /// of a few dozen devices has fewer than are tried.
    static constexpr int most_looked_at = 200;
    static constexpr int most_tried = 1000;

    void enumerate() {
        auto const most = search_.limits();
        auto const devices = search_.sites().count();
        auto const experts = expert_degrees(search_.model().config.experts, most.ep);
        for (std::int64_t tp = 1; tp <= most.tp; ++tp) {
            for (auto const ep : experts) {
                for (std::int64_t dp = 1; dp <= most.dp; ++dp) {
                    for (std::int64_t pp = 1; pp <= most.pp && tp * ep * dp * pp <= devices; ++pp)
                        push({.tp = tp, .pp = pp, .dp = dp, .ep = ep});
                }
            }
        }
    }

    void push(PlanDegrees degrees) {
        auto const zeros = search_.zeros(degrees.dp);
        if (zeros.empty()) return;
        degrees.zero = zeros.back();
        heap_.push({0.0, static_cast<double>(search_.least_memory(degrees).count()),
                    static_cast<std::int32_t>(degrees.tp), static_cast<std::int32_t>(degrees.pp),
                    static_cast<std::int32_t>(degrees.dp), static_cast<std::int32_t>(degrees.ep)});
    }

    void look_at(PlanDegrees degrees, bool is_tried_only) {
        auto const batch = rank_batch(search_.job().batch, degrees);
        degrees.zero = search_.zeros(degrees.dp).back();
        degrees.micro_batches = piece_counts(batch, degrees.pp, search_.job().training.has_value()).back();
        auto const memory = search_.memories().of(degrees);
        for (auto const& layout : search_.sites().layouts(degrees)) {
            auto const sites = search_.sites().sites(degrees, layout);
            List<std::int64_t> begins(static_cast<std::size_t>(degrees.pp) + 1);
            if (is_tried_only) {
                if (fill(degrees, memory, sites, Bytes{0}, begins)) consider(degrees, memory, sites, begins);
                continue;
            }
            Bytes low = -search_.largest_memory();
            Bytes high = 256_MiB;
            while (!fill(degrees, memory, sites, high, begins) && high.count() < INT64_MAX / 8) high += high;
            while ((high - low).count() > (std::int64_t{1} << 16U)) {
                auto const middle = low + Bytes{(high - low).count() / 2};
                (fill(degrees, memory, sites, middle, begins) ? high : low) = middle;
            }
            if (fill(degrees, memory, sites, high, begins)) consider(degrees, memory, sites, begins);
        }
    }

    Bytes need(PlanDegrees const& degrees, CutMemory const& memory, std::int64_t stage, std::int64_t begin,
               std::int64_t end) const {
        Bytes most{};
        for (auto const& rank : memory.ranks) {
            auto const needs = rank.sum(search_.slots(), begin, end);
            auto const total = rank.stage_memory(needs, stage, degrees.dp, degrees.zero).total();
            if (most < total) most = total;
        }
        return most;
    }

    /// What the fullest rank of a stage needs with one more slot behind `begin` and those up to `next`.
    Bytes grown(PlanDegrees const& degrees, CutMemory const& memory, std::int64_t stage, std::int64_t begin,
                std::int64_t next, List<SlotNeeds>& needs) const {
        auto const& slots = search_.slots();
        Bytes most{};
        for (std::size_t i = 0; i < needs.size(); ++i) {
            needs[i].add(memory.ranks[i].kinds()[slots.kind_of[static_cast<std::size_t>(next)]]);
            auto held = needs[i];
            for (auto const& tie : slots.ties) {
                if (tie.first >= begin && tie.first <= next && tie.other >= begin && tie.other <= next)
                    held.drop(memory.ranks[i].tie(tie.tie));
            }
            auto const total = memory.ranks[i].stage_memory(held, stage, degrees.dp, degrees.zero).total();
            if (most < total) most = total;
        }
        return most;
    }

    /// Gives each stage what its memory and so much more hold; false where a stage would be empty or layers are left.
    bool fill(PlanDegrees const& degrees, CutMemory const& memory, PlanSites const& sites, Bytes more,
              List<std::int64_t>& begins) const {
        auto const slots = search_.slots().size();
        std::int64_t next = 0;
        for (std::int64_t stage = 0; stage < degrees.pp; ++stage) {
            begins[static_cast<std::size_t>(stage)] = next;
            auto const most = sites.capacities[static_cast<std::size_t>(stage)] + more;
            auto const begin = next;
            auto const last = slots - (degrees.pp - 1 - stage);
            List<SlotNeeds> needs(memory.ranks.size());
            while (next < last && grown(degrees, memory, stage, begin, next, needs) <= most) ++next;
            if (next == begin) return false;
        }
        begins[static_cast<std::size_t>(degrees.pp)] = next;
        return next == slots;
    }

    void consider(PlanDegrees const& degrees, CutMemory const& memory, PlanSites const& sites,
                  List<std::int64_t> const& begins) {
        ClosestCut cut{degrees, begins, {}, {}, 0};
        for (std::int64_t stage = 0; stage < degrees.pp; ++stage) {
            auto const i = static_cast<std::size_t>(stage);
            auto const needs = need(degrees, memory, stage, begins[i], begins[i + 1]);
            if (stage > 0 && needs - sites.capacities[i] <= cut.needs - cut.has) continue;
            cut.needs = needs;
            cut.has = sites.capacities[i];
            cut.stage = stage;
        }
        if (best_.begins.empty() || cut.needs - cut.has < best_.needs - best_.has)
            best_ = static_cast<ClosestCut&&>(cut);
    }

    PlanSearch& search_;
    CandidateHeap heap_;
    ClosestCut best_;
};

}  // namespace detail

/// Of a job that fits nowhere the cut that comes closest; of another one some cut that fits.
[[nodiscard]] inline ClosestCut find_closest_cut(PlanSearch& search) {
    return detail::ClosestSearch(search).find();
}

/// True where some cut of the job fits: the quick answer, without what it would cost. On more than a few dozen
/// devices only the cuts with the smallest weights, states and cache are tried, and false means that none of these
/// fits.
[[nodiscard]] inline bool has_plan(Model const& model, Topology const& topology, PlanRequest request) {
    if (request.estimate.batch == 0) request.estimate.batch = 1;
    PlanSearch search(model, topology, request);
    return find_closest_cut(search).fits();
}

}  // namespace shardwise::inline v0_2_0
