// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/gloo.hpp>

#include "processes.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace shardwise::testing {

/// A fresh folder in which ranks meet.
class MeetingFolder {
public:
    MeetingFolder() {
        char name[] = "/tmp/shardwise-gloo-XXXXXX";
        path_ = mkdtemp(name) == nullptr ? "" : name;
    }
    ~MeetingFolder() { std::filesystem::remove_all(path_); }
    MeetingFolder(MeetingFolder const&) = delete;
    MeetingFolder& operator=(MeetingFolder const&) = delete;
    [[nodiscard]] std::string const& path() const { return path_; }

private:
    std::string path_;
};

using GlooBody = std::function<Result<>(Gloo&)>;

/// Runs each body as a rank of one group, in a process of its own.
inline std::vector<ProcessOutcome> run_gloo_ranks(
    std::vector<GlooBody> const& bodies, GlooOptions const& options = {},
    std::function<void(std::vector<pid_t> const&)> const& meanwhile = {}) {
    MeetingFolder const folder;
    std::vector<std::function<Result<>()>> processes;
    for (std::size_t rank = 0; rank < bodies.size(); ++rank) {
        processes.emplace_back([&, rank]() -> Result<> {
            auto comm = Gloo::join(folder.path(), static_cast<std::int32_t>(rank),
                                   static_cast<std::int32_t>(bodies.size()), options);
            if (!comm) return comm.error();
            return bodies[rank](*comm);
        });
    }
    return run_processes(processes, meanwhile);
}

}  // namespace shardwise::testing
