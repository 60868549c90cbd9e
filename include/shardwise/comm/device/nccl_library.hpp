// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/dtype.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/hardware/vendor/dynamic_library.hpp>

#include <climits>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What NCCL and RCCL are called by: values and functions of their C interface as it has been since 2.18, with enumerations as the int
/// that they are, so that no program needs their header or links them.
///
/// Source  nccl.h of NCCL 2.18 to 2.28; rccl.h of RCCL 2.18
struct NcclTable {
    /// A communicator of the library's.
    using Handle = void*;
    /// Memory that all ranks of a communicator have registered together.
    using Window = void*;
    struct UniqueId {
        char internal[128];
    };
    /// ncclConfig_t of 2.18; later libraries take the further fields' standard values for a shorter one.
    struct Config {
        std::size_t size = sizeof(Config);
        unsigned magic = 0xcafebeefU;
        unsigned version = min_version;
        int blocking = INT_MIN;
        int cga_cluster_size = INT_MIN;
        int min_ctas = INT_MIN;
        int max_ctas = INT_MIN;
        char const* net_name = nullptr;
        int split_share = INT_MIN;
    };
    /// 2.18.0, as ncclGetVersion says it.
    static constexpr int min_version = 21800;
    static constexpr int success = 0;
    static constexpr int in_progress = 7;
    static constexpr int sum = 0;
    /// NCCL_WIN_COLL_SYMMETRIC: what a collective moves lies at the same offset of the window on all ranks.
    static constexpr int symmetric_window = 1;

    int (*get_version)(int*) = nullptr;
    int (*get_unique_id)(UniqueId*) = nullptr;
    int (*init_rank)(Handle*, int ranks, UniqueId, int rank, Config*) = nullptr;
    /// Ranks of one color become a communicator of their own, numbered by their keys.
    int (*split)(Handle, int color, int key, Handle*, Config*) = nullptr;
    int (*finalize)(Handle) = nullptr;
    int (*destroy)(Handle) = nullptr;
    int (*abort)(Handle) = nullptr;
    char const* (*error_string)(int) = nullptr;
    int (*async_error)(Handle, int*) = nullptr;
    int (*all_reduce)(void const*, void*, std::size_t, int dtype, int op, Handle, void* stream) = nullptr;
    int (*all_gather)(void const*, void*, std::size_t sent, int dtype, Handle, void* stream) = nullptr;
    int (*reduce_scatter)(void const*, void*, std::size_t received, int dtype, int op, Handle, void* stream) = nullptr;
    int (*reduce)(void const*, void*, std::size_t, int dtype, int op, int root, Handle, void* stream) = nullptr;
    int (*broadcast)(void const*, void*, std::size_t, int dtype, int root, Handle, void* stream) = nullptr;
    int (*send)(void const*, std::size_t, int dtype, int peer, Handle, void* stream) = nullptr;
    int (*receive)(void*, std::size_t, int dtype, int peer, Handle, void* stream) = nullptr;
    int (*group_start)() = nullptr;
    int (*group_end)() = nullptr;
    // Null where the library is older: memory and buffers came with 2.19, windows with 2.27.
    int (*allocate)(void**, std::size_t) = nullptr;
    int (*release)(void*) = nullptr;
    int (*add_buffer)(Handle, void*, std::size_t, void** buffer) = nullptr;
    int (*remove_buffer)(Handle, void* buffer) = nullptr;
    /// All ranks call it, with the same size and flags.
    int (*add_window)(Handle, void*, std::size_t, Window*, int flags) = nullptr;
    int (*remove_window)(Handle, Window) = nullptr;

    /// The library's number of an element type; -1: it has none.
    [[nodiscard]] static constexpr int dtype_of(Dtype dtype) {
        constexpr std::pair<Dtype, int> known[] = {{Dtype::i8, 0},  {Dtype::u8, 1},  {Dtype::i32, 2}, {Dtype::i64, 4},
                                                   {Dtype::f16, 6}, {Dtype::f32, 7}, {Dtype::f64, 8}, {Dtype::bf16, 9}};
        for (auto const& [type, number] : known) {
            if (type == dtype) return number;
        }
        return -1;
    }

    /// A status as a result: the call's name, and what the library says of it. In progress is success: `settle` waits for it.
    [[nodiscard]] Result<> result(int status, std::string_view call) const {
        if (status == success || status == in_progress) return {};
        auto const* const text = error_string(status);
        return Error{ErrorCode::backend_failure}.in(call).because(text == nullptr ? "failed" : text).got(status);
    }
};

/// The functions of libnccl.so.2 or librccl.so.1, loaded when they are asked for.
///
/// Errors  file_not_found where there is no such library; unsupported where it is older than 2.18 or lacks a function
[[nodiscard]] inline Result<NcclTable> load_nccl(std::string const& name) {
    auto const library = DynamicLibrary::open(name);
    if (!library) return library.error();
    NcclTable table;
    char const* missing = nullptr;
    auto const find = [&]<class Function>(Function*& to, char const* symbol) {
        to = library->template find<Function>(symbol);
        if (to == nullptr && missing == nullptr) missing = symbol;
    };
    find(table.get_version, "ncclGetVersion");
    find(table.get_unique_id, "ncclGetUniqueId");
    find(table.init_rank, "ncclCommInitRankConfig");
    find(table.split, "ncclCommSplit");
    find(table.finalize, "ncclCommFinalize");
    find(table.destroy, "ncclCommDestroy");
    find(table.abort, "ncclCommAbort");
    find(table.error_string, "ncclGetErrorString");
    find(table.async_error, "ncclCommGetAsyncError");
    find(table.all_reduce, "ncclAllReduce");
    find(table.all_gather, "ncclAllGather");
    find(table.reduce_scatter, "ncclReduceScatter");
    find(table.reduce, "ncclReduce");
    find(table.broadcast, "ncclBroadcast");
    find(table.send, "ncclSend");
    find(table.receive, "ncclRecv");
    find(table.group_start, "ncclGroupStart");
    find(table.group_end, "ncclGroupEnd");
    auto const find_later = [&]<class Function>(Function*& to, char const* symbol) {
        to = library->template find<Function>(symbol);
    };
    find_later(table.allocate, "ncclMemAlloc");
    find_later(table.release, "ncclMemFree");
    find_later(table.add_buffer, "ncclCommRegister");
    find_later(table.remove_buffer, "ncclCommDeregister");
    find_later(table.add_window, "ncclCommWindowRegister");
    find_later(table.remove_window, "ncclCommWindowDeregister");
    Error old{ErrorCode::unsupported};
    old.in(name).fix("install NCCL 2.18 or later, or use another communicator");
    if (missing != nullptr) return old.at(missing).because("is not in it: the library is too old");
    int version = 0;
    if (auto const asked = table.result(table.get_version(&version), "ncclGetVersion"); !asked) return asked.error();
    if (version < NcclTable::min_version)
        return old.because("is too old").got(version).at_least(NcclTable::min_version);
    return table;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
