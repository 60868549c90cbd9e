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

/// The groups that a rank trains in: all ranks; those that share one replica of the model (tensor-parallel, one after another in the
/// whole); and those that have the same part of it, of different replicas (data-parallel).
template <class Comm>
class TrainingGroups {
public:
    /// The place of a rank of all in either group.
    [[nodiscard]] static TensorPlace data_place(TensorPlace const& world, std::int64_t tp) {
        return {world.ranks / tp, world.rank / tp};
    }
    [[nodiscard]] static TensorPlace tensor_place(TensorPlace const& world, std::int64_t tp) {
        return {tp, world.rank % tp};
    }

    /// All ranks call it with the same. `world` outlives this. With `gathers` there is a communicator of the data-parallel ranks for weights
    /// that they share, where they are several.
    ///
    /// Errors  invalid_argument where the ranks are no multiple of tp; as a collective
    [[nodiscard]] static Result<TrainingGroups> create(Comm& world, std::int32_t tp, bool gathers = false) {
        TrainingGroups out(world);
        gathers = gathers && world.size() > tp;
        if (tp <= 1 && !gathers) return Result<TrainingGroups>(std::move(out));
        if (world.size() % tp != 0)
            return Error{ErrorCode::invalid_argument}
                .in("training")
                .at("ranks")
                .because("are not whole groups of tensor-parallel ranks")
                .got(world.size())
                .multiple_of(tp);
        if constexpr (std::same_as<Comm, HostCommunicator>) {
            if (gathers) {
                auto own = world.split(world.rank() % tp);
                if (!own) return own.error();
                out.weights_ = std::make_unique<Comm>(std::move(*own));
            }
            if (tp <= 1) return Result<TrainingGroups>(std::move(out));
            auto tensor = world.split(world.rank() / tp);
            if (!tensor) return tensor.error();
            auto data = world.split(world.rank() % tp);
            if (!data) return data.error();
            out.tensor_ = std::make_unique<Comm>(std::move(*tensor));
            out.data_ = std::make_unique<Comm>(std::move(*data));
            return Result<TrainingGroups>(std::move(out));
        } else {
            return Error{ErrorCode::unsupported}
                .in("training")
                .at(tp > 1 ? "tp" : "zero")
                .because("ranks that share weights or layers need a communicator that can be split")
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
    /// Whether this rank speaks for its tensor-parallel group in sums over all ranks of what the group's ranks have alike.
    [[nodiscard]] bool is_counted() { return tensor() == nullptr || tensor()->rank() == 0; }
    [[nodiscard]] TensorPlace place_in_data() { return {data().size(), data().rank()}; }

    /// Ends all groups with what came up on this rank alone, where others would wait for it.
    [[nodiscard]] Error end(Error const& error) {
        auto const ended = end_group(*world_, error);
        if (data_) (void)data_->fail(ended);
        if (tensor_) (void)tensor_->fail(ended);
        if (weights_) (void)weights_->fail(ended);
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
    }

    Comm* world_;
    std::unique_ptr<Comm> data_;
    std::unique_ptr<Comm> tensor_;
    std::unique_ptr<Comm> weights_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
