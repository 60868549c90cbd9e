// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/plan/cut_memory.hpp>
#include <shardwise/plan/slot_prices.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A slot on one rank as the quick test sees it, in bytes.
struct SlotBytes {
    /// Of the model, its states and its cache.
    double held = 0.0;
    /// For each micro-batch that is under way.
    double kept = 0.0;
    /// While it works; of a stage's slots only the largest counts.
    double at_work = 0.0;
};

/// What slots hold of the model on one rank, by their kinds, under some stage of ZeRO.
struct HeldBytes {
    List<double> kinds;
    /// Of the layers that ZeRO gathers.
    List<double> gathered;
    /// Of all slots.
    double whole = 0.0;
};

/// What one stage may take at most.
struct StageLimit {
    double bytes = 0.0;
    /// Of one slot of each kind, and of all together.
    double const* seconds = nullptr;
    double max_seconds = 0.0;
};

/// Tells quickly that a cut does not fit, before it is known where its ranks lie. It looks only at the first rank of a
/// tensor- and expert-parallel group and rounds every term down, so that a cut that fits always passes.
class CapacityCheck {
public:
    CapacityCheck(Model const& model, EstimateRequest const& job, LayerSlots const& slots, CutMemories& memories)
        : model_(model), job_(job), slots_(slots), memories_(memories), micro_batches_(1024) {
        for (auto const kind : slots.kind_of) {
            if (runs_.empty() || runs_.back().kind != kind) runs_.push_back({kind, 0.0});
            runs_.back().count += 1.0;
        }
        bool const is_own = !job.training || counts_everything(job.training->convention);
        overhead_ = is_own ? static_cast<double>(runtime_overhead(job.device).count()) : 0.0;
    }
    CapacityCheck(CapacityCheck const&) = delete;
    CapacityCheck& operator=(CapacityCheck const&) = delete;

    /// What slots hold with these degrees and this stage of ZeRO, whatever their micro-batches.
    void weigh(PlanDegrees const& degrees, HeldBytes& held) {
        auto const& weights = memories_.weights(degrees);
        held.kinds.clear();
        held.gathered.clear();
        held.whole = 0.0;
        bool const is_gathered = job_.training && counts_everything(job_.training->convention) &&
                                 job_.training->offload != Offload::all && degrees.dp > 1 && degrees.zero >= 3;
        for (auto const& kind : weights.kinds) {
            held.kinds.push_back(held_bytes(kind.held, degrees));
            held.gathered.push_back(is_gathered ? 2.0 * static_cast<double>(kind.largest_part.count()) : 0.0);
        }
        if (!job_.training) add_cache(degrees, held.kinds);
        // Both names of a tie may be in one stage.
        for (auto const& tie : slots_.ties) {
            auto& bytes = held.kinds[slots_.kind_of[static_cast<std::size_t>(tie.other)]];
            bytes -= held_bytes(weights.ties[tie.tie], degrees);
            if (bytes < 0.0) bytes = 0.0;
        }
        for (auto const& run : runs_) held.whole += run.count * held.kinds[run.kind];
    }

    /// False where stages that hold nothing but the model need more than `most` bytes of their devices together.
    [[nodiscard]] bool may_hold(HeldBytes const& held, PlanDegrees const& degrees, double most) const {
        return held.whole + static_cast<double>(degrees.pp) * overhead_ <= most + slack;
    }

    /// What stages that hold nothing but the model need at least.
    [[nodiscard]] double min_needed(HeldBytes const& held, PlanDegrees const& degrees) const {
        return held.whole + static_cast<double>(degrees.pp) * overhead_ - slack;
    }

    /// False where no stages of consecutive slots keep within their limits, which `limit(stage)` tells; `bytes` are of
    /// a micro-batch no larger than theirs.
    template <class Limits>
    [[nodiscard]] bool may_fit(HeldBytes const& held, PlanDegrees const& degrees, SlotBytes const* bytes,
                               Limits const& limit) const {
        std::size_t run = 0;
        auto left = runs_[0].count;
        for (std::int64_t stage = 0; stage < degrees.pp; ++stage) {
            auto const from_here_on = degrees.pp - stage;
            auto const micro_batches =
                static_cast<double>(degrees.micro_batches < from_here_on ? degrees.micro_batches : from_here_on);
            StageLimit const most = limit(stage);
            auto capacity = most.bytes - overhead_ + slack;
            auto seconds = most.max_seconds;
            double at_work = 0.0;
            while (true) {
                auto const kind = runs_[run].kind;
                auto const& slot = bytes[kind];
                auto const working = slot.at_work + held.gathered[kind];
                auto const more = working > at_work ? working - at_work : 0.0;
                auto const each = held.kinds[kind] + micro_batches * slot.kept;
                auto count = left;
                if (capacity - more < count * each) count = whole_part((capacity - more) / each);
                if (most.seconds != nullptr && seconds < count * most.seconds[kind])
                    count = whole_part(seconds / most.seconds[kind]);
                if (count <= 0.0) break;
                at_work += more;
                capacity -= more + count * each;
                if (most.seconds != nullptr) seconds -= count * most.seconds[kind];
                left -= count;
                if (left > 0.0) break;
                if (++run == runs_.size()) return true;
                left = runs_[run].count;
            }
        }
        return false;
    }

    /// False where no stages of so many bytes each hold the slots; as may_fit.
    [[nodiscard]] bool may_fit_alike(HeldBytes const& held, PlanDegrees const& degrees, SlotBytes const* bytes,
                                     double most) const {
        auto const micro_batches = degrees.micro_batches < degrees.pp ? degrees.micro_batches : degrees.pp;
        double slots = 0.0;
        double each = 0.0;
        double at_work = 0.0;
        for (auto const& run : runs_) {
            slots += run.count;
            auto const own = held.kinds[run.kind] + static_cast<double>(micro_batches) * bytes[run.kind].kept;
            auto const working = bytes[run.kind].at_work + held.gathered[run.kind];
            if (each < own) each = own;
            if (at_work < working) at_work = working;
        }
        // Even stages fit where all slots are like the largest and all micro-batches are under way.
        auto const stage = static_cast<double>(ceil_divide(static_cast<std::int64_t>(slots), degrees.pp));
        if (at_work + stage * each <= most - overhead_) return true;
        return may_fit(held, degrees, bytes, [most](std::int64_t) { return StageLimit{.bytes = most}; });
    }

    /// The most frequent kind of slots.
    [[nodiscard]] std::size_t most_frequent() const {
        std::size_t most = 0;
        for (std::size_t i = 1; i < runs_.size(); ++i) {
            if (runs_[most].count < runs_[i].count) most = i;
        }
        return runs_[most].kind;
    }
    [[nodiscard]] double slots_of(std::size_t kind) const {
        double count = 0.0;
        for (auto const& run : runs_) count += run.kind == kind ? run.count : 0.0;
        return count;
    }
    /// How many slots of a kind so many bytes of a stage hold at most.
    [[nodiscard]] double max_slots(HeldBytes const& held, PlanDegrees const& degrees, SlotBytes const* bytes,
                                   std::int64_t stage, double most, std::size_t kind) const {
        auto const from_here_on = degrees.pp - stage;
        auto const micro_batches =
            static_cast<double>(degrees.micro_batches < from_here_on ? degrees.micro_batches : from_here_on);
        auto const each = held.kinds[kind] + micro_batches * bytes[kind].kept;
        auto const capacity = most - overhead_ + slack - bytes[kind].at_work - held.gathered[kind];
        return each > 0.0 ? whole_part(capacity / each) : 1e9;
    }

    /// What a micro-batch of so many sequences takes, by the kinds of slots; or, sooner found, no more than that. Valid until
    /// the check goes.
    [[nodiscard]] SlotBytes const* slot_bytes(PlanDegrees const& degrees, std::int64_t size, bool is_exact = true) {
        auto& known =
            micro_batches_[static_cast<std::size_t>(degrees.tp * 31 + degrees.ep + 7 * size) % micro_batches_.size()];
        for (auto const& entry : known) {
            bool const is_cut = entry.tp == degrees.tp && entry.ep == degrees.ep;
            if (is_cut && entry.batch == size && entry.is_exact == is_exact) return entry.kinds.data();
        }
        auto request = rank_request(job_, degrees);
        request.batch = size;
        request.micro_batches = 1;
        auto const least = is_exact ? List<StageNeeds>{} : min_body_needs(model_, memories_.parts(), request);
        auto const& bodies = is_exact ? memories_.bodies(request, {}) : least;
        List<SlotBytes> kinds(slots_.kinds.size());
        for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
            StageNeeds needs;
            for (auto const body : slots_.kinds[kind].bodies) needs.add(bodies[body]);
            kinds[kind] = {0.0, count_of(needs.saved), count_of(needs.working.peak()) + count_of(needs.communication)};
            if (job_.training && job_.training->convention == MemoryConvention::megatron_paper) {
                auto const& config = model_.config;
                kinds[kind].kept += count_of(
                    megatron_activations(context_of(request, config), size, config.hidden_size, config.heads,
                                         degrees.tp, request.parallel.sequence_parallel, job_.training->recompute));
            }
        }
        known.push_back({degrees.tp, degrees.ep, size, is_exact, static_cast<List<SlotBytes>&&>(kinds)});
        return known.back().kinds.data();
    }

private:
    struct Run {
        std::size_t kind = 0;
        double count = 0.0;
    };
    struct KnownSlots {
        std::int64_t tp = 0;
        std::int64_t ep = 0;
        std::int64_t batch = 0;
        bool is_exact = true;
        List<SlotBytes> kinds;
    };

    static double whole_part(double value) {
        return value < 1.0 ? 0.0 : static_cast<double>(static_cast<std::int64_t>(value));
    }
    static double count_of(Bytes bytes) { return static_cast<double>(bytes.count()); }

    double held_bytes(HeldMemory const& held, PlanDegrees const& degrees) const {
        if (!job_.training) return count_of(held.weights);
        auto plan = *job_.training;
        plan.zero = degrees.zero;
        auto const states = model_states(plan, training_share(held, job_, model_.config, degrees.dp));
        // Shares are rounded up once a stage, not once a slot.
        auto const bytes = count_of(states.weights + states.gradients + states.optimizer) - 3.0;
        return bytes > 0.0 ? bytes : 0.0;
    }

    void add_cache(PlanDegrees const& degrees, List<double>& held) const {
        auto const request = rank_request(job_, degrees);
        for (std::size_t kind = 0; kind < held.size(); ++kind) {
            for (auto const body : slots_.kinds[kind].bodies)
                held[kind] += count_of(body_cache(model_, memories_.parts(), body, request, 0));
        }
    }

    /// More than sums of doubles are wrong by, in bytes.
    static constexpr double slack = 4096.0;

    Model const& model_;
    EstimateRequest const& job_;
    LayerSlots const& slots_;
    CutMemories& memories_;
    double overhead_ = 0.0;
    List<Run> runs_;
    List<List<KnownSlots>> micro_batches_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
