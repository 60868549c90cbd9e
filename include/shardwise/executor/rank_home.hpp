// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/device.hpp>
#include <shardwise/backend/host.hpp>
#include <shardwise/backend/weight_upload.hpp>
#include <shardwise/core/result.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Where a rank lives: what it holds is the context's, and threads of the host prepare it. Both outlive the rank.
template <class Backend>
struct RankHome {
    HostContext& host;
    typename Backend::Context& context;
};

/// On the host both are one.
template <>
struct RankHome<Host> {
    RankHome(HostContext& only) : host(only), context(only) {}

    HostContext& host;
    HostContext& context;
};

namespace detail {

/// What a rank loads its weights by: on the host nothing but the weights themselves.
template <class Backend>
struct RankUpload {
    explicit RankUpload(RankHome<Backend> const&) {}

    [[nodiscard]] Result<> finish() { return {}; }
};

/// On a device, while the threads of the rank's host pack the next ones.
template <class Api>
struct RankUpload<DeviceBackend<Api>> {
    explicit RankUpload(RankHome<DeviceBackend<Api>> const& rank) : upload(rank.context, &rank.host.pool()) {
        upload.begin();
    }

    /// Errors  those of the copies; deadline_exceeded
    [[nodiscard]] Result<> finish() { return upload.finish(); }

    WeightUpload<Api> upload;
};

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
