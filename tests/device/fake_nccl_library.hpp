// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/device/nccl_library.hpp>

#include "fake_vendor.hpp"

#include <dlfcn.h>
#include <filesystem>
#include <string>

/// The library of NCCL's interface that is loaded as NCCL is: tests/fakes/nccl.cpp.
namespace shardwise::testing {

[[nodiscard]] inline std::string fake_nccl_library() {
    return (std::filesystem::path(SHARDWISE_PROGRAM).parent_path().parent_path() / "tests/fakes/libfake_nccl.so")
        .string();
}
template <class Function>
[[nodiscard]] Function* find_in_fake_nccl(char const* name) {
    auto* const loaded = ::dlopen(fake_nccl_library().c_str(), RTLD_NOW | RTLD_LOCAL);
    return reinterpret_cast<Function*>(::dlsym(loaded, name));
}
/// Lets its tasks go into the fake vendor's streams.
inline void use_fake_streams() {
    using PutInStream = void (*)(void*, void (*)(void*), void*);
    auto* const use = find_in_fake_nccl<void(PutInStream)>("shardwise_fake_nccl_streams");
    use([](void* stream, void (*task)(void*), void* of) {
        static_cast<FakeStream*>(stream)->put([task, of] { task(of); });
    });
}
/// Windows that were made since this was last asked; -1 where a rule of NCCL's was broken, or memory is left.
[[nodiscard]] inline int fake_nccl_windows() {
    return find_in_fake_nccl<int()>("shardwise_fake_nccl_windows")();
}

}  // namespace shardwise::testing
