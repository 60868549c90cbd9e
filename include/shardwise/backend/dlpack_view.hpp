// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/buffer.hpp>
#include <shardwise/backend/host.hpp>
#include <shardwise/core/checked.hpp>
#include <shardwise/core/error.hpp>
#include <shardwise/core/optional.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/quant/half_types.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <dlpack/dlpack.h>
#include <memory>
#include <type_traits>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

template <class Api>
struct DeviceBackend;

namespace detail {

struct CudaApi;
struct HipApi;

}  // namespace detail

/// The DLPack device type of a back end's memory; a back end that wants views in and out specialises it.
template <class Backend>
inline constexpr DLDeviceType dlpack_device = Backend::this_back_end_has_no_dlpack_device;
template <>
inline constexpr DLDeviceType dlpack_device<Host> = kDLCPU;
template <>
inline constexpr DLDeviceType dlpack_device<DeviceBackend<detail::CudaApi>> = kDLCUDA;
template <>
inline constexpr DLDeviceType dlpack_device<DeviceBackend<detail::HipApi>> = kDLROCM;

/// The DLPack data type of an element type.
template <class T>
[[nodiscard]] constexpr DLDataType dlpack_type() {
    auto const of = [](unsigned code) {
        return DLDataType{static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(8 * sizeof(T)), 1};
    };
    // kDLBool, which DLPack's header has from version 0.8 on.
    constexpr unsigned boolean = 6;
    if constexpr (std::is_same_v<T, bool>) {
        return of(boolean);
    } else if constexpr (std::is_same_v<T, Bfloat16>) {
        return of(kDLBfloat);
    } else if constexpr (std::is_same_v<T, Float16> || std::is_floating_point_v<T>) {
        return of(kDLFloat);
    } else {
        static_assert(std::is_integral_v<T>, "DLPack knows no such element type");
        return of(std::is_signed_v<T> ? kDLInt : kDLUInt);
    }
}

namespace detail {

/// A DLPack tensor beside the arrays that it points to, and whatever keeps its elements alive.
template <std::size_t dimensions, class Owner>
struct DlpackShared {
    DLManagedTensor managed{};
    std::array<std::int64_t, dimensions> extents{};
    std::array<std::int64_t, dimensions> strides{};
    Owner owner;

    static void destroy(DLManagedTensor* managed) { delete static_cast<DlpackShared*>(managed->manager_ctx); }
};

}  // namespace detail

/// Shows a tensor to whoever reads DLPack, without a copy: the consumer calls the result's deleter once, which frees `owner`
/// (a Buffer moved in, a shared_ptr, or nothing where the elements live longer anyway). The view may be asked of the owner in
/// the same call: to_dlpack(buffer.view(), std::move(buffer)).
///
/// Units   DLPack counts strides in elements
/// Memory  one small allocation for the description
template <class T, std::size_t dimensions, class Backend, class Owner = std::nullptr_t>
[[nodiscard]] DLManagedTensor* to_dlpack(TensorView<T, dimensions, Backend> view, Owner&& owner = nullptr,
                                         int device = 0) {
    static_assert(!std::is_const_v<T>, "DLPack has no read-only tensors: its consumers may write");
    using Shared = detail::DlpackShared<dimensions, std::remove_cvref_t<Owner>>;
    auto* const shared = new Shared{{}, view.extents(), view.strides(), std::forward<Owner>(owner)};
    auto& tensor = shared->managed.dl_tensor;
    tensor.data = view.data();
    tensor.device = {dlpack_device<Backend>, device};
    tensor.ndim = static_cast<int>(dimensions);
    tensor.dtype = dlpack_type<T>();
    tensor.shape = shared->extents.data();
    tensor.strides = shared->strides.data();
    tensor.byte_offset = 0;
    shared->managed.manager_ctx = shared;
    shared->managed.deleter = &Shared::destroy;
    return &shared->managed;
}

namespace detail {

/// True where the extents, and the distances between the first and the last of each dimension, are bytes that 63 bits count.
/// Extents of 0 count as 1: also of a tensor without elements strides are made.
template <std::size_t dimensions>
[[nodiscard]] bool has_countable_bytes(std::array<std::int64_t, dimensions> const& extents, std::int64_t const* strides,
                                       std::size_t element_bytes) {
    auto const size = static_cast<std::int64_t>(element_bytes);
    Optional<std::int64_t> bytes = size;
    auto way = bytes;
    for (std::size_t i = 0; i < dimensions; ++i) {
        bytes = checked_multiply(*bytes, std::max<std::int64_t>(extents[i], 1));
        if (!bytes) return false;
        if (strides == nullptr) continue;
        // -INT64_MIN is no number; one less is as far.
        auto const stride = strides[i] < 0 ? -(strides[i] + 1) + (strides[i] == INT64_MIN ? 0 : 1) : strides[i];
        auto const distance = checked_multiply(stride, extents[i] - 1);
        auto const distance_bytes = distance ? checked_multiply(*distance, size) : distance;
        way = distance_bytes ? checked_add(*way, *distance_bytes) : distance_bytes;
        if (!way) return false;
    }
    return true;
}

}  // namespace detail

/// A DLPack tensor as kernels take it, without a copy; whoever holds the DLManagedTensor keeps it until the view is done with.
/// `device` is the number of the context's device; the host's memory has none.
///
/// Errors  invalid_argument where the element type or the device is another one, or elements lie nowhere or unaligned;
///         shape_mismatch where the number of dimensions is another one, an extent is negative, or the last dimension is
///         not contiguous; size_overflow where its extents or strides span more bytes than 63 bits count
template <class T, std::size_t dimensions, class Backend = Host>
[[nodiscard]] Result<TensorView<T, dimensions, Backend>> from_dlpack(DLTensor const& tensor, int device = 0) {
    Error refused{ErrorCode::invalid_argument};
    refused.in("DLPack tensor");
    auto const expected = dlpack_type<std::remove_const_t<T>>();
    if (tensor.device.device_type != dlpack_device<Backend>) {
        return refused.because("lies in another kind of memory")
            .got(tensor.device.device_type)
            .expected(dlpack_device<Backend>)
            .fix("copy it to the back end's device first");
    }
    if (dlpack_device<Backend> != kDLCPU && tensor.device.device_id != device) {
        return refused.because("lies on another device of its kind")
            .got(tensor.device.device_id)
            .expected(device)
            .fix("copy it to the context's device first");
    }
    if (tensor.dtype.code != expected.code || tensor.dtype.lanes != expected.lanes) {
        return refused.because("has elements of another kind").got(tensor.dtype.code).expected(expected.code);
    }
    if (tensor.dtype.bits != expected.bits) {
        return refused.because("has elements of another width in bits").got(tensor.dtype.bits).expected(expected.bits);
    }
    Error misshapen{ErrorCode::shape_mismatch};
    misshapen.in("DLPack tensor");
    if (tensor.ndim != static_cast<int>(dimensions)) {
        return misshapen.because("has another number of dimensions")
            .got(tensor.ndim)
            .expected(static_cast<std::int64_t>(dimensions));
    }
    typename TensorView<T, dimensions, Backend>::Extents extents{};
    for (std::size_t i = 0; i < dimensions; ++i) {
        extents[i] = tensor.shape[i];
        if (extents[i] < 0) return misshapen.because("has a negative extent").got(extents[i]);
    }
    bool const is_empty = std::find(extents.begin(), extents.end(), 0) != extents.end();
    if (!detail::has_countable_bytes(extents, is_empty ? nullptr : tensor.strides, sizeof(T)))
        return Error{ErrorCode::size_overflow}.in("DLPack tensor").because("spans more bytes than 63 bits count");
    auto* const memory = static_cast<std::byte*>(tensor.data);
    auto* const data = reinterpret_cast<T*>(memory == nullptr ? nullptr : memory + tensor.byte_offset);
    if (tensor.data == nullptr && !is_empty) return refused.because("has elements, and a null pointer to them");
    if (auto const beyond = reinterpret_cast<std::uintptr_t>(data) % alignof(T); beyond != 0 && !is_empty) {
        return refused.because("its elements begin so many bytes after a multiple of their alignment")
            .got(static_cast<std::int64_t>(beyond))
            .expected(0)
            .fix("copy it to aligned memory first");
    }
    if (tensor.strides == nullptr) return TensorView<T, dimensions, Backend>(data, extents);
    typename TensorView<T, dimensions, Backend>::Extents strides{};
    for (std::size_t i = 0; i < dimensions; ++i) strides[i] = tensor.strides[i];
    if (strides[dimensions - 1] != 1 && extents[dimensions - 1] > 1) {
        return misshapen.because("its last dimension is not contiguous")
            .got(strides[dimensions - 1])
            .expected(1)
            .fix("make it contiguous before it is exported");
    }
    return TensorView<T, dimensions, Backend>(data, extents, strides);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
