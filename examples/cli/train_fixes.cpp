// SPDX-License-Identifier: Apache-2.0
#include <shardwise/train/detail/trainer_sizes.hpp>

#include "choices.hpp"
#include "estimate_answer.hpp"
#include "train_plan.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace shardwise::cli {

namespace {

/// One flag, and what it changes.
struct TrainChange {
    std::string flags;
    TrainRequest request;
    TrainPlan plan;
};

/// What may be changed, in the order in which changes are looked for: the first of them keep every bit of the results.
enum class ChangeKind : std::uint8_t { micro_batch, recompute, offload, zero, precision, optimizer };
constexpr std::size_t change_kinds = 6;
constexpr std::size_t exact_kinds = 4;

class FixSearch {
public:
    FixSearch(TrainRequest const& request, TrainPlan const& plan, std::vector<TrainingProgram> const& programs,
              RopeDivisors const& divisors, Bytes budget)
        : programs_(programs), divisors_(divisors), budget_(budget), given_{{}, request, plan} {}

    [[nodiscard]] std::vector<TrainFix> run() {
        offer_numbers();
        for (std::size_t kind = 1; kind < change_kinds; ++kind) {
            for (auto const& change : changes(static_cast<ChangeKind>(kind), given_)) {
                if (offer(change)) break;
            }
        }
        for (std::size_t count = 2; out_.empty() && count <= change_kinds; ++count) {
            if (!offer_together(given_, 0, exact_kinds, count)) (void)offer_together(given_, 0, change_kinds, count);
        }
        return std::move(out_);
    }

private:
    /// The largest micro-batch, and the longest sequences, that fit.
    void offer_numbers() {
        auto const with_size = [&](std::int64_t size) {
            auto out = given_;
            set_micro_batch(out.request, size, out.plan);
            return add(out, "--micro-batch " + std::to_string(size));
        };
        auto const with_context = [&](std::int64_t context) {
            auto out = given_;
            out.plan.context = context;
            return add(out, "--context " + std::to_string(context));
        };
        auto const size = largest(given_.plan.micro_batch,
                                  [&](std::int64_t tried) -> Result<bool> { return fits(with_size(tried)); });
        if (size && *size > 0) (void)offer(with_size(*size));
        auto const context =
            largest(given_.plan.context, [&](std::int64_t tried) -> Result<bool> { return fits(with_context(tried)); });
        if (context && *context > 0) (void)offer(with_context(*context));
    }

    [[nodiscard]] static TrainChange add(TrainChange change, std::string const& flags) {
        change.flags += (change.flags.empty() ? "" : " ") + flags;
        return change;
    }

    /// The changes of a kind, the least first.
    [[nodiscard]] static std::vector<TrainChange> changes(ChangeKind kind, TrainChange const& from) {
        std::vector<TrainChange> out;
        auto const& request = from.request;
        auto const put = [&](std::string const& flags, auto const& apply) {
            auto change = add(from, flags);
            apply(change);
            out.push_back(std::move(change));
        };
        switch (kind) {
            case ChangeKind::micro_batch:
                if (from.plan.micro_batch > 1)
                    put("--micro-batch 1", [](TrainChange& to) { set_micro_batch(to.request, 1, to.plan); });
                break;
            case ChangeKind::recompute:
                for (auto const what : {Recompute::selective, Recompute::full}) {
                    if (what > request.recompute)
                        put("--recompute " + std::string(recompute_word(what)),
                            [what](TrainChange& to) { to.request.recompute = what; });
                }
                break;
            case ChangeKind::offload:
                for (auto const what : {Offload::optimizer, Offload::all}) {
                    if (what > request.offload)
                        put("--offload " + std::string(words_of<offload_choices>[static_cast<std::size_t>(what)]),
                            [what](TrainChange& to) { to.request.offload = what; });
                }
                break;
            case ChangeKind::zero:
                for (auto zero = request.zero + 1; from.plan.dp > 1 && zero <= 3; ++zero)
                    put("--zero " + std::to_string(zero), [zero](TrainChange& to) { to.request.zero = zero; });
                break;
            case ChangeKind::precision:
                if (request.precision == Dtype::f32)
                    put("--precision bf16", [](TrainChange& to) { to.request.precision = Dtype::bf16; });
                break;
            case ChangeKind::optimizer:
                for (auto const what : {OptimizerKind::adam8bit, OptimizerKind::sgd}) {
                    if (what != request.optimizer && !request.kahan_sum)
                        put("--optimizer " + std::string(train_optimizer_name(what)),
                            [what](TrainChange& to) { to.request.optimizer = what; });
                }
                break;
        }
        return out;
    }

    /// The first `count` changes of kinds in [first, end) that fit together.
    [[nodiscard]] bool offer_together(TrainChange const& from, std::size_t first, std::size_t end, std::size_t count) {
        if (count == 0) return offer(from);
        for (auto kind = first; kind + count <= end; ++kind) {
            for (auto const& change : changes(static_cast<ChangeKind>(kind), from)) {
                if (offer_together(change, kind + 1, end, count - 1)) return true;
            }
        }
        return false;
    }

    /// What the fullest machine takes; nothing where these flags do not run together.
    [[nodiscard]] std::optional<Bytes> bytes_of(TrainChange change) const {
        auto& plan = change.plan;
        // A stage of ZeRO that shares weights leaves none that all ranks train.
        plan.has_one_copy = plan.has_one_copy && train_options_of(change.request, plan).can_share_copy();
        auto const options = train_options_of(change.request, plan);
        if (!options.check()) return std::nullopt;
        if (!check_cuts(change.request, programs_)) return std::nullopt;
        auto const ranks = predict_memory(change.request, plan, programs_, divisors_);
        if (!ranks) return std::nullopt;
        return fullest_of(plan, *ranks);
    }
    [[nodiscard]] bool fits(TrainChange const& change) const {
        auto const bytes = bytes_of(change);
        return bytes && *bytes <= budget_;
    }
    [[nodiscard]] bool offer(TrainChange const& change) {
        auto const bytes = bytes_of(change);
        if (!bytes || *bytes > budget_) return false;
        out_.push_back({change.flags, *bytes});
        return true;
    }

    std::vector<TrainingProgram> const& programs_;
    RopeDivisors const& divisors_;
    Bytes budget_;
    TrainChange given_;
    std::vector<TrainFix> out_;
};

}  // namespace

std::vector<TrainFix> find_train_fixes(TrainRequest const& request, TrainPlan const& plan,
                                       std::vector<TrainingProgram> const& programs, RopeDivisors const& divisors,
                                       Bytes budget) {
    return FixSearch(request, plan, programs, divisors, budget).run();
}

}  // namespace shardwise::cli
