// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/compute_backend.hpp>
#include <shardwise/comm/threads.hpp>
#include <shardwise/kernels/device/all_reduce.hpp>
#include <shardwise/parallel/collectives.hpp>
#include <shardwise/parallel/device_collectives.hpp>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A back end puts sums over ranks into its streams, as the tensor-parallel layers do after each row-parallel product.
template <class B>
concept ShardsTensors = ComputeBackend<B> &&
    requires(Threads& comm, TensorView<float, 1, B> data, typename B::Stream& stream) {
    submit_all_reduce(comm, data, ReduceOp::sum, stream);
};

/// A back end's stages hand their rows on, and take those of the stage before, in its streams.
template <class B>
concept HandsOnStages = ComputeBackend<B> &&
    (HasHostMemory<B> || requires(Threads & comm, TensorView<float, 1, B> rows, typename B::Stream& stream) {
        submit_send_to(comm, TensorView<float const, 1, B>(rows), 0, stream);
        submit_receive_from(comm, rows, 0, stream);
    });

namespace detail {

template <class B>
struct PeersOf {};
template <class Api>
struct PeersOf<DeviceBackend<Api>> {
    using Group = PeerGroup<Api>;
};

}  // namespace detail

/// A back end adds up over ranks in kernels of its own, each in a stream of its device.
template <class B>
concept ReducesOverPeers = requires(typename detail::PeersOf<B>::Group& group, TensorView<float const, 1, B> in,
                                    TensorView<float, 1, B> out, typename B::Stream& stream) {
    all_reduce<float>(group, Rank{0}, in, out, stream);
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
