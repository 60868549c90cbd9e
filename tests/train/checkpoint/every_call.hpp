// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/train/checkpoint/file_calls.hpp>

namespace shardwise::testing {

/// Calls on paths, and syncs, each of which goes through Watch::make(call).
template <class Watch>
struct EveryCall : FileCalls {
    static int make_folder(char const* path) {
        return Watch::make([&] { return FileCalls::make_folder(path); });
    }
    static int open(char const* path, int flags) {
        return Watch::make([&] { return FileCalls::open(path, flags); });
    }
    static int sync(int descriptor) {
        return Watch::make([&] { return FileCalls::sync(descriptor); });
    }
    static int rename(char const* from, char const* to) {
        return Watch::make([&] { return FileCalls::rename(from, to); });
    }
    static int exchange(char const* one, char const* other) {
        return Watch::make([&] { return FileCalls::exchange(one, other); });
    }
    static int remove_file(char const* path) {
        return Watch::make([&] { return FileCalls::remove_file(path); });
    }
    static int remove_folder(char const* path) {
        return Watch::make([&] { return FileCalls::remove_folder(path); });
    }
};

}  // namespace shardwise::testing
