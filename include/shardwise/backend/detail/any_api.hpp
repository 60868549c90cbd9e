// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/device_api.hpp>
#include <shardwise/core/bytes.hpp>
#include <shardwise/core/result.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// The vendor functions of no vendor: declared, so that a program without any SDK can ask at compile time what
/// DeviceBackend<CudaApi> and DeviceBackend<HipApi> have, and never defined.
struct AnyApi {
    struct StreamHandle;
    struct EventHandle;
    struct GraphHandle;
    struct Products;
    using Stream = StreamHandle*;
    using Event = EventHandle*;
    using Graph = GraphHandle*;

    static constexpr std::string_view name = "device";
    static constexpr std::int32_t warp_size = 32;
    static constexpr std::int32_t least_warp_size = 32;
    static constexpr bool co_resident_blocks = true;
    /// Whether ranks add up by kernels that wait for each other without being asked to.
    static constexpr bool tries_peers = true;
    static constexpr std::int64_t ticks_per_microsecond = 1000;
    /// The vendor's library of collectives, as the loader finds it.
    static constexpr std::string_view nccl_name = "no library";
    /// CMake's, which says what kernels are compiled for.
    static constexpr std::string_view architectures_option = "no option";

    static Result<std::int32_t> count_devices();
    static Result<std::int32_t> current_device();
    static Result<> select_device(std::int32_t device);
    static Result<DeviceFacts> describe(std::int32_t device);
    static Result<Bytes> free_memory();
    static Result<void*> allocate(std::size_t bytes);
    static void release(void* memory);
    static Result<void*> allocate_shared(std::size_t bytes);
    static Result<void*> allocate_pinned(std::size_t bytes);
    static void release_pinned(void* memory);
    static Result<> clear(void* memory, std::size_t bytes, Stream stream);
    static Result<> copy(void* to, void const* from, std::size_t bytes, Stream stream);
    static Result<Stream> create_stream();
    static void destroy_stream(Stream stream);
    static Result<Event> create_event();
    static Result<Event> create_timed_event();
    static void destroy_event(Event event);
    static Result<> record(Event event, Stream stream);
    static Result<> hold_back(Stream stream, Event event);
    static Result<bool> is_reached(Event event);
    static Result<double> seconds_between(Event first, Event last);
    static Result<> enable_peer(std::int32_t device, std::int32_t peer);
    static Result<DeviceUuid> uuid(std::int32_t device);
    static Result<bool> runs_processes_at_once(std::int32_t device);
    static Result<SharedHandle> export_shared(void* memory);
    static Result<void*> open_shared(SharedHandle handle);
    static void close_shared(void* memory);
    static Result<void*> allocate_mapped(std::size_t bytes);
    static Result<int> export_mapped(void* memory);
    static Result<void*> open_mapped(int descriptor, std::size_t bytes);
    static void release_mapped(void* memory, std::size_t bytes);
    static Result<> begin_capture(Stream stream);
    static Result<Graph> end_capture(Stream stream);
    static Result<> upload_graph(Graph graph, Stream stream);
    static Result<> launch_graph(Graph graph, Stream stream);
    static void destroy_graph(Graph graph);
};

static_assert(DeviceApi<AnyApi>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
