// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/bytes.hpp>
#include <shardwise/core/result.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// What a context asks of its device.
struct DeviceFacts {
    std::int32_t warp_size = 0;
    std::int32_t multiprocessors = 0;
    /// What kernels are compiled for, in the vendor's words: sm_90, gfx90a:sramecc+:xnack-.
    std::string processor{};
    /// Whether MatrixTile is a unit of the device's; plain sums take its place.
    bool has_matrix_unit = true;
};

/// What names a device to every process of a machine, whatever number each knows it by.
struct DeviceUuid {
    std::array<std::byte, 16> bytes{};
    friend bool operator==(DeviceUuid const&, DeviceUuid const&) = default;
};

/// What another process of the machine opens shared memory of a device with.
struct SharedHandle {
    std::array<std::byte, 64> bytes{};
};

/// The vendor functions that `DeviceBackend` is written over, as static functions of a struct. Each says the vendor's status as a
/// Result whose error names the call, so that nothing above it knows a vendor's codes. They act on the current device.
template <class Api>
concept DeviceApi = requires(typename Api::Stream stream, typename Api::Event event, typename Api::Graph graph,
                             void* memory, void const* from, std::size_t bytes, std::int32_t device,
                             SharedHandle handle, int descriptor) {
    { Api::name } -> std::convertible_to<std::string_view>;
    // Of the vendor's widest and narrowest warps; launchers count what threads do by the widest.
    { Api::warp_size } -> std::convertible_to<std::int32_t>;
    { Api::least_warp_size } -> std::convertible_to<std::int32_t>;
    { Api::co_resident_blocks } -> std::convertible_to<bool>;
    { Api::nccl_name } -> std::convertible_to<std::string_view>;
    { Api::architectures_option } -> std::convertible_to<std::string_view>;
    { Api::tries_peers } -> std::convertible_to<bool>;
    { Api::count_devices() } -> std::same_as<Result<std::int32_t>>;
    { Api::current_device() } -> std::same_as<Result<std::int32_t>>;
    { Api::select_device(device) } -> std::same_as<Result<>>;
    { Api::describe(device) } -> std::same_as<Result<DeviceFacts>>;
    { Api::free_memory() } -> std::same_as<Result<Bytes>>;
    { Api::allocate(bytes) } -> std::same_as<Result<void*>>;
    Api::release(memory);
    { Api::allocate_shared(bytes) } -> std::same_as<Result<void*>>;
    { Api::allocate_pinned(bytes) } -> std::same_as<Result<void*>>;
    Api::release_pinned(memory);
    { Api::clear(memory, bytes, stream) } -> std::same_as<Result<>>;
    { Api::copy(memory, from, bytes, stream) } -> std::same_as<Result<>>;
    { Api::create_stream() } -> std::same_as<Result<typename Api::Stream>>;
    Api::destroy_stream(stream);
    { Api::create_event() } -> std::same_as<Result<typename Api::Event>>;
    // One that keeps the time at which it is reached.
    { Api::create_timed_event() } -> std::same_as<Result<typename Api::Event>>;
    Api::destroy_event(event);
    { Api::record(event, stream) } -> std::same_as<Result<>>;
    { Api::hold_back(stream, event) } -> std::same_as<Result<>>;
    { Api::is_reached(event) } -> std::same_as<Result<bool>>;
    // From the first of two timed events, both reached, to the second.
    { Api::seconds_between(event, event) } -> std::same_as<Result<double>>;
    { Api::enable_peer(device, device) } -> std::same_as<Result<>>;
    { Api::uuid(device) } -> std::same_as<Result<DeviceUuid>>;
    // Whether kernels of several processes run at once on a device.
    { Api::runs_processes_at_once(device) } -> std::same_as<Result<bool>>;
    // What was given by allocate_shared, for another process; that one opens it on the current device, and closes it before it is released.
    { Api::export_shared(memory) } -> std::same_as<Result<SharedHandle>>;
    { Api::open_shared(handle) } -> std::same_as<Result<void*>>;
    Api::close_shared(memory);
    // The same where handles are refused: memory that another process maps by a file descriptor, which the caller closes, and says how long
    // it is. Both end with release_mapped, whichever goes first. Unsupported where the vendor has none.
    { Api::allocate_mapped(bytes) } -> std::same_as<Result<void*>>;
    { Api::export_mapped(memory) } -> std::same_as<Result<int>>;
    { Api::open_mapped(descriptor, bytes) } -> std::same_as<Result<void*>>;
    Api::release_mapped(memory, bytes);
    // What is put into a stream between the two is taken down, not run; the end makes a graph of it that can be launched.
    { Api::begin_capture(stream) } -> std::same_as<Result<>>;
    { Api::end_capture(stream) } -> std::same_as<Result<typename Api::Graph>>;
    // Brings a graph to the device, so that its first launch is like every other.
    { Api::upload_graph(graph, stream) } -> std::same_as<Result<>>;
    { Api::launch_graph(graph, stream) } -> std::same_as<Result<>>;
    Api::destroy_graph(graph);
};

/// Makes a device current for a while, and then again the one that was before: the including program keeps its own choice.
template <class Api>
class DeviceScope {
public:
    explicit DeviceScope(std::int32_t device) {
        auto const current = Api::current_device();
        if (!current) {
            result_ = current.error();
        } else if (*current != device) {
            result_ = Api::select_device(device);
            if (result_) previous_ = *current;
        }
    }
    DeviceScope(DeviceScope const&) = delete;
    DeviceScope& operator=(DeviceScope const&) = delete;
    ~DeviceScope() {
        if (previous_ >= 0) (void)Api::select_device(previous_);
    }

    [[nodiscard]] Result<> const& result() const { return result_; }

private:
    Result<> result_;
    std::int32_t previous_ = -1;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
