// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/files/regular_file.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The whole content of an open file that is at most `limit` bytes.
///
/// Errors  file_unreadable; capacity_exceeded for a larger file
[[nodiscard]] inline Result<std::string> read_text_file(RegularFile const& file, std::size_t limit) {
    if (file.size() > limit) {
        return Error{ErrorCode::capacity_exceeded}
            .in(file.path())
            .because("is larger than a file of this kind may be, in bytes")
            .got(static_cast<std::int64_t>(file.size()))
            .at_most(static_cast<std::int64_t>(limit));
    }
    std::string text(static_cast<std::size_t>(file.size()), '\0');
    if (auto const done = file.read_all(0, text.data(), text.size()); !done) return done.error();
    return text;
}

/// The whole content of a regular file that is at most `limit` bytes.
///
/// Errors  file_not_found, file_unreadable; capacity_exceeded for a larger file
[[nodiscard]] inline Result<std::string> read_text_file(std::string const& path, std::size_t limit) {
    auto const file = RegularFile::open(path);
    if (!file) return file.error();
    return read_text_file(*file, limit);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
