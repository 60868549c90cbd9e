#pragma once

#include <shardwise/memory/check_request.hpp>
#include <shardwise/memory/check_sizes.hpp>
#include <shardwise/plan/candidate_heap.hpp>
#include <shardwise/plan/legal_degrees.hpp>
#include <shardwise/plan/plan_cost.hpp>
#include <shardwise/plan/site_finder.hpp>
#include <shardwise/plan/stage_partition.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

namespace shardwise::inline v0_2_0 {

/// A cut that fits, with what it costs.
struct FoundCut {
    PlanDegrees degrees{};
    PlanLayout layout{};
    List<std::int64_t> begins;
    PlanCost cost{};
    bool is_found = false;
};

/// True where `a` is the better answer: by the objective, then the shorter prefill, then the fewest ranks, then the
/// smaller tp, pp, ep, dp, ZeRO stage and number of micro-batches, in this order.
[[nodiscard]] inline bool is_better(FoundCut const& a, FoundCut const& b, PlanObjective objective) {
    if (!a.is_found || !b.is_found) return a.is_found;
    if (objective == PlanObjective::devices && a.degrees.ranks() != b.degrees.ranks())
        return a.degrees.ranks() < b.degrees.ranks();
    if (a.cost.step.total() != b.cost.step.total()) return a.cost.step.total() < b.cost.step.total();
    if (a.cost.prefill.total() != b.cost.prefill.total()) return a.cost.prefill.total() < b.cost.prefill.total();
    std::int64_t const one[] = {a.degrees.ranks(), a.degrees.tp,   a.degrees.pp,           a.degrees.ep,
                                a.degrees.dp,      a.degrees.zero, a.degrees.micro_batches};
    std::int64_t const other[] = {b.degrees.ranks(), b.degrees.tp,   b.degrees.pp,           b.degrees.ep,
                                  b.degrees.dp,      b.degrees.zero, b.degrees.micro_batches};
    for (std::size_t i = 0; i < 7; ++i) {
        if (one[i] != other[i]) return one[i] < other[i];
    }
    return false;
}

/// Searches all legal cuts of a model over a topology: best first, by a bound that no layout of the same degrees beats.
class PlanSearch {
public:
    static constexpr std::size_t kinds = 16;

    PlanSearch(Model const& model, Topology const& topology, PlanRequest const& request)
        : model_(model),
          request_(request),
          job_(job_of(request)),
          dtype_(job_.dtype.value_or(model.config.dtype_or(Dtype::f32))),
          parts_(find_parts(model, depends_on_layer(job_))),
          slots_(find_slots(model, parts_, depends_on_layer(job_))),
          cost_(model, job_),
          pricer_(cost_, slots_),
          sites_(topology),
          memories_(model, job_, parts_, slots_),
          pass_(job_.training ? Pass::training : Pass::decode),
          setting_(step_setting(cost_, pass_)),
          tokens_(static_cast<double>(job_.batch) *
                  (job_.training ? static_cast<double>(context_of(job_, model.config)) : 1.0)) {
        for (std::int64_t i = 0; i < sites_.count(); ++i) {
            auto const memory = sites_.device(static_cast<std::int32_t>(i)).available();
            if (largest_memory_ < memory) largest_memory_ = memory;
        }
    }
    PlanSearch(PlanSearch const&) = delete;
    PlanSearch& operator=(PlanSearch const&) = delete;

    /// The best cut of each kind of parallelism, by kind_of_parallelism. The best of all is exact, another kind's only where
    /// no more than `most_looks` bounds could improve it.
    std::array<FoundCut, kinds> const& run() {
        enumerate();
        for (auto& heap : heaps_) heap.build();
        find_best_of_all();
        for (std::size_t kind = 0; kind < kinds; ++kind) {
            auto& heap = heaps_[kind];
            for (int looks = 0; looks < most_looks && !heap.empty(); ++looks) {
                auto const candidate = heap.pop();
                if (!may_win(best_[kind], candidate.ranks(), candidate.seconds)) break;
                if (!look_at(candidate, best_[kind])) ++too_large_;
            }
        }
        return best_;
    }

    /// The best cut with these degrees, whatever their micro-batches and ZeRO stage.
    [[nodiscard]] FoundCut best_of(PlanDegrees const& degrees) {
        FoundCut best;
        PlanCandidate const candidate{0.0,
                                      0.0,
                                      static_cast<std::int32_t>(degrees.tp),
                                      static_cast<std::int32_t>(degrees.pp),
                                      static_cast<std::int32_t>(degrees.dp),
                                      static_cast<std::int32_t>(degrees.ep)};
        (void)look_at(candidate, best);
        return best;
    }

    [[nodiscard]] List<PlanStage> stages_of(FoundCut const& cut) const {
        List<PlanStage> stages;
        for (std::size_t i = 0; i + 1 < cut.begins.size(); ++i) {
            bool const is_last = i + 2 == cut.begins.size();
            auto const count = is_last ? parts_.layers - cut.begins[i] : cut.begins[i + 1] - cut.begins[i];
            stages.push_back({cut.begins[i], count, i == 0, is_last, 0.0});
        }
        return stages;
    }

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
                        ranks.push_back(
                            {place, sites_.device_of(place, degrees, cut.layout),
                             terms[memory.classes.class_of[static_cast<std::size_t>(ep * degrees.tp + tp)]]});
                    }
                }
            }
        }
        return ranks;
    }

    /// The fullest rank of a cut, and the smallest device that it lies on.
    [[nodiscard]] Bytes fullest(FoundCut const& cut) {
        Bytes most{};
        for (auto const& rank : ranks_of(cut)) most = most < rank.terms.total() ? rank.terms.total() : most;
        return most;
    }
    struct Load {
        Bytes bytes{};
        Bytes capacity{};
    };
    /// The rank whose device is filled the most, by its share.
    [[nodiscard]] Load most_loaded(FoundCut const& cut) {
        Load most{{}, Bytes{1}};
        for (auto const& rank : ranks_of(cut)) {
            Load const load{rank.terms.total(), sites_.device(rank.device).available()};
            if (share_of(most) < share_of(load)) most = load;
        }
        return most;
    }
    [[nodiscard]] Bytes smallest_device(FoundCut const& cut) {
        auto least = largest_memory_;
        for (auto const capacity : sites_.sites(cut.degrees, cut.layout).capacities)
            least = capacity < least ? capacity : least;
        return least;
    }

    [[nodiscard]] std::int64_t examined() const { return examined_; }
    [[nodiscard]] std::int64_t too_large() const { return too_large_; }
    [[nodiscard]] ModelParts const& parts() const { return parts_; }
    [[nodiscard]] LayerSlots const& slots() const { return slots_; }
    [[nodiscard]] SiteFinder& sites() { return sites_; }
    [[nodiscard]] CutMemories& memories() { return memories_; }
    [[nodiscard]] EstimateRequest const& job() const { return job_; }
    [[nodiscard]] PlanRequest const& request() const { return request_; }
    [[nodiscard]] Model const& model() const { return model_; }
    [[nodiscard]] Bytes largest_memory() const { return largest_memory_; }
    [[nodiscard]] DegreeLimits limits() const {
        return degree_limits(model_.config, parts_.layers, job_.batch, sites_.count());
    }
    [[nodiscard]] List<std::int32_t> zeros(std::int64_t dp) const { return zero_stages(request_, dtype_, dp); }
    /// Less than the fullest rank of such a cut needs, whatever its stages: its share of what the ranks hold of the
    /// model.
    [[nodiscard]] Bytes least_memory(PlanDegrees const& degrees) {
        auto const& whole = memories_.held(degrees);
        if (!job_.training) {
            auto const overhead = runtime_overhead(DeviceClass::gpu);
            return Bytes{(whole.weights + kv_cache(degrees)).count() / degrees.pp} + overhead;
        }
        auto plan = *job_.training;
        plan.zero = degrees.zero;
        TrainingShare const share{.parameters = whole.parameters / degrees.pp,
                                  .parameter_bytes = Bytes{(whole.weights - whole.buffers).count() / degrees.pp},
                                  .buffer_bytes = Bytes{0},
                                  .state_bytes = Bytes{whole.states.count() / degrees.pp},
                                  .largest_part = Bytes{0},
                                  .dtype = dtype_,
                                  .dp = degrees.dp};
        auto const states = model_states(plan, share);
        return states.weights + states.gradients + states.optimizer;
    }

private:
    static double share_of(Load const& load) {
        return static_cast<double>(load.bytes.count()) / static_cast<double>(load.capacity.count());
    }
    static EstimateRequest job_of(PlanRequest const& request) {
        auto job = request.estimate;
        job.parallel = {.sequence_parallel = request.estimate.parallel.sequence_parallel};
        job.micro_batches = 0;
        return job;
    }

    /// Prices candidates of all kinds, best bound first, until no bound is better than what was found.
    void find_best_of_all() {
        FoundCut const* best = nullptr;
        while (true) {
            auto next = kinds;
            for (std::size_t kind = 0; kind < kinds; ++kind) {
                bool const is_open = !heaps_[kind].empty();
                if (is_open && (next == kinds || heaps_[kind].top().is_before(heaps_[next].top()))) next = kind;
            }
            if (next == kinds) return;
            auto const& top = heaps_[next].top();
            if (best != nullptr && !may_win(*best, top.ranks(), top.seconds)) return;
            auto& found = best_[next];
            if (!look_at(heaps_[next].pop(), found)) ++too_large_;
            if (found.is_found && (best == nullptr || is_better(found, *best, request_.objective))) best = &found;
        }
    }

    [[nodiscard]] bool counts_devices() const { return request_.objective == PlanObjective::devices; }

    /// False where nothing with this bound can be better than what is known.
    [[nodiscard]] bool may_win(FoundCut const& known, std::int64_t ranks, double seconds) const {
        if (!known.is_found) return true;
        if (counts_devices() && ranks != known.degrees.ranks()) return ranks < known.degrees.ranks();
        return seconds <= known.cost.step.total() * (1.0 + 1e-12);
    }

    /// The step where all stages were the fastest that these prices allow.
    [[nodiscard]] double least_seconds(SlotPrices const& prices, StageSite const& site, std::int64_t pp,
                                       std::int64_t pieces) const {
        detail::CutTimes times{.sum = prices.total, .slowest = pricer_.least_slowest(prices, pp)};
        if (pp > 1) {
            StageCost const stage{.output_bytes = prices.message};
            times.sum += static_cast<double>(pp - 1) * detail::stage_message_seconds(stage, site, setting_);
        }
        return times.seconds(static_cast<double>(pieces), setting_);
    }

    void enumerate() {
        auto const most = limits();
        auto const experts = expert_degrees(model_.config.experts, most.ep);
        auto const devices = sites_.count();
        for (std::int64_t tp = 1; tp <= most.tp; ++tp) {
            for (auto const ep : experts) {
                if (tp * ep > devices) break;
                auto const site = sites_.best_site(tp, ep);
                // By the power of two that is the size of a piece.
                std::array<SlotPrices const*, 64> prices{};
                std::int64_t previous = 0;
                for (std::int64_t dp = 1; dp <= most.dp && tp * ep * dp <= devices; ++dp) {
                    auto const batch = ceil_divide(job_.batch, dp * ep);
                    if (!job_.training && batch == previous) continue;
                    previous = batch;
                    add_pipelines({.tp = tp, .dp = dp, .ep = ep}, batch, most.pp, site, prices);
                }
            }
        }
    }

    /// All numbers of stages for these degrees.
    void add_pipelines(PlanDegrees degrees, std::int64_t batch, std::int64_t most, StageSite const& site,
                       std::array<SlotPrices const*, 64>& prices) {
        auto const counts = piece_counts(batch, 2, true);
        for (degrees.pp = 1; degrees.pp <= most && degrees.ranks() <= sites_.count(); ++degrees.pp) {
            double least = -1.0;
            for (auto const pieces : counts) {
                if (pieces > 1 && degrees.pp == 1 && !job_.training) break;
                // A piece takes no less than one of a power of two that is no larger.
                std::size_t power = 0;
                while ((std::int64_t{2} << power) <= ceil_divide(batch, pieces)) ++power;
                if (prices[power] == nullptr) prices[power] = &pricer_.at(pass_, std::int64_t{1} << power, site);
                auto const seconds = least_seconds(*prices[power], site, degrees.pp, pieces);
                if (least < 0.0 || seconds < least) least = seconds;
            }
            heaps_[kind_of_parallelism(degrees)].push(
                {counts_devices() ? static_cast<double>(degrees.ranks()) : 0.0, least,
                 static_cast<std::int32_t>(degrees.tp), static_cast<std::int32_t>(degrees.pp),
                 static_cast<std::int32_t>(degrees.dp), static_cast<std::int32_t>(degrees.ep)});
            ++examined_;
        }
    }

    /// Prices every way to run these degrees that may be better than `best`; false where they cannot fit.
    bool look_at(PlanCandidate const& candidate, FoundCut& best) {
        PlanDegrees degrees{.tp = candidate.tp, .pp = candidate.pp, .dp = candidate.dp, .ep = candidate.ep};
        List<std::int32_t> zeros;
        for (auto const zero : this->zeros(degrees.dp)) {
            degrees.zero = zero;
            if (least_memory(degrees) <= largest_memory_) zeros.push_back(zero);
        }
        if (zeros.empty()) return false;
        List<PlanLayout> layouts;
        List<PlanSites> sites;
        auto const batch = rank_batch(job_.batch, degrees);
        auto const best_site = sites_.best_site(degrees.tp, degrees.ep);
        bool has_room = best.is_found;
        for (auto const pieces : piece_counts(batch, degrees.pp, job_.training.has_value())) {
            degrees.micro_batches = pieces;
            auto const& least = pricer_.at(pass_, ceil_divide(batch, pieces), best_site);
            if (!may_win(best, degrees.ranks(), least_seconds(least, best_site, degrees.pp, pieces))) continue;
            if (layouts.empty()) {
                layouts = sites_.layouts(degrees);
                for (auto const& layout : layouts) sites.push_back(sites_.sites(degrees, layout));
            }
            auto const memory = memories_.of(degrees);
            for (std::size_t i = 0; i < layouts.size(); ++i) {
                List<SlotPrices const*> prices;
                for (auto const& site : sites[i].stages)
                    prices.push_back(&pricer_.at(pass_, ceil_divide(batch, pieces), site));
                for (auto const zero : zeros) {
                    degrees.zero = zero;
                    has_room = cut(degrees, layouts[i], sites[i], prices, memory, best) || has_room;
                }
            }
        }
        return has_room;
    }

    /// The best stages of a cut, where they are better than `best`.
    bool cut(PlanDegrees const& degrees, PlanLayout const& layout, PlanSites const& sites,
             List<SlotPrices const*> const& prices, CutMemory const& memory, FoundCut& best) {
        bool const has_limit = best.is_found && !(counts_devices() && degrees.ranks() < best.degrees.ranks());
        auto const limit = has_limit ? best.cost.step.total() : most_seconds;
        StageTask const task{slots_, degrees, sites, prices, memory, setting_};
        auto bounds = find_stages(task, limit);
        if (bounds.begins.empty()) return false;
        FoundCut found{degrees, layout, static_cast<List<std::int64_t>&&>(bounds.begins), {}, true};
        found.cost.step = step(found, sites, pass_);
        if (!job_.training && may_win(best, degrees.ranks(), found.cost.step.total()))
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

    Bytes kv_cache(PlanDegrees const& degrees) const {
        auto const request = rank_request(job_, degrees);
        Bytes sum{};
        for (auto const& block : model_.program.blocks())
            sum += block.count * kv_cache_bytes(model_.program.body(block), request, model_.config);
        return sum;
    }

    /// Candidates that are priced for a kind that is not the best.
    static constexpr int most_looks = 100;
    /// Longer than any step.
    static constexpr double most_seconds = 1e300;
    Model const& model_;
    PlanRequest request_;
    EstimateRequest job_;
    Dtype dtype_;
    ModelParts parts_;
    LayerSlots slots_;
    CostModel cost_;
    SlotPricer pricer_;
    SiteFinder sites_;
    CutMemories memories_;
    Pass pass_;
    StepSetting setting_;
    /// Of a step of the whole job.
    double tokens_;
    Bytes largest_memory_{};
    std::array<CandidateHeap, kinds> heaps_;
    std::array<FoundCut, kinds> best_;
    std::int64_t examined_ = 0;
    std::int64_t too_large_ = 0;
};

}  // namespace shardwise::inline v0_2_0
