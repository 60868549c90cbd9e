// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/detail/rank_names.hpp>
#include <shardwise/core/deadline.hpp>
#include <shardwise/core/result.hpp>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Leaves a file per rank in a folder and waits for those of all others.
///
/// Errors  invalid_argument for a rank that came before or a group of another size; deadline_exceeded with the missing ranks;
///         backend_failure with the system call
[[nodiscard]] inline Result<> meet_in_folder(std::string const& folder, std::int32_t rank, std::int32_t ranks,
                                             std::chrono::nanoseconds timeout) {
    auto const deadline = Deadline::after(timeout);
    auto const path_of = [&](std::int32_t of) { return folder + "/shardwise-rank-" + std::to_string(of); };
    Error wrong{ErrorCode::invalid_argument};
    wrong.in("gloo").at(folder).fix("start all ranks with the same number of ranks and a fresh folder per job");
    auto const path = path_of(rank);
    auto const made = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (made < 0 && errno == EEXIST) return wrong.because("rank " + std::to_string(rank) + " was taken before");
    auto const text = std::to_string(ranks) + "\n";
    bool const is_written = made >= 0 && write(made, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    auto const problem = errno;
    if (made >= 0) close(made);
    if (!is_written) {
        return Error{ErrorCode::backend_failure}
            .in("open")
            .at(path)
            .because(std::strerror(problem))
            .fix("give a folder that exists and that this user may write");
    }
    // The number of ranks that a rank was started with; 0 while it is not there.
    auto const size_of = [&](std::int32_t of) {
        auto const found = open(path_of(of).c_str(), O_RDONLY | O_CLOEXEC);
        if (found < 0) return 0;
        char words[16] = {};
        auto const bytes = read(found, words, sizeof words - 1);
        close(found);
        // Half-written is not there yet.
        return bytes > 0 && words[bytes - 1] == '\n' ? std::atoi(words) : 0;
    };
    while (true) {
        std::vector<std::int32_t> missing;
        for (std::int32_t peer = 0; peer < ranks; ++peer) {
            auto const size = size_of(peer);
            if (size == 0) missing.push_back(peer);
            if (size != 0 && size != ranks)
                return wrong.because("belongs to a group of another size").got(ranks).expected(size);
        }
        if (missing.empty()) return {};
        if (deadline.has_passed()) {
            return Error{ErrorCode::deadline_exceeded}
                .in("gloo")
                .at(folder)
                .because("was never joined by rank " + RankNames().list(missing))
                .fix("look at why these ranks did not start");
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
