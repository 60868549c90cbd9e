// SPDX-License-Identifier: Apache-2.0
#include <shardwise/hardware/max_memory_advice.hpp>
#include <shardwise/json/writer.hpp>

#include "detect_answer.hpp"
#include "json_parts.hpp"

namespace shardwise::cli {

namespace {

/// A number that 0 or less says nothing about.
template <class Number>
void write_known(JsonWriter& json, std::string_view key, Number number) {
    json.key(key);
    number > Number{} ? json.value(number) : json.value(nullptr);
}

void write_number(JsonWriter& json, std::string_view key, std::int32_t number) {
    json.key(key);
    number >= 0 ? json.value(number) : json.value(nullptr);
}

void write_device(JsonWriter& json, DetectedDevice const& found) {
    auto const& device = found.device;
    json.begin_object().member("id", found.id).member("kind", name_of(device.kind)).member("name", found.name);
    json.member("memory_total", device.memory).key("memory_free");
    device.memory_free < Bytes{} ? json.value(nullptr) : json.value(device.memory_free);
    write_text(json, "uuid", device.uuid.view());
    write_text(json, "pci", device.pci.view());
    write_number(json, "numa", device.numa);
    json.member("available", found.is_available);
    write_text(json, "reason", found.reason);
    write_number(json, "index", found.index);
    json.key("number");
    bool const has_number = found.is_available && device.id.kind == DeviceClass::gpu;
    has_number ? json.value(device.id.index) : json.value(nullptr);
    write_text(json, "architecture", device.architecture.view());
    write_text(json, "preset", found.preset);
    write_text(json, "parent", found.parent);
    write_known(json, "bandwidth", device.bandwidth);
    json.key("peak").begin_object();
    write_known(json, "fp64", device.peak.fp64);
    write_known(json, "fp32", device.peak.fp32);
    write_known(json, "bf16", device.peak.bf16);
    write_known(json, "fp16", device.peak.of(Dtype::f16));
    write_known(json, "fp8", device.peak.fp8);
    write_known(json, "int8", device.peak.int8);
    write_known(json, "fp4", device.peak.fp4);
    json.end_object().key("pcie").begin_object();
    write_known(json, "generation", found.pcie_generation);
    write_known(json, "lanes", found.pcie_lanes);
    json.end_object();
    write_text(json, "near_processors", found.near_processors);
    json.end_object();
}

void write_topology(JsonWriter& json, Detection const& detection) {
    auto const& devices = detection.devices;
    json.key("topology").begin_object().key("devices").begin_array();
    for (auto const& found : devices) json.value(found.id);
    json.end_array().key("matrix").begin_array();
    for (std::size_t i = 0; i < devices.size(); ++i) {
        json.begin_array();
        for (std::size_t k = 0; k < devices.size(); ++k) {
            auto const word = detection.word_between(i, k);
            word.empty() ? json.value(nullptr) : json.value(word);
        }
        json.end_array();
    }
    json.end_array().key("links").begin_array();
    for (auto const& link : detection.links) {
        json.begin_object().member("first", devices[static_cast<std::size_t>(link.first)].id);
        json.member("second", devices[static_cast<std::size_t>(link.second)].id).member("word", link.word);
        json.member("type", name_of(link.link.type)).member("bandwidth", link.link.bandwidth);
        json.member("latency", link.link.latency).end_object();
    }
    json.end_array().end_object();
}

void write_processor(JsonWriter& json, Detection const& detection) {
    auto const& processor = detection.processor;
    json.key("processor").begin_object().member("name", processor.name).member("cores", processor.cores);
    json.member("threads", processor.threads).member("usable_threads", processor.usable_threads);
    write_known(json, "hertz", processor.hertz);
    json.key("flags").begin_array();
    for (auto const& flag : processor.flags) json.value(flag);
    json.end_array().key("caches").begin_array();
    for (auto const& cache : processor.caches) {
        json.begin_object().member("level", cache.level).member("type", cache.type).member("size", cache.size);
        json.member("count", cache.count).end_object();
    }
    json.end_array().key("numa").begin_array();
    for (auto const& node : processor.nodes) {
        json.begin_object().member("node", node.number).member("memory_total", node.total);
        json.member("memory_free", node.free).key("processors").begin_array();
        for (auto const number : node.processors) json.value(number);
        json.end_array().key("distances").begin_array();
        for (auto const distance : node.distances) json.value(distance);
        json.end_array().end_object();
    }
    json.end_array().end_object();
    auto const& memory = detection.memory;
    json.key("memory").begin_object().member("total", memory.total).member("available", memory.available);
    json.key("limit");
    memory.limit < Bytes{} ? json.value(nullptr) : json.value(memory.limit);
    json.end_object();
}

}  // namespace

std::string detect_json(DetectAnswer const& answer) {
    auto const& devices = answer.detection.devices;
    JsonWriter json(2);
    json.begin_object().member("schema", "shardwise.detect/1").key("devices").begin_array();
    for (auto const& found : devices) write_device(json, found);
    json.end_array();
    write_topology(json, answer.detection);
    write_processor(json, answer.detection);
    auto const& chosen = answer.recommendation.devices;
    write_text(json, "recommended", chosen.empty() ? std::string_view{} : std::string_view{devices[chosen.front()].id});
    json.key("recommendation").begin_object();
    write_text(json, "model", answer.model);
    write_known(json, "needed", answer.needed);
    json.key("devices").begin_array();
    for (auto const place : chosen) json.value(devices[place].id);
    json.end_array();
    write_text(json, "reason", answer.recommendation.reason);
    json.end_object().key("max_memory").begin_object();
    for (auto const& advice : advise_max_memory(devices)) {
        auto const key = advice.device.kind == DeviceClass::gpu   ? std::to_string(advice.device.index)
                         : advice.device.kind == DeviceClass::mps ? std::string("mps")
                                                                  : std::string("cpu");
        json.member(key, std::to_string(advice.limit.count() >> 20) + "MiB");
    }
    json.end_object();
    if (answer.checked) {
        json.key("checked").begin_array();
        for (auto const& one : *answer.checked) {
            json.begin_object().member("device", one.word);
            bool const is_known = one.position >= 0;
            write_text(json, "id", is_known ? devices[static_cast<std::size_t>(one.position)].id : std::string_view{});
            json.member("available", one.is_available);
            write_text(json, "reason", one.reason);
            json.end_object();
        }
        json.end_array();
    }
    json.key("warnings").begin_array();
    for (auto const& warning : answer.warnings) json.value(warning);
    json.end_array().end_object();
    return json.text() + "\n";
}

}  // namespace shardwise::cli
