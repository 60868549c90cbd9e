// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <cstddef>
#include <cstring>
#include <deque>
#include <string>
#include <string_view>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Makes whole lines of what arrives in pieces, and keeps the last of them. A line that is longer than `max_line` bytes comes
/// in parts of that size.
class LineSplitter {
public:
    static constexpr std::size_t max_line = 65536;

    explicit LineSplitter(std::string prefix, std::size_t kept = 0) : prefix_(std::move(prefix)), kept_(kept) {}

    /// Adds the whole lines, each with the prefix before it, to `out`.
    void add(std::string_view bytes, std::string& out) {
        while (!bytes.empty()) {
            auto const free = max_line - partial_.size();
            auto const* const end = static_cast<char const*>(std::memchr(bytes.data(), '\n', bytes.size()));
            auto const size = end == nullptr ? bytes.size() : static_cast<std::size_t>(end - bytes.data());
            if (size > free) {
                partial_.append(bytes.substr(0, free));
                bytes.remove_prefix(free);
                give_line(out);
                continue;
            }
            partial_.append(bytes.substr(0, size));
            if (end == nullptr) return;
            bytes.remove_prefix(size + 1);
            give_line(out);
        }
    }
    /// Adds what came without an end of line as a line.
    void finish(std::string& out) {
        if (!partial_.empty()) give_line(out);
    }
    /// The last lines, the oldest first.
    [[nodiscard]] std::deque<std::string> const& last() const { return last_; }

private:
    void give_line(std::string& out) {
        out += prefix_;
        out += partial_;
        out += '\n';
        if (kept_ > 0) {
            if (last_.size() == kept_) last_.pop_front();
            last_.push_back(partial_);
        }
        partial_.clear();
    }

    std::string prefix_;
    std::size_t kept_;
    std::string partial_;
    std::deque<std::string> last_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
