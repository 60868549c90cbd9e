// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/core/stable_sort.hpp>
#include <shardwise/hardware/detail/described_fields.hpp>
#include <shardwise/hardware/presets.hpp>
#include <shardwise/hardware/spec.hpp>
#include <shardwise/hardware/topology.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

inline constexpr std::string_view hardware_schema = "shardwise.hardware/1";

inline constexpr std::array device_kinds{DeviceKind::cpu, DeviceKind::cuda, DeviceKind::hip, DeviceKind::metal,
                                         DeviceKind::disk};
inline constexpr std::array link_types{
    LinkType::none,     LinkType::pcie,       LinkType::nvlink,    LinkType::infinity_fabric,
    LinkType::ethernet, LinkType::infiniband, LinkType::memory_bus};

/// The sum over all devices that a description may have stays within 63 bits.
inline constexpr Bytes max_device_memory{std::int64_t{1} << 48U};
inline constexpr Bytes max_disk_memory{INT64_MAX / 2};
inline constexpr std::size_t max_sums = 256;

/// Makes a topology of the values of a description file.
class DescriptionReader {
public:
    explicit DescriptionReader(std::string_view file) : fault_{file, std::nullopt} {}

    Result<Topology> read(JsonValue root) {
        if (!root.is_object()) {
            fault_.set(ErrorCode::malformed_file, {}, "is no JSON object",
                       "docs/reference/description-file.md shows one");
            return *fault_.error;
        }
        DescribedFields fields(root, {}, fault_);
        read_schema(fields);
        fields.require("devices");
        if (auto const list = fields.find("devices")) read_list(*list, "devices", &DescriptionReader::read_device);
        order_devices();
        if (auto const list = fields.find("links")) read_list(*list, "links", &DescriptionReader::read_link_pair);
        if (auto const list = fields.find("all_reduce"))
            read_list(*list, "all_reduce", &DescriptionReader::read_all_reduce);
        fields.note();
        fields.finish();
        if (fault_.error) return *fault_.error;
        return std::move(topology_);
    }

private:
    void read_schema(DescribedFields& fields) {
        fields.require("schema");
        auto const found = fields.find("schema");
        if (!found) return;
        auto const schema = found->string();
        if (schema == hardware_schema) return;
        auto const advice = "this version reads \"" + std::string(hardware_schema) + "\"";
        auto const reason = "\"" + std::string(schema.value_or("")) + "\" is another kind of document, or a newer one";
        fault_.set(ErrorCode::unsupported, "schema", schema ? reason : "must be a string", advice);
    }

    void read_list(JsonValue list, std::string_view name, void (DescriptionReader::*item)(JsonValue, std::string)) {
        if (!list.is_array()) return fault_.set(ErrorCode::invalid_field, name, "must be a list");
        std::size_t index = 0;
        for (auto const value : list) {
            (this->*item)(value, std::string(name) + "[" + std::to_string(index++) + "]");
            if (fault_.error) return;
        }
    }

    void read_device(JsonValue value, std::string path) {
        DescribedFields fields(value, std::move(path), fault_);
        Device device{};
        bool const has_preset = read_preset(fields, device);
        if (!has_preset) fields.require("kind");
        if (!has_preset) fields.require("memory");
        fields.word("kind", device.kind, std::span<DeviceKind const>{device_kinds});
        device.id = default_id(device.kind);
        if (!has_preset) device.name = name_of(device.kind);
        fields.text("name", device.name);
        fields.memory("memory", device.memory, device.kind == DeviceKind::disk ? max_disk_memory : max_device_memory);
        fields.memory("memory_free", device.memory_free, device.memory);
        fields.rate("bandwidth", device.bandwidth);
        read_rates(fields, "peak", device.peak);
        read_link(fields, "link", device.link);
        fields.integer("node", device.node, 0, static_cast<std::int32_t>(max_spec_devices));
        read_link(fields, "network", device.network);
        fields.text("architecture", device.architecture);
        fields.text("uuid", device.uuid);
        fields.text("pci", device.pci);
        fields.integer("numa", device.numa, -1, 65535);
        read_measured(fields, device.measured);
        bool const has_id = read_id(fields, device);
        auto const count = read_count(fields, device, has_id);
        fields.note();
        fields.finish();
        add_device(fields, device, count);
    }

    /// Takes over what a preset says; false where none is named.
    bool read_preset(DescribedFields& fields, Device& device) {
        auto const found = fields.find("preset");
        if (!found) return false;
        auto const name = found->string();
        if (!name) return fields.refuse("preset", "must be a string"), false;
        auto const known = parse_device_spec(*name);
        if (!known || known->size() != 1) {
            auto const advice = known ? std::string_view{} : known.error().advice();
            return fault_.set(ErrorCode::no_such_device, fields.path("preset"), "is no known device", advice), false;
        }
        device = (*known)[0];
        // What a file says may be used as it stands.
        device.is_whole_memory = false;
        return true;
    }

    void read_rates(DescribedFields& fields, std::string_view key, PeakRates& rates) {
        auto const found = fields.find(key);
        if (!found) return;
        DescribedFields inner(*found, fields.path(key), fault_);
        inner.rate("fp64", rates.fp64);
        inner.rate("fp32", rates.fp32);
        inner.rate("bf16", rates.bf16);
        inner.rate("fp16", rates.fp16);
        inner.rate("fp8", rates.fp8);
        inner.rate("int8", rates.int8);
        inner.rate("fp4", rates.fp4);
        inner.rate("int4", rates.int4);
        inner.finish();
    }

    void read_measured(DescribedFields& fields, MeasuredRates& measured) {
        auto const found = fields.find("measured");
        if (!found) return;
        DescribedFields inner(*found, fields.path("measured"), fault_);
        read_rates(inner, "products", measured.products);
        inner.rate("bandwidth", measured.bandwidth);
        inner.number("launch", measured.launch);
        read_rates(inner, "one_row", measured.one_row);
        if (auto const list = inner.find("attention"))
            read_attention(*list, inner.path("attention"), measured.attention);
        inner.finish();
    }

    void read_attention(JsonValue list, std::string const& path, AttentionRates& rates) {
        if (!list.is_array()) return fault_.set(ErrorCode::invalid_field, path, "must be a list");
        std::size_t count = 0;
        for (auto const value : list) {
            DescribedFields fields(value, path + "[" + std::to_string(count) + "]", fault_);
            if (count == rates.size()) {
                auto const reason = "has more than " + std::to_string(rates.size()) + " measurements";
                return fault_.set(ErrorCode::invalid_field, path, reason);
            }
            AttentionRate rate;
            for (auto const* const key : {"kv", "context", "decode", "prefill"}) fields.require(key);
            read_cache_type(fields, rate.kv);
            std::int32_t context = 0;
            fields.integer("context", context, 1, 1 << 30);
            rate.context = context;
            fields.rate("decode", rate.decode);
            fields.rate("prefill", rate.prefill);
            fields.finish();
            if (fault_.error) return;
            if (rate.decode < 1.0) return fields.refuse("decode", "must be at least 1 per second");
            if (rate.prefill < 1.0) return fields.refuse("prefill", "must be at least 1 per second");
            for (std::size_t i = 0; i < count; ++i) {
                if (rates[i].kv == rate.kv && rates[i].context == rate.context)
                    return fields.refuse("context", "was measured before");
            }
            rates[count++] = rate;
        }
    }
    void read_all_reduce(JsonValue value, std::string path) {
        if (topology_.all_reduce.size() == max_sums) {
            auto const reason = "is more than " + std::to_string(max_sums) + " measurements";
            return fault_.set(ErrorCode::capacity_exceeded, path, reason);
        }
        DescribedFields fields(value, std::move(path), fault_);
        AllReduceTime time;
        for (auto const* const key : {"ranks", "bytes", "one_shot", "two_shot"}) fields.require(key);
        fields.integer("ranks", time.ranks, 2, 1024);
        Bytes bytes{};
        fields.memory("bytes", bytes, max_device_memory);
        time.bytes = bytes.count();
        fields.number("one_shot", time.one_shot);
        fields.number("two_shot", time.two_shot);
        fields.integer("devices", time.devices, 1, 1024);
        fields.finish();
        if (fault_.error) return;
        if (time.devices > time.ranks) return fields.refuse("devices", "are more than there are ranks");
        if (time.bytes < 1) return fields.refuse("bytes", "must be at least 1");
        // Seconds; more is a slip of the unit.
        if (!(time.one_shot > 0.0 && time.one_shot < 1e3))
            return fields.refuse("one_shot", "must lie between 0 and 1000 seconds");
        if (!(time.two_shot > 0.0 && time.two_shot < 1e3))
            return fields.refuse("two_shot", "must lie between 0 and 1000 seconds");
        for (auto const& known : topology_.all_reduce) {
            if (known.ranks == time.ranks && known.devices == time.devices && known.bytes == time.bytes)
                return fields.refuse("bytes", "was measured before");
        }
        topology_.all_reduce.push_back(time);
    }
    void read_cache_type(DescribedFields& fields, Dtype& kv) {
        auto const found = fields.find("kv");
        if (!found) return;
        auto const word = found->string();
        for (auto const known : {Dtype::f32, Dtype::bf16, Dtype::i8}) {
            if (word && *word == traits(known).short_name) return void(kv = known);
        }
        fields.refuse("kv", "is no element type of a cache: fp32, bf16 or int8");
    }

    void read_link(DescribedFields& fields, std::string_view key, Link& link) {
        auto const found = fields.find(key);
        if (!found) return;
        DescribedFields inner(*found, fields.path(key), fault_);
        read_link_members(inner, link);
        inner.finish();
    }
    void read_link_members(DescribedFields& fields, Link& link) {
        if (link.type == LinkType::none) fields.require("type");
        fields.word("type", link.type, std::span<LinkType const>{link_types});
        fields.rate("bandwidth", link.bandwidth);
        fields.number("latency", link.latency);
        fields.flag("measured", link.is_measured);
    }

    /// The first number that follows the accelerators before, or the only id that the kind can have.
    [[nodiscard]] DeviceId default_id(DeviceKind kind) const {
        switch (kind) {
            case DeviceKind::cpu:
                return DeviceId::cpu();
            case DeviceKind::disk:
                return DeviceId::disk();
            case DeviceKind::cuda:
            case DeviceKind::hip:
            case DeviceKind::metal:
                break;
        }
        return DeviceId::gpu(static_cast<std::int32_t>(accelerators_));
    }

    [[nodiscard]] static bool suits(DeviceClass id, DeviceKind kind) {
        switch (id) {
            case DeviceClass::cpu:
                return kind == DeviceKind::cpu;
            case DeviceClass::disk:
                return kind == DeviceKind::disk;
            case DeviceClass::mps:
                return kind == DeviceKind::metal;
            case DeviceClass::gpu:
                break;
        }
        return kind != DeviceKind::disk;
    }

    /// True where the device has an id of its own.
    bool read_id(DescribedFields& fields, Device& device) {
        auto const found = fields.find("id");
        if (!found) return false;
        auto const id = parse_id(*found);
        if (!id) return fields.refuse("id", R"(must be a number, "mps", "cpu" or "disk")"), false;
        if (!suits(id->kind, device.kind))
            fields.refuse("id", "does not suit a device of kind " + std::string(name_of(device.kind)));
        device.id = *id;
        return true;
    }

    [[nodiscard]] static std::optional<DeviceId> parse_id(JsonValue value) {
        constexpr std::int64_t most = 999'999;
        if (auto const index = value.integer()) {
            if (*index < 0 || *index > most) return std::nullopt;
            return DeviceId::gpu(static_cast<std::int32_t>(*index));
        }
        if (value.string() == "mps") return DeviceId::mps();
        if (value.string() == "cpu") return DeviceId::cpu();
        if (value.string() == "disk") return DeviceId::disk();
        return std::nullopt;
    }

    std::int32_t read_count(DescribedFields& fields, Device const& device, bool has_id) {
        std::int32_t count = 1;
        fields.integer("count", count, 1, static_cast<std::int32_t>(max_spec_devices));
        bool const is_one = !device.id.is_accelerator() || !device.uuid.empty() || !device.pci.empty() || has_id;
        if (count > 1 && is_one) {
            fields.refuse("count", "cannot repeat what there is once only: cpu, disk, an id, uuid or pci address");
        }
        return count;
    }

    void add_device(DescribedFields const& fields, Device device, std::int32_t count) {
        for (std::int32_t i = 0; i < count && !fault_.error; ++i) {
            if (i > 0) device.id.index += 1;
            if (static_cast<std::int64_t>(topology_.devices.size()) == max_spec_devices) {
                return fault_.set(ErrorCode::capacity_exceeded, "devices",
                                  "has more devices than are planned for: at most " + std::to_string(max_spec_devices));
            }
            if (!ids_.insert(device.id).second) {
                return fault_.set(ErrorCode::invalid_field, fields.path("id"), "another device has this id already");
            }
            if (device.id.is_accelerator()) ++accelerators_;
            topology_.devices.push_back(device);
        }
    }

    /// Accelerators first, then cpu, then disk; otherwise as written.
    void order_devices() {
        detail::stable_sort(topology_.devices.begin(), topology_.devices.end(),
                            [](Device const& a, Device const& b) { return rank(a.id) < rank(b.id); });
        positions_.clear();
        for (std::size_t i = 0; i < topology_.devices.size(); ++i) {
            positions_.push_back({topology_.devices[i].id, static_cast<std::int32_t>(i)});
        }
        std::sort(positions_.begin(), positions_.end());
    }
    [[nodiscard]] static int rank(DeviceId id) { return id.is_accelerator() ? 0 : id.kind == DeviceClass::cpu ? 1 : 2; }

    void read_link_pair(JsonValue value, std::string path) {
        DescribedFields fields(value, std::move(path), fault_);
        DeviceLink pair{};
        fields.require("between");
        if (auto const ends = fields.find("between")) read_ends(fields, *ends, pair);
        read_link_members(fields, pair.link);
        fields.note();
        fields.finish();
        if (fault_.error) return;
        if (!pairs_.insert(std::minmax(pair.first, pair.second)).second) {
            return fields.refuse("between", "a link between these devices was given before");
        }
        topology_.links.push_back(pair);
    }

    void read_ends(DescribedFields& fields, JsonValue ends, DeviceLink& pair) {
        std::array<std::int32_t, 2> at{-1, -1};
        std::size_t count = 0;
        for (auto const end : ends) {
            auto const id = parse_id(end);
            auto const place = id ? position_of(*id) : -1;
            if (place < 0) return fields.refuse("between", "names a device that the description does not have");
            if (count < at.size()) at[count] = place;
            ++count;
        }
        if (!ends.is_array() || count != 2 || at[0] == at[1]) {
            return fields.refuse("between", "must be a list of two different ids");
        }
        pair.first = at[0];
        pair.second = at[1];
    }
    [[nodiscard]] std::int32_t position_of(DeviceId id) const {
        auto const found = std::lower_bound(positions_.begin(), positions_.end(), std::pair{id, std::int32_t{0}});
        return found == positions_.end() || found->first != id ? -1 : found->second;
    }

    DescriptionFault fault_;
    Topology topology_;
    std::size_t accelerators_ = 0;
    std::set<DeviceId> ids_;
    std::vector<std::pair<DeviceId, std::int32_t>> positions_;
    std::set<std::pair<std::int32_t, std::int32_t>> pairs_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
