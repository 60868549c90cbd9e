// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/deadline.hpp>
#include <shardwise/core/files/regular_file.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <poll.h>
#include <string>
#include <string_view>
#include <unistd.h>

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

/// How long a reader waits for whoever writes a stream.
struct StreamPatience {
    /// For the first byte of a pipe with a name: nobody may have opened it.
    std::chrono::milliseconds first{5'000};
    /// For any further byte, and for every byte of standard input. A person at a terminal has all the time.
    std::chrono::milliseconds next{60'000};
};

namespace detail {

/// Waits until a descriptor has something to read, or its end.
[[nodiscard]] inline Result<> await_input(int descriptor, std::string_view shown, std::chrono::milliseconds patience) {
    if (descriptor < 0) return {};  // poll would wait for nothing
    bool const is_terminal = ::isatty(descriptor) == 1;
    auto const deadline = Deadline::after(patience);
    while (true) {
        auto const left = std::chrono::ceil<std::chrono::milliseconds>(deadline.left());
        pollfd ready{descriptor, POLLIN, 0};
        auto const found = ::poll(&ready, 1, is_terminal ? -1 : static_cast<int>(left.count()));
        // What is wrong with the descriptor, the read says.
        if (found > 0 || (found < 0 && errno != EINTR)) return {};
        if (found == 0 && !is_terminal) {
            return Error{ErrorCode::file_unreadable}
                .in(shown)
                .because("gave nothing in time, in seconds")
                .got(std::chrono::duration_cast<std::chrono::seconds>(patience).count())
                .fix("start what writes to it, or name a file");
        }
    }
}

/// What a descriptor gives up to its end; at most one byte more than `limit`.
[[nodiscard]] inline Result<std::string> read_to_end(int descriptor, std::string_view shown, std::size_t limit,
                                                     StreamPatience const& patience = {}) {
    std::string text;
    char block[8192];
    while (text.size() <= limit) {
        if (auto const waited = await_input(descriptor, shown, patience.next); !waited) return waited.error();
        auto const wanted = std::min(sizeof block, limit + 1 - text.size());
        auto const got = ::read(descriptor, block, wanted);
        if (got == 0) break;
        if (got > 0) {
            text.append(block, static_cast<std::size_t>(got));
            continue;
        }
        if (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK) continue;
        if (errno == EISDIR) return Error{ErrorCode::file_unreadable}.in(shown).because("is a folder, not a file");
        if (errno == EBADF) return Error{ErrorCode::file_unreadable}.in(shown).because("is closed");
        return RegularFile::unreadable(shown, errno);
    }
    return text;
}

}  // namespace detail

/// Reads a stream up to its end; waits for whoever writes it, as long as `patience` says. Of more than `limit` bytes,
/// limit + 1 are given: the caller says what is wrong with them.
///
/// Errors  file_not_found, file_unreadable, also where nobody writes in time
[[nodiscard]] inline Result<std::string> read_stream(std::string const& path, std::size_t limit,
                                                     StreamPatience const& patience = {}) {
    auto const shown = stream_name(path);
    if (is_standard_input(path)) return detail::read_to_end(0, shown, limit, patience);
    // A pipe that nobody has opened to write would keep `open` waiting.
    int const descriptor = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (descriptor < 0) return RegularFile::unreadable(shown, errno);
    auto const begun = detail::await_input(descriptor, shown, patience.first);
    auto text = begun ? detail::read_to_end(descriptor, shown, limit, patience) : Result<std::string>{begun.error()};
    ::close(descriptor);
    return text;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
