// SPDX-License-Identifier: Apache-2.0
// The kernels of collectives for one vendor: kernels/instantiate.cu says how they are compiled.
#include <shardwise/kernels/all_reduce_launch.cuh>
#include <shardwise/kernels/exchange_parts_launch.cuh>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template Result<> launch_all_reduce<KernelApi, float>(AllReduceCall const&, KernelApi::Stream);
template Result<> launch_all_reduce<KernelApi, Bfloat16>(AllReduceCall const&, KernelApi::Stream);
template Result<> launch_all_reduce<KernelApi, Float16>(AllReduceCall const&, KernelApi::Stream);

template Result<> launch_exchange_parts<KernelApi, float>(PeerPartsCall const&, KernelApi::Stream);
template Result<> launch_exchange_parts<KernelApi, Bfloat16>(PeerPartsCall const&, KernelApi::Stream);
template Result<> launch_exchange_parts<KernelApi, Float16>(PeerPartsCall const&, KernelApi::Stream);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
