// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/plan/plan_search.hpp>
#include <shardwise/plan/plan_variant.hpp>

#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

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

/// Looks at cuts by what they need at least, with the most replicas, micro-batches as small as they can be and
/// the most of ZeRO.
class ClosestSearch {
public:
    explicit ClosestSearch(PlanSearch& search) : search_(search) {}

    /// Where only what fits is of interest nothing else is weighed.
    ClosestCut find(bool must_fit = false) {
        for_each_degrees([this](PlanDegrees const& degrees) { push(degrees); });
        heap_.build();
        for (int looks = 0; !heap_.empty() && !best_.fits() && looks < max_looks;) {
            auto candidate = heap_.pop();
            if (must_fit && candidate.seconds >= 0.0) break;
            if (!best_.begins.empty() && static_cast<double>((best_.needs - best_.has).count()) <= candidate.seconds)
                break;
            PlanDegrees const degrees = degrees_of(candidate);
            if (candidate.refined < 2) {
                auto const more = least_more(degrees, candidate.seconds, candidate.refined == 1);
                if (candidate.seconds < more) candidate.seconds = more;
                ++candidate.refined;
                heap_.insert(candidate);
                continue;
            }
            look_at(degrees, Bytes{static_cast<std::int64_t>(candidate.seconds)});
            ++looks;
        }
        return static_cast<ClosestCut&&>(best_);
    }

    /// True where some cut fits. On large clusters only round degrees are tried.
    bool has_any() {
        bool const is_large = search_.sites().count() > max_tried_all;
        bool has_one = false;
        for_each_degrees(
            [&](PlanDegrees degrees) {
                if (has_one) return;
                cut_into_pieces(degrees);
                if (search_.min_shortfall(degrees) > 0.0 || !search_.may_fit(degrees, 0.0)) return;
                has_one = fits(degrees);
            },
            is_large);
        return has_one;
    }

private:
    /// Cuts whose stages are weighed, in the order of what they ask for at least: the next one has never been closer.
    static constexpr int max_looks = 50;
    /// Devices with which all degrees are tried for the quick answer.
    static constexpr std::int64_t max_tried_all = 64;

    PlanDegrees degrees_of(PlanCandidate const& candidate) const {
        PlanDegrees degrees{
            .tp = candidate.tp, .pp = candidate.pp, .dp = candidate.dp, .ep = candidate.ep, .zero = candidate.zero};
        cut_into_pieces(degrees);
        return degrees;
    }

    void cut_into_pieces(PlanDegrees& degrees) const {
        auto const batch = rank_batch(search_.job().batch, degrees);
        degrees.micro_batches = search_.choices().micro_batches.most(batch, degrees.pp);
    }

    /// A number of at most 16, or one with no more than three leading binary digits.
    static bool is_round(std::int64_t degree) {
        std::int64_t unit = 1;
        while (degree / unit > 8) unit *= 2;
        return degree <= 16 || degree % unit == 0;
    }

    /// All degrees, or only the round and the pinned ones, with as many replicas as there are devices for: each more
    /// leaves less to every rank, but for the first. Where devices differ, also with as many as the larger ones suffice for.
    template <class Visit>
    void for_each_degrees(Visit const& visit, bool are_round = false) {
        auto const& choices = search_.choices();
        auto& sites = search_.sites();
        auto const counts = sites.classes().counts_by_memory();
        auto const is_tried = [are_round](std::int64_t degree, List<std::int64_t> const& all) {
            return !are_round || all.size() == 1 || is_round(degree);
        };
        for (auto const tp : choices.tp) {
            for (auto const ep : choices.ep) {
                if (!is_tried(tp, choices.tp) || !is_tried(ep, choices.ep)) continue;
                for (auto pp = choices.min_pp; pp <= choices.max_pp && tp * ep * pp <= sites.count(); ++pp) {
                    std::int64_t previous = 0;
                    for (auto const devices : counts) {
                        auto const dp = replicas({.tp = tp, .pp = pp, .ep = ep}, devices);
                        if (dp <= previous) continue;
                        previous = dp;
                        PlanDegrees const degrees{.tp = tp, .pp = pp, .dp = dp, .ep = ep};
                        if (search_.can_count(degrees)) for_each_zero(degrees, visit);
                    }
                    // In training one replica has no gradients to reduce, and no buffers for it.
                    PlanDegrees const one{.tp = tp, .pp = pp, .ep = ep};
                    bool const is_one_left = previous > 1 && choices.min_dp == 1 && search_.job().training;
                    if (is_one_left && search_.can_count(one)) for_each_zero(one, visit);
                }
            }
        }
    }

    /// Each stage of ZeRO leaves less than the one before, but the third gathers whole layers.
    template <class Visit>
    void for_each_zero(PlanDegrees degrees, Visit const& visit) {
        auto const& zeros = search_.zeros(degrees.dp);
        auto const count = zeros.size() > 1 && zeros.back() == 3 ? std::size_t{2} : std::size_t{1};
        for (std::size_t i = 0; i < count && i < zeros.size(); ++i) {
            degrees.zero = zeros[zeros.size() - 1 - i];
            visit(degrees);
        }
    }

    /// The most replicas on so many devices, 0 where there are none; in inference the fewest with the same share of the
    /// batch.
    std::int64_t replicas(PlanDegrees degrees, std::int64_t devices) const {
        auto const& choices = search_.choices();
        auto const batch = search_.job().batch;
        degrees.dp = devices / degrees.ranks();
        if (degrees.dp > choices.max_dp) degrees.dp = choices.max_dp;
        // Each rank has a sequence for each micro-batch.
        if (auto const micro_batches = choices.micro_batches.pinned; micro_batches > 1) {
            auto const most = (batch - 1) / (micro_batches - 1) / degrees.ep;
            if (degrees.dp > most) degrees.dp = most;
        }
        if (degrees.dp < choices.min_dp) return 0;
        if (search_.job().training || choices.min_dp == choices.max_dp) return degrees.dp;
        return ceil_divide(batch, degrees.ep * rank_batch(batch, degrees));
    }

    void push(PlanDegrees const& degrees) {
        heap_.push({0.0, search_.min_shortfall(degrees), static_cast<std::int32_t>(degrees.tp),
                    static_cast<std::int32_t>(degrees.pp), static_cast<std::int32_t>(degrees.dp),
                    static_cast<std::int32_t>(degrees.ep), 0, degrees.zero});
    }

    /// What each device lacks at least, in bytes, and no less than `low`; less than nothing where there is capacity.
    double least_more(PlanDegrees const& degrees, double low, bool is_exact) {
        double step = 1e9;
        auto high = low;
        while (high < 1e18 && !search_.may_fit(degrees, high, is_exact)) {
            low = high;
            high = high < 0.0 ? 0.0 : high + step;
            step *= 2.0;
        }
        while (high - low > (is_exact ? 65536.0 : 16777216.0)) {
            auto const middle = low + (high - low) / 2.0;
            (search_.may_fit(degrees, middle, is_exact) ? high : low) = middle;
        }
        return low;
    }

    /// Calls `visit` with what the smallest device of each stage leaves to a rank, for every layout that differs in it.
    template <class Visit>
    void for_each_capacity(PlanDegrees const& degrees, Visit const& visit) {
        auto const& classes = search_.sites().classes();
        List<List<std::size_t>> known;
        for (auto const& layout : search_.sites().layouts(degrees)) {
            auto smallest = search_.sites().smallest(degrees, layout);
            bool is_known = false;
            for (auto const& other : known) is_known = is_known || other == smallest;
            if (is_known) continue;
            List<Bytes> capacity;
            for (auto const index : smallest) capacity.push_back(classes.capacity(index));
            visit(capacity, smallest);
            known.push_back(static_cast<List<std::size_t>&&>(smallest));
        }
    }

    /// True where some stages fit as they are.
    bool fits(PlanDegrees const& degrees) {
        bool has_capacity = false;
        for_each_capacity(degrees, [&](List<Bytes> const& capacity, List<std::size_t> const&) {
            if (has_capacity || !search_.may_fit(degrees, capacity)) return;
            List<std::int64_t> begins(static_cast<std::size_t>(degrees.pp) + 1);
            has_capacity = fill(degrees, search_.memories().of(degrees), capacity, Bytes{0}, begins);
        });
        return has_capacity;
    }

    /// Finds what the stages lack that come closest; no less than `least`.
    void look_at(PlanDegrees const& degrees, Bytes least) {
        auto const memory = search_.memories().of(degrees);
        for_each_capacity(degrees, [&](List<Bytes> const& capacity, List<std::size_t> const& smallest) {
            List<std::int64_t> begins(static_cast<std::size_t>(degrees.pp) + 1);
            Bytes low = least;
            Bytes step{std::int64_t{1} << 16U};
            auto high = low;
            while (!fill(degrees, memory, capacity, high, begins) && step.count() < INT64_MAX / 8) {
                low = high;
                high += step;
                step += step;
            }
            while ((high - low).count() > (std::int64_t{1} << 16U)) {
                auto const middle = low + Bytes{(high - low).count() / 2};
                (fill(degrees, memory, capacity, middle, begins) ? high : low) = middle;
            }
            if (fill(degrees, memory, capacity, high, begins)) consider(degrees, memory, capacity, smallest, begins);
        });
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

    /// What the fullest rank of a stage needs with one more slot after `begin` and those up to `next`.
    Bytes grown(PlanDegrees const& degrees, CutMemory const& memory, std::int64_t stage, std::int64_t begin,
                std::int64_t next, List<StageNeeds>& needs) const {
        auto const& slots = search_.slots();
        Bytes most{};
        for (std::size_t i = 0; i < needs.size(); ++i) {
            needs[i].add(memory.ranks[i].kinds()[slots.kind_of[static_cast<std::size_t>(next)]]);
            auto held = needs[i];
            for (auto const& tie : slots.ties) {
                if (tie.first >= begin && tie.first <= next && tie.other >= begin && tie.other <= next)
                    held.held -= memory.ranks[i].tie(tie.tie);
            }
            auto const total = memory.ranks[i].stage_memory(held, stage, degrees.dp, degrees.zero).total();
            if (most < total) most = total;
        }
        return most;
    }

    /// Gives each stage what its memory and so much more hold; false where a stage would be empty or layers are left.
    bool fill(PlanDegrees const& degrees, CutMemory const& memory, List<Bytes> const& capacity, Bytes more,
              List<std::int64_t>& begins) const {
        auto const slots = search_.slots().size();
        std::int64_t next = 0;
        for (std::int64_t stage = 0; stage < degrees.pp; ++stage) {
            begins[static_cast<std::size_t>(stage)] = next;
            auto const most = capacity[static_cast<std::size_t>(stage)] + more;
            auto const begin = next;
            auto const last = slots - (degrees.pp - 1 - stage);
            List<StageNeeds> needs(memory.ranks.size());
            while (next < last && grown(degrees, memory, stage, begin, next, needs) <= most) ++next;
            if (next == begin) return false;
        }
        begins[static_cast<std::size_t>(degrees.pp)] = next;
        return next == slots;
    }

    void consider(PlanDegrees const& degrees, CutMemory const& memory, List<Bytes> const& capacity,
                  List<std::size_t> const& smallest, List<std::int64_t> const& begins) {
        ClosestCut cut{degrees, begins, {}, {}, 0};
        for (std::int64_t stage = 0; stage < degrees.pp; ++stage) {
            auto const i = static_cast<std::size_t>(stage);
            auto const needs = need(degrees, memory, stage, begins[i], begins[i + 1]);
            if (stage > 0 && needs - capacity[i] <= cut.needs - cut.has) continue;
            cut.needs = needs;
            cut.has = capacity[i];
            cut.stage = stage;
        }
        auto const runtime = search_.sites().classes().runtime(smallest[static_cast<std::size_t>(cut.stage)]);
        cut.needs += runtime;
        cut.has += runtime;
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

/// True where some cut of the job fits.
[[nodiscard]] inline bool has_cut(PlanSearch& search) {
    return detail::ClosestSearch(search).has_any() || detail::ClosestSearch(search).find(true).fits();
}

/// True where some cut of the job fits with the most replicas, the smallest micro-batches and the most of ZeRO: the quick
/// answer, without what it would cost.
///
/// `like` as PlanSearch's.
[[nodiscard]] inline bool has_plan(Model const& model, Topology const& topology, PlanRequest request,
                                   PlanSearch* like = nullptr) {
    if (request.estimate.batch == 0) request.estimate.batch = smallest_batch(request.pins);
    for (auto const& smallest : smallest_variants(request)) {
        PlanSearch search(model, topology, smallest, like);
        if (detail::ClosestSearch(search).has_any()) return true;
    }
    return false;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
