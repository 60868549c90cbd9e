// SPDX-License-Identifier: Apache-2.0
#include <shardwise/backend/detail/cuda_mapping.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <dlfcn.h>
#include <fcntl.h>
#include <filesystem>
#include <set>
#include <string>
#include <unistd.h>

// Over a driver of the tests' own, tests/fakes/cuda_mapping.cpp.

using namespace shardwise;
using detail::CudaMapping;

namespace {

std::string driver() {
    return (std::filesystem::path(SHARDWISE_PROGRAM).parent_path().parent_path() /
            "tests/fakes/libfake_cuda_mapping.so")
        .string();
}
template <class Function>
Function* find(char const* name) {
    return reinterpret_cast<Function*>(::dlsym(::dlopen(driver().c_str(), RTLD_NOW | RTLD_LOCAL), name));
}
int alive() {
    return find<int()>("shardwise_fake_mapping_alive")();
}
int count_open() {
    int count = 0;
    for (int i = 0; i < 200; ++i) count += fcntl(i, F_GETFD) >= 0 ? 1 : 0;
    return count;
}

constexpr std::int32_t own_device = 3;
constexpr std::size_t bytes = 70000;

/// Memory that is allocated, exported and mapped once more; both are the same.
Result<> share(CudaMapping const& mapping) {
    auto const memory = mapping.allocate(bytes);
    if (!memory) return memory.error();
    auto const shared = [&]() -> Result<> {
        auto const descriptor = mapping.export_descriptor(*memory);
        if (!descriptor) return descriptor.error();
        auto const again = mapping.map(*descriptor, bytes);
        (void)::close(*descriptor);
        if (!again) return again.error();
        static_cast<char*>(*memory)[bytes - 1] = 'x';
        bool const is_same = static_cast<char const*>(*again)[bytes - 1] == 'x' && *again != *memory;
        mapping.release(*again, bytes);
        if (is_same) return {};
        return Error{ErrorCode::invalid_argument}.in("test").because("is other memory");
    }();
    // Its owner may end it first or last.
    mapping.release(*memory, bytes);
    return shared;
}

}  // namespace

TEST_CASE("CudaMapping: memory is shared by a descriptor, and every call that fails leaves nothing behind") {
    auto const mapping = CudaMapping::open(own_device, driver());
    REQUIRE_MESSAGE(mapping, (mapping ? "" : mapping.error().message()));
    auto const fail = find<void(int)>("shardwise_fake_mapping_fail");
    auto const files = count_open();
    fail(0);
    auto const shared = share(*mapping);
    CHECK_MESSAGE(shared, (shared ? "" : shared.error().message()));
    CHECK(alive() == 0);
    CHECK(count_open() == files);
    auto const calls = find<int()>("shardwise_fake_mapping_calls")();
    std::set<std::string> names;
    // What releases comes last, and asks how long it is: nobody is told of that.
    auto const last = calls - 2;
    for (int number = 1; number <= last; ++number) {
        CAPTURE(number);
        fail(number);
        auto const failed = share(*mapping);
        CHECK_FALSE(failed);
        if (!failed) names.insert(std::string(failed.error().subject()));
        CHECK(alive() == 0);
        CHECK(count_open() == files);
    }
    fail(0);
    CHECK(names == std::set<std::string>{"cuMemAddressReserve", "cuMemCreate", "cuMemExportToShareableHandle",
                                         "cuMemGetAllocationGranularity", "cuMemImportFromShareableHandle", "cuMemMap",
                                         "cuMemRetainAllocationHandle", "cuMemSetAccess"});
}

TEST_CASE("CudaMapping: no driver, and one that has no such memory, are refused by name") {
    auto const absent = CudaMapping::open(own_device, "libshardwise-no-cuda.so");
    REQUIRE_FALSE(absent);
    CHECK(absent.error().code() == ErrorCode::file_not_found);
    auto const other = CudaMapping::open(own_device, "libc.so.6");
    REQUIRE_FALSE(other);
    CHECK(other.error().code() == ErrorCode::unsupported);
    CHECK(other.error().place() == "cuMemGetAllocationGranularity");
}
