// SPDX-License-Identifier: Apache-2.0
#include <shardwise/json/writer.hpp>

#include "calibrate_answer.hpp"
#include "text.hpp"

#include <utility>

namespace shardwise::cli {

namespace {

[[nodiscard]] std::string giga(double rate, int digits = 1) {
    return decimals(rate / 1e9, digits);
}

void products_json(JsonWriter& json, std::vector<ProductRate> const& products) {
    json.key("products").begin_array();
    for (auto const& product : products) {
        json.begin_object().member("dtype", name_of(product.format)).member("rows", product.rows);
        json.member("operations_per_s", product.operations).member("weight_bytes_per_s", product.bytes).end_object();
    }
    json.end_array();
}

void device_json(JsonWriter& json, DeviceCalibration const& device) {
    json.begin_object().member("id", device.id()).member("memory", device.memory);
    json.member("host_to_device", device.host_to_device).member("device_to_host", device.device_to_host);
    json.member("copy_latency", device.copy_latency).member("launch", device.launch);
    products_json(json, device.products);
    json.key("attention").begin_array();
    for (auto const& rate : device.attention) {
        json.begin_object().member("kv", traits(rate.kv).short_name).member("context", rate.context);
        json.member("decode_bytes_per_s", rate.decode).member("prefill_operations_per_s", rate.prefill).end_object();
    }
    json.end_array().end_object();
}

[[nodiscard]] std::string products_text(std::vector<ProductRate> const& products, Style const& style) {
    Table table({"products", "rows", "Gop/s", "weights"});
    for (auto const& product : products) {
        table.add({std::string(name_of(product.format)), std::to_string(product.rows), giga(product.operations),
                   product.rows == 1 ? giga(product.bytes) + " GB/s" : ""});
    }
    return table.text(style) + "\n";
}

[[nodiscard]] std::string attention_text(std::vector<AttentionRate> const& rates, Style const& style) {
    Table table({"attention", "context", "decode", "prefill"});
    for (auto const& rate : rates) {
        table.add({std::string(traits(rate.kv).short_name), std::to_string(rate.context), giga(rate.decode) + " GB/s",
                   giga(rate.prefill) + " Gop/s"});
    }
    return table.text(style) + "\n";
}

[[nodiscard]] std::string device_text(DeviceCalibration const& device, Style const& style) {
    return style.bold(device.id()) + "\n\nmemory " + giga(device.memory) + " GB/s, from the host " +
           giga(device.host_to_device) + " GB/s, to it " + giga(device.device_to_host) + " GB/s, a short copy " +
           duration(device.copy_latency) + ", a launch " + duration(device.launch) + "\n\n" +
           products_text(device.products, style) + attention_text(device.attention, style);
}

}  // namespace

std::string calibrate_json(CalibrateAnswer const& answer) {
    auto const& found = answer.calibration;
    JsonWriter json;
    json.begin_object().member("schema", "shardwise.calibrate/1").member("out", answer.out);
    json.key("processor").begin_object().member("name", answer.processor).member("threads", found.threads);
    json.member("isa", name_of(found.isa)).end_object();
    json.key("memory").begin_object();
    json.key("read").begin_object().member("one", found.read_one).member("all", found.read_all).end_object();
    json.key("copy").begin_object().member("one", found.copy_one).member("all", found.copy_all).end_object();
    json.end_object();
    products_json(json, found.products);
    json.key("all_reduce");
    auto const& sums = found.all_reduce;
    if (sums.ranks > 1) {
        json.begin_object().member("ranks", sums.ranks).member("latency", sums.latency);
        json.member("bandwidth", sums.bandwidth).end_object();
    } else {
        json.value(nullptr);
    }
    json.key("devices").begin_array();
    for (auto const& device : answer.machine.devices) {
        json.begin_object().key("id");
        device.id.kind == DeviceClass::gpu ? json.value(device.id.index) : json.value(name_of(device.kind));
        json.member("name", device.name.view()).member("kind", name_of(device.kind));
        json.member("memory", device.available()).member("bandwidth", device.bandwidth);
        json.member("is_measured", device.measured != MeasuredRates{}).end_object();
    }
    json.end_array().key("calibrated").begin_array();
    for (auto const& device : answer.devices) device_json(json, device);
    json.end_array().key("device_sums").begin_array();
    for (auto const& sum : answer.sums) {
        json.begin_object().member("ranks", sum.ranks).member("devices", sum.devices);
        json.member("bytes", sum.bytes);
        json.member("one_shot", sum.one_shot).member("two_shot", sum.two_shot).end_object();
    }
    json.end_array().member("seconds", found.seconds).key("warnings").begin_array();
    for (auto const& warning : answer.warnings) json.value(warning);
    json.end_array().end_object();
    return std::move(json).text() + "\n";
}

std::string calibrate_text(CalibrateAnswer const& answer, Style const& style) {
    auto const& found = answer.calibration;
    std::string text = style.bold(escaped(answer.processor)) + ", " + counted(found.threads, "thread") + ", " +
                       std::string(name_of(found.isa)) + "\n\n";
    Table memory({"memory", "one thread", "all"});
    memory.add({"read", giga(found.read_one) + " GB/s", giga(found.read_all) + " GB/s"});
    memory.add({"copy", giga(found.copy_one) + " GB/s", giga(found.copy_all) + " GB/s"});
    text += memory.text(style) + "\n";
    text += products_text(found.products, style);
    if (auto const& sums = found.all_reduce; sums.ranks > 1) {
        text += "sums over " + counted(sums.ranks, "rank") + ": " + duration(sums.latency) + ", then " +
                giga(sums.bandwidth) + " GB/s\n";
    }
    for (auto const& device : answer.devices) text += "\n" + device_text(device, style);
    if (!answer.sums.empty()) {
        Table table({"sums over ranks on devices", "devices", "bytes", "in one step", "in two"});
        for (auto const& sum : answer.sums) {
            table.add({std::to_string(sum.ranks), std::to_string(sum.devices), to_text(Bytes{sum.bytes}),
                       duration(sum.one_shot), duration(sum.two_shot)});
        }
        text += "\n" + table.text(style) + "\n";
    }
    text += "measured in " + duration(found.seconds) + "; " +
            counted(static_cast<std::int64_t>(answer.machine.devices.size()), "device") + " in " + escaped(answer.out) +
            ": shardwise plan MODEL --devices " + escaped(answer.out) + "\n";
    return text;
}

}  // namespace shardwise::cli
