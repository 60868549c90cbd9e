// SPDX-License-Identifier: Apache-2.0
// Of CUDA's driver what maps memory by file descriptors, in place of libcuda.so.1: memory is files without names. It holds to what the
// driver asks for: whole grains, addresses that are reserved before they are mapped and freed after, access that is given before it is
// used, handles that are released. Each call fails in its turn.
#include <shardwise/backend/detail/cuda_mapping.hpp>

#include <cstddef>
#include <cstdint>
#include <fcntl.h>
#include <map>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

using shardwise::detail::CudaMapping;

namespace {

constexpr std::size_t grain = 65536;
constexpr int invalid_value = 1;
constexpr int out_of_memory = 2;
constexpr int own_device = 3;

struct Range {
    std::size_t size;
    /// The file that is mapped; -1: none.
    int file;
};

int calls = 0;
int failing = 0;
/// Handles are files' numbers.
std::map<CudaMapping::Handle, std::size_t> handles;
std::map<CudaMapping::Address, Range> ranges;

bool fails() {
    return ++calls == failing;
}
void* pointer(CudaMapping::Address at) {
    return reinterpret_cast<void*>(static_cast<std::uintptr_t>(at));
}
CudaMapping::Handle add(int file, std::size_t size) {
    auto const handle = static_cast<CudaMapping::Handle>(file);
    handles[handle] = size;
    return handle;
}
bool is_shared_memory(CudaMapping::Properties const& of) {
    return of.type == 1 && of.handle_types == 1 && of.location.type == 1 && of.location.device == own_device;
}

}  // namespace

extern "C" {

/// From now on the call of that number fails; 0: none.
void shardwise_fake_mapping_fail(int number) {
    calls = 0;
    failing = number;
}
/// Calls since then.
int shardwise_fake_mapping_calls() {
    return calls;
}
/// Handles and addresses that are alive.
int shardwise_fake_mapping_alive() {
    return static_cast<int>(handles.size() + ranges.size());
}

int cuGetErrorString(int, char const** text) {
    *text = "was told to fail";
    return 0;
}
int cuMemGetAllocationGranularity(std::size_t* size, CudaMapping::Properties const* of, int option) {
    if (fails() || option != 0 || !is_shared_memory(*of)) return invalid_value;
    *size = grain;
    return 0;
}
int cuMemCreate(CudaMapping::Handle* handle, std::size_t size, CudaMapping::Properties const* of,
                unsigned long long flags) {
    if (fails()) return out_of_memory;
    if (size == 0 || size % grain != 0 || flags != 0 || !is_shared_memory(*of)) return invalid_value;
    auto const file = memfd_create("shardwise-fake-mapping", MFD_CLOEXEC);
    if (ftruncate(file, static_cast<off_t>(size)) != 0) return invalid_value;
    *handle = add(file, size);
    return 0;
}
int cuMemRelease(CudaMapping::Handle handle) {
    if (handles.erase(handle) == 0) return invalid_value;
    return close(static_cast<int>(handle));
}
int cuMemRetainAllocationHandle(CudaMapping::Handle* handle, void* at) {
    auto const found = ranges.find(static_cast<CudaMapping::Address>(reinterpret_cast<std::uintptr_t>(at)));
    if (fails() || found == ranges.end() || found->second.file < 0) return invalid_value;
    *handle = add(fcntl(found->second.file, F_DUPFD_CLOEXEC, 0), found->second.size);
    return 0;
}
int cuMemExportToShareableHandle(void* to, CudaMapping::Handle handle, int type, unsigned long long flags) {
    if (fails() || !handles.contains(handle) || type != 1 || flags != 0) return invalid_value;
    *static_cast<int*>(to) = fcntl(static_cast<int>(handle), F_DUPFD_CLOEXEC, 0);
    return 0;
}
int cuMemImportFromShareableHandle(CudaMapping::Handle* handle, void* from, int type) {
    auto const file = static_cast<int>(reinterpret_cast<std::uintptr_t>(from));
    struct stat facts {};
    if (fails() || type != 1 || fstat(file, &facts) != 0) return invalid_value;
    *handle = add(fcntl(file, F_DUPFD_CLOEXEC, 0), static_cast<std::size_t>(facts.st_size));
    return 0;
}
int cuMemAddressReserve(CudaMapping::Address* at, std::size_t size, std::size_t, CudaMapping::Address,
                        unsigned long long flags) {
    if (fails() || size % grain != 0 || flags != 0) return invalid_value;
    auto* const found = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *at = static_cast<CudaMapping::Address>(reinterpret_cast<std::uintptr_t>(found));
    ranges[*at] = {size, -1};
    return 0;
}
int cuMemAddressFree(CudaMapping::Address at, std::size_t size) {
    auto const found = ranges.find(at);
    if (found == ranges.end() || found->second.size != size || found->second.file >= 0) return invalid_value;
    ranges.erase(found);
    return munmap(pointer(at), size);
}
int cuMemMap(CudaMapping::Address at, std::size_t size, std::size_t offset, CudaMapping::Handle handle,
             unsigned long long flags) {
    auto const found = ranges.find(at);
    auto const memory = handles.find(handle);
    if (fails() || found == ranges.end() || memory == handles.end() || found->second.file >= 0) return invalid_value;
    if (found->second.size != size || memory->second != size || offset != 0 || flags != 0) return invalid_value;
    found->second.file = fcntl(static_cast<int>(handle), F_DUPFD_CLOEXEC, 0);
    mmap(pointer(at), size, PROT_NONE, MAP_SHARED | MAP_FIXED, found->second.file, 0);
    return 0;
}
int cuMemUnmap(CudaMapping::Address at, std::size_t size) {
    auto const found = ranges.find(at);
    if (found == ranges.end() || found->second.size != size || found->second.file < 0) return invalid_value;
    close(found->second.file);
    found->second.file = -1;
    mmap(pointer(at), size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    return 0;
}
int cuMemSetAccess(CudaMapping::Address at, std::size_t size, CudaMapping::Access const* access, std::size_t count) {
    auto const found = ranges.find(at);
    if (fails() || found == ranges.end() || found->second.file < 0 || count != 1) return invalid_value;
    if (access->location.type != 1 || access->location.device != own_device || access->flags != 3) return invalid_value;
    return mprotect(pointer(at), size, PROT_READ | PROT_WRITE);
}
}
