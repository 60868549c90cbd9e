// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/training/gathered_layers.hpp>
#include <shardwise/train/step_times.hpp>
#include <shardwise/train/train_options.hpp>

#include <algorithm>
#include <chrono>
#include <memory>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// What brings weights into layers, where these do not compute with what lies in memory; else null.
///
/// Errors  invalid_argument for weights that are held in another way than `storage`; unsupported for stages; out_of_memory
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
                "and of bf16 for KahanSum");
    if (storage.is_direct()) return std::unique_ptr<GatheredLayers>();
    if (options.pp > 1)
        return Error{ErrorCode::unsupported}
            .in("training")
            .at(storage.is_half() ? "weights" : "zero")
            .because("of stages of a pipeline are held whole and in float32 so far")
            .fix("use one stage, or ZeroStage::gradients and float32 masters");
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

/// Tells what a step gathered weights for, and what it waited for them, beside what StepClock tells.
class GatherClock {
public:
    /// Begins a step; null where nothing is gathered.
    explicit GatherClock(GatheredLayers const* layers) : layers_(layers) {
        if (layers == nullptr) return;
        gathered_ = layers->gathered();
        waited_ = layers->waited();
    }
    void add_to(StepTimes& times) const {
        if (layers_ == nullptr) return;
        auto const waited = std::chrono::duration<double>(layers_->waited() - waited_).count();
        times.communication += std::chrono::duration<double>(layers_->gathered() - gathered_).count();
        times.exposed += waited;
        times.compute = std::max(0.0, times.compute - waited);
    }

private:
    GatheredLayers const* layers_;
    std::chrono::nanoseconds gathered_{0};
    std::chrono::nanoseconds waited_{0};
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
