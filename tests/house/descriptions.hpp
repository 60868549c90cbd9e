// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "chains.hpp"
#include "text_file.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Checks that each thing is described in one place only.
namespace house {

/// Files that may have a `default:`: their switches are over errno, vendors' codes or characters. In a switch over an
/// enumeration of ours it would hide what a new member lacks.
inline constexpr std::array<std::string_view, 9> files_with_default{
    "json/detail/string_rest.hpp",      "model/files/name_pattern.hpp", "plan/detail/svg_canvas.hpp",
    "tokenizer/jinja/lexer.hpp",        "tokenizer/parse_pattern.hpp",  "hardware/vendor/amd_smi_api.hpp",
    "hardware/vendor/nvml_session.hpp", "core/files/write_file.hpp",    "core/files/regular_file.hpp"};
inline constexpr std::size_t max_defaults = 12;
/// The only switch over the kinds of operations.
inline constexpr std::string_view file_of_operations = "op/visit_op.hpp";

/// Enumerations of formats, of which a table says all: a switch over one would be a second list to keep in step.
inline constexpr std::array<std::string_view, 5> enumerations_of_tables{"WeightFormat", "PackedForm", "QuantMethod",
                                                                        "GgmlType", "GgmlFileType"};

/// Chains of comparisons over an enumeration that are right: they ask for a property that few enumerators have, or all but a
/// few have not. Who adds an enumerator looks at the chains and counts it here.
struct KnownChain {
    std::string_view file;
    std::string_view enumeration;
    std::size_t enumerators;
    /// Chains of the file over the enumeration.
    std::size_t chains = 1;
};
inline constexpr std::array<KnownChain, 19> known_chains{{
    // Types of elements that a cache may have; others are refused by name.
    {"calibrate/measure_attention.hpp", "Dtype", 37},
    // Calls whose text has less than the others'.
    {"comm/call.hpp", "CollectiveKind", 10},
    // What single engines refuse, and what those say of quantisations whose words are not in the table.
    {"deploy/check_deploy.hpp", "Engine", 5},
    {"deploy/quant_words.hpp", "Engine", 5},
    // Schemes that are named by a type of ggml.
    {"executor/held_format.hpp", "QuantMethod", 10},
    {"quant/scheme.hpp", "QuantMethod", 10},
    // Numbers, and values that hold others.
    {"json/value.hpp", "JsonKind", 8},
    {"tokenizer/jinja/value.hpp", "JinjaKind", 18},
    // Formats whose elements are no codes of eight bits and less.
    {"kernels/detail/multiply_tiles.cuh", "WeightFormat", 15},
    // Values whose sizes the file says, and types that are plain numbers.
    {"model/files/gguf.hpp", "GgufValueType", 13},
    {"model/files/gguf_config.hpp", "GgmlType", 35},
    // Places where a reader takes a value; elsewhere it is refused or passed over.
    {"model/files/safetensors_reader.hpp", "State", 13, 7},
    {"model/files/tree_json.hpp", "Place", 9, 2},
    // Models that have a tokenizer, or checkpoints a config.json.
    {"tokenizer/files/load_tokenizer.hpp", "SourceKind", 4},
    {"train/checkpoint/checkpoint_files.hpp", "SourceKind", 4},
    // Nodes that are assigned to, and tokens that begin no statement.
    {"tokenizer/jinja/execute.hpp", "JinjaNodeKind", 35},
    {"tokenizer/jinja/parse_template.hpp", "JinjaNodeKind", 35},
    {"tokenizer/jinja/parse_template.hpp", "JinjaTokenKind", 11},
}};

/// Where the names of families may stand: their own files and presets, formats of others (tokenizers and layouts of chats are
/// called after families, but are not theirs), and the list of what an engine serves.
inline constexpr std::array<std::string_view, 6> places_of_families{"model/arch/",
                                                                    "model/presets",
                                                                    "tokenizer/chat_layout.hpp",
                                                                    "tokenizer/files/gguf_pre_tokenizer.hpp",
                                                                    "tokenizer/files/tokenizer_gguf.hpp",
                                                                    "deploy/engines/tei.hpp"};
/// The only file of the library that lists the families.
inline constexpr std::string_view file_of_families = "model/architectures.hpp";

inline std::string_view code_of(std::string_view line) {
    return line.substr(0, line.find("//"));
}

/// The text between the quotes that follow `mark` in a line; empty where there is none.
inline std::string quoted_after(std::string_view line, std::string_view mark) {
    auto const at = line.find(mark);
    if (at == std::string_view::npos) return {};
    auto const begin = at + mark.size();
    return std::string(line.substr(begin, line.find('"', begin) - begin));
}

/// True where a literal of the code is the family's name, or begins with it and a dot as the names of its tensors and its keys
/// in files do ("bert.", "llama.expert_count"; not "llama.cpp").
inline bool names_family(std::string_view code, std::string const& family) {
    if (code.find('"' + family + '"') != std::string_view::npos) return true;
    auto const prefix = '"' + family + '.';
    for (auto at = code.find(prefix); at != std::string_view::npos; at = code.find(prefix, at + 1)) {
        if (!code.substr(at + prefix.size()).starts_with("cpp")) return true;
    }
    return false;
}

/// Chains of comparisons over enumerations of three and more, and known ones whose enumeration has grown or that are gone.
inline std::vector<std::string> check_chains(std::filesystem::path const& include,
                                             std::vector<std::string> const& files) {
    std::map<std::string, std::string> texts;
    std::map<std::string, std::size_t> all;
    for (auto const& file : files) {
        texts[file] = read_text(include / file);
        for (auto const& [name, count] : enumerations_of(tokens_of(texts[file])))
            all[name] = std::max(all[name], count);
    }
    std::vector<std::string> found;
    std::map<std::pair<std::string, std::string>, std::size_t> met;
    for (auto const& file : files) {
        auto const tokens = tokens_of(texts[file]);
        // Of enumerations of one name a file means its own.
        auto enumerations = all;
        for (auto const& [name, count] : enumerations_of(tokens)) enumerations[name] = count;
        std::set<std::string> names;
        for (auto const& [name, count] : enumerations)
            if (count > 2) names.insert(name);
        for (auto const& chain : ChainFinder(tokens, names).find()) {
            auto const known = std::find_if(known_chains.begin(), known_chains.end(), [&](KnownChain const& each) {
                return each.file == file && each.enumeration == chain.enumeration;
            });
            auto const count = enumerations[chain.enumeration];
            auto const place = "include/shardwise/" + file + ":" + std::to_string(chain.line) + ": ";
            if (known == known_chains.end()) {
                found.push_back(place + "a chain over " + chain.enumeration +
                                " falls back for what a new enumerator lacks: use a switch without default");
            } else if (known->enumerators != count) {
                found.push_back(place + "a chain over " + chain.enumeration + " is known for " +
                                std::to_string(known->enumerators) + " enumerators of now " + std::to_string(count) +
                                ": see what it does for the others (tests/house/descriptions.hpp)");
            }
            ++met[{file, chain.enumeration}];
        }
    }
    for (auto const& known : known_chains) {
        if (!texts.contains(std::string(known.file))) continue;
        auto const at = met.find({std::string(known.file), std::string(known.enumeration)});
        auto const place = "include/shardwise/" + std::string(known.file) + ": has ";
        if (at == met.end()) {
            found.push_back(place + "no chain over " + std::string(known.enumeration) +
                            ": it is no known one any more");
        } else if (at->second != known.chains) {
            found.push_back(place + std::to_string(at->second) + " chains over " + std::string(known.enumeration) +
                            ", of which " + std::to_string(known.chains) + " are known (tests/house/descriptions.hpp)");
        }
    }
    return found;
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
            for (std::string_view const mark :
                 {"string_view name = \"", "string_view gguf_name = \"", "string_view text_part_of = \""}) {
                if (auto const name = quoted_after(line, mark); !name.empty()) families.insert(name);
            }
        }
    }

    std::vector<std::string> found = check_chains(include, files);
    std::size_t defaults = 0;
    for (auto const& file : files) {
        auto const is_below = [&](std::string_view folder) { return file.starts_with(folder); };
        bool const may_default = std::count(files_with_default.begin(), files_with_default.end(), file) > 0;
        bool const may_name = std::any_of(places_of_families.begin(), places_of_families.end(), is_below);
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
                    found.push_back(place + "switches over " + name +
                                    ": read the format's row, to which others are added");
            }
            if (code.find("#include <shardwise/model/arch/") != std::string_view::npos && file != file_of_families &&
                !file.starts_with("model/arch/"))
                found.push_back(place + "includes a family's file: only the list of families does");
            if (may_name) continue;
            for (auto const& family : families) {
                if (names_family(code, family))
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
