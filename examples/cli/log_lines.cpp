// SPDX-License-Identifier: Apache-2.0
#include "log_lines.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace shardwise::cli {

Result<LogLines> LogLines::from_environment() {
    LogLines lines;
    char const* const word = std::getenv("SHARDWISE_LOG");
    if (word == nullptr || *word == '\0') return lines;
    auto const level = parse_log_level(word, "SHARDWISE_LOG");
    if (!level) return level.error();
    lines.most_ = *level;
    return lines;
}

void LogLines::operator()(LogLine const& line) const {
    std::chrono::duration<double> const now = std::chrono::steady_clock::now().time_since_epoch();
    char head[96];
    std::snprintf(head, sizeof head, "[rank%d] %.6f %s: ", static_cast<int>(line.rank), now.count(),
                  name_of(line.level).data());
    auto text = head + std::string(line.text);
    // Names come from files: nothing in a line may end it or steer a terminal.
    for (auto& letter : text) {
        if (static_cast<unsigned char>(letter) < 0x20 || letter == 0x7f) letter = ' ';
    }
    text += '\n';
    (void)std::fwrite(text.data(), 1, text.size(), stderr);
}

}  // namespace shardwise::cli
