// SPDX-License-Identifier: Apache-2.0
#include <shardwise/json/writer.hpp>
#include <shardwise/placement/max_memory.hpp>

#include "json_parts.hpp"
#include "map_answer.hpp"

#include <utility>

namespace shardwise::cli {

namespace {

void write_devices(JsonWriter& json, MapAnswer const& answer, bool has_terms) {
    json.key("devices").begin_array();
    for (auto const& device : answer.devices) {
        json.begin_object().key("id");
        write_id(json, device.id);
        write_text(json, "name", device.name);
        json.key("capacity");
        device.capacity ? json.value(*device.capacity) : json.value(nullptr);
        json.key("total");
        device.total ? json.value(*device.total) : json.value(nullptr);
        if (device.budget) json.member("budget", *device.budget);
        json.member("used", device.used);
        if (has_terms) {
            json.member("weights", device.weights).member("kv_cache", device.kv_cache);
            json.member("activations", device.activations).member("overhead", device.overhead);
        }
        json.end_object();
    }
    json.end_array();
}

void write_fix(JsonWriter& json, Fix const& fix, MapAnswer const& answer) {
    json.begin_object().member("kind", name_of(fix.kind));
    switch (fix.kind) {
        case FixKind::kv_dtype:
            json.member("kv_dtype", traits(*fix.dtype).short_name);
            break;
        case FixKind::context:
            json.member("context", fix.amount);
            break;
        case FixKind::dtype:
            json.member("dtype", traits(*fix.dtype).short_name);
            break;
        case FixKind::quant:
            json.member("quant", quant_word(*fix.quant));
            break;
        case FixKind::devices:
            json.member("devices", fix.amount);
            break;
        case FixKind::offload:
            json.member("cpu", fix.amount);
            break;
    }
    json.member("bytes", fix.change).member("text", sentence(fix, answer)).end_object();
}

/// Where the times come from.
void write_profile_use(JsonWriter& json, MapAnswer const& answer) {
    json.key("profile");
    if (!answer.times) {
        json.value(nullptr);
        return;
    }
    json.begin_object().member("file", answer.profile);
    json.member("phase", answer.times->phase == Phase::decode ? "decode" : "prefill").key("devices").begin_array();
    for (auto const& device : answer.times->devices) {
        json.begin_object().member("name", device.name);
        write_text(json, "measured_as", device.measured_as);
        json.key("batch");
        device.batch > 0 ? json.value(device.batch) : json.value(nullptr);
        json.key("context");
        device.context > 0 ? json.value(device.context) : json.value(nullptr);
        json.member("measured", device.measured).key("estimated").begin_array();
        for (auto const& path : device.estimated) json.value(path);
        json.end_array().member("slowdown", device.slowdown).end_object();
    }
    json.end_array().end_object();
}

}  // namespace

std::string map_json(MapRequest const& request, MapAnswer const& answer) {
    JsonWriter json(2);
    json.begin_object().member("schema", "shardwise.map/1");
    json.key("model").begin_object().member("name", answer.model);
    write_text(json, "architecture", answer.architecture);
    json.key("parameters");
    answer.parameters ? json.value(*answer.parameters) : json.value(nullptr);
    json.member("partial", !answer.part_note.empty()).end_object();

    json.key("request")
        .begin_object()
        .member("dialect", name_of(request.dialect))
        .member("strategy", name_of(request.strategy));
    write_text(json, "objective", answer.certificate ? name_of(answer.certificate->objective) : std::string_view{});
    json.key("context");
    answer.context > 0 ? json.value(answer.context) : json.value(nullptr);
    json.key("batch");
    answer.batch > 0 ? json.value(answer.batch) : json.value(nullptr);
    write_text(json, "dtype", answer.dtype);
    write_text(json, "quant", answer.quant);
    write_text(json, "kv_dtype", answer.kv_dtype);
    write_prefill_chunk(json, answer.prefill_chunk);
    json.member("utilization", request.estimate.utilization);
    json.end_object();

    json.member("fits", answer.fits).key("device_map");
    if (!answer.fits) {
        json.value(nullptr);
    } else {
        json.begin_object();
        for (auto const& entry : answer.device_map) {
            json.key(entry.prefix);
            write_id(json, entry.device);
        }
        json.end_object();
    }
    write_devices(json, answer, request.dialect == MapDialect::shardwise);
    json.key("certificate");
    if (answer.certificate) {
        json.begin_object()
            .member("objective", name_of(answer.certificate->objective))
            .member("value", answer.certificate->value);
        json.member("lower_bound", answer.certificate->lower_bound).end_object();
    } else {
        json.value(nullptr);
    }
    json.key("shortfall");
    if (answer.shortfall) {
        json.begin_object().key("device");
        write_id(json, answer.shortfall->device);
        json.member("bytes", answer.shortfall->missing).end_object();
    } else {
        json.value(nullptr);
    }
    write_text(json, "reason", answer.reason);
    write_profile_use(json, answer);
    json.key("fix").begin_array();
    for (auto const& fix : answer.fixes) write_fix(json, fix, answer);
    json.end_array();
    json.key("answer");
    if (answer.number) {
        json.value(*answer.number);
    } else {
        answer.word.empty() ? json.value(nullptr) : json.value(answer.word);
    }
    json.key("warnings").begin_array();
    for (auto const& warning : answer.warnings) json.value(warning);
    json.end_array().end_object();
    auto text = std::move(json).text();
    return text += '\n';
}

}  // namespace shardwise::cli
