// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/deadline.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/executor/layer_home.hpp>
#include <shardwise/executor/no_kernel.hpp>
#include <shardwise/executor/offloaded_blocks.hpp>

#include <cstddef>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// OffloadedBlocks of a back end whose weights all stay where they are.
template <ComputeBackend Backend, ReductionPolicy Policy>
class ResidentBlocks {
    using Block = HeldBlock<Backend, Policy>;

public:
    /// Errors  unsupported for weights that lie elsewhere
    [[nodiscard]] Result<> add(typename Backend::Context&, std::size_t, Block&, LayerHome home) {
        if (home == LayerHome::resident) return {};
        return Error{ErrorCode::unsupported}
            .in(Backend::name)
            .because("fetches no weights from elsewhere while it computes yet")
            .fix("keep all layers on the device, or run this model on the host");
    }
    [[nodiscard]] Result<> finish(typename Backend::Context&) { return {}; }
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

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
