// SPDX-License-Identifier: Apache-2.0
#include <shardwise/json/writer.hpp>

#include "support_answer.hpp"
#include "text.hpp"

#include <algorithm>
#include <utility>

namespace shardwise::cli {

namespace {

void write_rows(JsonWriter& json, std::string_view key, std::vector<SupportRow> const& rows) {
    json.key(key).begin_array();
    for (auto const& row : rows) {
        json.begin_object().member("name", row.name).key("backends").begin_object();
        for (std::size_t i = 0; i < row.backends.size(); ++i) {
            auto const& support = row.backends[i];
            json.key(support_backends[i]).begin_object().member("level", name_of(support.level)).key("reason");
            support.reason.empty() ? json.value(nullptr) : json.value(support.reason);
            if (!support.path.empty()) json.member("path", support.path);
            json.end_object();
        }
        json.end_object().end_object();
    }
    json.end_array();
}

/// A table whose cells refer to the reasons below it.
[[nodiscard]] std::string table(std::string title, std::vector<SupportRow> const& rows,
                                std::vector<std::string_view>& reasons, Style const& style) {
    std::vector<std::string> head{std::move(title)};
    for (auto const backend : support_backends) head.emplace_back(backend);
    Table made(std::move(head));
    for (auto const& row : rows) {
        std::vector<std::string> cells{row.name};
        for (auto const& support : row.backends) {
            std::string cell{name_of(support.level)};
            if (!support.path.empty()) cell += ", " + std::string(support.path);
            if (!support.reason.empty()) {
                auto at = std::find(reasons.begin(), reasons.end(), support.reason);
                if (at == reasons.end()) at = reasons.insert(at, support.reason);
                cell += " " + std::to_string(at - reasons.begin() + 1);
            }
            cells.push_back(std::move(cell));
        }
        made.add(std::move(cells));
    }
    return made.text(style) + "\n";
}

/// Rows of one format, "q4_0 by bf16", as one, "q4_0 by fp32, bf16", where all that they say is the same.
[[nodiscard]] std::vector<SupportRow> merged(std::vector<SupportRow> const& rows) {
    std::vector<SupportRow> made;
    auto const is_same = [](Support const& a, Support const& b) {
        return a.level == b.level && a.reason == b.reason && a.path == b.path;
    };
    for (auto const& row : rows) {
        auto const by = row.name.find(" by ");
        auto const same = std::find_if(made.begin(), made.end(), [&](SupportRow const& other) {
            return other.name.substr(0, by + 4) == row.name.substr(0, by + 4) &&
                   std::equal(row.backends.begin(), row.backends.end(), other.backends.begin(), is_same);
        });
        if (same == made.end())
            made.push_back(row);
        else
            same->name += ", " + row.name.substr(by + 4);
    }
    return made;
}

}  // namespace

std::string_view name_of(SupportLevel level) {
    switch (level) {
        case SupportLevel::refused:
            return "refused";
        case SupportLevel::none:
            return "none";
        case SupportLevel::planned:
            return "planned";
        case SupportLevel::library:
            return "library";
        case SupportLevel::runs:
            return "runs";
    }
    return "unknown";
}

std::string support_json(SupportAnswer const& answer) {
    JsonWriter json;
    json.begin_object().member("schema", "shardwise.support/1").key("backends").begin_array();
    for (auto const backend : support_backends) json.value(backend);
    json.end_array();
    write_rows(json, "strategies", answer.strategies);
    write_rows(json, "operations", answer.operations);
    write_rows(json, "bf16_operations", answer.bf16_operations);
    write_rows(json, "fp16_operations", answer.fp16_operations);
    write_rows(json, "weights", answer.weights);
    write_rows(json, "products", answer.products);
    write_rows(json, "int8_activations", answer.int8_activations);
    write_rows(json, "bf16_activations", answer.bf16_activations);
    write_rows(json, "training", answer.training);
    json.key("levels").begin_array();
    for (auto const& level : answer.levels) {
        json.begin_object().member("name", level.name).member("here", level.is_here);
        json.member("executed_on_hardware", level.is_executed_on_hardware).end_object();
    }
    json.end_array();
    json.end_object();
    return std::move(json).text() + "\n";
}

std::string support_text(SupportAnswer const& answer, Style const& style) {
    std::vector<std::string_view> reasons;
    auto text = table("strategy", answer.strategies, reasons, style) +
                table("operation", answer.operations, reasons, style) +
                table("--activations bf16", answer.bf16_operations, reasons, style) +
                table("--activations fp16", answer.fp16_operations, reasons, style) +
                table("weights kept as", answer.weights, reasons, style) +
                table("products of", merged(answer.products), reasons, style) +
                table("--product-activations int8 by", answer.int8_activations, reasons, style) +
                table("--product-activations bf16 by", answer.bf16_activations, reasons, style) +
                table("trained", answer.training, reasons, style);
    Table levels({"SHARDWISE_ISA", "here", "executed on hardware"});
    for (auto const& level : answer.levels) {
        levels.add(
            {std::string(level.name), level.is_here ? "yes" : "no", level.is_executed_on_hardware ? "yes" : "no"});
    }
    text += levels.text(style) + "\n";
    text +=
        "runs: shardwise run or train does it, or has it there; library: C++ programs can call it; planned: estimates, "
        "maps and "
        "plans only\n";
    text += "own: kernels of this library; vendor: cuBLASLt, or hipBLASLt in builds with it, from 17 rows on\n";
    for (std::size_t i = 0; i < reasons.size(); ++i)
        text += std::to_string(i + 1) + " " + std::string(reasons[i]) + "\n";
    return text;
}

}  // namespace shardwise::cli
