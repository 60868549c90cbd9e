// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/deadline.hpp>
#include <shardwise/core/error.hpp>
#include <shardwise/executor/training/gathered_layers.hpp>
#include <shardwise/train/detail/exchange_stream.hpp>
#include <shardwise/train/sharded_optimizer.hpp>
#include <shardwise/train/step_times.hpp>
#include <shardwise/train/train_options.hpp>
#include <shardwise/train/training_gradients.hpp>
#include <shardwise/train/training_phase.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// What brings weights into layers, where these do not compute with what lies in memory; else null.
///
/// Errors  invalid_argument for weights that are held in another way than `storage`; out_of_memory
[[nodiscard]] inline Result<std::unique_ptr<GatheredLayers>> make_layers(HostContext& context, HostCommunicator* ranks,
                                                                         TrainingProgram const& program,
                                                                         TrainingWeights const& weights,
                                                                         WeightStorage const& storage,
                                                                         TrainOptions const& options) {
    if (!(weights.storage() == storage))
        return Error{ErrorCode::invalid_argument}
            .in("training")
            .at("weights")
            .because("are not held as this rank's stage of ZeRO and its optimizer want them")
            .got(weights.storage().shares.ranks)
            .expected(storage.shares.ranks)
            .fix(
                "load them with the WeightStorage of the place among data-parallel ranks (ZeroStage::weights), "
                "and of bf16 for KahanSum, and of the folder of offloads_all");
    if (storage.is_direct()) return std::unique_ptr<GatheredLayers>();
    auto made = GatheredLayers::create(context, program, ranks, storage, options.own_timeout());
    if (!made) return made.error();
    return std::make_unique<GatheredLayers>(std::move(*made));
}

/// Renews what tensor-parallel ranks hold twice, once weights have changed.
///
/// Order   on `stream`
inline void renew_turned(GatheredLayers* layers, TrainingWeights& weights, HostCommunicator& tensor,
                         HostStream& stream) {
    if (layers != nullptr)
        layers->exchange(weights, tensor, stream);
    else
        weights.exchange(tensor, stream);
}

/// Has each part of a step give back what it has read and written of files (offload), and returns what does so. For as long as none of them
/// is moved.
template <OptimizerRule Rule>
[[nodiscard]] std::function<void()> trim_files(TrainOptions const& options, GatheredLayers* layers,
                                               ShardedOptimizer<Rule>& optimizer, TrainingGradients const& gradients,
                                               TrainingWeights const& weights) {
    if (!options.offloads_all) return {};
    layers->set_trim([&gradients] { gradients.drop(); });
    std::function<void()> trim = [&gradients, &weights] {
        gradients.drop();
        weights.drop();
    };
    optimizer.set_trim(trim);
    return trim;
}

/// Ends the groups of a step that failed and waits for what is in streams: it may wait for others, who learn of this first. Where one
/// thread at a time uses a group, what is exchanged beside the stream comes before, within `limit`; nobody waits for this rank in that. Where
/// several do, ranks meet one error in all that they use: that of a call beside the stream is told with the phase of that call.
template <class Groups>
[[nodiscard]] Error end_step(Error const& error, TrainingPhases const& phases, Groups& groups,
                             TrainingGradients& gradients, HostStream& stream, std::chrono::nanoseconds limit,
                             Deadline deadline) {
    constexpr std::chrono::milliseconds moment{100};
    // The step's own deadline may be what has passed.
    bool const is_shared = takes_several_threads(groups.data());
    auto const exchanged = gradients.synchronize(Deadline::after(is_shared ? moment : limit));
    auto const name = [&](Error const& each) {
        bool const is_of_exchange =
            !exchanged && gradients.beside()->has_failed_in_calls() && exchanged.error().message() == each.message();
        return is_of_exchange ? phases.name(each, TrainingPhase::bucket) : phases.name(each);
    };
    auto const ended = name(groups.end(name(error)));
    (void)stream.synchronize(deadline);
    (void)gradients.synchronize(deadline);
    return ended;
}

/// Tells what a step did beside its stream, and what it waited for that, where StepClock cannot: weights that were gathered, buckets that
/// were exchanged.
class BesideClock {
public:
    /// Begins a step; null where nothing is gathered, and where nothing is exchanged.
    BesideClock(GatheredLayers const* layers, ExchangeStream const* exchanges)
        : layers_(layers), exchanges_(exchanges) {
        if (exchanges != nullptr) hidden_ = exchanges->hidden();
        if (layers == nullptr || !layers->is_gathering()) return;
        gathered_ = layers->gathered();
        waited_ = layers->waited();
    }
    void add_to(StepTimes& times) const {
        if (exchanges_ != nullptr) {
            auto const all = std::chrono::duration<double>(exchanges_->hidden() - hidden_).count();
            auto const hidden = std::max(-times.compute, std::min(times.exposed, all));
            times.exposed -= hidden;
            times.compute += hidden;
        }
        if (layers_ == nullptr || !layers_->is_gathering()) return;
        auto const waited = std::chrono::duration<double>(layers_->waited() - waited_).count();
        times.communication += std::chrono::duration<double>(layers_->gathered() - gathered_).count();
        times.exposed += waited;
        times.compute = std::max(0.0, times.compute - waited);
    }

private:
    GatheredLayers const* layers_;
    ExchangeStream const* exchanges_;
    std::chrono::nanoseconds hidden_{0};
    std::chrono::nanoseconds gathered_{0};
    std::chrono::nanoseconds waited_{0};
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
