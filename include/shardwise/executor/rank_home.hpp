// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>

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

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
