// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/memory/check_request.hpp>
#include <shardwise/memory/check_sizes.hpp>
#include <shardwise/memory/part_grains.hpp>
#include <shardwise/plan/candidate_tree.hpp>
#include <shardwise/plan/found_cut.hpp>
#include <shardwise/plan/legal_degrees.hpp>
#include <shardwise/plan/plan_cost.hpp>
#include <shardwise/plan/site_finder.hpp>
#include <shardwise/plan/stage_partition.hpp>
#include <shardwise/plan/way_finder.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Searches all legal cuts of a model over a topology: best first, by a bound that no layout of the same degrees beats.
class PlanSearch {
public:
    static constexpr std::size_t kinds = CandidateTree::kinds;
    /// Longer than any step.
    static constexpr double max_seconds = 1e300;

    /// `like` is a search of the same model, dtype, quantisation and optimizer that outlives this one: what it knows
    /// of the ranks' weights need not be found anew.
    PlanSearch(Model const& model, Topology const& topology, PlanRequest const& request, PlanSearch* like = nullptr)
        : model_(model),
          request_(request),
          job_(as_published(job_of(request), model.config)),
          zeros_(request, job_.dtype.value_or(model.config.dtype_or(Dtype::f32))),
          parts_(request_parts(model, job_)),
          slots_(find_slots(model, parts_, depends_on_layer(job_))),
          cost_(model, job_, default_efficiency, like == nullptr ? nullptr : &like->cost_),
          pricer_(cost_, slots_),
          sites_(with_utilization(topology, request.estimate.utilization),
                 !request.estimate.training || counts_everything(request.estimate.training->convention),
                 request.estimate.training ? CacheKind{} : cost_.cache()),
          memories_(model, job_, parts_, slots_, like == nullptr ? nullptr : &like->memories_),
          capacity_(model, job_, slots_, memories_),
          pass_(step_pass(model, job_)),
          setting_(step_setting(cost_, pass_)),
          micro_batches_(pricer_, sites_, capacity_, setting_, limits()),
          finder_(micro_batches_, pricer_, sites_, capacity_, setting_, choices_.micro_batches,
                  job_.parallel.sequence_parallel),
          tree_(micro_batches_, finder_) {
        use_batch(job_.batch);
    }
    PlanSearch(PlanSearch const&) = delete;
    PlanSearch& operator=(PlanSearch const&) = delete;

    /// The best cut of each kind of parallelism, by kind_of_parallelism. The best of all is exact, another kind's only
    /// where no more than `max_looks` cuts could improve it.
    std::array<FoundCut, kinds> const& run() {
        limit_ = max_seconds;
        for (auto& best : best_) best = {};
        if (!tree_.may_fit(task())) return best_;
        enumerate();
        find_best_of_all(best_);
        for (std::size_t kind = 0; kind < kinds; ++kind) {
            auto& heap = tree_.heap(kind);
            std::size_t looks = 0;
            for (int pops = 0; pops < max_pops && looks < max_looks && !heap.empty();) {
                auto const candidate = heap.pop();
                if (!may_win(best_[kind], candidate.ranks(), candidate.seconds)) break;
                if (!CandidateTree::is_branch(candidate)) ++pops;
                if (candidate.refined < max_refined()) {
                    refine(candidate, heap);
                    continue;
                }
                ++looks;
                if (!look_at(candidate, best_[kind])) ++too_large_;
            }
        }
        return best_;
    }

    /// The best cut of all kinds, where its step takes `limit` seconds at most.
    [[nodiscard]] FoundCut find_best(double limit) {
        limit_ = limit;
        std::array<FoundCut, 1> best;
        if (!tree_.may_fit(task())) return best[0];
        enumerate();
        find_best_of_all(best);
        return best[0];
    }
    /// The shortest step of all kinds, where it takes `limit` seconds at most; else 0.
    [[nodiscard]] double find_step(double limit) {
        auto const best = find_best(limit);
        return best.is_found ? best.cost.step.total() : 0.0;
    }

    /// Looks at even degrees only from now on, or at all.
    void use_even(bool is_even) {
        request_.is_even = is_even;
        choices_ = DegreeChoices(model_.config, limits(), request_);
    }

    /// Counts so many sequences in the job from now on.
    void use_batch(std::int64_t batch) {
        request_.estimate.batch = job_.batch = batch;
        choices_ = DegreeChoices(model_.config, limits(), request_);
        held_.kinds.clear();
        max_batch_ = largest_counted_batch(model_, job_);
        cost_.use_batch(batch);
        tokens_ = static_cast<double>(batch) *
                  (pass_ == Pass::decode ? 1.0 : static_cast<double>(context_of(job_, model_.config)));
    }

    /// The best cut with these degrees, whatever the other pins, their micro-batches and ZeRO stage.
    [[nodiscard]] FoundCut best_of(PlanDegrees const& degrees) {
        FoundCut best;
        limit_ = max_seconds;
        if (!can_count(degrees)) return best;
        PlanCandidate const candidate{0.0,
                                      0.0,
                                      static_cast<std::int32_t>(degrees.tp),
                                      static_cast<std::int32_t>(degrees.pp),
                                      static_cast<std::int32_t>(degrees.dp),
                                      static_cast<std::int32_t>(degrees.ep)};
        (void)look_at(candidate, best);
        return best;
    }

    [[nodiscard]] List<PlanStage> stages_of(FoundCut const& cut) const { return cut.stages(parts_.layers); }

    /// The cost of a cut; writes the stages' seconds.
    PlanCost price(FoundCut const& cut, List<PlanStage>& stages) {
        auto const sites = sites_.sites(cut.degrees, cut.layout);
        return plan_cost(cost_, cut.degrees, {stages.data(), stages.size()},
                         {sites.stages.data(), sites.stages.size()});
    }

    /// Every rank of a cut with its device and its memory.
    [[nodiscard]] List<PlanRank> ranks_of(FoundCut const& cut) {
        auto const& degrees = cut.degrees;
        auto const memory = memories_.of(degrees);
        List<PlanRank> ranks;
        for (std::int64_t pp = 0; pp < degrees.pp; ++pp) {
            List<MemoryTerms> terms;
            auto const stage = static_cast<std::size_t>(pp);
            for (auto const& rank : memory.ranks)
                terms.push_back(rank.stage_memory(rank.sum(slots_, cut.begins[stage], cut.begins[stage + 1]), pp,
                                                  degrees.dp, degrees.zero));
            for (std::int64_t dp = 0; dp < degrees.dp; ++dp) {
                for (std::int64_t ep = 0; ep < degrees.ep; ++ep) {
                    for (std::int64_t tp = 0; tp < degrees.tp; ++tp) {
                        RankPlace const place{.tp = tp, .pp = pp, .ep = ep, .dp = dp};
                        auto const device = sites_.device_of(place, degrees, cut.layout);
                        auto const index = memory.classes.class_of[static_cast<std::size_t>(ep * degrees.tp + tp)];
                        ranks.push_back({place, device, terms[index]});
                        ranks.back().terms.overhead += sites_.runtime(device);
                    }
                }
            }
        }
        return ranks;
    }

    [[nodiscard]] std::int64_t examined() const { return tree_.examined(); }
    [[nodiscard]] std::int64_t too_large() const { return too_large_ + tree_.too_large(); }
    [[nodiscard]] ModelParts const& parts() const { return parts_; }
    [[nodiscard]] LayerSlots const& slots() const { return slots_; }
    [[nodiscard]] SiteFinder& sites() { return sites_; }
    [[nodiscard]] CutMemories& memories() { return memories_; }
    [[nodiscard]] EstimateRequest const& job() const { return job_; }
    [[nodiscard]] PlanRequest const& request() const { return request_; }
    [[nodiscard]] Model const& model() const { return model_; }
    [[nodiscard]] DegreeLimits limits() const {
        auto limits = degree_limits(model_.config, parts_.layers, job_.batch, sites_.count());
        if (!sites_.classes().tensor_refusal().empty()) limits.tp = 1;
        return limits;
    }
    /// The degrees that the request leaves open.
    [[nodiscard]] DegreeChoices const& choices() const { return choices_; }
    /// False where a rank's share of the batch is more than sizes are computed for, or less than its micro-batches.
    [[nodiscard]] bool can_count(PlanDegrees const& degrees) const {
        auto const batch = rank_batch(job_.batch, degrees);
        return batch <= max_batch_ && choices_.micro_batches.has_enough(batch);
    }
    [[nodiscard]] List<std::int32_t> const& zeros(std::int64_t dp) const { return zeros_.of(dp); }
    /// What each device of such a cut lacks at least, by what it holds of the model; negative where it fits.
    [[nodiscard]] double min_shortfall(PlanDegrees const& degrees) {
        weigh(degrees);
        auto const capacity = sites_.classes().max_capacity(degrees.ranks() / degrees.pp, degrees.pp);
        return (capacity_.min_needed(held_, degrees) - capacity) / static_cast<double>(degrees.pp);
    }
    /// False where such a cut lacks more than so many bytes on some device; sooner known where it need not be exact.
    [[nodiscard]] bool may_fit(PlanDegrees const& degrees, double more, bool is_exact = true) {
        auto const most = sites_.classes().max_memory() + more;
        return may_fit_within(
            degrees, [most](std::int64_t) { return StageLimit{.bytes = most}; }, is_exact);
    }
    /// False where such a cut does not fit stages of this memory.
    [[nodiscard]] bool may_fit(PlanDegrees const& degrees, List<Bytes> const& capacity) {
        return may_fit_within(degrees, [&](std::int64_t stage) {
            return StageLimit{.bytes = static_cast<double>(capacity[static_cast<std::size_t>(stage)].count())};
        });
    }

private:
    template <class Limits>
    bool may_fit_within(PlanDegrees const& degrees, Limits const& limit, bool is_exact = true) {
        weigh(degrees);
        auto const size = ceil_divide(rank_batch(job_.batch, degrees), degrees.micro_batches);
        return capacity_.may_fit(held_, degrees, capacity_.slot_bytes(degrees, size, is_exact), limit);
    }
    /// What slots hold, unless it is known from the last question.
    void weigh(PlanDegrees degrees) {
        degrees.pp = degrees.micro_batches = 1;
        if (weighed_ == degrees && !held_.kinds.empty()) return;
        capacity_.weigh(degrees, held_);
        weighed_ = degrees;
    }
    static EstimateRequest job_of(PlanRequest const& request) {
        auto job = request.estimate;
        // What the runtime takes depends on the device: it is counted there.
        job.device = DeviceClass::cpu;
        job.parallel = {.sequence_parallel = request.estimate.parallel.sequence_parallel};
        job.micro_batches = 0;
        return job;
    }

    /// Prices candidates of all kinds, best bound first, until no bound is better than what was found. Keeps the best
    /// of each kind, or only the best of all.
    template <std::size_t Count>
    void find_best_of_all(std::array<FoundCut, Count>& kept) {
        FoundCut const* best = nullptr;
        while (true) {
            auto next = kinds;
            for (std::size_t kind = 0; kind < kinds; ++kind) {
                bool const is_open = !tree_.heap(kind).empty();
                if (is_open && (next == kinds || tree_.heap(kind).top().is_before(tree_.heap(next).top()))) next = kind;
            }
            if (next == kinds) return;
            auto const& top = tree_.heap(next).top();
            if (best != nullptr && !may_win(*best, top.ranks(), top.seconds)) return;
            auto const candidate = tree_.heap(next).pop();
            if (candidate.refined < max_refined()) {
                refine(candidate, tree_.heap(next));
                continue;
            }
            auto& found = kept[next % Count];
            if (!look_at(candidate, found)) ++too_large_;
            if (found.is_found && (best == nullptr || is_better(found, *best, request_.objective))) best = &found;
        }
    }

    [[nodiscard]] bool counts_devices() const { return request_.objective == PlanObjective::devices; }

    /// False where nothing with this bound can be better than what is known.
    [[nodiscard]] bool may_win(FoundCut const& known, std::int64_t ranks, double seconds) const {
        if (!known.is_found) return seconds <= limit_;
        if (counts_devices() && ranks != known.degrees.ranks()) return ranks < known.degrees.ranks();
        return seconds <= known.cost.step.total() * (1.0 + 1e-12);
    }

    /// Collects all degrees whose step may take `limit_` seconds at most.
    void enumerate() {
        for (auto& best : best_) best = {};
        too_large_ = 0;
        tree_.plant(task());
    }
    CandidateTask task() const { return {request_, zeros_, choices_, sites_.count(), max_batch_, limit_}; }

    /// What is known of a candidate before it is laid out.
    std::int32_t max_refined() const { return sites_.is_uniform() ? 1 : 2; }

    /// Puts a candidate back with a bound that knows what fits, if anything does.
    void refine(PlanCandidate candidate, CandidateHeap& heap) {
        if (CandidateTree::is_branch(candidate)) return tree_.grow(task(), candidate);
        PlanDegrees const degrees{.tp = candidate.tp, .pp = candidate.pp, .dp = candidate.dp, .ep = candidate.ep};
        auto const layouts = candidate.refined == 0 ? List<PlanLayout>{} : sites_.layouts(degrees);
        double least = -1.0;
        finder_.find(
            degrees, rank_batch(job_.batch, degrees), zeros(degrees.dp), layouts,
            [&](double seconds) { return seconds <= limit_ && (least < 0.0 || seconds < least); },
            [&](PlanWay const& way) { least = way.seconds; });
        if (least < 0.0) {
            ++too_large_;
            return;
        }
        if (candidate.seconds < least) candidate.seconds = least;
        ++candidate.refined;
        heap.insert(candidate);
    }

    /// Prices every way to run these degrees that may be better than `best`; false where they cannot fit.
    bool look_at(PlanCandidate const& candidate, FoundCut& best) {
        PlanDegrees degrees{.tp = candidate.tp, .pp = candidate.pp, .dp = candidate.dp, .ep = candidate.ep};
        bool has_capacity = best.is_found;
        auto const batch = rank_batch(job_.batch, degrees);
        for (auto const& layout : sites_.layouts(degrees)) {
            List<PlanWay> ways;
            finder_.find(
                degrees, batch, zeros(degrees.dp), {layout},
                [&](double seconds) { return may_win(best, degrees.ranks(), seconds); },
                [&](PlanWay const& way) { ways.push_back(way); });
            if (ways.empty()) continue;
            auto const sites = sites_.sites(degrees, layout);
            for (auto const& way : ways) {
                if (!may_win(best, degrees.ranks(), way.seconds)) continue;
                degrees.micro_batches = way.micro_batches;
                degrees.zero = way.zero;
                auto const memory = memories_.of(degrees);
                List<SlotPrices const*> prices;
                for (auto const& site : sites.stages)
                    prices.push_back(&pricer_.at(pass_, ceil_divide(batch, way.micro_batches), site));
                has_capacity = cut(degrees, layout, sites, prices, memory, best) || has_capacity;
            }
        }
        return has_capacity;
    }

    /// The best stages of a cut, where they are better than `best`.
    bool cut(PlanDegrees const& degrees, PlanLayout const& layout, PlanSites const& sites,
             List<SlotPrices const*> const& prices, CutMemory const& memory, FoundCut& best) {
        bool const has_limit = best.is_found && !(counts_devices() && degrees.ranks() < best.degrees.ranks());
        auto const limit = has_limit ? best.cost.step.total() : limit_;
        StageTask const task{slots_, degrees, sites, prices, memory, setting_};
        auto bounds = find_stages(task, limit);
        if (bounds.begins.empty()) return false;
        FoundCut found{degrees, layout, static_cast<List<std::int64_t>&&>(bounds.begins), {}, true};
        found.cost.step = step(found, sites, pass_);
        if (pass_ == Pass::decode && may_win(best, degrees.ranks(), found.cost.step.total()))
            found.cost.prefill = step(found, sites, Pass::prefill);
        found.cost.tokens_per_second = tokens_ / found.cost.step.total();
        if (is_better(found, best, request_.objective)) best = static_cast<FoundCut&&>(found);
        return true;
    }

    /// A pass through the stages of a cut: plan_cost's, from prices that are kept.
    CostTerms step(FoundCut const& cut, PlanSites const& sites, Pass pass) {
        auto const size = ceil_divide(rank_batch(job_.batch, cut.degrees), cut.degrees.micro_batches);
        List<StageCost> costs;
        for (std::size_t i = 0; i < sites.stages.size(); ++i) {
            auto const& prices = pricer_.at(pass, size, sites.stages[i]);
            StageCost stage;
            for (auto slot = cut.begins[i]; slot < cut.begins[i + 1]; ++slot)
                stage += prices.kinds[slots_.kind_of[static_cast<std::size_t>(slot)]];
            costs.push_back(stage);
        }
        return step_cost({costs.data(), costs.size()}, {sites.stages.data(), sites.stages.size()}, cut.degrees,
                         step_setting(cost_, pass));
    }

    /// Candidates that are priced for a kind that is not the best, and that are looked at for their memory.
    static constexpr std::size_t max_looks = 24;
    static constexpr int max_pops = 500;
    Model const& model_;
    PlanRequest request_;
    EstimateRequest job_;
    ZeroChoices zeros_;
    ModelParts parts_;
    LayerSlots slots_;
    CostModel cost_;
    SlotPricer pricer_;
    SiteFinder sites_;
    CutMemories memories_;
    CapacityCheck capacity_;
    /// What slots hold with the degrees that were asked about last.
    HeldBytes held_;
    PlanDegrees weighed_{};
    Pass pass_;
    StepSetting setting_;
    DegreeChoices choices_;
    MicroBatchPrices micro_batches_;
    WayFinder finder_;
    CandidateTree tree_;
    /// Of a step of the whole job.
    double tokens_ = 0.0;
    /// The most sequences of a rank that sizes are computed for.
    std::int64_t max_batch_ = INT64_MAX;
    std::array<FoundCut, kinds> best_;
    /// The longest step that is of interest.
    double limit_ = max_seconds;
    std::int64_t too_large_ = 0;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
