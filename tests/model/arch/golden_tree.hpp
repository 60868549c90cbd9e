// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/dtype.hpp>
#include <shardwise/model/walk.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

/// Golden trees and ours as the same lines of text (tests/golden/README.md: what tree_sha256 is over), so that a
/// comparison of two lists of lines compares everything: names, classes, dtypes, shapes, kinds and their order.
namespace golden {

using Json = nlohmann::ordered_json;
using Lines = std::vector<std::string>;

inline std::string entry(char kind, std::string const& name, std::string const& dtype,
                         std::vector<std::int64_t> const& shape) {
    std::string line = std::string(1, kind) + '\t' + name + '\t' + dtype + '\t';
    for (std::size_t i = 0; i < shape.size(); ++i) line += (i > 0 ? "," : "") + std::to_string(shape[i]);
    return line;
}

/// The lines of a folded golden node.
inline void expand(Json const& node, std::string const& prefix, Lines& lines) {
    lines.push_back("M\t" + prefix.substr(0, prefix.empty() ? 0 : prefix.size() - 1) + '\t' +
                    node.at("class").get<std::string>());
    for (auto const& tensor : node.value("params", Json::array())) {
        lines.push_back(entry('P', prefix + tensor[0].get<std::string>(), tensor[1], tensor[2]));
    }
    for (auto const& tensor : node.value("buffers", Json::array())) {
        lines.push_back(
            entry(tensor[3].get<bool>() ? 'B' : 'N', prefix + tensor[0].get<std::string>(), tensor[1], tensor[2]));
    }
    for (auto const& child : node.value("children", Json::array())) {
        auto const name = child[0].get<std::string>();
        auto const dots = name.find("..");
        if (dots == std::string::npos) {
            expand(child[1], prefix + name + '.', lines);
            continue;
        }
        for (int i = std::stoi(name.substr(0, dots)); i <= std::stoi(name.substr(dots + 2)); ++i) {
            expand(child[1], prefix + std::to_string(i) + '.', lines);
        }
    }
}

/// The lines of one of our trees.
inline Lines lines_of(shardwise::ModuleTree const& tree) {
    using shardwise::TensorKind;
    Lines lines;
    shardwise::walk(
        tree,
        [&](std::string_view path, shardwise::Module const& module, shardwise::ModuleRole) {
            lines.push_back("M\t" + std::string(path) + '\t' + std::string(module.class_name));
        },
        [&](std::string_view path, shardwise::Tensor const& tensor) {
            char const kind = tensor.kind == TensorKind::parameter ? 'P'
                              : tensor.kind == TensorKind::buffer  ? 'B'
                                                                   : 'N';
            lines.push_back(entry(kind, std::string(path), std::string(shardwise::traits(tensor.dtype).torch_name),
                                  {tensor.shape.begin(), tensor.shape.end()}));
        });
    return lines;
}

/// The ties of a golden file as "first = other", the first of each group once per other name.
inline Lines ties_of(Json const& golden) {
    Lines lines;
    for (auto const& group : golden.at("ties")) {
        for (std::size_t i = 1; i < group.size(); ++i) {
            lines.push_back(group[0].get<std::string>() + " = " + group[i].get<std::string>());
        }
    }
    std::sort(lines.begin(), lines.end());
    return lines;
}

inline Lines ties_of(shardwise::ModuleTree const& tree) {
    Lines lines;
    for (auto const& tie : tree.ties()) lines.push_back(std::string(tie.first) + " = " + std::string(tie.other));
    std::sort(lines.begin(), lines.end());
    return lines;
}

/// Where two lists first differ, or nothing.
inline std::string difference(Lines const& wanted, Lines const& found) {
    for (std::size_t i = 0; i < std::max(wanted.size(), found.size()); ++i) {
        auto const expected = i < wanted.size() ? wanted[i] : std::string("(the end)");
        auto const actual = i < found.size() ? found[i] : std::string("(the end)");
        if (expected != actual) {
            return "line " + std::to_string(i) + ": transformers has \"" + expected + "\", we have \"" + actual + "\"";
        }
    }
    return {};
}

}  // namespace golden
