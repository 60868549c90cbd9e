// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <span>
#include <string>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// A header of device code, by the name that it is included by.
struct DeviceSource {
    std::string_view name;
    std::string_view text;
};

/// The headers in kernels/ and all that they include, as they were when the program was compiled. Defined in a file that
/// cmake/shardwise-device-sources.cmake writes.
[[nodiscard]] std::span<DeviceSource const> device_sources();

/// What stands in for the two headers of the standard library that device code includes: a compiler at run time has none.
inline constexpr DeviceSource standard_sources[] = {{"cstdint", R"(#pragma once
namespace std {
using int8_t = signed char;
using int16_t = short;
using int32_t = int;
using int64_t = long;
using uint8_t = unsigned char;
using uint16_t = unsigned short;
using uint32_t = unsigned int;
using uint64_t = unsigned long;
using intptr_t = long;
using uintptr_t = unsigned long;
}
)"},
                                                    {"cstddef", R"(#pragma once
namespace std {
using size_t = decltype(sizeof(0));
using ptrdiff_t = long;
enum class byte : unsigned char {};
}
)"}};

/// A unit that includes every kernel: the headers of a list that stand in kernels/ and end in .cuh.
[[nodiscard]] inline std::string unit_of(std::span<DeviceSource const> sources) {
    std::string unit;
    for (auto const& source : sources) {
        if (source.name.starts_with("shardwise/kernels/") && source.name.ends_with(".cuh"))
            unit += "#include <" + std::string(source.name) + ">\n";
    }
    return unit;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
