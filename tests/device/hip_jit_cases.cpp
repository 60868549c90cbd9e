// SPDX-License-Identifier: Apache-2.0
// Kernels that are compiled at run time (SHARDWISE_HIP_JIT): all that kernels/instantiate/ has, by hipRTC where there is one, and launched
// through a fake runtime (tests/fakes/hip_runtime.cpp). No GPU is needed. What all vendors share is tested by jit_cases.cpp.
#include <shardwise/backend/detail/hip_api.hpp>
#include <shardwise/backend/jit/code_cache.hpp>
#include <shardwise/backend/jit/device_source.hpp>
#include <shardwise/backend/jit/hip_jit.hpp>
#include <shardwise/backend/jit/hiprtc.hpp>
#include <shardwise/backend/jit/jit_kernel.hpp>
#include <shardwise/kernels/detail/add_call.hpp>

#include <doctest/doctest.h>

#include "../fakes/hip_runtime.hpp"
#include "jit_kernels.hpp"
#include "temporary_folder.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

using namespace shardwise;
using shardwise::testing::fake_hip;
using shardwise::testing::jit_kernels;

namespace {

namespace fs = std::filesystem;

Hiprtc const* hiprtc() {
    return testing::found_compiler<Hiprtc>("hipRTC");
}

void check_compiles(std::string const& kernel, std::string const& architecture) {
    testing::check_compiles(*hiprtc(), detail::HipJitVendor::request(detail::device_sources(), kernel, architecture));
}

std::ptrdiff_t files_in(fs::path const& folder) {
    return fs::exists(folder) ? std::distance(fs::directory_iterator(folder), fs::directory_iterator()) : 0;
}

}  // namespace

TEST_CASE("hipRTC compiles kernels of every template") {
    if (hiprtc() == nullptr) return;
    auto const all = jit_kernels();
    CHECK(all.size() >= 35);
    CHECK(all.count("shardwise::detail::add_portions") == 1);
    for (auto const& each : all) check_compiles(*each.second.begin(), "gfx90a");
    // Of the other warp.
    for (auto const* const name : {"multiply_rows", "multiply_sums", "normalise_rows", "attend_singles"})
        check_compiles(*all.at(std::string("shardwise::detail::") + name).rbegin(), "gfx1030");
}

TEST_CASE("hipRTC compiles every kernel" * doctest::test_suite("long")) {
    if (hiprtc() == nullptr) return;
    for (auto const& each : jit_kernels()) {
        for (auto const& kernel : each.second) {
            for (auto const* const architecture : {"gfx90a", "gfx1030"}) check_compiles(kernel, architecture);
        }
    }
}

TEST_CASE("hipRTC: device code has the warp of the device that it is compiled for, and grids those of the widest") {
    if (hiprtc() == nullptr) return;
    auto const sources = detail::device_sources();
    auto const compiles = [&](std::string const& condition, std::string const& architecture) {
        auto request = detail::HipJitVendor::request(sources, "check<1>", architecture);
        request.unit +=
            "using namespace shardwise::detail;\ntemplate <int n> __global__ void check(int* out) { static_assert(" +
            condition + "); *out = n; }\n";
        return static_cast<bool>(hiprtc()->compile(request));
    };
    std::string const warp = "DeviceCode<HipApi>::warp_size == ";
    CHECK(compiles(warp + "64 && widest_warp<HipApi> == 64", "gfx90a"));
    CHECK_FALSE(compiles(warp + "32", "gfx90a"));
    CHECK(compiles(warp + "32 && widest_warp<HipApi> == 64", "gfx1030"));
    CHECK_FALSE(compiles(warp + "64", "gfx1030"));
}

TEST_CASE("hipRTC: what does not compile is an error with the compiler's own words") {
    if (hiprtc() == nullptr) return;
    detail::DeviceSource const header{
        "own.cuh", "#pragma once\ntemplate <int n> __global__ void twice(int* out) { *out = n + odd; }\n"};
    std::string log;
    auto const code = hiprtc()->compile({"#include <own.cuh>\n", {&header, 1}, "twice<2>", "gfx90a", {}}, &log);
    REQUIRE_FALSE(code);
    CHECK(code.error().code() == ErrorCode::backend_failure);
    CHECK(code.error().message().find("undeclared identifier 'odd'") != std::string::npos);
    CHECK(code.error().message().find("twice<2>") != std::string::npos);
    CHECK(log.find("own.cuh:2") != std::string::npos);
}

TEST_CASE("Compilers at run time: a machine without hipRTC is told what to install") {
    auto const none = Hiprtc::open({"libno_such_hiprtc.so"});
    REQUIRE_FALSE(none);
    CHECK(none.error().code() == ErrorCode::file_not_found);
    CHECK(none.error().message().find("libhiprtc.so") != std::string::npos);
    CHECK(none.error().message().find("install ROCm's hiprtc") != std::string::npos);
    auto const other = Hiprtc::open({"libno_such_hiprtc.so", "libm.so.6"});
    REQUIRE_FALSE(other);
    CHECK(other.error().code() == ErrorCode::unsupported);
    CHECK(other.error().message().find("hiprtcVersion") != std::string::npos);
}

TEST_CASE("Kernels' names: for hipRTC with the namespace that its unit has") {
    auto const request = detail::HipJitVendor::request({}, "shardwise::detail::f<shardwise::BFloat16, 4u>", "gfx90a");
    std::string const version = "v" + std::to_string(SHARDWISE_VERSION_MAJOR) + "_" +
                                std::to_string(SHARDWISE_VERSION_MINOR) + "_" +
                                std::to_string(SHARDWISE_VERSION_PATCH) + "::";
    CHECK(request.kernel == "shardwise::" + version + "detail::f<shardwise::" + version + "BFloat16, 4u>");
}

TEST_CASE(
    "Run-time kernels of HIP: launched with the grid and the arguments of their launcher, compiled once, kept for the "
    "next program") {
    if (hiprtc() == nullptr) return;
    auto& fake = fake_hip();
    testing::TemporaryFolder const folder;
    auto const cache = fs::path(folder.path()) / "kernels";
    REQUIRE(::setenv("SHARDWISE_KERNEL_CACHE", cache.c_str(), 1) == 0);
    std::vector<float> values(64);
    int stream = 0;
    auto* const native = reinterpret_cast<hipStream_t>(&stream);
    using Call = detail::AddCall<float>;
    Call const call{values.data(), 16, values.data() + 16, 16, values.data() + 32, 16, 1, 16, 1.0F};
    fake.argument_bytes = sizeof call;
    auto const add = [&] { return detail::launch_add<detail::HipApi>("add", call, native); };
    for (int i = 0; i < 2; ++i) {
        auto const done = add();
        REQUIRE_MESSAGE(done, (done ? "" : done.error().message()));
    }
    CHECK(fake.loads == 1);
    CHECK(fake.captured_loads == 0);
    CHECK(fake.capture_mode == hipStreamCaptureModeGlobal);
    REQUIRE(fake.launches.size() == 2);
    for (auto const& launch : fake.launches) {
        CHECK(launch.symbol.find("add_portions") != std::string::npos);
        CHECK(launch.blocks == 1);
        CHECK(launch.threads == 256);
        CHECK(launch.stream == &stream);
        CHECK(std::memcmp(launch.argument.data(), &call, sizeof call) == 0);
    }
    // Another device loads what was compiled for its kind.
    fake.device = 1;
    CHECK(add());
    CHECK(fake.loads == 2);
    CHECK(files_in(cache) == 1);
    // Another kind is compiled for.
    fake.device = 2;
    fake.processor = "gfx906";
    CHECK(add());
    CHECK(fake.loads == 3);
    CHECK(files_in(cache) == 2);

    // What fails is an error of the launch, and leaves none behind for the next one.
    fake.failing_launches = 1;
    auto const failed = add();
    REQUIRE_FALSE(failed);
    CHECK(failed.error().code() == ErrorCode::backend_failure);
    CHECK(failed.error().message().find("add") != std::string::npos);
    CHECK(fake.last_error == 0);
    CHECK(add());
    fake.device = -1;
    auto const none = add();
    fake.device = 0;
    REQUIRE_FALSE(none);
    CHECK(none.error().code() == ErrorCode::no_such_device);
}

TEST_CASE("Run-time kernels of HIP: what the runtime does not load is compiled again") {
    if (hiprtc() == nullptr) return;
    auto& fake = fake_hip();
    testing::TemporaryFolder const folder;
    auto const cache = (fs::path(folder.path()) / "kernels").string();
    auto const launch = [&] {
        detail::JitRecord* list = nullptr;
        detail::JitRecord record{typeid(detail::JitKernel<&detail::find_ids<256>>), list};
        detail::HipJit const jit{detail::HipDriver{}, *hiprtc(), CodeCache(cache)};
        int argument = 0;
        void* arguments[] = {&argument};
        return jit.launch(record, arguments, detail::JitLaunch{"ids", 1, 256, nullptr, nullptr, {}});
    };
    fake.argument_bytes = 0;
    REQUIRE(launch());
    fake.failing_loads = 1;
    CHECK(launch());
    CHECK(fake.failing_loads == 0);
    CHECK(fake.last_error == 0);
    // Code that was compiled just now is not.
    REQUIRE(fs::remove_all(cache) > 0);
    fake.failing_loads = 1;
    auto const refused = launch();
    REQUIRE_FALSE(refused);
    CHECK(refused.error().message().find("no code object for this device") != std::string::npos);
    CHECK(fake.capture_mode == hipStreamCaptureModeGlobal);
}
