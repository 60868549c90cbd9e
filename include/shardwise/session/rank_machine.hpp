// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/compute_backend.hpp>
#include <shardwise/backend/host/host_rank.hpp>
#include <shardwise/backend/host/weight.hpp>
#include <shardwise/comm/host_communicator.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/executor/rank_home.hpp>
#include <shardwise/kernels/device/compiled_kernels.hpp>
#include <shardwise/session/gather_memory.hpp>
#include <shardwise/session/run_options.hpp>
#include <shardwise/session/without_vendor.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// A rank's share of the cores of this machine.
[[nodiscard]] inline HostOptions cores_of(HostCommunicator const& world, RunOptions const& options) {
    auto const neighbours = options.local_ranks > 0 ? options.local_ranks : world.size();
    auto const threads = options.threads > 0 ? std::max(1, options.threads * neighbours / world.size()) : 0;
    auto own = rank_options(threads, neighbours, world.rank() % neighbours);
    own.product_activations = options.product_activations;
    return own;
}

/// What a rank of a run computes with: a device, and its share of the cores, which prepare what the device holds.
template <ComputeBackend Backend>
class RankMachine {
public:
    explicit RankMachine(HostOptions const& cores) : host_(cores) {}

    /// Opens the device of a rank: of `options.devices` in turn, so that ranks may share one.
    ///
    /// Errors  unsupported for what runs are not asked of devices yet; those of the context and of check_device_code
    [[nodiscard]] Result<> open(RunOptions const& options, std::int32_t rank) {
        if (auto const checked = check(options); !checked) return checked;
        if (options.devices.is_processor(rank)) {
            return Error{ErrorCode::unsupported}
                .in(Backend::name)
                .at("stages")
                .because("are partly on the processor, which embeds no texts beside devices yet")
                .fix("keep all stages on devices");
        }
        auto const device = options.devices.empty() ? 0 : options.devices.of_rank(rank);
        auto context = Backend::Context::open({.device = device, .limit = options.timeout});
        if (!context) return context.error();
        if (auto const runs = check_device_code(**context); !runs) return runs;
        context_ = std::move(*context);
        if (auto const free = context_->free_memory(); free) free_at_first_ = *free;
        stream_.emplace(context_->make_stream());
        home_.emplace(RankHome<Backend>{host_.context, *context_});
        return {};
    }
    /// Takes all that the rank will hold as one block, before anything is loaded; `apart` of what is needed was set apart already.
    ///
    /// Errors  out_of_memory with what is free; backend_failure
    [[nodiscard]] Result<> reserve(Bytes needed, Bytes apart = Bytes{0}) {
        auto const free = context_->free_memory();
        if (!free) return free.error();
        auto const rest = needed - apart;
        auto const taken = rest <= *free ? context_->reserve(rest) : Result<>(Error{ErrorCode::out_of_memory});
        if (taken || taken.error().code() != ErrorCode::out_of_memory) return taken;
        return Error{ErrorCode::out_of_memory}
            .in(std::string(Backend::name) + ":" + std::to_string(context_->device()))
            .needs(needed)
            .has(*free + apart)
            .fix("use a smaller context, fewer sequences, weights of fewer bits, or more devices");
    }

    [[nodiscard]] HostContext& host() { return host_.context; }
    [[nodiscard]] Result<IsaLevel> const& isa() const { return host_.context.isa(); }
    [[nodiscard]] RankHome<Backend> const& home() const { return *home_; }
    [[nodiscard]] typename Backend::Stream& stream() { return *stream_; }
    /// Another stream instead of one that has failed; nothing refers to that.
    void renew_stream() { stream_.emplace(context_->make_stream()); }
    [[nodiscard]] MemoryCounter& memory() { return context_->memory(); }
    /// What the device lacks since it was opened; unknown where the vendor does not say.
    [[nodiscard]] DeviceLoss device_loss() const {
        auto const free = context_->free_memory();
        auto const uuid = Backend::VendorApi::uuid(context_->device());
        if (!free || !uuid || !free_at_first_) return {};
        return {*uuid, std::max(*free_at_first_ - *free, Bytes{0}), true};
    }

private:
    [[nodiscard]] static Result<> check(RunOptions const& options) {
        Error refused{ErrorCode::unsupported};
        refused.in(Backend::name);
        if (options.trace_events > 0)
            return refused.at("trace").because("runs behind the calls that a trace would time").fix("leave it out");
        if (options.product_activations != ProductActivations::full)
            return refused.at("product_activations").because("multiplies activations as they are").fix("leave it out");
        return {};
    }

    HostRank host_;
    std::unique_ptr<typename Backend::Context> context_;
    std::optional<Bytes> free_at_first_;
    std::optional<typename Backend::Stream> stream_;
    std::optional<RankHome<Backend>> home_;
};

/// The cores alone.
template <>
class RankMachine<Host> {
public:
    explicit RankMachine(HostOptions const& cores) : host_(cores), home_(host_.context) {}

    /// Errors  unsupported where devices are named
    [[nodiscard]] Result<> open(RunOptions const& options, std::int32_t) const {
        if (options.devices.empty()) return {};
        return without_vendor(options.devices.vendor);
    }
    /// The system says so itself where it runs out.
    [[nodiscard]] Result<> reserve(Bytes, Bytes = Bytes{0}) const { return {}; }

    [[nodiscard]] HostContext& host() { return host_.context; }
    [[nodiscard]] Result<IsaLevel> const& isa() const { return host_.context.isa(); }
    [[nodiscard]] RankHome<Host> const& home() const { return home_; }
    [[nodiscard]] HostStream& stream() { return host_.stream; }
    [[nodiscard]] MemoryCounter& memory() { return host_.context.memory(); }
    [[nodiscard]] DeviceLoss device_loss() const { return {}; }

private:
    HostRank host_;
    RankHome<Host> home_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
