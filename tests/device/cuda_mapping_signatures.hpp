// SPDX-License-Identifier: Apache-2.0
#pragma once

// What backend/detail/cuda_mapping.hpp says of the driver's interface, held against the header of the CUDA that is installed.
#if defined(SHARDWISE_HAS_CUDA) && __has_include(<cuda.h>)
#include <shardwise/backend/detail/cuda_mapping.hpp>

#include <cstddef>
#include <cuda.h>
#include <type_traits>
#include <utility>

namespace shardwise::testing {

/// A parameter as CudaMapping has it: enumerations as int, structs as its own.
template <class T>
struct MappingWord {
    using Type = std::conditional_t<std::is_enum_v<T>, int, T>;
};
template <>
struct MappingWord<CUmemAllocationProp> {
    using Type = detail::CudaMapping::Properties;
};
template <>
struct MappingWord<CUmemAccessDesc> {
    using Type = detail::CudaMapping::Access;
};
template <class T>
struct MappingWord<T const> {
    using Type = typename MappingWord<T>::Type const;
};
template <class T>
struct MappingWord<T*> {
    using Type = typename MappingWord<T>::Type*;
};
template <class F>
struct MappingFunction;
template <class R, class... P>
struct MappingFunction<R(P...)> {
    using Type = typename MappingWord<R>::Type (*)(typename MappingWord<P>::Type...);
};
using Mapping = detail::CudaMapping;
template <auto Member, class F>
constexpr bool maps_signature =
    std::is_same_v<std::remove_cvref_t<decltype(std::declval<Mapping::Functions>().*Member)>,
                   typename MappingFunction<F>::Type>;

static_assert(maps_signature<&Mapping::Functions::granularity, decltype(cuMemGetAllocationGranularity)>);
static_assert(maps_signature<&Mapping::Functions::create, decltype(cuMemCreate)>);
static_assert(maps_signature<&Mapping::Functions::release, decltype(cuMemRelease)>);
static_assert(maps_signature<&Mapping::Functions::retain, decltype(cuMemRetainAllocationHandle)>);
static_assert(maps_signature<&Mapping::Functions::export_handle, decltype(cuMemExportToShareableHandle)>);
static_assert(maps_signature<&Mapping::Functions::import_handle, decltype(cuMemImportFromShareableHandle)>);
static_assert(maps_signature<&Mapping::Functions::reserve, decltype(cuMemAddressReserve)>);
static_assert(maps_signature<&Mapping::Functions::free, decltype(cuMemAddressFree)>);
static_assert(maps_signature<&Mapping::Functions::map, decltype(cuMemMap)>);
static_assert(maps_signature<&Mapping::Functions::unmap, decltype(cuMemUnmap)>);
static_assert(maps_signature<&Mapping::Functions::set_access, decltype(cuMemSetAccess)>);
static_assert(maps_signature<&Mapping::Functions::error_string, decltype(cuGetErrorString)>);

static_assert(sizeof(Mapping::Properties) == sizeof(CUmemAllocationProp));
static_assert(offsetof(Mapping::Properties, handle_types) == offsetof(CUmemAllocationProp, requestedHandleTypes));
static_assert(offsetof(Mapping::Properties, location) == offsetof(CUmemAllocationProp, location));
static_assert(offsetof(Mapping::Properties, reserved) == offsetof(CUmemAllocationProp, win32HandleMetaData));
static_assert(offsetof(Mapping::Properties, flags) == offsetof(CUmemAllocationProp, allocFlags));
static_assert(sizeof(Mapping::Access) == sizeof(CUmemAccessDesc));
static_assert(offsetof(Mapping::Access, flags) == offsetof(CUmemAccessDesc, flags));
static_assert(offsetof(Mapping::Location, device) == offsetof(CUmemLocation, id));
static_assert(Mapping::Properties{}.type == CU_MEM_ALLOCATION_TYPE_PINNED);
static_assert(Mapping::Properties{}.handle_types == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
static_assert(Mapping::Location{}.type == CU_MEM_LOCATION_TYPE_DEVICE);
static_assert(Mapping::Access{}.flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
static_assert(CU_MEM_ALLOC_GRANULARITY_MINIMUM == 0);
static_assert(CUDA_ERROR_OUT_OF_MEMORY == 2 && CUDA_ERROR_NOT_SUPPORTED == 801);

}  // namespace shardwise::testing
#endif
