// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/kernels/device/peer_group.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The sum over the ranks of a group; what PeerGroup::all_reduce says.
template <ActivationElement T, class Api>
[[nodiscard]] Result<> all_reduce(PeerGroup<Api>& group, Rank rank, TensorView<T const, 1, DeviceBackend<Api>> in,
                                  TensorView<T, 1, DeviceBackend<Api>> out, DeviceStream<Api>& stream) {
    return group.all_reduce(rank, in, out, stream);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
