// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/hardware/topology.hpp>
#include <shardwise/json/writer.hpp>

#include <cstddef>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Writes a topology so that reading gives the same: what has its default is left out.
class DescriptionWriter {
public:
    explicit DescriptionWriter(JsonWriter& json) : json_(json) {}

    void write(Topology const& topology, std::string_view schema) {
        json_.begin_object();
        json_.member("schema", schema);
        json_.key("devices").begin_array();
        for (auto const& device : topology.devices) write(device);
        json_.end_array();
        if (!topology.links.empty()) {
            json_.key("links").begin_array();
            for (auto const& pair : topology.links) {
                json_.begin_object().key("between").begin_array();
                write_id(topology.devices[static_cast<std::size_t>(pair.first)].id);
                write_id(topology.devices[static_cast<std::size_t>(pair.second)].id);
                json_.end_array();
                write_members(pair.link);
                json_.end_object();
            }
            json_.end_array();
        }
        all_reduce(topology.all_reduce);
        json_.end_object();
    }

private:
    void write(Device const& device) {
        json_.begin_object().key("id");
        write_id(device.id);
        json_.member("name", device.name.view());
        json_.member("kind", name_of(device.kind));
        json_.member("memory", device.memory);
        if (device.memory_free.count() >= 0) json_.member("memory_free", device.memory_free);
        number("bandwidth", device.bandwidth);
        rates("peak", device.peak);
        link("link", device.link);
        if (device.node != 0) json_.member("node", device.node);
        link("network", device.network);
        text("architecture", device.architecture.view());
        text("uuid", device.uuid.view());
        text("pci", device.pci.view());
        if (device.numa != -1) json_.member("numa", device.numa);
        if (device.measured != MeasuredRates{}) {
            json_.key("measured").begin_object();
            rates("products", device.measured.products);
            number("bandwidth", device.measured.bandwidth);
            number("launch", device.measured.launch);
            rates("one_row", device.measured.one_row);
            attention(device.measured.attention);
            json_.end_object();
        }
        json_.end_object();
    }

    void write_id(DeviceId id) {
        switch (id.kind) {
            case DeviceClass::gpu:
                json_.value(id.index);
                break;
            case DeviceClass::mps:
                json_.value("mps");
                break;
            case DeviceClass::cpu:
                json_.value("cpu");
                break;
            case DeviceClass::disk:
                json_.value("disk");
                break;
        }
    }
    void number(std::string_view key, double value) {
        if (value != 0.0) json_.member(key, value);
    }
    void text(std::string_view key, std::string_view value) {
        if (!value.empty()) json_.member(key, value);
    }
    void rates(std::string_view key, PeakRates const& rates) {
        if (rates == PeakRates{}) return;
        json_.key(key).begin_object();
        number("fp64", rates.fp64);
        number("fp32", rates.fp32);
        number("bf16", rates.bf16);
        number("fp16", rates.fp16);
        number("fp8", rates.fp8);
        number("int8", rates.int8);
        number("fp4", rates.fp4);
        number("int4", rates.int4);
        json_.end_object();
    }
    void all_reduce(List<AllReduceTime> const& times) {
        if (times.empty()) return;
        json_.key("all_reduce").begin_array();
        for (auto const& time : times) {
            json_.begin_object().member("ranks", time.ranks).member("devices", time.devices);
            json_.member("bytes", time.bytes);
            json_.member("one_shot", time.one_shot).member("two_shot", time.two_shot).end_object();
        }
        json_.end_array();
    }
    void attention(AttentionRates const& rates) {
        if (rates.front().context < 1) return;
        json_.key("attention").begin_array();
        for (auto const& rate : rates) {
            if (rate.context < 1) break;
            json_.begin_object().member("kv", traits(rate.kv).short_name).member("context", rate.context);
            number("decode", rate.decode);
            number("prefill", rate.prefill);
            json_.end_object();
        }
        json_.end_array();
    }
    void link(std::string_view key, Link const& link) {
        if (link == Link{}) return;
        json_.key(key).begin_object();
        write_members(link);
        json_.end_object();
    }
    void write_members(Link const& link) {
        json_.member("type", name_of(link.type));
        number("bandwidth", link.bandwidth);
        number("latency", link.latency);
        if (link.is_measured) json_.member("measured", true);
    }

    JsonWriter& json_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
