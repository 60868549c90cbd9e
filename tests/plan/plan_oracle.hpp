// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/memory/estimator.hpp>
#include <shardwise/plan/parallel_plan.hpp>
#include <shardwise/plan/plan_cost.hpp>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace shardwise::testing {

/// A job over a few devices, small enough to try everything.
struct PlanCase {
    Model const& model;
    Topology const& topology;
    PlanRequest const& request;
};

/// One way to run a job: what the search must not be worse than.
struct TriedPlan {
    PlanDegrees degrees{};
    std::vector<std::int64_t> begins;
    double seconds = 0.0;
};

/// Every way to run a job, tried one after another without bounds: all degrees, micro-batches, ZeRO stages, layouts and
/// stages, with the estimator's memory and the cost model's price of each.
class PlanOracle {
public:
    explicit PlanOracle(PlanCase const& given)
        : given_(given),
          job_(given.request.estimate),
          layers_(find_parts(given.model, false).layers),
          cost_(given.model, given.request.estimate) {
        for (std::size_t i = 0; i < given.topology.accelerators().size(); ++i) given_order_.push_back(i);
    }

    std::optional<TriedPlan> best() {
        try_all();
        return best_;
    }

    /// The best of all degrees, micro-batches and stages of ZeRO that fit, for each of them: numbers of micro-batches and stages too that
    /// are tried only where they are asked for.
    std::vector<TriedPlan> best_of_each() {
        is_each_kept_ = true;
        try_all();
        return each_;
    }

    /// The best of those that `may_have` is true of.
    template <class Request, class MayHave>
    static std::optional<TriedPlan> best_of(std::vector<TriedPlan> const& each, Request const& request,
                                            MayHave const& may_have) {
        std::optional<TriedPlan> best;
        for (auto const& tried : each) {
            if (!may_have(tried.degrees)) continue;
            auto const key = [&](TriedPlan const& one) {
                bool const counts = request.objective == PlanObjective::devices;
                return std::make_pair(counts ? one.degrees.ranks() : 0, one.seconds);
            };
            if (!best || key(tried) < key(*best)) best = tried;
        }
        return best;
    }

    /// The numbers of micro-batches that are tried without being asked for.
    static std::set<std::int64_t> usual_pieces(PlanRequest const& request, PlanDegrees const& degrees) {
        auto const ranks = degrees.dp * degrees.ep;
        auto const batch = (request.estimate.batch + ranks - 1) / ranks;
        std::set<std::int64_t> counts{1};
        for (std::int64_t size = 1; size < batch && (degrees.pp > 1 || request.estimate.training); size *= 2)
            counts.insert((batch + size - 1) / size);
        return counts;
    }

    /// What a GPU's runtime takes; nothing on a processor.
    static Bytes runtime_of(Device const& device) { return device.kind == DeviceKind::cpu ? 0_B : 512_MiB; }

    /// The bytes of every rank by the estimator, without what the runtime takes.
    MemoryEstimate estimate(PlanDegrees const& degrees, std::vector<std::int64_t> const& begins) const {
        auto request = job_;
        request.batch = (job_.batch + degrees.dp * degrees.ep - 1) / (degrees.dp * degrees.ep);
        request.parallel = {.tp = degrees.tp,
                            .pp = degrees.pp,
                            .ep = degrees.ep,
                            .dp = degrees.dp,
                            .sequence_parallel = job_.parallel.sequence_parallel};
        request.micro_batches = degrees.micro_batches;
        if (request.training) request.training->zero = degrees.zero;
        request.device = DeviceClass::cpu;
        return *estimate_memory(given_.model, request, begins);
    }

private:
    void try_all() {
        auto const& config = given_.model.config;
        auto const devices = static_cast<std::int64_t>(given_order_.size());
        for (std::int64_t ranks = 1; ranks <= devices; ++ranks) {
            for (std::int64_t tp = 1; tp <= std::min(ranks, config.heads); ++tp) {
                for (std::int64_t pp = 1; pp <= std::min(ranks, layers_); ++pp) {
                    for (std::int64_t dp = 1; dp <= std::min(ranks, job_.batch); ++dp) {
                        for (std::int64_t ep = 1; ep <= std::max<std::int64_t>(1, config.experts); ++ep) {
                            if (tp * pp * dp * ep != ranks) continue;
                            if (ep > 1 && (config.experts + ep - 1) / ep == (config.experts + ep - 2) / (ep - 1))
                                continue;
                            try_pieces({.tp = tp, .pp = pp, .dp = dp, .ep = ep});
                        }
                    }
                }
            }
        }
    }

    void try_pieces(PlanDegrees degrees) {
        auto counts = usual_pieces(given_.request, degrees);
        auto const batch = (job_.batch + degrees.dp * degrees.ep - 1) / (degrees.dp * degrees.ep);
        for (std::int64_t micro_batches = 1; is_each_kept_ && micro_batches <= batch; ++micro_batches)
            counts.insert(micro_batches);
        bool const has_stages = job_.training && (degrees.dp > 1 || is_each_kept_);
        for (auto const micro_batches : counts) {
            degrees.micro_batches = micro_batches;
            for (std::int32_t zero = 0; zero <= (has_stages ? 3 : 0); ++zero) {
                degrees.zero = zero;
                if (is_each_kept_) best_.reset();
                for (auto const& order : orders(degrees)) try_order(degrees, order);
                if (is_each_kept_ && best_) each_.push_back(*best_);
            }
        }
    }

    using Order = std::vector<std::size_t>;

    Device const& device(std::size_t i) const { return given_.topology.devices[i]; }

    /// Devices in the given order and strongest first; groups aligned to nodes or not.
    std::set<Order> orders(PlanDegrees const& degrees) const {
        auto sorted = given_order_;
        std::stable_sort(sorted.begin(), sorted.end(), [&](std::size_t a, std::size_t b) {
            auto const key = [&](std::size_t i) {
                auto const rates = device_rates(device(i), Dtype::bf16);
                return std::make_tuple((device(i).usable(job_.utilization) - runtime_of(device(i))).count(),
                                       rates.memory, rates.products);
            };
            return key(a) > key(b);
        });
        std::set<Order> all;
        for (auto const& plain : {given_order_, sorted}) {
            all.insert(plain);
            for (auto const group : {degrees.tp, degrees.tp * degrees.ep}) {
                Order aligned;
                for (std::size_t i = 0; i < plain.size();) {
                    std::size_t run = 1;
                    while (i + run < plain.size() && device(plain[i + run]).node == device(plain[i]).node) ++run;
                    auto const size = static_cast<std::size_t>(group);
                    for (std::size_t k = 0; k < run / size * size; ++k) aligned.push_back(plain[i + k]);
                    i += run;
                }
                if (aligned.size() >= static_cast<std::size_t>(degrees.ranks())) all.insert(aligned);
            }
        }
        return all;
    }

    void try_order(PlanDegrees const& degrees, Order const& order) {
        for (bool const is_replica_outermost : {false, true}) {
            auto const at = [&](std::int64_t tp, std::int64_t ep, std::int64_t dp, std::int64_t pp) {
                auto const slot = is_replica_outermost ? dp * degrees.pp + pp : pp * degrees.dp + dp;
                return order[static_cast<std::size_t>((slot * degrees.ep + ep) * degrees.tp + tp)];
            };
            std::vector<StageSite> sites;
            std::vector<Bytes> capacities;
            std::vector<Device> weakest(static_cast<std::size_t>(degrees.pp));
            for (std::int64_t pp = 0; pp < degrees.pp; ++pp) {
                auto& weak = weakest[static_cast<std::size_t>(pp)];
                weak = device(at(0, 0, 0, pp));
                StageSite site;
                auto capacity = weak.usable(job_.utilization) - runtime_of(weak);
                std::vector<Order> tp_groups;
                std::vector<Order> ep_groups;
                std::vector<Order> dp_groups;
                for (std::int64_t dp = 0; dp < degrees.dp; ++dp) {
                    for (std::int64_t ep = 0; ep < degrees.ep; ++ep) {
                        for (std::int64_t tp = 0; tp < degrees.tp; ++tp) {
                            auto const& own = device(at(tp, ep, dp, pp));
                            weaken(weak, own);
                            capacity = std::min(capacity, own.usable(job_.utilization) - runtime_of(own));
                            if (pp + 1 < degrees.pp) {
                                auto const next = given_.topology.between(at(tp, ep, dp, pp), at(tp, ep, dp, pp + 1));
                                site.next = slower(site.next, next);
                            }
                            Order tps;
                            Order eps;
                            Order dps;
                            for (std::int64_t i = 0; i < degrees.tp; ++i) tps.push_back(at(i, ep, dp, pp));
                            for (std::int64_t i = 0; i < degrees.ep; ++i) eps.push_back(at(tp, i, dp, pp));
                            for (std::int64_t i = 0; i < degrees.dp; ++i) dps.push_back(at(tp, ep, i, pp));
                            tp_groups.push_back(tps);
                            ep_groups.push_back(eps);
                            dp_groups.push_back(dps);
                        }
                    }
                }
                site.device = &weak;
                site.tp = worst(tp_groups);
                site.ep = worst(ep_groups);
                site.dp = worst(dp_groups);
                sites.push_back(site);
                capacities.push_back(capacity);
            }
            std::vector<std::int64_t> begins{0};
            try_stages(degrees, sites, capacities, begins);
        }
    }

    static void weaken(Device& weak, Device const& own) {
        if (weak.measured != MeasuredRates{} || own.measured != MeasuredRates{}) {
            // What each really does, by type.
            MeasuredRates both;
            both.launch =
                std::max(device_rates(weak, Dtype::bf16).kernel_seconds, device_rates(own, Dtype::bf16).kernel_seconds);
            for (auto const& [dtype, rate] : all_rates) {
                auto const one = device_rates(weak, dtype);
                auto const other = device_rates(own, dtype);
                both.products.*rate = std::min(one.products, other.products);
                both.one_row.*rate = std::min(one.memory, other.memory);
            }
            weak.measured = both;
        }
        if (own.kind != DeviceKind::cpu) weak.kind = own.kind;
        weak.bandwidth = std::min(weak.bandwidth, own.bandwidth);
        for (auto const rate : {&PeakRates::fp32, &PeakRates::bf16, &PeakRates::fp8, &PeakRates::int8, &PeakRates::fp16,
                                &PeakRates::fp64, &PeakRates::fp4})
            weak.peak.*rate = std::min(weak.peak.*rate, own.peak.*rate);
    }
    static Link slower(Link const& a, Link const& b) {
        if (a.type == LinkType::none || b.type == LinkType::none) return a.type == LinkType::none ? b : a;
        auto link = a.bandwidth <= b.bandwidth ? a : b;
        link.latency = std::max(a.latency, b.latency);
        return link;
    }

    /// The worst of some groups: over the most nodes, by the slowest links.
    RankGroup worst(std::vector<Order> const& groups) const {
        auto const ranks = static_cast<std::int64_t>(groups[0].size());
        RankGroup result{ranks, ranks, {}, {}};
        for (auto const& group : groups) {
            std::set<std::int32_t> nodes;
            for (auto const i : group) nodes.insert(device(i).node);
            auto const count = static_cast<std::int64_t>(nodes.size());
            result.per_node = std::min(result.per_node, (ranks + count - 1) / count);
            for (std::size_t i = 0; i < group.size(); ++i) {
                for (std::size_t k = i + 1; k < group.size(); ++k) {
                    bool const is_inside = device(group[i]).node == device(group[k]).node;
                    auto& link = is_inside ? result.link : result.network;
                    link = slower(link, given_.topology.between(group[i], group[k]));
                }
            }
        }
        return result;
    }

    /// All ways to end the stages that begin so.
    void try_stages(PlanDegrees const& degrees, std::vector<StageSite> const& sites,
                    std::vector<Bytes> const& capacities, std::vector<std::int64_t>& begins) {
        auto const left = degrees.pp - static_cast<std::int64_t>(begins.size());
        if (left == 0) {
            begins.push_back(layers_);
            price(degrees, sites, capacities, begins);
            begins.pop_back();
            return;
        }
        for (auto next = begins.back() + 1; next + left <= layers_; ++next) {
            begins.push_back(next);
            try_stages(degrees, sites, capacities, begins);
            begins.pop_back();
        }
    }

    void price(PlanDegrees const& degrees, std::vector<StageSite> const& sites, std::vector<Bytes> const& capacities,
               std::vector<std::int64_t> const& begins) {
        std::vector<PlanStage> stages;
        for (std::size_t i = 0; i + 1 < begins.size(); ++i)
            stages.push_back({begins[i], begins[i + 1] - begins[i], i == 0, i + 2 == begins.size(), 0.0});
        auto const seconds = plan_cost(cost_, degrees, stages, sites).step.total();
        if (best_) {
            bool const counts = given_.request.objective == PlanObjective::devices;
            if (counts && degrees.ranks() > best_->degrees.ranks()) return;
            if ((!counts || degrees.ranks() == best_->degrees.ranks()) && seconds >= best_->seconds) return;
        }
        if (fits(degrees, begins, capacities)) best_ = TriedPlan{degrees, begins, seconds};
    }

    bool fits(PlanDegrees const& degrees, std::vector<std::int64_t> const& begins,
              std::vector<Bytes> const& capacities) {
        std::vector<std::int64_t> key{degrees.tp, degrees.ep, degrees.dp, degrees.zero, degrees.micro_batches};
        key.insert(key.end(), begins.begin(), begins.end());
        auto it = largest_.find(key);
        if (it == largest_.end()) {
            std::vector<Bytes> largest(static_cast<std::size_t>(degrees.pp));
            for (auto const& rank : estimate(degrees, begins).devices) {
                auto& most = largest[static_cast<std::size_t>(rank.place.pp)];
                most = std::max(most, rank.total());
            }
            it = largest_.emplace(key, largest).first;
        }
        for (std::size_t i = 0; i < capacities.size(); ++i) {
            if (capacities[i] < it->second[i]) return false;
        }
        return true;
    }

    PlanCase given_;
    EstimateRequest job_;
    std::int64_t layers_;
    CostModel cost_;
    Order given_order_;
    std::optional<TriedPlan> best_;
    bool is_each_kept_ = false;
    std::vector<TriedPlan> each_;
    std::map<std::vector<std::int64_t>, std::vector<Bytes>> largest_;
};

}  // namespace shardwise::testing
