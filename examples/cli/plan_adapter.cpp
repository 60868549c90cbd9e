// SPDX-License-Identifier: Apache-2.0
#include "plan_adapter.hpp"

#include <shardwise/train/detail/check_cut.hpp>

#include "estimate_answer.hpp"
#include "train_adapter.hpp"
#include "train_plan.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace shardwise::cli {

namespace {

/// Asks the trainer for one degree after another.
class TrainedDegrees {
public:
    TrainedDegrees(Model const& model, EstimateRequest asked, LowRankOptions const& low_rank)
        : model_(model), asked_(std::move(asked)), low_rank_(low_rank) {}

    /// The first rank's program.
    ///
    /// Errors  why train does not run
    [[nodiscard]] Result<TrainingProgram> program(std::int64_t tp, std::int64_t pp) const {
        auto asked = asked_;
        asked.parallel.tp = tp;
        asked.parallel.pp = pp;
        auto const options = train_options_of(asked);
        if (auto const checked = options.check(); !checked) return checked.error();
        auto program = TrainingProgram::create(model_, options.model_place(0), low_rank_);
        if (!program) return program.error();
        auto const cut = with_counted_rule(
            asked.training->optimizer, [&](auto const& rule) { return detail::check_cut(rule, program->layout()); });
        if (!cut) return cut.error();
        return program;
    }

    /// Those of tensor parallelism and the most stages, the pinned ones or all.
    ///
    /// Errors  why a pinned one does not run
    [[nodiscard]] Result<SearchLimits> limits(PlanPins const& pins, std::int64_t devices) const {
        SearchLimits out{.tp = {1}, .max_ep = 1};
        if (pins.tp && *pins.tp > 1) {
            if (auto const tried = program(*pins.tp, 1); !tried) return tried.error();
            out.tp = {*pins.tp};
        }
        if (!pins.tp) out.tp = tensor_degrees(std::min(model_.config.heads, devices));
        auto const stages = pins.pp.value_or(2);
        if (stages < 2 || stages > model_.program.layers()) return out;
        auto const tried = program(1, stages);
        if (!tried && pins.pp) return tried.error();
        if (!tried) out.max_pp = 1;
        return out;
    }

private:
    /// What speaks against a degree speaks against larger ones, but for blocks of an optimizer's state that ranks would cut.
    [[nodiscard]] List<std::int64_t> tensor_degrees(std::int64_t most) const {
        bool const has_blocks = asked_.training->optimizer == OptimizerKind::adam8bit;
        auto const runs = [&](std::int64_t tp) -> Result<bool> { return tp == 1 || program(tp, 1).has_value(); };
        auto const last = has_blocks ? most : largest(most, runs).value_or(1);
        List<std::int64_t> out{1};
        for (std::int64_t tp = 2; tp <= last; ++tp) {
            if (!has_blocks || *runs(tp)) out.push_back(tp);
        }
        return out;
    }

    Model const& model_;
    EstimateRequest asked_;
    LowRankOptions const& low_rank_;
};

}  // namespace

Result<std::optional<PlannedAdapter>> plan_adapter(LoadedModel& loaded, LowRankOptions low_rank, std::int64_t devices,
                                                   PlanRequest& request) {
    if (low_rank.rank == 0) return std::optional<PlannedAdapter>{};
    auto const refused = [](std::string const& reason) {
        return Error{ErrorCode::unsupported}.in("--lora").because("shardwise train does not run this: " + reason);
    };
    auto& estimate = request.estimate;
    auto asked = estimate;
    asked.parallel.ep = request.pins.ep.value_or(1);
    if (auto const reason = training_refusal(loaded, asked, true); !reason.empty()) return refused(reason);
    if (auto const held = hold_base(loaded, estimate.quant, low_rank); !held) return held.error();
    estimate.dtype = estimate.dtype.value_or(Dtype::f32);
    asked.dtype = estimate.dtype;
    TrainedDegrees const degrees(loaded.model, asked, low_rank);
    auto program = degrees.program(1, 1);
    if (!program) return refused(program.error().message());
    auto limits = degrees.limits(request.pins, devices);
    if (!limits) return refused(limits.error().message());
    request.limits = *std::move(limits);
    request.is_sequence_parallel_fixed = true;
    estimate.training->has_adapter = true;
    auto model = adapted_model(*program);
    auto const parameters = program->layout().whole_elements();
    PlannedAdapter out{low_rank.rank, parameters, estimate.quant, *std::move(program), std::move(model)};
    estimate.quant.reset();
    return std::optional<PlannedAdapter>(std::move(out));
}

}  // namespace shardwise::cli
