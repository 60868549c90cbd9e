// SPDX-License-Identifier: Apache-2.0
#include <shardwise/json/writer.hpp>

#include "run_answer.hpp"

#include <cstdio>
#include <string>
#include <string_view>

namespace shardwise::cli {

namespace {

[[nodiscard]] double rate(std::int64_t tokens, double seconds) {
    return seconds > 0.0 ? static_cast<double>(tokens) / seconds : 0.0;
}

[[nodiscard]] std::string list(std::vector<std::int32_t> const& ids) {
    std::string text;
    for (auto const id : ids) text += (text.empty() ? "" : ",") + std::to_string(id);
    return text;
}

/// As the interface names it.
[[nodiscard]] std::string_view name_of(FinishReason reason) {
    switch (reason) {
        case FinishReason::stop_token:
            return "eos";
        case FinishReason::length:
            return "length";
        case FinishReason::stop_string:
            return "stop";
        case FinishReason::cancelled:
            return "interrupt";
    }
    return {};
}

}  // namespace

std::string run_json(RunAnswer const& answer) {
    JsonWriter json;
    json.begin_object().member("schema", "shardwise.run/1").member("model", answer.model);
    auto const write_ids = [&](std::string_view key, std::vector<std::int32_t> const& ids) {
        json.key(key).begin_array();
        for (auto const id : ids) json.value(id);
        json.end_array();
    };
    write_ids("prompt_ids", answer.prompt);
    write_ids("token_ids", answer.report.generations.front().tokens);
    json.member("finish", name_of(answer.report.generations.front().reason));
    json.key("text");
    answer.text ? json.value(*answer.text) : json.value(nullptr);
    auto const& report = answer.report;
    json.key("timing").begin_object().member("load_s", report.load_seconds);
    json.member("prefill_tokens_per_s", rate(report.prompt_tokens, report.prefill_seconds));
    json.member("decode_tokens_per_s", rate(report.decode_tokens, report.decode_seconds)).end_object();
    json.key("memory").begin_object().key("ranks").begin_array();
    for (auto const& rank : report.ranks) {
        json.begin_object().member("weights", rank.weights).member("kv_cache", rank.cache);
        json.member("activations", rank.activations).member("predicted", rank.predicted);
        json.member("peak", rank.peak).member("held", rank.held);
        if (rank.predicted_pinned > Bytes{0})
            json.member("predicted_pinned", rank.predicted_pinned).member("pinned", rank.pinned);
        if (!answer.devices.empty()) json.member("vendor", rank.vendor);
        json.end_object();
    }
    json.end_array().end_object();
    if (!answer.devices.empty()) {
        json.key("devices").begin_array();
        for (auto const number : answer.devices.numbers) {
            json.value(number == RunDevices::processor
                           ? std::string("cpu")
                           : std::string(name_of(answer.devices.vendor)) + ":" + std::to_string(number));
        }
        json.end_array();
        json.member("communicator", report.communicator);
        if (!report.communicator_reason.empty()) json.member("communicator_reason", report.communicator_reason);
        json.key("graphs").begin_object().member("captured", report.graphs.captured);
        json.member("replayed", report.graphs.replayed);
        if (!report.graphs.reason.empty()) json.member("reason", report.graphs.reason);
        json.end_object();
    }
    if (answer.energy) {
        auto const write = [&](std::string_view key, std::optional<double> const& joules) {
            json.key(key);
            joules ? json.value(*joules) : json.value(nullptr);
        };
        json.key("energy").begin_object();
        write("joules", answer.energy->total);
        write("decode_joules", answer.energy->decode);
        write("joules_per_token", answer.energy->per_token);
        json.key("notes").begin_array();
        for (auto const& note : answer.energy->notes) json.value(note);
        json.end_array().end_object();
    }
    json.key("warnings").begin_array();
    for (auto const& warning : answer.warnings) json.value(warning);
    json.end_array().end_object();
    return std::move(json).text() + "\n";
}

std::string run_ids(RunAnswer const& answer) {
    return list(answer.report.generations.front().tokens) + "\n";
}

std::string run_rates(RunAnswer const& answer) {
    auto const& report = answer.report;
    char line[160];
    std::snprintf(line, sizeof line, "shardwise: loaded in %.2f s; prompt %.0f tokens/s, generation %.1f tokens/s\n",
                  report.load_seconds, rate(report.prompt_tokens, report.prefill_seconds),
                  rate(report.decode_tokens, report.decode_seconds));
    std::string text = line;
    Bytes vendor{0};
    for (auto const& rank : report.ranks) vendor += rank.vendor;
    if (vendor > Bytes{0})
        text += "shardwise: the vendor's code and libraries took " + to_text(vendor) + " of the devices besides\n";
    if (answer.energy) text += energy_text(*answer.energy);
    return text;
}

}  // namespace shardwise::cli
