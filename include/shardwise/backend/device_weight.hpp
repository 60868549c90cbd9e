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
#include <memory>
#include <new>
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
    detail::StoredRow stored{source.data.data(), source.scales.data(), source.group};
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

    // A slice at a time, so that the host holds little of a weight twice: large enough for the bus to run at full speed.
    constexpr std::int64_t slice_bytes = std::int64_t{8} << 20U;
    auto const slice =
        std::min(source.outputs, std::max<std::int64_t>(1, slice_bytes / std::max<std::int64_t>(1, layout.bytes(1))));
    auto const staged_bytes = layout.bytes(slice);
    std::unique_ptr<std::byte[]> const staging(new (std::nothrow) std::byte[static_cast<std::size_t>(staged_bytes)]);
    if (!staging) return Error{ErrorCode::out_of_memory}.in("host memory").needs(Bytes{staged_bytes});
    std::memset(staging.get(), 0, static_cast<std::size_t>(staged_bytes));
    auto stream = context.make_stream();
    for (std::int64_t first = 0; first < source.outputs; first += slice) {
        auto const rows = std::min(slice, source.outputs - first);
        // Other parts lay there.
        if (rows != slice) std::memset(staging.get(), 0, static_cast<std::size_t>(staged_bytes));
        for (std::int64_t row = 0; row < rows; ++row) {
            detail::DeviceRow const to{staging.get() + row * layout.row_bytes(),
                                       staging.get() + layout.first_plane(rows) + row * layout.planes,
                                       staging.get() + layout.first_scale(rows) + row * layout.scales,
                                       staging.get() + layout.first_super(rows) + row * layout.supers, weight.group_};
            if (is_decoded) {
                format.decode(stored, 0, source.inputs, reinterpret_cast<float*>(to.quants));
            } else {
                detail::device_format(source.format).pack(stored, source.inputs, to);
            }
            stored.data += data_row;
            stored.scales += scale_row;
        }
        auto const send = [&](std::int64_t from, std::int64_t to, std::int64_t row_bytes) {
            return copy_elements(staging.get() + from, rows * row_bytes, weight.memory_.data() + to + first * row_bytes,
                                 rows * row_bytes, stream);
        };
        auto sent = send(0, 0, layout.row_bytes());
        if (sent) sent = send(layout.first_plane(rows), layout.first_plane(source.outputs), layout.planes);
        if (sent) sent = send(layout.first_scale(rows), layout.first_scale(source.outputs), layout.scales);
        if (sent) sent = send(layout.first_super(rows), layout.first_super(source.outputs), layout.supers);
        if (!sent) return sent.error();
        if (auto done = stream.synchronize(Deadline::after(context.limit())); !done) return done.error();
    }
    return weight;
}

namespace detail {

/// The format of weights that lie as rows of T do.
template <class T>
inline constexpr WeightFormat format_of_rows = std::same_as<T, float>      ? WeightFormat::f32
                                               : std::same_as<T, Bfloat16> ? WeightFormat::bf16
                                                                           : WeightFormat::f16;

/// Products of more rows than this are the vendor's where the weight lies as rows of T do: arithmetic binds, not the reading of the
/// weight. All others are kernels of ours.
inline constexpr std::int64_t few_product_rows = 16;
template <class T>
[[nodiscard]] constexpr bool is_vendor_format(WeightFormat format) {
    return format == format_of_rows<T>;
}

/// True for floats, and for halves whose rows are whole packs: of others a vendor's product has few kernels, or none.
template <class T, class Out, class Backend>
[[nodiscard]] bool is_for_vendor(TensorView<T const, 2, Backend> const& in, TensorView<Out, 2, Backend> const& out) {
    auto const is_aligned = [](auto const* data, std::int64_t row) {
        constexpr auto size = static_cast<std::int64_t>(sizeof *data);
        return reinterpret_cast<std::uintptr_t>(data) % 16 == 0 && row * size % 16 == 0;
    };
    return sizeof(T) == 4 || (is_aligned(in.data(), in.stride(0)) && is_aligned(out.data(), out.stride(0)));
}

/// Checks that a range is one of whole blocks of a weight's inputs.
template <class Api>
[[nodiscard]] Result<> check_device_range(std::string_view subject, DeviceWeight<Api> const& weight, UnitRange inputs) {
    Error error{ErrorCode::shape_mismatch};
    error.in(subject);
    if (inputs.begin < 0 || inputs.size() < 0 || inputs.end > weight.inputs())
        return error.because("the range leaves the weight's inputs").got(inputs.end).at_most(weight.inputs());
    auto const block = weight.grain();
    bool const is_cut = inputs.end % block != 0 && inputs.end != weight.inputs();
    if (inputs.begin % block != 0 || is_cut) {
        return error.because("the range parts a block")
            .got(inputs.begin % block != 0 ? inputs.begin : inputs.end)
            .multiple_of(block);
    }
    return {};
}

/// Checks the extents of a product by a range of a weight's inputs.
template <class Api, class T, class Out>
[[nodiscard]] Result<> check_device_product(std::string_view subject, TensorView<T const, 2, DeviceBackend<Api>> in,
                                            DeviceWeight<Api> const& weight, UnitRange inputs,
                                            TensorView<Out, 2, DeviceBackend<Api>> out) {
    if (auto const known = check_views(subject, in, out); !known) return known;
    if (auto const whole = check_device_range(subject, weight, inputs); !whole) return whole;
    Error error{ErrorCode::shape_mismatch};
    error.in(subject);
    if (in.extent(1) != inputs.size()) {
        return error.because("a row is not as wide as the weight").got(in.extent(1)).expected(inputs.size());
    }
    if (out.extent(0) != in.extent(0)) {
        return error.because("the output has another number of rows than the input")
            .got(out.extent(0))
            .expected(in.extent(0));
    }
    if (out.extent(1) != weight.outputs()) {
        return error.because("the output is not as wide as the weight has outputs")
            .got(out.extent(1))
            .expected(weight.outputs());
    }
    return {};
}

}  // namespace detail

template <class Api>
template <class T, class Out>
Result<> DeviceBackend<Api>::multiply(TensorView<T const, 2, DeviceBackend> in, DeviceWeight<Api> const& weight,
                                      TensorView<Out, 2, DeviceBackend> out, Stream& stream) {
    if (detail::is_vendor_format<T>(weight.format()) && in.extent(0) > detail::few_product_rows &&
        detail::is_for_vendor(in, out)) {
        auto const checked = detail::check_device_product<Api>("multiply", in, weight, {0, weight.inputs()}, out);
        if (!checked || out.empty()) return checked;
        auto const view = weight.view();
        constexpr auto size = static_cast<std::int64_t>(sizeof(T));
        TensorView<T const, 2, DeviceBackend> const factor(reinterpret_cast<T const*>(view.rows),
                                                           {weight.outputs(), weight.inputs()}, view.row_bytes / size);
        return gemm<T>(in, factor, out, {.is_b_transposed = true}, stream);
    }
    return submit_product(in, weight, {0, weight.inputs()}, out, false, stream);
}

template <class Api>
template <class T, class Out>
Result<> DeviceBackend<Api>::multiply(TensorView<T const, 2, DeviceBackend> in, DeviceWeight<Api> const& weight,
                                      UnitRange inputs, TensorView<Out, 2, DeviceBackend> out, Stream& stream) {
    return submit_product(in, weight, inputs, out, true, stream);
}

template <class Api>
template <class T, class Out>
Result<> DeviceBackend<Api>::submit_product(TensorView<T const, 2, DeviceBackend> in, DeviceWeight<Api> const& weight,
                                            UnitRange inputs, TensorView<Out, 2, DeviceBackend> out, bool is_fixed,
                                            Stream& stream) {
    static_assert(std::same_as<Out, float> || std::same_as<Out, T>, "products are floats, or as their rows");
    auto const checked = detail::check_device_product<Api>("multiply", in, weight, inputs, out);
    if (!checked || out.empty()) return checked;
    detail::MultiplyCall const call{.weight = weight.view(inputs),
                                    .in = in.data(),
                                    .in_row = in.stride(0),
                                    .out = out.data(),
                                    .out_row = out.stride(0),
                                    .rows = in.extent(0),
                                    .is_fixed = is_fixed,
                                    .in_element = detail::row_element<T>,
                                    .out_element = detail::row_element<Out>};
    stream.submit([&](typename Api::Stream native) { return detail::launch_multiply<Api>(call, native); });
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
