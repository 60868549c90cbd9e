// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "text_file.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

/// Checks that each thing is described in one place only.
namespace house {

/// Files that may have a `default:`: their switches are over errno, vendors' codes or characters. In a switch over an
/// enumeration of ours it would hide what a new member lacks.
inline constexpr std::array<std::string_view, 9> files_with_default{
    "json/detail/string_rest.hpp",    "model/files/name_pattern.hpp",   "plan/detail/svg_canvas.hpp",
    "tokenizer/jinja/lexer.hpp",      "tokenizer/parse_pattern.hpp",    "hardware/vendor/amd_smi_api.hpp",
    "hardware/vendor/nvml_session.hpp", "core/files/write_file.hpp",    "core/files/regular_file.hpp"};
inline constexpr std::size_t max_defaults = 12;
/// The only switch over the kinds of operations.
inline constexpr std::string_view file_of_operations = "op/visit_op.hpp";

/// Enumerations of formats, of which a table says all: a switch over one would be a second list to keep in step.
inline constexpr std::array<std::string_view, 5> enumerations_of_tables{"WeightFormat", "PackedForm", "QuantMethod",
                                                                        "GgmlType", "GgmlFileType"};

/// Where the names of families may stand: their own files and presets, formats of others (tokenizers and layouts of chats are
/// called after families, but are not theirs), and lists of what an engine serves.
inline constexpr std::array<std::string_view, 4> folders_of_families{"model/arch/", "model/presets", "tokenizer/",
                                                                     "deploy/engines/"};

inline std::string_view code_of(std::string_view line) { return line.substr(0, line.find("//")); }

/// The text between the quotes that follow `mark` in a line; empty where there is none.
inline std::string quoted_after(std::string_view line, std::string_view mark) {
    auto const at = line.find(mark);
    if (at == std::string_view::npos) return {};
    auto const begin = at + mark.size();
    return std::string(line.substr(begin, line.find('"', begin) - begin));
}

/// What breaks these rules below ROOT/include/shardwise, a line each.
inline std::vector<std::string> check_descriptions(std::filesystem::path const& root) {
    auto const include = root / "include" / "shardwise";
    std::vector<std::string> files;
    for (auto const& entry : std::filesystem::recursive_directory_iterator(include)) {
        auto const extension = entry.path().extension();
        if (extension == ".hpp" || extension == ".cuh" || extension == ".inc")
            files.push_back(entry.path().lexically_relative(include).generic_string());
    }
    std::sort(files.begin(), files.end());

    std::set<std::string> families;
    for (auto const& file : files) {
        if (!file.starts_with("model/arch/")) continue;
        for (auto const& line : split_lines(read_text(include / file))) {
            for (std::string_view const mark : {"string_view name = \"", "string_view gguf_name = \""}) {
                if (auto const name = quoted_after(line, mark); !name.empty()) families.insert(name);
            }
        }
    }

    std::vector<std::string> found;
    std::size_t defaults = 0;
    for (auto const& file : files) {
        auto const is_below = [&](std::string_view folder) { return file.starts_with(folder); };
        bool const may_default = std::count(files_with_default.begin(), files_with_default.end(), file) > 0;
        bool const may_name = std::any_of(folders_of_families.begin(), folders_of_families.end(), is_below);
        std::size_t number = 0;
        for (auto const& line : split_lines(read_text(include / file))) {
            auto const place = "include/shardwise/" + file + ":" + std::to_string(++number) + ": ";
            auto const code = code_of(line);
            if (trim(code).starts_with("default:")) {
                ++defaults;
                if (!may_default) found.push_back(place + "default: hides what a new member of the enumeration lacks");
            }
            if (code.find("case OpKind::") != std::string_view::npos && file != file_of_operations)
                found.push_back(place + "switches over the kinds of operations: use visit_op, which a new kind breaks");
            for (auto const& each : enumerations_of_tables) {
                auto const name = std::string(each);
                if (code.find("case " + name + "::") != std::string_view::npos ||
                    code.find("using enum " + name + ";") != std::string_view::npos)
                    found.push_back(place + "switches over " + name + ": read the format's row, to which others are added");
            }
            if (may_name) continue;
            for (auto const& family : families) {
                if (code.find('"' + family + '"') != std::string_view::npos)
                    found.push_back(place + "names the family " + family + ": what is its own belongs into its file");
            }
        }
    }
    if (defaults > max_defaults)
        found.push_back("include/shardwise: " + std::to_string(defaults) + " default: of at most " +
                        std::to_string(max_defaults));
    return found;
}

}  // namespace house
