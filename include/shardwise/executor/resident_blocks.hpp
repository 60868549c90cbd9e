// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/deadline.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/executor/layer_home.hpp>
#include <shardwise/executor/offloaded_blocks.hpp>
#include <shardwise/executor/offloaded_device_blocks.hpp>
#include <shardwise/executor/rank_home.hpp>

#include <cstddef>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// OffloadedBlocks of a back end whose weights all stay where they are.
template <ComputeBackend Backend, ReductionPolicy Policy>
class ResidentBlocks {
    using Block = HeldBlock<Backend, Policy>;

public:
    /// Errors  unsupported for weights that lie elsewhere
    [[nodiscard]] Result<> add(RankHome<Backend> const&, std::size_t, Block&, LayerHome home) {
        if (home == LayerHome::resident) return {};
        return Error{ErrorCode::unsupported}
            .in(Backend::name)
            .because("fetches no weights from elsewhere while it computes")
            .fix("keep all layers where they are computed");
    }
    [[nodiscard]] Result<> finish(RankHome<Backend> const&, std::vector<Block>&) { return {}; }
    [[nodiscard]] bool has_any() const { return false; }
    template <class Walk>
    [[nodiscard]] Result<> run(std::vector<Block>& blocks, Walk const& walk, typename Backend::Stream&, Deadline) {
        return walk(blocks.size());
    }
};

namespace detail {

template <class Backend, class Policy>
struct BlocksOf {
    using Type = ResidentBlocks<Backend, Policy>;
};
template <class Policy>
struct BlocksOf<Host, Policy> {
    using Type = OffloadedBlocks<Policy>;
};
template <class Api, class Policy>
struct BlocksOf<DeviceBackend<Api>, Policy> {
    using Type = OffloadedDeviceBlocks<Api, Policy>;
};

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
