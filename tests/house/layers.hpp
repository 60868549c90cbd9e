// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "text_file.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace house {

/// The room list of docs/layers.txt.
struct Layers {
    std::map<std::string, std::set<std::string>> allowed;  // transitively closed
    std::map<std::string, std::set<std::string>> avoided;  // top-level header -> folders it must never reach
    std::vector<std::string> problems;
};

inline Layers read_layers(std::string_view text) {
    Layers layers;
    for (std::string const& line : split_lines(text)) {
        std::vector<std::string> const words = split_words(std::string_view{line}.substr(0, line.find('#')));
        if (words.empty()) continue;
        if (words.size() < 2 || (words[1] != "->" && words[1] != "avoids")) {
            layers.problems.push_back("docs/layers.txt: expected 'room -> rooms' or 'header avoids folders': " + line);
            continue;
        }
        auto& table = words[1] == "->" ? layers.allowed : layers.avoided;
        table[words[0]].insert(words.begin() + 2, words.end());
    }
    for (bool grew = true; grew;) {
        grew = false;
        for (auto& [room, rooms] : layers.allowed) {
            std::set<std::string> closure = rooms;
            for (std::string const& other : rooms) {
                auto const row = layers.allowed.find(other);
                if (row == layers.allowed.end()) continue;
                closure.insert(row->second.begin(), row->second.end());
            }
            if (closure.size() != rooms.size()) {
                rooms = closure;
                grew = true;
            }
        }
    }
    for (auto const& [room, rooms] : layers.allowed) {
        if (rooms.contains(room)) layers.problems.push_back("docs/layers.txt: the room " + room + " is in a cycle");
        for (std::string const& other : rooms) {
            if (!layers.allowed.contains(other)) {
                layers.problems.push_back("docs/layers.txt: " + room + " may include " + other + ", which has no line");
            }
        }
    }
    return layers;
}

/// An #include line of a header, without its brackets.
struct Include {
    std::size_t line;
    std::string target;
    bool quoted;
};

/// What the check needs to know of one header.
struct Header {
    std::vector<Include> includes;
    std::size_t lines = 0;
    bool has_pragma_once = false;
};

inline Header scan_header(std::string_view text) {
    Header header;
    bool in_comment = false;
    for (std::string const& whole : split_lines(text)) {
        ++header.lines;
        std::string_view line = trim(whole);
        if (in_comment) {
            std::size_t const end = line.find("*/");
            if (end == std::string_view::npos) continue;
            in_comment = false;
            line = trim(line.substr(end + 2));
        }
        if (line.starts_with("/*") && line.find("*/") == std::string_view::npos) {
            in_comment = true;
            continue;
        }
        if (!line.starts_with('#')) continue;
        line = trim(line.substr(1));
        if (line.starts_with("pragma") && trim(line.substr(6)).starts_with("once")) header.has_pragma_once = true;
        if (!line.starts_with("include")) continue;
        line = trim(line.substr(7));
        if (line.empty() || (line[0] != '<' && line[0] != '"')) continue;
        bool const quoted = line[0] == '"';
        std::size_t const end = line.find(quoted ? '"' : '>', 1);
        header.includes.push_back({header.lines, std::string{line.substr(1, end - 1)}, quoted});
    }
    return header;
}

/// The room of a path relative to include/shardwise: its first folder, or the file itself where it stands in none.
inline std::string room_of(std::string_view relative) {
    return std::string{relative.substr(0, relative.find('/'))};
}

/// Reports how a header of `avoiding` reaches each folder that it must avoid.
inline void check_avoided(std::string const& avoiding, std::set<std::string> const& folders,
                          std::map<std::string, Header> const& headers, std::vector<std::string>& violations) {
    std::map<std::string, std::string> came_from{{avoiding, ""}};
    std::deque<std::string> queue{avoiding};
    while (!queue.empty()) {
        std::string const here = queue.front();
        queue.pop_front();
        auto const header = headers.find(here);
        if (header == headers.end()) continue;
        for (Include const& include : header->second.includes) {
            if (!include.target.starts_with("shardwise/")) continue;
            std::string const next = include.target.substr(10);
            if (!came_from.emplace(next, here).second) continue;
            auto const hit = std::find_if(folders.begin(), folders.end(),
                                          [&](std::string const& folder) { return next.starts_with(folder + "/"); });
            if (hit == folders.end()) {
                queue.push_back(next);
                continue;
            }
            std::string chain = next;
            for (std::string step = here; !step.empty(); step = came_from.at(step)) chain = step + " -> " + chain;
            violations.push_back("include/shardwise/" + avoiding + ": must not reach " + *hit +
                                 "/, but does: " + chain);
        }
    }
}

/// What device code may include but our own headers: integers, and what a vendor's compiler needs to know its own names.
inline constexpr std::array<std::string_view, 3> device_includes{"cstdint", "cstddef", "hip/hip_runtime.h"};

/// Reports how the device code of kernels/ (a .cuh that is no _launch.cuh) reaches what a compiler at run time does not have.
inline void check_freestanding(std::string const& kernel, std::map<std::string, Header> const& headers,
                               std::vector<std::string>& violations) {
    std::map<std::string, std::string> came_from{{kernel, ""}};
    std::deque<std::string> queue{kernel};
    while (!queue.empty()) {
        std::string const here = queue.front();
        queue.pop_front();
        auto const header = headers.find(here);
        if (header == headers.end()) continue;
        for (Include const& include : header->second.includes) {
            if (include.target.starts_with("shardwise/")) {
                std::string const next = include.target.substr(10);
                if (came_from.emplace(next, here).second) queue.push_back(next);
                continue;
            }
            // No header has a space in its name: core/version.hpp stops old compilers by one.
            bool const is_message = include.target.find(' ') != std::string::npos;
            if (!is_message &&
                std::find(device_includes.begin(), device_includes.end(), include.target) == device_includes.end()) {
                std::string chain = "<" + include.target + ">";
                for (std::string step = here; !step.empty(); step = came_from.at(step)) chain = step + " -> " + chain;
                violations.push_back("include/shardwise/" + kernel + ": device code is freestanding, but: " + chain);
            }
        }
    }
}

/// Every breach of the rules that a compiler does not see, as "path:line: what".
inline std::vector<std::string> check_layers(std::filesystem::path const& root) {
    constexpr std::size_t max_lines = 400;
    constexpr std::array<std::string_view, 4> banned{"format", "expected", "source_location", "iostream"};

    Layers const layers = read_layers(read_text(root / "docs" / "layers.txt"));
    std::vector<std::string> violations = layers.problems;
    if (layers.allowed.empty()) violations.push_back("docs/layers.txt: names no room");

    std::filesystem::path const base = root / "include" / "shardwise";
    std::map<std::string, Header> headers;
    for (auto const& entry : std::filesystem::recursive_directory_iterator(base)) {
        std::string const extension = entry.path().extension().string();
        if (!entry.is_regular_file() || (extension != ".hpp" && extension != ".cuh" && extension != ".inc")) continue;
        headers[entry.path().lexically_relative(base).generic_string()] = scan_header(read_text(entry.path()));
    }
    for (auto const& [name, header] : headers) {
        std::string const path = "include/shardwise/" + name;
        std::string const room = room_of(name);
        auto const row = layers.allowed.find(room);
        if (row == layers.allowed.end())
            violations.push_back(path + ": the room " + room + " is not in docs/layers.txt");
        // A .inc is included once for each instruction set.
        if (!header.has_pragma_once && !name.ends_with(".inc")) violations.push_back(path + ": has no #pragma once");
        if (header.lines > max_lines) {
            violations.push_back(path + ": has " + std::to_string(header.lines) + " lines, more than " +
                                 std::to_string(max_lines));
        }
        for (Include const& include : header.includes) {
            std::string const where = path + ":" + std::to_string(include.line) + ": ";
            std::string const& target = include.target;
            if (include.quoted) violations.push_back(where + "own headers are included as <shardwise/...>: " + target);
            if (target.starts_with("nlohmann/") && room != "json") {
                violations.push_back(where + "only the room json includes nlohmann_json");
            }
            if (name.ends_with(".hpp") && std::find(banned.begin(), banned.end(), target) != banned.end()) {
                violations.push_back(where + "<" + target + "> is not for headers (style.md, 31)");
            }
            if (!target.starts_with("shardwise/") || row == layers.allowed.end()) continue;
            std::string const inner = target.substr(10);
            std::string const other = room_of(inner);
            if (!headers.contains(inner)) violations.push_back(where + "<" + target + "> does not exist");
            if (other != room && !row->second.contains(other)) {
                violations.push_back(where + "the room " + room + " must not include " + other + " (<" + target + ">)");
            }
        }
    }
    for (auto const& [name, folders] : layers.avoided) check_avoided(name, folders, headers, violations);
    for (auto const& [name, header] : headers) {
        bool const is_body = name.starts_with("kernels/") && name.ends_with(".cuh");
        if (is_body && !name.ends_with("_launch.cuh")) check_freestanding(name, headers, violations);
    }
    return violations;
}

}  // namespace house
