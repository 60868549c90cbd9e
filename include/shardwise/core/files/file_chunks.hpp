// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/files/regular_file.hpp>
#include <shardwise/core/result.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Calls `take(offset, bytes)` for each MiB of a file, in order; each begins at a multiple of a MiB.
///
/// Memory  a MiB
/// Errors  file_unreadable
template <class Take>
[[nodiscard]] Result<> for_each_chunk(RegularFile const& file, Take&& take) {
    std::vector<char> chunk(std::size_t{1} << 20U);
    for (std::uint64_t done = 0; done < file.size();) {
        auto const some = static_cast<std::size_t>(std::min<std::uint64_t>(chunk.size(), file.size() - done));
        if (auto const read = file.read_all(done, chunk.data(), some); !read) return read;
        take(done, std::string_view(chunk.data(), some));
        done += some;
    }
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
