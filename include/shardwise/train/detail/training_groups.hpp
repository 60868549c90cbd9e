// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/agree_on.hpp>
#include <shardwise/comm/host_communicator.hpp>
#include <shardwise/comm/traffic.hpp>
#include <shardwise/parallel/place.hpp>

#include <chrono>
#include <concepts>
#include <cstdint>
#include <memory>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// How many ranks share a replica of the model: `tp` neighbours each layer, `pp` stages of those the layers.
struct ReplicaDegrees {
    std::int64_t tp = 1;
    std::int64_t pp = 1;
    /// The stage that has the losses; -1: the last.
    std::int64_t head_stage = -1;

    [[nodiscard]] std::int64_t ranks() const { return tp * pp; }
    /// The place of a rank of all among those that have the same part of the model.
    [[nodiscard]] TensorPlace data_place(TensorPlace const& world) const {
        return {world.ranks / ranks(), world.rank / ranks()};
    }
};

/// The groups that a rank trains in: all ranks; those that share each layer of one replica of the model (tensor-parallel, one after another
/// in the whole); the stages of a replica; and those that have the same part of it, of different replicas (data-parallel).
template <class Comm>
class TrainingGroups {
public:
    /// All ranks call it with the same. `world` outlives this. With `gathers` there is a communicator of the data-parallel ranks for weights
    /// that they share, where they are several.
    ///
    /// Errors  invalid_argument where the ranks are no multiple of those of a replica; as a collective
    [[nodiscard]] static Result<TrainingGroups> create(Comm& world, ReplicaDegrees const& degrees,
                                                       bool gathers = false) {
        TrainingGroups out(world);
        out.head_stage_ = degrees.head_stage < 0 ? degrees.pp - 1 : degrees.head_stage;
        gathers = gathers && world.size() > degrees.ranks();
        if (degrees.ranks() <= 1 && !gathers) return Result<TrainingGroups>(std::move(out));
        if (world.size() % degrees.ranks() != 0)
            return Error{ErrorCode::invalid_argument}
                .in("training")
                .at("ranks")
                .because(degrees.pp == 1 ? "are not whole groups of tensor-parallel ranks"
                                         : "are not whole replicas of tensor-parallel ranks and stages")
                .got(world.size())
                .multiple_of(degrees.ranks());
        if constexpr (std::same_as<Comm, HostCommunicator>) {
            auto const rank = world.rank();
            auto const take = [&](std::unique_ptr<Comm>& group, std::int64_t color) -> Result<> {
                auto part = world.split(static_cast<std::int32_t>(color));
                if (!part) return part.error();
                group = std::make_unique<Comm>(std::move(*part));
                return {};
            };
            if (gathers) {
                if (auto const taken = take(out.weights_, rank % degrees.ranks()); !taken) return taken.error();
            }
            if (degrees.ranks() <= 1) return Result<TrainingGroups>(std::move(out));
            if (degrees.tp > 1) {
                if (auto const taken = take(out.tensor_, rank / degrees.tp); !taken) return taken.error();
            }
            if (auto const taken = take(out.data_, rank % degrees.ranks()); !taken) return taken.error();
            if (degrees.pp > 1) {
                auto const color = rank / degrees.ranks() * degrees.tp + rank % degrees.tp;
                if (auto const taken = take(out.pipeline_, color); !taken) return taken.error();
            }
            return Result<TrainingGroups>(std::move(out));
        } else {
            return Error{ErrorCode::unsupported}
                .in("training")
                .at(degrees.tp > 1   ? "tp"
                    : degrees.pp > 1 ? "pp"
                                     : "zero")
                .because("ranks that share a model need a communicator that can be split")
                .fix("give the trainer a HostCommunicator");
        }
    }

    [[nodiscard]] Comm& world() { return *world_; }
    [[nodiscard]] Comm& data() { return data_ ? *data_ : *world_; }
    /// Of data-parallel ranks that share weights, for these alone; null where there are none.
    [[nodiscard]] HostCommunicator* weights() {
        if constexpr (std::same_as<Comm, HostCommunicator>)
            return weights_.get();
        else
            return nullptr;
    }
    /// Null where each rank has the whole model.
    [[nodiscard]] HostCommunicator* tensor() {
        if constexpr (std::same_as<Comm, HostCommunicator>)
            return tensor_.get();
        else
            return nullptr;
    }
    /// The stages of this rank's replica; null where each rank has all layers.
    [[nodiscard]] HostCommunicator* pipeline() {
        if constexpr (std::same_as<Comm, HostCommunicator>)
            return pipeline_.get();
        else
            return nullptr;
    }
    /// Whether this rank speaks for its tensor-parallel group in sums over all ranks of what the group's ranks have alike.
    [[nodiscard]] bool is_first_of_layer() { return tensor() == nullptr || tensor()->rank() == 0; }
    /// The same for its replica: the stage that has the losses.
    [[nodiscard]] bool is_counted() {
        return is_first_of_layer() && (pipeline() == nullptr || pipeline()->rank() == head_stage_);
    }
    [[nodiscard]] TensorPlace place_in_data() { return {data().size(), data().rank()}; }

    /// Ends all groups with what came up on this rank alone, where others would wait for it.
    [[nodiscard]] Error end(Error const& error) {
        auto const ended = end_group(*world_, error);
        if (data_) (void)data_->fail(ended);
        if (tensor_) (void)tensor_->fail(ended);
        if (weights_) (void)weights_->fail(ended);
        if (pipeline_) (void)pipeline_->fail(ended);
        return ended;
    }

    void measure_calls() {
        each([](auto& comm) {
            if constexpr (requires { comm.measure_calls(); }) comm.measure_calls();
        });
        if (weights() != nullptr) weights()->measure_calls();
    }
    /// But for those for weights, which a step may not wait for.
    [[nodiscard]] std::chrono::nanoseconds time_of_calls() {
        std::chrono::nanoseconds sum{0};
        each([&sum](auto& comm) {
            if constexpr (requires { comm.time_of_calls(); }) sum += comm.time_of_calls();
        });
        return sum;
    }
    /// What this rank took from others in any group.
    [[nodiscard]] Traffic traffic() {
        Traffic sum;
        each([&sum](auto& comm) { sum += comm.traffic(); });
        if (weights_) sum += weights_->traffic();
        return sum;
    }

private:
    explicit TrainingGroups(Comm& world) : world_(&world) {}

    template <class Call>
    void each(Call const& call) {
        call(*world_);
        if (data_) call(*data_);
        if (tensor_) call(*tensor_);
        if (pipeline_) call(*pipeline_);
    }

    Comm* world_;
    std::int64_t head_stage_ = 0;
    std::unique_ptr<Comm> data_;
    std::unique_ptr<Comm> tensor_;
    std::unique_ptr<Comm> weights_;
    std::unique_ptr<Comm> pipeline_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
