// SPDX-License-Identifier: Apache-2.0
// Kernels that are compiled at run time (SHARDWISE_CUDA_JIT): all that kernels/instantiate/ has, by NVRTC where there is one, and launched
// through a fake driver (tests/fakes/cuda_driver.cpp). No GPU is needed.
#include <shardwise/backend/detail/cuda_api.hpp>
#include <shardwise/backend/jit/code_cache.hpp>
#include <shardwise/backend/jit/cuda_driver.hpp>
#include <shardwise/backend/jit/cuda_jit.hpp>
#include <shardwise/backend/jit/device_source.hpp>
#include <shardwise/backend/jit/jit_kernel.hpp>
#include <shardwise/backend/jit/nvrtc.hpp>
#include <shardwise/hardware/vendor/dynamic_library.hpp>
#include <shardwise/kernels/detail/add_call.hpp>
#include <shardwise/quant/half_types.hpp>

#include <doctest/doctest.h>

#include "../fakes/cuda_driver.hpp"
#include "../house/layers.hpp"
#include "jit_kernels.hpp"
#include "temporary_folder.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <thread>
#include <vector>

using namespace shardwise;
using shardwise::testing::jit_kernels;

namespace {

namespace fs = std::filesystem;

Nvrtc const* nvrtc() {
    return testing::found_compiler<Nvrtc>("libnvrtc");
}

KernelRequest request_for(std::string kernel, std::string architecture) {
    auto const sources = detail::device_sources();
    return {detail::unit_of(sources), sources, std::move(kernel), std::move(architecture), {}};
}

void check_compiles(std::string const& kernel, std::string const& architecture) {
    testing::check_compiles(*nvrtc(), request_for(kernel, architecture));
}

/// Some of a template's kernels: the first and the last, which differ in their types.
std::set<std::string> some_of(std::set<std::string> const& all) {
    return {*all.begin(), *all.rbegin()};
}

/// A function of the fake driver's own.
template <class Function>
Function* of_fake(char const* name) {
    auto const library = DynamicLibrary::open("libcuda.so.1");
    REQUIRE_MESSAGE(library, (library ? "" : library.error().message()));
    auto* const found = library->find<Function>(name);
    bool const is_fake = found != nullptr;
    REQUIRE_MESSAGE(is_fake, "run it with LD_LIBRARY_PATH where the fake driver is");
    return found;
}
testing::FakeCuda& fake_cuda() {
    return *of_fake<testing::FakeCuda*()>("shardwise_fake_cuda")();
}

std::vector<fs::path> files_in(fs::path const& folder) {
    std::vector<fs::path> out;
    if (fs::exists(folder)) {
        for (auto const& entry : fs::directory_iterator(folder)) out.push_back(entry.path());
    }
    return out;
}

/// A JitRecord's launch of `find_ids`, a kernel that compiles fast, by a CudaJit of the test's own.
Result<> launch_ids(detail::CudaJit const& jit, detail::JitRecord& record) {
    int argument = 0;
    void* arguments[] = {&argument};
    return jit.launch(record, arguments, detail::JitLaunch{"ids", 1, 256, nullptr, nullptr, {}});
}

}  // namespace

TEST_CASE("Sources of device code: what include/ has, each with what it includes, and every kernel") {
    fs::path const include = fs::path(SHARDWISE_SOURCE_DIR) / "include";
    std::set<std::string> names;
    for (auto const& source : detail::device_sources()) {
        CHECK_MESSAGE(source.text == house::read_text(include / source.name), source.name);
        names.insert(std::string(source.name));
    }
    for (auto const& source : detail::device_sources()) {
        for (auto const& header : house::scan_header(source.text).includes) {
            if (header.target.starts_with("shardwise/")) CHECK_MESSAGE(names.count(header.target) == 1, header.target);
        }
    }
    for (auto const& entry : fs::recursive_directory_iterator(include / "shardwise/kernels")) {
        auto const name = entry.path().lexically_relative(include).generic_string();
        if (name.ends_with(".cuh") && !name.ends_with("_launch.cuh")) CHECK_MESSAGE(names.count(name) == 1, name);
    }
}

TEST_CASE("Kernels' names: as C++ writes them, with arguments that have parentheses") {
    using Record = detail::JitRecord;
    CHECK(Record::kernel_in("a::JitKernel<&(void a::add<float, (F)1, 4u>(a::Call<float>))>") ==
          "a::add<float, (F)1, 4u>");
    CHECK(Record::kernel_in("a::JitKernel<&(void a::copy<4u>(Call, int))>") == "a::copy<4u>");
    CHECK(Record::kernel_in("a::JitKernel<7>") == "");
    auto const all = jit_kernels();
    CHECK(all.size() >= 35);
    CHECK(all.count("shardwise::detail::add_portions") == 1);
    for (auto const& each : all) CHECK_MESSAGE(each.first.find("::v") == std::string::npos, each.first);
}

TEST_CASE("Architectures: the device's own where the compiler has it, else PTX of the last before") {
    using Jit = detail::CudaJitVendor;
    CHECK(Jit::architecture_for(90, {75, 80, 90, 100}) == "sm_90");
    CHECK(Jit::architecture_for(103, {75, 80, 90, 100}) == "compute_100");
    CHECK(Jit::architecture_for(87, {75, 80, 90}) == "compute_80");
}

TEST_CASE("NVRTC compiles kernels of every template") {
    if (nvrtc() == nullptr) return;
    for (auto const& [name, all] : jit_kernels()) check_compiles(*all.begin(), "sm_80");
    for (auto const* const name : {"multiply_tiles", "attend_tiles", "reduce_over_peers"})
        check_compiles(*jit_kernels().at(std::string("shardwise::detail::") + name).rbegin(), "sm_90a");
}

TEST_CASE("NVRTC compiles every kernel" * doctest::test_suite("long")) {
    if (nvrtc() == nullptr) return;
    for (auto const& [name, all] : jit_kernels()) {
        for (auto const& kernel : all) {
            for (auto const* const architecture : {"sm_80", "sm_90a"}) check_compiles(kernel, architecture);
        }
        for (auto const& kernel : some_of(all)) {
            for (auto const* const architecture : {"sm_100", "sm_120"}) check_compiles(kernel, architecture);
        }
    }
}

TEST_CASE("NVRTC: what does not compile is an error with the compiler's own words") {
    if (nvrtc() == nullptr) return;
    detail::DeviceSource const header{
        "own.cuh", "#pragma once\ntemplate <int n> __global__ void twice(int* out) { *out = n + odd; }\n"};
    std::string log;
    auto const code = nvrtc()->compile({"#include <own.cuh>\n", {&header, 1}, "twice<2>", "sm_80", {}}, &log);
    REQUIRE_FALSE(code);
    CHECK(code.error().code() == ErrorCode::backend_failure);
    CHECK(code.error().message().find("identifier \"odd\" is undefined") != std::string::npos);
    CHECK(code.error().message().find("twice<2>") != std::string::npos);
    CHECK(log.find("own.cuh(2)") != std::string::npos);
    auto const none = Nvrtc::open({"libno_such_nvrtc.so"});
    REQUIRE_FALSE(none);
    CHECK(none.error().code() == ErrorCode::file_not_found);
    auto const other = Nvrtc::open({"libno_such_nvrtc.so", "libcuda.so.1"});
    REQUIRE_FALSE(other);
    CHECK(other.error().code() == ErrorCode::unsupported);
}

TEST_CASE(
    "Run-time kernels: launched with the grid and the arguments of their launcher, compiled once, kept for the next "
    "program") {
    if (nvrtc() == nullptr) return;
    auto& fake = fake_cuda();
    testing::TemporaryFolder const folder;
    auto const cache = fs::path(folder.path()) / "kernels";
    REQUIRE(::setenv("SHARDWISE_KERNEL_CACHE", cache.c_str(), 1) == 0);
    std::vector<float> values(64);
    int stream = 0;
    auto* const native = reinterpret_cast<cudaStream_t>(&stream);
    using Call = detail::AddCall<float>;
    Call const call{values.data(), 16, values.data() + 16, 16, values.data() + 32, 16, 1, 16, 1.0F};
    fake.launches.clear();
    fake.argument_bytes = sizeof call;
    int const loads = fake.loads;
    for (int i = 0; i < 2; ++i) {
        auto const done = detail::launch_add<detail::CudaApi>("add", call, native);
        REQUIRE_MESSAGE(done, (done ? "" : done.error().message()));
    }
    CHECK(fake.loads == loads + 1);
    CHECK(fake.captured_loads == 0);
    CHECK(of_fake<int()>("shardwise_fake_cuda_mode")() == 0);
    REQUIRE(fake.launches.size() == 2);
    for (auto const& launch : fake.launches) {
        CHECK(launch.symbol.find("add_portions") != std::string::npos);
        CHECK(launch.blocks == 1);
        CHECK(launch.threads == 256);
        CHECK(launch.stream == &stream);
        CHECK(std::memcmp(launch.argument.data(), &call, sizeof call) == 0);
    }
    // Another device has a context of its own.
    int other = 0;
    fake.context = &other;
    CHECK(detail::launch_add<detail::CudaApi>("add", call, native));
    CHECK(fake.loads == loads + 2);
    fake.context = &fake;
    CHECK(files_in(cache).size() == 1);
    struct stat status {};
    REQUIRE(::stat(cache.c_str(), &status) == 0);
    CHECK((status.st_mode & 0777) == 0700);
    fake.context = nullptr;
    auto const none = detail::launch_add<detail::CudaApi>("add", call, native);
    fake.context = &fake;
    REQUIRE_FALSE(none);
    CHECK(none.error().code() == ErrorCode::no_such_device);
}

TEST_CASE("Run-time kernels: a cache that is cut, changed, another's or of another driver is compiled again") {
    if (nvrtc() == nullptr) return;
    auto& fake = fake_cuda();
    auto const driver = detail::CudaDriver::open();
    REQUIRE(driver);
    testing::TemporaryFolder const folder;
    auto const cache = fs::path(folder.path()) / "deep" / "kernels";
    fake.argument_bytes = 0;
    auto const launch = [&](Result<Nvrtc> compiler) {
        detail::JitRecord* list = nullptr;
        detail::JitRecord record{typeid(detail::JitKernel<&detail::find_ids<256>>), list};
        detail::CudaJit const jit{*driver, std::move(compiler), CodeCache(cache.string())};
        return launch_ids(jit, record);
    };
    auto const with = [&] { return launch(*nvrtc()); };
    Nvrtc const& compiler = *nvrtc();
    auto const name = CodeCache::name_of(request_for("shardwise::detail::find_ids<256>", "sm_80"), compiler.identity());
    REQUIRE(with());
    auto const file = cache / name;
    REQUIRE(files_in(cache) == std::vector{file});
    auto const whole = house::read_text(file);
    CodeCache const kept(cache.string());
    CHECK(kept.find(name));
    auto const write = [&](std::string const& text) { std::ofstream(file, std::ios::binary) << text; };
    auto changed = whole;
    changed[whole.size() / 2] = static_cast<char>(changed[whole.size() / 2] ^ 1);
    for (auto const& text :
         {std::string{}, whole.substr(0, 40), whole.substr(0, whole.size() - 1), changed, whole + "x"}) {
        write(text);
        CHECK_FALSE(kept.find(name));
        CHECK(with());
        CHECK(kept.find(name));
    }
    // What the driver does not load is compiled again, too.
    fake.failing_loads = 1;
    CHECK(with());
    CHECK(fake.failing_loads == 0);
    // A folder that others may enter, or that cannot be made, holds nothing.
    fs::permissions(cache, fs::perms::all);
    CHECK_FALSE(kept.find(name));
    CHECK_FALSE(kept.keep(name, {"a", "b"}));
    CHECK(with());
    fs::permissions(cache, fs::perms::owner_all);
    CHECK(kept.find(name));
    fs::remove_all(cache);
    std::ofstream(cache) << "no folder";
    CHECK(with());
    CHECK_FALSE(kept.keep(name, {"a", "b"}));
    auto const keep_nowhere = CodeCache("").keep(name, {"a", "b"});
    CHECK_FALSE(keep_nowhere);
}

TEST_CASE("Run-time kernels: devices of a kind share what was compiled, and load it without waiting for each other") {
    if (nvrtc() == nullptr) return;
    auto& fake = fake_cuda();
    auto* const set_context = of_fake<void(void*)>("shardwise_fake_cuda_context");
    auto const driver = detail::CudaDriver::open();
    REQUIRE(driver);
    testing::TemporaryFolder const folder;
    auto const cache = fs::path(folder.path()) / "kernels";
    detail::CudaJit const jit{*driver, *nvrtc(), CodeCache(cache.string())};
    detail::JitRecord* list = nullptr;
    detail::JitRecord record{typeid(detail::JitKernel<&detail::find_ids<256>>), list};
    fake.argument_bytes = 0;
    int const loads = fake.loads;
    fake.meeting_loads = 2;
    std::atomic<int> launched{0};
    int contexts[3] = {};
    std::vector<std::thread> ranks;
    for (int i = 0; i < 2; ++i) {
        ranks.emplace_back([&, i] {
            set_context(&contexts[i]);
            for (int times = 0; times < 2; ++times) launched += launch_ids(jit, record) ? 1 : 0;
        });
    }
    for (auto& rank : ranks) rank.join();
    CHECK(launched == 4);
    CHECK(fake.missed_meetings == 0);
    CHECK(fake.loads == loads + 2);
    // One more device of the kind: nothing is compiled, nor read.
    fs::remove_all(cache);
    fake.context = &contexts[2];
    CHECK(launch_ids(jit, record));
    fake.context = &fake;
    CHECK(fake.loads == loads + 3);
    CHECK_FALSE(fs::exists(cache));
    // One of another kind is compiled for.
    fake.capability = 90;
    int other = 0;
    fake.context = &other;
    CHECK(launch_ids(jit, record));
    fake.context = &fake;
    fake.capability = 80;
    CHECK(files_in(cache).size() == 1);
}

TEST_CASE("Kept kernels: another source, option, architecture, kernel or compiler has another name") {
    detail::DeviceSource const header{"own.cuh", "text"};
    detail::DeviceSource const longer{"own.cuh", "text2"};
    KernelRequest const plain{"unit", {&header, 1}, "kernel", "sm_80", {"-a"}};
    std::set<std::string> names{CodeCache::name_of(plain, "one")};
    CHECK(names.count(CodeCache::name_of(plain, "one")) == 1);
    CHECK(names.begin()->size() == 64);
    auto const differs = [&](KernelRequest const& request, std::string const& version) {
        CHECK(names.insert(CodeCache::name_of(request, version)).second);
    };
    differs(plain, "two");
    differs({"unit", {&longer, 1}, "kernel", "sm_80", {"-a"}}, "one");
    differs({"unit2", {&header, 1}, "kernel", "sm_80", {"-a"}}, "one");
    differs({"unit", {&header, 1}, "kernel2", "sm_80", {"-a"}}, "one");
    differs({"unit", {&header, 1}, "kernel", "sm_90", {"-a"}}, "one");
    differs({"unit", {&header, 1}, "kernel", "sm_80", {"-b"}}, "one");
    differs({"unit", {&header, 1}, "kernel", "sm_80", {"-a", ""}}, "one");
    differs({"unit", {}, "kernel", "sm_80", {"-a"}}, "one");
}
