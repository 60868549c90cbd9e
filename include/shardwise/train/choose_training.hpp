// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/optional.hpp>
#include <shardwise/core/split.hpp>
#include <shardwise/cost/block_work.hpp>
#include <shardwise/schedule/pipeline_time.hpp>
#include <shardwise/train/detail/check_cut.hpp>
#include <shardwise/train/estimate_training.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Ranks that train together, and the machines that they are on: as many neighbours on each, which share its memory. The rates are of one
/// rank, and need to be right in their proportions alone.
struct TrainingMachines {
    std::int64_t ranks = 1;
    std::int64_t per_machine = 1;
    /// Threads of one process: data-parallel ones train one copy of the weights.
    bool are_threads = false;
    /// Of a machine.
    Bytes memory{};
    /// Per second. Two cores of an AVX2 machine: 33 to 69 GFLOP/s a core in products.
    double operations = 8e10;
    /// A second and a message, between ranks of a machine: a copy through shared memory.
    double inside_bytes = 4e9;
    double inside_message = 5e-6;
    /// And of several machines: 10-gigabit Ethernet.
    double between_bytes = 1.25e9;
    double between_message = 5e-5;
};

/// What a search keeps to.
struct TrainingPins {
    Optional<std::int64_t> dp{}, tp{}, pp{};
    Optional<ZeroStage> zero{};
    Optional<std::int64_t> micro_batch{};
};

/// How ranks share the training of a model.
struct TrainingWay {
    std::int64_t dp = 1;
    std::int64_t tp = 1;
    std::int64_t pp = 1;
    ZeroStage zero = ZeroStage::none;
    std::int64_t micro_batch = 1;
    /// What the fullest machine takes, to the byte.
    Bytes fullest{};
    /// A step, as far as products and what ranks take from each other make it last.
    double seconds = 0.0;

    friend bool operator==(TrainingWay const&, TrainingWay const&) = default;
};

/// The largest micro-batch that is worth its memory: a pipeline is kept at work by twice as many as it has stages.
[[nodiscard]] constexpr std::int64_t max_micro_batch(std::int64_t batch, std::int64_t dp, std::int64_t pp) {
    auto const all = ceil_divide(batch, dp);
    return pp == 1 ? all : std::max<std::int64_t>(1, all / (2 * pp));
}

/// What TrainingSearch found.
struct TrainingChoice {
    /// Where none fits, the one that comes closest.
    TrainingWay way{};
    bool is_fitting = false;
    /// The fastest of those that do not fit, where it would be faster, with the smallest micro-batch.
    Optional<TrainingWay> faster{};
};

/// Looks for the fastest way that fits to train a model on some ranks: any product of data-parallel, tensor-parallel ranks and stages, and
/// any stage of ZeRO. Memory is counted exactly (estimate_training); times follow from operations, from what ranks take from each other as
/// the trainer counts it, and from the pipeline's table. What is pinned stays.
///
/// The optimizer's time is left out, so that of equally fast ways the one that shares less is taken.
///
/// Order   by time, then the lower stage of ZeRO, then fewer stages, then fewer tensor-parallel ranks
template <OptimizerRule Rule>
class TrainingSearch {
public:
    /// All of it outlives this. Of `options` degrees, stage of ZeRO and micro-batch are what is searched.
    TrainingSearch(Model const& model, Rule const& rule, BatchOptions const& batch, TrainOptions options,
                   TrainingMachines const& machines, TrainingPins const& pins, LowRankOptions const& low_rank = {},
                   bool saves_beside = false, RopeDivisors const& divisors = {})
        : model_(model),
          rule_(rule),
          batch_(batch),
          options_(std::move(options)),
          machines_(machines),
          pins_(pins),
          low_rank_(low_rank),
          saves_beside_(saves_beside),
          divisors_(divisors) {
        Step const step{.batch = 1,
                        .new_tokens = batch.context,
                        .context = batch.context,
                        .dtype = Dtype::f32,
                        .kv_dtype = Dtype::f32,
                        .is_training = true};
        for (auto const& block : model.program.blocks()) {
            auto const work = block_work(model.program.body(block), step).flops;
            work_.insert(work_.end(), static_cast<std::size_t>(block.count), work);
        }
    }

    /// Degrees and stages of ZeRO that the pins allow and the trainer runs, with the smallest micro-batch.
    ///
    /// Errors  invalid_argument, unsupported: what stands in the way of the last one, where there is none
    [[nodiscard]] Result<std::vector<TrainingWay>> ways() {
        std::vector<TrainingWay> out;
        Error last{ErrorCode::invalid_argument};
        last.in("training").at("ranks").because("are no product of the degrees that were given").got(machines_.ranks);
        for (std::int64_t tp = 1; tp <= machines_.ranks; ++tp) {
            for (std::int64_t pp = 1; tp * pp <= machines_.ranks; ++pp) {
                auto const dp = machines_.ranks / (tp * pp);
                bool const is_pinned =
                    pins_.dp.value_or(dp) == dp && pins_.tp.value_or(tp) == tp && pins_.pp.value_or(pp) == pp;
                if (dp * tp * pp != machines_.ranks || !is_pinned) continue;
                for (auto zero = ZeroStage::none; zero <= ZeroStage::weights;
                     zero = static_cast<ZeroStage>(static_cast<int>(zero) + 1)) {
                    bool const is_asked = pins_.zero ? *pins_.zero == zero : dp > 1 || zero == ZeroStage::none;
                    if (!is_asked) continue;
                    TrainingWay way{.dp = dp, .tp = tp, .pp = pp, .zero = zero};
                    way.micro_batch = std::min(pins_.micro_batch.value_or(1), ceil_divide(batch_.batch, dp));
                    if (auto const runs = check(way); !runs)
                        last = runs.error();
                    else
                        out.push_back(way);
                }
            }
        }
        if (out.empty()) return last;
        return out;
    }
    /// Whether the trainer runs it.
    ///
    /// Errors  invalid_argument, unsupported with what it does not
    [[nodiscard]] Result<> check(TrainingWay const& way) {
        if (way.dp > batch_.batch)
            return Error{ErrorCode::invalid_argument}
                .in("training")
                .at("dp")
                .because("gives each rank less than one sequence of a step")
                .got(way.dp)
                .at_most(batch_.batch);
        auto const options = options_of(way);
        if (auto const checked = options.check(); !checked) return checked;
        WeightStorage const storage{way.zero == ZeroStage::weights ? TensorPlace{way.dp, 0} : TensorPlace{},
                                    detail::weights_dtype<Rule>, options.weights_folder()};
        if (auto const held = storage.check(low_rank_.rank > 0); !held) return held;
        auto const programs = programs_of(way);
        if (!programs) return programs.error();
        for (auto const& program : **programs) {
            if (auto const cut = detail::check_cut(rule_, program.layout()); !cut) return cut;
        }
        auto const taken = memory(way, 0);
        return taken ? Result<>{} : Result<>{taken.error()};
    }
    /// What a rank of all takes.
    ///
    /// Errors  as estimate_training
    [[nodiscard]] Result<Bytes> memory(TrainingWay const& way, std::int64_t rank) {
        auto const programs = programs_of(way);
        if (!programs) return programs.error();
        auto const& program = (**programs)[static_cast<std::size_t>(rank % (way.tp * way.pp))];
        auto const estimate = estimate_training(program, rule_, batch_, options_of(way), {machines_.ranks, rank},
                                                saves_beside_, divisors_);
        if (!estimate) return estimate.error();
        return estimate->total();
    }
    /// What the fullest machine takes.
    ///
    /// Errors  as memory
    [[nodiscard]] Result<Bytes> fullest(TrainingWay const& way) {
        Bytes most{};
        Bytes sum{};
        for (std::int64_t rank = 0; rank < machines_.ranks; ++rank) {
            if (rank % machines_.per_machine == 0) sum = Bytes{0};
            auto const one = memory(way, rank);
            if (!one) return one.error();
            sum = sum + *one;
            most = std::max(most, sum);
        }
        return most;
    }
    /// How long a step takes.
    [[nodiscard]] double seconds(TrainingWay const& way) { return pass_seconds(way, way.micro_batch) + taken(way); }
    /// The micro-batch that was pinned, or the largest up to max_micro_batch that fits; the smallest where none does.
    ///
    /// Errors  as memory
    [[nodiscard]] Result<TrainingWay> fill(TrainingWay way) {
        std::int64_t low = way.micro_batch;
        auto high = pins_.micro_batch ? low : max_micro_batch(batch_.batch, way.dp, way.pp);
        auto const least = fullest(way);
        if (!least) return least.error();
        way.fullest = *least;
        while (low < high && way.fullest <= machines_.memory) {
            auto tried = way;
            tried.micro_batch = low + (high - low + 1) / 2;
            auto const bytes = fullest(tried);
            if (!bytes) return bytes.error();
            if (*bytes > machines_.memory) {
                high = tried.micro_batch - 1;
                continue;
            }
            low = tried.micro_batch;
            way.micro_batch = low;
            way.fullest = *bytes;
        }
        way.seconds = seconds(way);
        return way;
    }
    [[nodiscard]] bool fits(TrainingWay const& way) const { return way.fullest <= machines_.memory; }

    /// The fastest that fits.
    ///
    /// Errors  as ways and memory
    [[nodiscard]] Result<TrainingChoice> run() {
        auto found = ways();
        if (!found) return found.error();
        // No way is faster than this.
        for (auto& way : *found) {
            auto ideal = way;
            if (!pins_.micro_batch) ideal.micro_batch = max_micro_batch(batch_.batch, way.dp, way.pp);
            way.seconds = pass_seconds(way, way.micro_batch) + taken(ideal);
        }
        std::sort(found->begin(), found->end(), is_before);
        TrainingChoice out;
        Optional<TrainingWay> closest;
        for (auto const& way : *found) {
            if (out.is_fitting && out.way.seconds < way.seconds) break;
            auto const filled = fill(way);
            if (!filled) return filled.error();
            if (!fits(*filled)) {
                if (!closest || filled->fullest < closest->fullest) closest = *filled;
                if (!out.faster || is_before(*filled, *out.faster)) out.faster = *filled;
            } else if (!out.is_fitting || is_before(*filled, out.way)) {
                out.way = *filled;
                out.is_fitting = true;
            }
        }
        if (!out.is_fitting) out.way = *closest;
        if (out.faster && (!out.is_fitting || out.way.seconds <= out.faster->seconds)) out.faster = {};
        return out;
    }

private:
    using Programs = std::vector<TrainingProgram>;

    [[nodiscard]] static bool is_before(TrainingWay const& a, TrainingWay const& b) {
        if (a.seconds != b.seconds) return a.seconds < b.seconds;
        if (a.zero != b.zero) return a.zero < b.zero;
        if (a.pp != b.pp) return a.pp < b.pp;
        return a.tp < b.tp;
    }
    [[nodiscard]] TrainOptions options_of(TrainingWay const& way) const {
        auto out = options_;
        out.tp = static_cast<std::int32_t>(way.tp);
        out.pp = static_cast<std::int32_t>(way.pp);
        out.zero = way.zero;
        out.micro_batch = way.micro_batch;
        out.has_one_copy = machines_.are_threads && way.dp > 1 && out.can_share_copy();
        return out;
    }
    /// Of each rank of a replica, made once for each pair of degrees.
    [[nodiscard]] Result<Programs const*> programs_of(TrainingWay const& way) {
        auto const key = std::pair{way.tp, way.pp};
        auto found = programs_.find(key);
        if (found == programs_.end()) {
            auto const made = [&]() -> Result<Programs> {
                Programs all;
                for (std::int64_t rank = 0; rank < way.tp * way.pp; ++rank) {
                    auto program = TrainingProgram::create(model_, options_of(way).model_place(rank), low_rank_);
                    if (!program) return program.error();
                    all.push_back(std::move(*program));
                }
                return Result<Programs>(std::move(all));
            };
            found = programs_.emplace(key, made()).first;
        }
        if (!found->second) return found->second.error();
        return &*found->second;
    }
    /// Of products: the slowest stage works for every sequence, the others are passed once by a micro-batch.
    [[nodiscard]] double pass_seconds(TrainingWay const& way, std::int64_t micro_batch) {
        double all = 0.0;
        double slowest = 0.0;
        std::int64_t chunks = 1;
        for (std::int64_t stage = 0; stage < way.pp; ++stage) {
            auto const place = options_of(way).model_place(stage * way.tp).pipeline;
            chunks = place.chunks;
            auto const parts = StageParts::create(model_, place);
            double own = 0.0;
            for (auto const& blocks : parts ? parts->blocks() : std::vector<UnitRange>{}) {
                for (auto i = blocks.begin; i < blocks.end; ++i) own += work_[static_cast<std::size_t>(i)];
            }
            all += own;
            slowest = std::max(slowest, own);
        }
        auto const heads = std::max<std::int64_t>(1, model_.config.heads);
        auto const share = static_cast<double>(ceil_divide(heads, way.tp)) / static_cast<double>(heads);
        // Of each product of the forward pass the backward pass has two, of a frozen one that of its inputs alone.
        auto const passes = (low_rank_.rank > 0 ? 2.0 : 3.0) + (options_.recompute == Recompute::full ? 1.0 : 0.0);
        auto const leaves = static_cast<double>(ceil_divide(batch_.batch, way.dp));
        auto const size = std::min(static_cast<double>(micro_batch), leaves);
        auto const work = filled_once(size * all, size * slowest, leaves / size, static_cast<double>(chunks));
        return passes * share * work / machines_.operations;
    }
    /// What ranks take from each other: of the rank of a replica that waits longest.
    [[nodiscard]] double taken(TrainingWay const& way) {
        auto const programs = programs_of(way);
        if (!programs) return 0.0;
        auto const replica = way.tp * way.pp;
        auto const each = [&](CollectiveTraffic const& traffic, std::int64_t group) {
            bool const is_inside = machines_.ranks <= machines_.per_machine || machines_.per_machine % group == 0;
            auto const bytes = is_inside ? machines_.inside_bytes : machines_.between_bytes;
            auto const message = is_inside ? machines_.inside_message : machines_.between_message;
            return static_cast<double>(traffic.bytes) / bytes + static_cast<double>(traffic.messages) * message;
        };
        double most = 0.0;
        for (std::int64_t rank = 0; rank < replica; ++rank) {
            auto const options = options_of(way);
            detail::TrainerSizes<Rule> const sizes{
                (**programs)[static_cast<std::size_t>(rank)], rule_, batch_, options, {machines_.ranks, rank}};
            most = std::max(most, each(sizes.tensor_traffic(), way.tp) + each(sizes.stage_traffic(), replica) +
                                      each(sizes.data_traffic(), machines_.ranks));
        }
        return most;
    }

    Model const& model_;
    Rule const& rule_;
    BatchOptions batch_;
    TrainOptions options_;
    TrainingMachines machines_;
    TrainingPins pins_;
    LowRankOptions low_rank_;
    bool saves_beside_;
    RopeDivisors divisors_;
    /// Operations of a sequence forwards, by block.
    std::vector<double> work_;
    std::map<std::pair<std::int64_t, std::int64_t>, Result<Programs>> programs_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
