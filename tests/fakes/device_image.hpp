// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace shardwise::testing {

/// A kernel's launch, as a fake driver or runtime has seen it.
struct FakeLaunch {
    std::string symbol;
    unsigned blocks = 0;
    unsigned threads = 0;
    void* stream = nullptr;
    /// The first argument's first bytes, as many as were asked for.
    std::string argument;
};

/// An image that was loaded, and the names of the functions that were found in it, which stand for them.
struct FakeModule {
    std::string image;
    std::vector<std::unique_ptr<std::string>> functions;
};

/// The bytes of an ELF file up to its section headers, which lie last; empty for anything else.
[[nodiscard]] inline std::string read_elf(char const* image) {
    if (std::memcmp(image, "\177ELF", 4) != 0) return {};
    auto const number = [&]<class T>(std::size_t at, T value) {
        std::memcpy(&value, image + at, sizeof value);
        return static_cast<std::size_t>(value);
    };
    auto const begin = number(40, 0ULL);
    auto const end = begin + number(58, static_cast<unsigned short>(0)) * number(60, static_cast<unsigned short>(0));
    return {image, end};
}

}  // namespace shardwise::testing
