// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/brief_memory.hpp>
#include <shardwise/backend/device.hpp>
#include <shardwise/backend/device_format.hpp>
#include <shardwise/core/check_views.hpp>
#include <shardwise/core/checked.hpp>
#include <shardwise/core/split.hpp>
#include <shardwise/quant/weight_format.hpp>

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Bytes of the parts of a row on a device.
struct DeviceRowLayout {
    /// Without the padding to 16 bytes.
    std::int64_t quants = 0;
    std::int64_t planes = 0;
    std::int64_t scales = 0;
    std::int64_t supers = 0;

    [[nodiscard]] constexpr std::int64_t row_bytes() const { return round_up(quants, 16); }
    /// Where the parts of `rows` rows begin, one after another, and where they end.
    [[nodiscard]] constexpr std::int64_t first_plane(std::int64_t rows) const { return rows * row_bytes(); }
    [[nodiscard]] constexpr std::int64_t first_scale(std::int64_t rows) const {
        return first_plane(rows) + round_up(rows * planes, 16);
    }
    [[nodiscard]] constexpr std::int64_t first_super(std::int64_t rows) const {
        return first_scale(rows) + round_up(rows * scales, 16);
    }
    [[nodiscard]] constexpr std::int64_t bytes(std::int64_t rows) const { return first_super(rows) + rows * supers; }
    /// What a weight of `rows` rows takes: the next one may begin where it ends.
    [[nodiscard]] constexpr std::int64_t held_bytes(std::int64_t rows) const { return round_up(bytes(rows), 256); }
};

/// The layout of the first `inputs` elements of a row: all of them, or whole blocks and groups. `group` is a device's.
[[nodiscard]] constexpr DeviceRowLayout device_row_layout(WeightFormat format, std::int64_t inputs,
                                                          std::int64_t group) {
    auto const& unit = device_format(format);
    auto const is_grouped = traits(format).scales == ScalePlace::group;
    auto const scale_count = unit.scale_elements > 0 ? inputs / unit.scale_elements
                             : is_grouped            ? ceil_divide(inputs, group)
                                                     : 1;
    return {ceil_divide(inputs * unit.quant_bits, 8), inputs / 32 * 4 * unit.plane_bits, scale_count * unit.scale_bytes,
            inputs / 256 * unit.super_bytes};
}

/// Elements that share a scale on a device: a power of two times 32 that divides the checkpoint's group, all of a row that is one
/// group, or 0 for groups that devices do not read.
[[nodiscard]] constexpr std::int64_t device_group(std::int64_t inputs, std::int64_t group) {
    constexpr std::int64_t whole_row = std::int64_t{1} << 40U;
    if (group >= inputs) return whole_row;
    auto const part = group & -group;
    return part >= 32 ? part : 0;
}

[[nodiscard]] inline Result<> check_size(std::string_view what, std::span<std::byte const> bytes, std::int64_t wanted) {
    if (static_cast<std::int64_t>(bytes.size()) == wanted) return {};
    return Error{ErrorCode::shape_mismatch}
        .in("weight")
        .at(what)
        .because("has another number of bytes than the extents and the format ask for")
        .got(static_cast<std::int64_t>(bytes.size()))
        .expected(wanted);
}

/// Checks a weight's format and extents.
[[nodiscard]] inline Result<> check_device_weight(std::string_view backend, WeightFormat kind, std::int64_t outputs,
                                                  std::int64_t inputs, std::int64_t group) {
    auto const& format = traits(kind);
    Error error{ErrorCode::shape_mismatch};
    error.in("weight").at(format.name);
    if (outputs < 0) return error.because("has a negative number of outputs").got(outputs);
    if (inputs < 0) return error.because("has a negative number of inputs").got(inputs);
    if (inputs > (std::int64_t{1} << 40U) || !checked_multiply(outputs, 8 * inputs)) {
        return error.because("has more bytes than 63 bits count").got(inputs);
    }
    if (!has_device_products(kind)) {
        return Error{ErrorCode::unsupported}
            .in(backend)
            .at(format.name)
            .because("is no format that this back end multiplies by")
            .fix("decode the weight into bf16 or fp32 first, or keep it on the host");
    }
    auto const multiple = row_multiple(kind);
    if (inputs % multiple != 0) {
        return error.because("a row is not made of whole blocks").got(inputs).multiple_of(multiple);
    }
    if (format.scales == ScalePlace::group && group < 1) {
        return error.because("a group has less than one element").got(group);
    }
    return {};
}

}  // namespace detail

/// A weight in a device's memory.
///
/// Memory  freed with it; the context that it came from outlives it
template <class Api>
class DeviceWeight {
public:
    [[nodiscard]] WeightFormat format() const { return format_; }
    [[nodiscard]] std::int64_t outputs() const { return outputs_; }
    [[nodiscard]] std::int64_t inputs() const { return inputs_; }
    [[nodiscard]] Bytes bytes() const { return memory_.bytes(); }

    [[nodiscard]] detail::DeviceWeightView view() const { return view({0, inputs_}); }
    /// A range of its inputs, which begins where a block does.
    [[nodiscard]] detail::DeviceWeightView view(UnitRange inputs) const {
        auto const& unit = detail::device_format(format_);
        auto const whole = layout();
        auto before = detail::device_row_layout(format_, inputs.begin, group_);
        if (traits(format_).scales == ScalePlace::row) before.scales = 0;
        auto const at = [&](std::int64_t offset) { return data_ + offset; };
        return {
            .format = format_,
            .outputs = outputs_,
            .inputs = inputs.size(),
            .rows = at(before.quants),
            .row_bytes = whole.row_bytes(),
            .planes = at(whole.first_plane(outputs_) + before.planes),
            .scales = at(whole.first_scale(outputs_) + before.scales),
            .scale_row = unit.scale_bytes > 0 ? whole.scales / unit.scale_bytes : 0,
            .supers = at(whole.first_super(outputs_) + before.supers),
            .block_row = inputs_ / 32,
            .scale_shift = static_cast<std::uint32_t>(std::bit_width(static_cast<std::uint64_t>(group_ / 32))) - 1U};
    }
    /// Gives its memory away; products need `rest_on` before the next one.
    [[nodiscard]] Buffer<std::byte, DeviceBackend<Api>> take_memory() {
        data_ = nullptr;
        return std::move(memory_);
    }
    /// Its own memory, for a kernel that makes its values; null where they rest elsewhere.
    [[nodiscard]] std::byte* own_bytes() { return data_ == memory_.data() ? memory_.data() : nullptr; }
    /// Its bytes lie elsewhere on the device, where they stay until what reads them is done; aligned as allocations are.
    void rest_on(std::byte const* bytes) { data_ = bytes; }

    /// Inputs that a range does not part: of a group, as a device has it.
    [[nodiscard]] std::int64_t grain() const {
        bool const is_grouped = traits(format_).scales == ScalePlace::group;
        return is_grouped ? std::clamp<std::int64_t>(inputs_, 1, group_) : traits(format_).block_elements;
    }

private:
    friend struct DeviceBackend<Api>;

    [[nodiscard]] detail::DeviceRowLayout layout() const { return detail::device_row_layout(format_, inputs_, group_); }
    [[nodiscard]] Result<> allocate(typename DeviceBackend<Api>::Context& context) {
        using Brief = detail::BriefMemory<typename DeviceBackend<Api>::Context>;
        Brief const brief(context, context.are_weights_brief() ? Brief::Of::all : Brief::Of::nothing);
        auto memory = Buffer<std::byte, DeviceBackend<Api>>::allocate(context, layout().held_bytes(outputs_));
        if (!memory) return memory.error();
        memory_ = std::move(*memory);
        data_ = memory_.data();
        return {};
    }

    WeightFormat format_ = WeightFormat::f32;
    std::int64_t outputs_ = 0;
    std::int64_t inputs_ = 0;
    /// int4: elements that share a scale.
    std::int64_t group_ = 32;
    Buffer<std::byte, DeviceBackend<Api>> memory_;
    /// In `memory_`, or where it rests.
    std::byte const* data_ = nullptr;
};

template <class Api>
Result<DeviceWeight<Api>> DeviceBackend<Api>::allocate_weight(Context& context, WeightFormat format,
                                                              std::int64_t outputs, std::int64_t inputs,
                                                              std::int64_t group) {
    if (auto const checked = detail::check_device_weight(Api::name, format, outputs, inputs, group); !checked) {
        return checked.error();
    }
    DeviceWeight<Api> weight;
    weight.format_ = format;
    weight.outputs_ = outputs;
    weight.inputs_ = inputs;
    if (traits(format).scales == ScalePlace::group) {
        weight.group_ = detail::device_group(inputs, group);
        if (group < inputs && weight.group_ != group) {
            return Error{ErrorCode::unsupported}
                .in("weight")
                .at(name_of(format))
                .because("devices have scales of a power of two times 32 elements, or of a whole row")
                .got(group)
                .fix("take a group of 32, 64 or 128 elements, or quantize on the host");
        }
    }
    if (auto const allocated = weight.allocate(context); !allocated) return allocated.error();
    return weight;
}

template <class Api>
Result<DeviceWeight<Api>> DeviceBackend<Api>::hold_weight(Context& context, WeightSource const& source) {
    if (auto const checked =
            detail::check_device_weight(Api::name, source.format, source.outputs, source.inputs, source.group);
        !checked) {
        return checked.error();
    }
    auto const& format = traits(source.format);
    bool const is_grouped = format.scales == ScalePlace::group;
    auto const data_row = detail::data_bytes(source.format, source.inputs);
    auto const scale_row = detail::scale_bytes(source.format, source.inputs, source.group);
    if (auto const sized = detail::check_size("data", source.data, source.outputs * data_row); !sized)
        return sized.error();
    if (auto const sized = detail::check_size("scales", source.scales, source.outputs * scale_row); !sized)
        return sized.error();

    DeviceWeight<Api> weight;
    weight.format_ = source.format;
    weight.outputs_ = source.outputs;
    weight.inputs_ = source.inputs;
    if (is_grouped) weight.group_ = detail::device_group(source.inputs, source.group);
    // Of groups that devices do not read, the values.
    bool const is_decoded = weight.group_ == 0;
    if (is_decoded) {
        weight.format_ = WeightFormat::f32;
        weight.group_ = 32;
    }
    auto const layout = weight.layout();
    if (auto const allocated = weight.allocate(context); !allocated) return allocated.error();

    // Without a rank that loads, one of its own.
    std::optional<WeightUpload<Api>> own;
    auto* const shared = context.upload();
    if (shared == nullptr)
        own.emplace(context, nullptr, std::min(WeightUpload<Api>::slab_bytes, Bytes{layout.bytes(source.outputs)}));
    auto& upload = shared != nullptr ? *shared : *own;
    // A slab at a time: the host holds little of a weight twice.
    auto const slice = std::clamp<std::int64_t>(upload.slab() / std::max<std::int64_t>(1, layout.bytes(1)), 1,
                                                std::max<std::int64_t>(1, source.outputs));
    for (std::int64_t first = 0; first < source.outputs; first += slice) {
        auto const rows = std::min(slice, source.outputs - first);
        auto const room = upload.room(layout.bytes(rows));
        if (!room) return room.error();
        auto* const staging = *room;
        auto const pack_rows = [&](std::int64_t begin, std::int64_t end) {
            for (auto row = begin; row < end; ++row) {
                detail::DeviceRow const to{staging + row * layout.row_bytes(),
                                           staging + layout.first_plane(rows) + row * layout.planes,
                                           staging + layout.first_scale(rows) + row * layout.scales,
                                           staging + layout.first_super(rows) + row * layout.supers, weight.group_};
                detail::StoredRow const stored{source.data.data() + (first + row) * data_row,
                                               source.scales.data() + (first + row) * scale_row, source.group};
                // Padding is 0, and some formats set bits one by one.
                std::memset(to.quants, 0, static_cast<std::size_t>(layout.row_bytes()));
                std::memset(to.planes, 0, static_cast<std::size_t>(layout.planes));
                std::memset(to.scales, 0, static_cast<std::size_t>(layout.scales));
                std::memset(to.supers, 0, static_cast<std::size_t>(layout.supers));
                if (is_decoded) {
                    format.decode(stored, 0, source.inputs, reinterpret_cast<float*>(to.quants));
                } else {
                    detail::device_format(source.format).pack(stored, source.inputs, to);
                }
            }
        };
        // So much that a thread takes longer to pack it than to wake.
        constexpr std::int64_t grain_bytes = std::int64_t{64} << 10U;
        auto const grain = std::max<std::int64_t>(1, grain_bytes / std::max<std::int64_t>(1, layout.bytes(1)));
        upload.run_ranges(rows, grain, pack_rows);
        auto const send = [&](std::int64_t from, std::int64_t to, std::int64_t row_bytes) {
            return copy_elements(staging + from, rows * row_bytes, weight.memory_.data() + to + first * row_bytes,
                                 rows * row_bytes, upload.stream());
        };
        auto sent = send(0, 0, layout.row_bytes());
        if (sent) sent = send(layout.first_plane(rows), layout.first_plane(source.outputs), layout.planes);
        if (sent) sent = send(layout.first_scale(rows), layout.first_scale(source.outputs), layout.scales);
        if (sent) sent = send(layout.first_super(rows), layout.first_super(source.outputs), layout.supers);
        if (!sent) return sent.error();
    }
    // What is moved on at once is read from the device.
    if (own || context.are_weights_brief()) {
        if (auto const done = upload.finish(); !done) return done.error();
    }
    return weight;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
