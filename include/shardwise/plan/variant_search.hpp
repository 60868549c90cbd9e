// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/plan/plan_search.hpp>
#include <shardwise/plan/plan_variant.hpp>

#include <array>
#include <cstddef>
#include <memory>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The best cut of all variants, and its variant.
struct BestCut {
    PlanVariant variant{};
    FoundCut cut;
};

/// Searches a job in every way that its request leaves open: what training computes again, and whether activations are
/// sharded along the sequence. Each search knows the best step of those before it and looks for a shorter one only.
class VariantSearch {
public:
    /// `model` and `topology` outlive it.
    VariantSearch(Model const& model, Topology const& topology, PlanRequest const& request)
        : model_(model), topology_(topology), request_(request) {}

    /// The search of one variant; all of them share what they know of the ranks' weights.
    PlanSearch& at(PlanVariant const& variant) {
        auto& search = searches_[index_of(variant)];
        if (!search) {
            search = std::make_unique<PlanSearch>(model_, topology_, with_variant(request_, variant), first_);
            if (first_ == nullptr) first_ = search.get();
        }
        return *search;
    }

    /// The best variant with its best cut, of which the even ones are looked at if only they count; of equally good ones
    /// the one that computes less again, then without sequence parallelism. Where nothing fits, the one that takes the
    /// least memory. The cut is not looked for where there is one variant and every cut counts.
    BestCut find_best(bool is_even = false) {
        auto const variants = plan_variants(request_);
        BestCut best{variants.back(), {}};
        if (variants.size() == 1 && !is_even) return best;
        auto best_index = variants.size() - 1;
        auto& known = best.cut;
        // What keeps the least mostly fits, and bounds the others; of these, full sequence-parallel ones are slowest to
        // search and rarely better.
        List<std::size_t> order;
        for (bool const is_last : {false, true}) {
            for (auto i = variants.size(); i-- > 0;) {
                bool const is_late = variants[i].is_sequence_parallel && variants[i].recompute == Recompute::full;
                if (is_late == is_last) order.push_back(i);
            }
        }
        for (auto const i : order) {
            bool const has_limit = known.is_found && request_.objective != PlanObjective::devices;
            auto const limit = has_limit ? known.cost.step.total() * (1.0 + 1e-12) : PlanSearch::max_seconds;
            auto& search = at(variants[i]);
            search.use_even(is_even || request_.is_even);
            auto found = search.find_best(limit);
            search.use_even(request_.is_even);
            if (!found.is_found || is_better(known, found, request_.objective)) continue;
            bool const is_equal = known.is_found && !is_better(found, known, request_.objective);
            if (is_equal && i > best_index) continue;
            known = static_cast<FoundCut&&>(found);
            best.variant = variants[i];
            best_index = i;
        }
        return best;
    }

private:
    static constexpr std::size_t index_of(PlanVariant const& variant) {
        return 2 * static_cast<std::size_t>(variant.recompute) + (variant.is_sequence_parallel ? 1 : 0);
    }

    Model const& model_;
    Topology const& topology_;
    PlanRequest request_;
    std::array<std::unique_ptr<PlanSearch>, 6> searches_;
    PlanSearch* first_ = nullptr;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
