// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/hardware/vendor/dynamic_library.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Memory of CUDA devices that several processes map by file descriptors, through the driver's C interface: found in libcuda.so.1, which no
/// program links. The runtime has been called before, which starts the driver.
///
/// Source  cuda.h of CUDA 11.2 to 13.0; CUDA C++ Programming Guide 12.4, 14 "Virtual Memory Management"
class CudaMapping {
public:
    using Address = unsigned long long;
    using Handle = unsigned long long;
    struct Location {
        int type = 1;  // CU_MEM_LOCATION_TYPE_DEVICE
        int device = 0;
    };
    /// CUmemAllocationProp.
    struct Properties {
        int type = 1;          // CU_MEM_ALLOCATION_TYPE_PINNED
        int handle_types = 1;  // CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
        Location location{};
        void* reserved = nullptr;
        unsigned char flags[8] = {};
    };
    /// CUmemAccessDesc.
    struct Access {
        Location location{};
        int flags = 3;  // CU_MEM_ACCESS_FLAGS_PROT_READWRITE
    };

    struct Functions {
        int (*granularity)(std::size_t*, Properties const*, int option) = nullptr;
        int (*create)(Handle*, std::size_t, Properties const*, unsigned long long flags) = nullptr;
        int (*release)(Handle) = nullptr;
        int (*retain)(Handle*, void* address) = nullptr;
        int (*export_handle)(void* to, Handle, int type, unsigned long long flags) = nullptr;
        int (*import_handle)(Handle*, void* from, int type) = nullptr;
        int (*reserve)(Address*, std::size_t, std::size_t alignment, Address wanted,
                       unsigned long long flags) = nullptr;
        int (*free)(Address, std::size_t) = nullptr;
        int (*map)(Address, std::size_t, std::size_t offset, Handle, unsigned long long flags) = nullptr;
        int (*unmap)(Address, std::size_t) = nullptr;
        int (*set_access)(Address, std::size_t, Access const*, std::size_t count) = nullptr;
        int (*error_string)(int, char const**) = nullptr;
    };

    /// Errors  file_not_found where there is no driver; unsupported where it lacks a function
    [[nodiscard]] static Result<CudaMapping> open(std::int32_t device, std::string const& name = "libcuda.so.1") {
        auto const library = DynamicLibrary::open(name);
        if (!library) return library.error();
        CudaMapping out;
        out.properties_.location.device = device;
        char const* missing = nullptr;
        auto const find = [&]<class Function>(Function*& to, char const* symbol) {
            to = library->template find<Function>(symbol);
            if (to == nullptr && missing == nullptr) missing = symbol;
        };
        find(out.functions_.granularity, "cuMemGetAllocationGranularity");
        find(out.functions_.create, "cuMemCreate");
        find(out.functions_.release, "cuMemRelease");
        find(out.functions_.retain, "cuMemRetainAllocationHandle");
        find(out.functions_.export_handle, "cuMemExportToShareableHandle");
        find(out.functions_.import_handle, "cuMemImportFromShareableHandle");
        find(out.functions_.reserve, "cuMemAddressReserve");
        find(out.functions_.free, "cuMemAddressFree");
        find(out.functions_.map, "cuMemMap");
        find(out.functions_.unmap, "cuMemUnmap");
        find(out.functions_.set_access, "cuMemSetAccess");
        find(out.functions_.error_string, "cuGetErrorString");
        if (missing == nullptr) return out;
        return Error{ErrorCode::unsupported}
            .in(name)
            .at(missing)
            .because("is not in it: the driver is too old")
            .fix("install a driver for CUDA 11.2 or later");
    }

    /// Errors  out_of_memory; backend_failure
    [[nodiscard]] Result<void*> allocate(std::size_t bytes) const {
        auto const size = rounded(bytes);
        if (!size) return size.error();
        Handle handle = 0;
        auto const made = result(functions_.create(&handle, *size, &properties_, 0), "cuMemCreate");
        if (!made) return made.error();
        return place(handle, *size);
    }
    /// The caller's to close.
    ///
    /// Errors  backend_failure
    [[nodiscard]] Result<int> export_descriptor(void* memory) const {
        Handle handle = 0;
        auto const kept = result(functions_.retain(&handle, memory), "cuMemRetainAllocationHandle");
        if (!kept) return kept.error();
        int descriptor = -1;
        auto const made = result(functions_.export_handle(&descriptor, handle, properties_.handle_types, 0),
                                 "cuMemExportToShareableHandle");
        (void)functions_.release(handle);
        if (!made) return made.error();
        return descriptor;
    }
    /// Memory that was allocated with so many bytes; the descriptor stays the caller's.
    ///
    /// Errors  backend_failure
    [[nodiscard]] Result<void*> map(int descriptor, std::size_t bytes) const {
        auto const size = rounded(bytes);
        if (!size) return size.error();
        Handle handle = 0;
        // The number itself stands where a pointer is asked for.
        auto* const number = reinterpret_cast<void*>(static_cast<std::uintptr_t>(descriptor));
        auto const made = result(functions_.import_handle(&handle, number, properties_.handle_types),
                                 "cuMemImportFromShareableHandle");
        if (!made) return made.error();
        return place(handle, *size);
    }
    /// Ends what allocate or map gave for so many bytes.
    void release(void* memory, std::size_t bytes) const {
        auto const size = rounded(bytes);
        if (!size) return;
        auto const at = static_cast<Address>(reinterpret_cast<std::uintptr_t>(memory));
        (void)functions_.unmap(at, *size);
        (void)functions_.free(at, *size);
    }

private:
    [[nodiscard]] Result<std::size_t> rounded(std::size_t bytes) const {
        std::size_t grain = 0;
        // CU_MEM_ALLOC_GRANULARITY_MINIMUM
        auto const asked = result(functions_.granularity(&grain, &properties_, 0), "cuMemGetAllocationGranularity");
        if (!asked) return asked.error();
        return (bytes + grain - 1) / grain * grain;
    }
    /// Brings memory to addresses of its own that the device may read and write, and takes the handle: the mapping keeps the memory.
    [[nodiscard]] Result<void*> place(Handle handle, std::size_t size) const {
        Address at = 0;
        auto placed = result(functions_.reserve(&at, size, 0, 0, 0), "cuMemAddressReserve");
        if (placed) {
            placed = result(functions_.map(at, size, 0, handle, 0), "cuMemMap");
            if (placed) {
                Access const access{properties_.location};
                placed = result(functions_.set_access(at, size, &access, 1), "cuMemSetAccess");
                if (!placed) (void)functions_.unmap(at, size);
            }
            if (!placed) (void)functions_.free(at, size);
        }
        (void)functions_.release(handle);
        if (!placed) return placed.error();
        return reinterpret_cast<void*>(static_cast<std::uintptr_t>(at));
    }
    /// A status as a result: the call's name, and what the driver says of it.
    [[nodiscard]] Result<> result(int status, std::string_view call) const {
        if (status == 0) return {};
        char const* text = nullptr;
        (void)functions_.error_string(status, &text);
        // CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_NOT_SUPPORTED
        auto const code = status == 2     ? ErrorCode::out_of_memory
                          : status == 801 ? ErrorCode::unsupported
                                          : ErrorCode::backend_failure;
        return Error{code}.in(call).because(text == nullptr ? "failed" : text).got(status);
    }

    Functions functions_;
    Properties properties_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
