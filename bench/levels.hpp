// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/isa.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace bench {

/// The levels that a benchmark shows: `best`, which the context has, and avx2; with `shows_all` every lower one that the machine has.
inline std::vector<shardwise::IsaLevel> shown_levels(shardwise::IsaLevel best, bool shows_all) {
    using shardwise::IsaLevel;
    std::vector<IsaLevel> shown{best};
    for (auto level = shardwise::isa_level_list.rbegin(); level != shardwise::isa_level_list.rend(); ++level) {
        if (*level < best && has_isa(*level) && (shows_all || *level == IsaLevel::avx2)) shown.push_back(*level);
    }
    return shown;
}

/// What a case is called at a level; at the best one it has its own name.
inline std::string at_level(std::string const& name, shardwise::IsaLevel level, shardwise::IsaLevel best) {
    return level == best ? name : name + " " + std::string(name_of(level));
}

/// The arguments of a benchmark that shows levels; ends the process at others.
struct LevelArguments {
    bool is_json = false;
    bool shows_all = false;
    /// Whether `flag`, the benchmark's own, is among them.
    bool has_flag = false;
    std::string_view only;

    LevelArguments(int argc, char** argv, bool takes_name, std::string_view flag = {}) {
        for (int i = 1; i < argc; ++i) {
            std::string_view const word = argv[i];
            if (word == "--json") {
                is_json = true;
            } else if (word == "--levels" && i + 1 < argc && std::string_view(argv[i + 1]) == "all") {
                shows_all = true;
                ++i;
            } else if (!flag.empty() && word == flag) {
                has_flag = true;
            } else if (takes_name && !word.starts_with("-")) {
                only = word;
            } else {
                std::fprintf(stderr, "%s: takes --json, --levels all%s%.*s%s\n", argv[0], flag.empty() ? "" : ", ",
                             static_cast<int>(flag.size()), flag.data(), takes_name ? " and a name" : "");
                std::exit(2);
            }
        }
    }
};

}  // namespace bench
