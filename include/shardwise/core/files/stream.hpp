// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/files/regular_file.hpp>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <poll.h>
#include <string>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// True for the names of standard input: "-" and the system's.
[[nodiscard]] constexpr bool is_standard_input(std::string_view path) {
    return path == "-" || path == "/dev/stdin" || path == "/dev/fd/0" || path == "/proc/self/fd/0";
}

/// True for what gives its bytes once and in order: standard input by any of its names, or a pipe with a name.
[[nodiscard]] inline bool is_stream(std::string const& path) {
    if (is_standard_input(path)) return true;
    struct stat status {};
    return path.find('\0') == std::string::npos && ::stat(path.c_str(), &status) == 0 && S_ISFIFO(status.st_mode);
}

/// How errors and answers call a stream.
[[nodiscard]] inline std::string stream_name(std::string_view path) {
    return is_standard_input(path) ? "standard input" : std::string(path);
}

namespace detail {

/// What a descriptor gives up to its end; at most one byte more than `limit`.
[[nodiscard]] inline Result<std::string> read_to_end(int descriptor, std::string_view shown, std::size_t limit) {
    std::string text;
    char block[8192];
    while (text.size() <= limit) {
        auto const wanted = std::min(sizeof block, limit + 1 - text.size());
        auto const got = ::read(descriptor, block, wanted);
        if (got == 0) break;
        if (got > 0) {
            text.append(block, static_cast<std::size_t>(got));
            continue;
        }
        if (errno == EINTR) continue;
        if (errno == EAGAIN || errno == EWOULDBLOCK) {
            // Somebody else made it one that does not wait.
            pollfd ready{descriptor, POLLIN, 0};
            (void)::poll(&ready, 1, -1);
            continue;
        }
        if (errno == EISDIR) return Error{ErrorCode::file_unreadable}.in(shown).because("is a folder, not a file");
        if (errno == EBADF) return Error{ErrorCode::file_unreadable}.in(shown).because("is closed");
        return RegularFile::unreadable(shown, errno);
    }
    return text;
}

}  // namespace detail

/// Reads a stream up to its end; waits for whoever writes it. Of more than `limit` bytes, limit + 1 are given: the caller
/// says what is wrong with them.
///
/// Errors  file_not_found, file_unreadable
[[nodiscard]] inline Result<std::string> read_stream(std::string const& path, std::size_t limit) {
    auto const shown = stream_name(path);
    if (is_standard_input(path)) return detail::read_to_end(0, shown, limit);
    int const descriptor = ::open(path.c_str(), O_RDONLY | O_NOCTTY | O_CLOEXEC);
    if (descriptor < 0) return RegularFile::unreadable(shown, errno);
    auto text = detail::read_to_end(descriptor, shown, limit);
    ::close(descriptor);
    return text;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
