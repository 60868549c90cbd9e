// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "text_file.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace house {

/// A class, struct or enum that a header defines outside of others.
struct TypeName {
    std::size_t line;
    /// Of a namespace that opens where a line begins; "" is shardwise itself.
    std::string space;
    std::string name;
};

/// The word that a line begins with behind the keyword of a definition; "" where the line defines no type.
inline std::string defined_type(std::string_view line) {
    for (std::string_view const keyword : {"struct ", "class ", "enum class ", "union "}) {
        if (!line.starts_with(keyword)) continue;
        line.remove_prefix(keyword.size());
        auto const end = line.find_first_of(" ;:{<");
        auto const rest = end == std::string_view::npos ? std::string_view{} : trim(line.substr(end));
        // A specialisation is no new name, and neither is a declaration.
        if (rest.empty() || rest.front() == '<' || rest.front() == ';') return "";
        return std::string{line.substr(0, end)};
    }
    return "";
}

/// The types of a header that are laid out as .clang-format does: what a namespace holds is not indented.
inline std::vector<TypeName> type_names(std::string_view text) {
    std::vector<TypeName> found;
    std::vector<std::string> spaces;
    std::size_t number = 0;
    for (std::string const& line : split_lines(text)) {
        ++number;
        if (line.starts_with("namespace ")) {
            std::string const head = line.substr(10, line.find(" {") - 10);
            auto const version = head.find("SHARDWISE_NAMESPACE");
            auto const own = version == std::string::npos ? head : head.substr(std::min(head.size(), version + 21));
            bool const nests = !spaces.empty() && !spaces.back().empty();
            spaces.push_back(nests ? spaces.back() + "::" + own : own);
        } else if (line.starts_with("}  // namespace") && !spaces.empty()) {
            spaces.pop_back();
        } else if (auto const name = defined_type(line); !name.empty()) {
            found.push_back({number, spaces.empty() ? "" : spaces.back(), name});
        }
    }
    return found;
}

/// Types of shardwise::detail with the name of one of shardwise: what includes both finds that either name means the other.
inline std::vector<std::string> check_type_names(std::filesystem::path const& root) {
    std::map<std::string, std::string> published;
    std::vector<std::pair<std::string, std::string>> hidden;
    for (auto const& entry : std::filesystem::recursive_directory_iterator(root / "include" / "shardwise")) {
        std::string const extension = entry.path().extension().string();
        if (!entry.is_regular_file() || (extension != ".hpp" && extension != ".cuh")) continue;
        for (TypeName const& type : type_names(read_text(entry.path()))) {
            auto const where = entry.path().lexically_relative(root).generic_string() + ":" + std::to_string(type.line);
            if (type.space.empty()) published.emplace(type.name, where);
            if (type.space == "detail") hidden.emplace_back(type.name, where);
        }
    }
    std::vector<std::string> violations;
    for (auto const& [name, where] : hidden) {
        if (auto const other = published.find(name); other != published.end())
            violations.push_back(where + ": detail::" + name + " hides the one of " + other->second);
    }
    return violations;
}

}  // namespace house
