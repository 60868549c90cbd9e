// SPDX-License-Identifier: Apache-2.0
#include <shardwise/hardware/max_memory_advice.hpp>

#include "detect_answer.hpp"
#include "text.hpp"

#include <algorithm>
#include <array>

namespace shardwise::cli {

namespace {

[[nodiscard]] std::string or_dash(std::string_view text) {
    return text.empty() ? "-" : escaped(text);
}

/// A device's name in tables; of a UUID the beginning, which --devices takes as well.
[[nodiscard]] std::string short_id(DetectedDevice const& found) {
    bool const is_uuid = !found.is_available && found.id == found.device.uuid.view();
    return escaped(is_uuid ? std::string_view{found.id}.substr(0, 12) : std::string_view{found.id});
}

[[nodiscard]] std::string device_table(DetectAnswer const& answer, Style const& style) {
    Table table({"device", "name", "free", "of", "arch", "PCI", "NUMA", "may be used"});
    for (auto const& found : answer.detection.devices) {
        auto const& device = found.device;
        auto const free = device.memory_free < Bytes{} ? std::string("-") : to_text(device.memory_free);
        // The reason is a sentence; it follows the table.
        auto const state = found.is_available ? style.good("yes") : style.bad("no");
        table.add({short_id(found), escaped(found.name), free, to_text(device.memory),
                   or_dash(device.architecture.view()), or_dash(device.pci.view()),
                   device.numa < 0 ? "-" : std::to_string(device.numa), state});
    }
    auto out = table.text(style, 2);
    for (auto const& found : answer.detection.devices) {
        if (!found.is_available) out += style.dim(escaped(found.id) + ": " + escaped(found.reason)) + "\n";
    }
    return out;
}

/// What a word of the matrix means, as `nvidia-smi topo -m` says it.
struct Meaning {
    std::string_view start, text;
};

constexpr std::array<Meaning, 8> meanings{{
    {"NV", "so many NVLinks"},
    {"XGMI", "AMD's Infinity Fabric"},
    {"PIX", "at most one PCIe bridge"},
    {"PXB", "several PCIe bridges, not the host's"},
    {"PHB", "PCIe and its host bridge"},
    {"NODE", "PCIe and the way between host bridges of a NUMA node"},
    {"SYS", "PCIe and the way between NUMA nodes"},
    {"?", "unknown"},
}};

[[nodiscard]] std::string topology_table(DetectAnswer const& answer, Style const& style) {
    auto const& detection = answer.detection;
    std::vector<std::size_t> gpus;
    for (std::size_t i = 0; i < detection.devices.size(); ++i) {
        auto const& found = detection.devices[i];
        if (found.device.id.kind == DeviceClass::gpu && found.parent.empty()) gpus.push_back(i);
    }
    if (gpus.size() < 2) return {};
    std::vector<std::string> head{""};
    for (auto const gpu : gpus) head.push_back(short_id(detection.devices[gpu]));
    head.insert(head.end(), {"near processors", "NUMA"});
    Table table(head);
    std::vector<std::string> used;
    for (auto const gpu : gpus) {
        auto const& found = detection.devices[gpu];
        std::vector<std::string> row{short_id(found)};
        for (auto const other : gpus) {
            auto const word = detection.word_between(gpu, other);
            row.emplace_back(word.empty() ? "?" : word);
            used.push_back(row.back());
        }
        row.push_back(or_dash(found.near_processors));
        row.push_back(found.device.numa < 0 ? "-" : std::to_string(found.device.numa));
        table.add(row);
    }
    auto out = "\n" + table.text(style);
    std::string legend;
    for (auto const& meaning : meanings) {
        bool const is_used = std::any_of(used.begin(), used.end(), [&](std::string const& word) {
            auto const starts = word.compare(0, meaning.start.size(), meaning.start) == 0;
            // "NV12" is no "NODE", and "NODE" no "NV".
            return starts && (meaning.start != "NV" || word.find_first_not_of("0123456789", 2) == std::string::npos);
        });
        if (!is_used) continue;
        legend += (legend.empty() ? "" : "; ") + std::string(meaning.start == "NV" ? "NV#" : meaning.start) + " " +
                  std::string(meaning.text);
    }
    if (!legend.empty()) out += style.dim(legend) + "\n";
    return out;
}

[[nodiscard]] std::string processor_text(DetectAnswer const& answer, Style const& style) {
    auto const& processor = answer.detection.processor;
    auto const& memory = answer.detection.memory;
    auto out = "\n" + style.bold("processor") + " " + escaped(processor.name) + ": " +
               counted(processor.cores, "core") + ", " + counted(processor.threads, "thread");
    if (processor.usable_threads < processor.threads) {
        out += ", of which this process may use " + std::to_string(processor.usable_threads);
    }
    if (processor.nodes.size() > 1) {
        out += ", " + counted(static_cast<std::int64_t>(processor.nodes.size()), "NUMA node");
    }
    out += "\n";
    std::string caches;
    for (auto const& cache : processor.caches) {
        if (cache.type == "instruction") continue;
        caches += (caches.empty() ? "" : ", ") + std::string("L") + std::to_string(cache.level) + " " +
                  std::to_string(cache.count) + " x " + to_text(cache.size);
    }
    std::string flags;
    for (auto const& flag : processor.flags) flags += (flags.empty() ? "" : " ") + flag;
    if (!caches.empty()) out += style.dim("caches: " + caches) + "\n";
    if (!flags.empty()) out += style.dim("instructions: " + escaped(flags)) + "\n";
    if (memory.limit >= Bytes{}) {
        out += style.dim("memory: a control group limits this process to " + to_text(memory.limit)) + "\n";
    }
    return out;
}

[[nodiscard]] std::string advice_text(DetectAnswer const& answer, Style const& style) {
    auto const& devices = answer.detection.devices;
    auto const& recommendation = answer.recommendation;
    std::string names;
    for (auto const place : recommendation.devices) names += (names.empty() ? "" : ",") + devices[place].id;
    auto out = "\n" + style.bold("recommended");
    if (!answer.model.empty()) out += " for " + escaped(answer.model) + ", which needs " + to_text(answer.needed);
    out += ": " + (names.empty() ? std::string("none") : style.good(escaped(names))) + "\n";
    if (!recommendation.reason.empty()) out += style.dim(escaped(recommendation.reason)) + "\n";
    auto const advice = advise_max_memory(devices);
    if (advice.empty()) return out;
    out += style.bold("max_memory") + " (" + decimals(100.0 * default_utilization, 0) +
           " %, never above what is free): " + max_memory_json(advice) + "\n";
    return out;
}

}  // namespace

std::string detect_text(DetectAnswer const& answer, Style const& style) {
    auto out = device_table(answer, style) + topology_table(answer, style) + processor_text(answer, style) +
               advice_text(answer, style);
    if (!answer.checked) return out;
    out += "\n";
    for (auto const& one : *answer.checked) {
        auto const state = one.is_available ? style.good("available") : style.bad("not available");
        out += escaped(one.word) + ": " + state + (one.reason.empty() ? "" : ": " + escaped(one.reason)) + "\n";
    }
    return out;
}

}  // namespace shardwise::cli
