// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Why something stays unknown, each reason once.
class MonitorNotes {
public:
    void add(std::string note) {
        if (std::find(notes_.begin(), notes_.end(), note) == notes_.end()) notes_.push_back(std::move(note));
    }
    [[nodiscard]] std::vector<std::string> const& all() const { return notes_; }

private:
    std::vector<std::string> notes_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
