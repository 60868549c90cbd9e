// SPDX-License-Identifier: Apache-2.0
#pragma once

// What comm/device/nccl_library.hpp says of NCCL's interface, held against the header of the NCCL that is installed.
#if __has_include(<nccl.h>) && __has_include(<cuda_runtime.h>)
#include <shardwise/comm/device/nccl_library.hpp>

#include <cstddef>
#include <nccl.h>
#include <type_traits>

namespace shardwise::testing {

/// A parameter as the table has it: enumerations as int, what they point to too, handles as void*.
template <class T>
struct NcclWord {
    using Type = std::conditional_t<std::is_enum_v<T>, int, T>;
};
template <>
struct NcclWord<ncclComm_t> {
    using Type = NcclTable::Handle;
};
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
template <>
struct NcclWord<ncclWindow_t> {
    using Type = NcclTable::Window;
};
#endif
template <>
struct NcclWord<cudaStream_t> {
    using Type = void*;
};
template <>
struct NcclWord<ncclUniqueId> {
    using Type = NcclTable::UniqueId;
};
template <>
struct NcclWord<ncclConfig_t> {
    using Type = NcclTable::Config;
};
template <class T>
requires(!std::is_same_v<T*, ncclComm_t> && !std::is_same_v<T*, cudaStream_t>) struct NcclWord<T*> {
    using Type = typename NcclWord<T>::Type*;
};
template <class F>
struct NcclFunction;
template <class R, class... P>
struct NcclFunction<R(P...)> {
    using Type = typename NcclWord<R>::Type (*)(typename NcclWord<P>::Type...);
};
template <auto Member, class F>
constexpr bool has_signature =
    std::is_same_v<std::remove_cvref_t<decltype(std::declval<NcclTable>().*Member)>, typename NcclFunction<F>::Type>;

static_assert(has_signature<&NcclTable::get_version, decltype(ncclGetVersion)>);
static_assert(has_signature<&NcclTable::get_unique_id, decltype(ncclGetUniqueId)>);
static_assert(has_signature<&NcclTable::init_rank, decltype(ncclCommInitRankConfig)>);
static_assert(has_signature<&NcclTable::split, decltype(ncclCommSplit)>);
static_assert(has_signature<&NcclTable::finalize, decltype(ncclCommFinalize)>);
static_assert(has_signature<&NcclTable::destroy, decltype(ncclCommDestroy)>);
static_assert(has_signature<&NcclTable::abort, decltype(ncclCommAbort)>);
static_assert(has_signature<&NcclTable::error_string, decltype(ncclGetErrorString)>);
static_assert(has_signature<&NcclTable::async_error, decltype(ncclCommGetAsyncError)>);
static_assert(has_signature<&NcclTable::all_reduce, decltype(ncclAllReduce)>);
static_assert(has_signature<&NcclTable::all_gather, decltype(ncclAllGather)>);
static_assert(has_signature<&NcclTable::reduce_scatter, decltype(ncclReduceScatter)>);
static_assert(has_signature<&NcclTable::reduce, decltype(ncclReduce)>);
static_assert(has_signature<&NcclTable::broadcast, decltype(ncclBroadcast)>);
static_assert(has_signature<&NcclTable::send, decltype(ncclSend)>);
static_assert(has_signature<&NcclTable::receive, decltype(ncclRecv)>);
static_assert(has_signature<&NcclTable::group_start, decltype(ncclGroupStart)>);
static_assert(has_signature<&NcclTable::group_end, decltype(ncclGroupEnd)>);

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 19, 0)
static_assert(has_signature<&NcclTable::allocate, decltype(ncclMemAlloc)>);
static_assert(has_signature<&NcclTable::release, decltype(ncclMemFree)>);
static_assert(has_signature<&NcclTable::add_buffer, decltype(ncclCommRegister)>);
static_assert(has_signature<&NcclTable::remove_buffer, decltype(ncclCommDeregister)>);
#endif
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
static_assert(has_signature<&NcclTable::add_window, decltype(ncclCommWindowRegister)>);
static_assert(has_signature<&NcclTable::remove_window, decltype(ncclCommWindowDeregister)>);
static_assert(NcclTable::symmetric_window == NCCL_WIN_COLL_SYMMETRIC);
#endif

static_assert(sizeof(NcclTable::UniqueId) == sizeof(ncclUniqueId));
static_assert(sizeof(NcclTable::Config) <= sizeof(ncclConfig_t));
static_assert(offsetof(NcclTable::Config, magic) == offsetof(ncclConfig_t, magic));
static_assert(offsetof(NcclTable::Config, version) == offsetof(ncclConfig_t, version));
static_assert(offsetof(NcclTable::Config, blocking) == offsetof(ncclConfig_t, blocking));
static_assert(offsetof(NcclTable::Config, net_name) == offsetof(ncclConfig_t, netName));
static_assert(offsetof(NcclTable::Config, split_share) == offsetof(ncclConfig_t, splitShare));
static_assert(NcclTable::success == ncclSuccess && NcclTable::in_progress == ncclInProgress &&
              NcclTable::sum == ncclSum);
static_assert(NcclTable::dtype_of(Dtype::i8) == ncclInt8 && NcclTable::dtype_of(Dtype::u8) == ncclUint8);
static_assert(NcclTable::dtype_of(Dtype::i32) == ncclInt32 && NcclTable::dtype_of(Dtype::i64) == ncclInt64);
static_assert(NcclTable::dtype_of(Dtype::f16) == ncclFloat16 && NcclTable::dtype_of(Dtype::bf16) == ncclBfloat16);
static_assert(NcclTable::dtype_of(Dtype::f32) == ncclFloat32 && NcclTable::dtype_of(Dtype::f64) == ncclFloat64);
static_assert(NCCL_VERSION(2, 18, 0) == NcclTable::min_version);

}  // namespace shardwise::testing
#endif
