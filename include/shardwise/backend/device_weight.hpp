// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/device.hpp>
#include <shardwise/backend/device_format.hpp>
#include <shardwise/core/check_views.hpp>
#include <shardwise/core/checked.hpp>
#include <shardwise/core/split.hpp>
#include <shardwise/quant/weight_format.hpp>

#include <algorithm>
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

/// How a format's rows lie on a device and in a checkpoint.
struct DeviceRowLayout {
    /// Quants of a row, without the padding to 16 bytes.
    std::int64_t quant_bytes = 0;
    /// Scales of a row.
    std::int64_t scale_bytes = 0;
    /// A row of WeightSource::data.
    std::int64_t source_bytes = 0;
    /// True where `data` holds blocks that begin with their scale.
    bool has_blocks = false;

    [[nodiscard]] constexpr std::int64_t row_bytes() const { return round_up(quant_bytes, 16); }
};

/// The layout of a format that has a kernel; nothing for the others. `inputs` is made of whole blocks.
[[nodiscard]] constexpr Optional<DeviceRowLayout> device_row_layout(WeightFormat format, std::int64_t inputs) {
    if (!has_device_products(format)) return std::nullopt;
    auto const& unit = traits(format);
    bool const has_blocks = unit.scales == ScalePlace::blocks;
    auto const quants = inputs * unit.bits / 8;
    auto const source = data_bytes(format, inputs);
    // The scales of blocks take what their quants leave.
    auto const scales = has_blocks ? inputs / unit.block_elements *
                                         (unit.block_bytes - unit.block_elements * unit.bits / 8)
                                   : scale_bytes(format, inputs, 0);
    return DeviceRowLayout{quants, scales, source, has_blocks};
}

/// Brings a checkpoint's row into the device's order: quants (padded with zeros) and scales apart.
inline void pack_device_row(DeviceRowLayout const& layout, std::int64_t block_bytes, std::byte const* source,
                            std::byte* quants, std::byte* scales) {
    auto const size = [](std::int64_t bytes) { return static_cast<std::size_t>(bytes); };
    std::memset(quants + layout.quant_bytes, 0, size(layout.row_bytes() - layout.quant_bytes));
    if (!layout.has_blocks) {
        if (layout.quant_bytes > 0) std::memcpy(quants, source, size(layout.quant_bytes));
        return;
    }
    for (std::int64_t block = 0; block < layout.source_bytes / block_bytes; ++block) {
        std::memcpy(scales + 2 * block, source + block * block_bytes, 2);
        std::memcpy(quants + block * (block_bytes - 2), source + block * block_bytes + 2, size(block_bytes - 2));
    }
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
        auto const before = detail::device_row_layout(format_, inputs.begin);
        auto const* const scales = memory_.data() + outputs_ * row_bytes_;
        return {format_,       outputs_,
                inputs.size(), memory_.data() + before->quant_bytes,
                row_bytes_,    before->has_blocks ? scales + before->scale_bytes : scales,
                inputs_ / 32};
    }

private:
    friend struct DeviceBackend<Api>;

    WeightFormat format_ = WeightFormat::f32;
    std::int64_t outputs_ = 0;
    std::int64_t inputs_ = 0;
    std::int64_t row_bytes_ = 0;
    Buffer<std::byte, DeviceBackend<Api>> memory_;
};

template <class Api>
Result<DeviceWeight<Api>> DeviceBackend<Api>::hold_weight(Context& context, WeightSource const& source) {
    auto const& format = traits(source.format);
    Error error{ErrorCode::shape_mismatch};
    error.in("weight").at(format.name);
    if (source.outputs < 0) return error.because("has a negative number of outputs").got(source.outputs);
    if (source.inputs < 0) return error.because("has a negative number of inputs").got(source.inputs);
    if (source.inputs > (std::int64_t{1} << 40U) || !checked_multiply(source.outputs, 8 * source.inputs)) {
        return error.because("has more bytes than 63 bits count").got(source.inputs);
    }
    auto const layout = detail::device_row_layout(source.format, source.inputs);
    if (!layout) {
        return Error{ErrorCode::unsupported}
            .in(Api::name)
            .at(format.name)
            .because("is no format that this back end multiplies by")
            .fix("decode the weight into bf16 or fp32 first, or keep it on the host");
    }
    if (layout->has_blocks && source.inputs % format.block_elements != 0) {
        return error.because("a row is not made of whole blocks").got(source.inputs).multiple_of(format.block_elements);
    }
    auto const scale_source = layout->has_blocks ? 0 : source.outputs * layout->scale_bytes;
    if (auto const sized = detail::check_size("data", source.data, source.outputs * layout->source_bytes); !sized) {
        return sized.error();
    }
    if (auto const sized = detail::check_size("scales", source.scales, scale_source); !sized) return sized.error();

    DeviceWeight<Api> weight;
    weight.format_ = source.format;
    weight.outputs_ = source.outputs;
    weight.inputs_ = source.inputs;
    weight.row_bytes_ = layout->row_bytes();
    auto const row_bytes = layout->row_bytes();
    auto memory =
        Buffer<std::byte, DeviceBackend>::allocate(context, source.outputs * (row_bytes + layout->scale_bytes));
    if (!memory) return memory.error();
    weight.memory_ = std::move(*memory);

    // A slice at a time, so that the host holds little of a weight twice: large enough for the bus to run at full speed.
    constexpr std::int64_t slice_bytes = std::int64_t{8} << 20U;
    auto const packed_bytes = row_bytes + layout->scale_bytes;
    auto const slice =
        std::min(source.outputs, std::max<std::int64_t>(1, slice_bytes / std::max<std::int64_t>(1, packed_bytes)));
    std::unique_ptr<std::byte[]> const staging(new (std::nothrow)
                                                   std::byte[static_cast<std::size_t>(slice * packed_bytes)]);
    if (!staging) return Error{ErrorCode::out_of_memory}.in("host memory").needs(Bytes{slice * packed_bytes});
    auto stream = context.make_stream();
    auto const upload = [&](std::byte const* from, std::byte* to, std::int64_t bytes) {
        return copy_elements(from, bytes, to, bytes, stream);
    };
    auto* const scales = weight.memory_.data() + source.outputs * row_bytes;
    for (std::int64_t first = 0; first < source.outputs; first += slice) {
        auto const rows = std::min(slice, source.outputs - first);
        auto* const staged_scales = staging.get() + rows * row_bytes;
        for (std::int64_t row = 0; row < rows; ++row) {
            detail::pack_device_row(*layout, format.block_bytes,
                                    source.data.data() + (first + row) * layout->source_bytes,
                                    staging.get() + row * row_bytes, staged_scales + row * layout->scale_bytes);
        }
        auto const scale_bytes = rows * layout->scale_bytes;
        auto const* const from_scales =
            layout->has_blocks ? staged_scales : source.scales.data() + first * layout->scale_bytes;
        if (auto sent = upload(staging.get(), weight.memory_.data() + first * row_bytes, rows * row_bytes); !sent) {
            return sent.error();
        }
        if (auto sent = upload(from_scales, scales + first * layout->scale_bytes, scale_bytes); !sent)
            return sent.error();
        if (auto done = stream.synchronize(Deadline::after(context.limit())); !done) return done.error();
    }
    return weight;
}

namespace detail {

/// Checks the extents of a product by a range of a weight's inputs.
template <class Api>
[[nodiscard]] Result<> check_device_product(TensorView<float const, 2, DeviceBackend<Api>> in,
                                            DeviceWeight<Api> const& weight, UnitRange inputs,
                                            TensorView<float, 2, DeviceBackend<Api>> out) {
    if (auto const known = check_views("multiply", in, out); !known) return known;
    Error error{ErrorCode::shape_mismatch};
    error.in("multiply");
    if (inputs.begin < 0 || inputs.size() < 0 || inputs.end > weight.inputs())
        return error.because("the range leaves the weight's inputs").got(inputs.end).at_most(weight.inputs());
    auto const block = traits(weight.format()).block_elements;
    if (inputs.begin % block != 0 || inputs.end % block != 0) {
        return error.because("the range parts a block")
            .got(inputs.begin % block != 0 ? inputs.begin : inputs.end)
            .multiple_of(block);
    }
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
Result<> DeviceBackend<Api>::multiply(TensorView<float const, 2, DeviceBackend> in, DeviceWeight<Api> const& weight,
                                      TensorView<float, 2, DeviceBackend> out, Stream& stream) {
    // From here on arithmetic binds, not the reading of the weight, and the vendor's product is the better one.
    constexpr std::int64_t few_rows = 16;
    if (weight.format() == WeightFormat::f32 && in.extent(0) > few_rows) {
        auto const checked = detail::check_device_product<Api>(in, weight, {0, weight.inputs()}, out);
        if (!checked || out.empty()) return checked;
        auto const view = weight.view();
        TensorView<float const, 2, DeviceBackend> const factor(reinterpret_cast<float const*>(view.rows),
                                                               {weight.outputs(), weight.inputs()}, view.row_bytes / 4);
        return gemm<float>(in, factor, out, {.is_b_transposed = true}, stream);
    }
    return multiply(in, weight, {0, weight.inputs()}, out, stream);
}

template <class Api>
Result<> DeviceBackend<Api>::multiply(TensorView<float const, 2, DeviceBackend> in, DeviceWeight<Api> const& weight,
                                      UnitRange inputs, TensorView<float, 2, DeviceBackend> out, Stream& stream) {
    auto const checked = detail::check_device_product<Api>(in, weight, inputs, out);
    if (!checked || out.empty()) return checked;
    auto const view = weight.view(inputs);
    detail::MultiplyCall const call{view, in.data(), in.stride(0), out.data(), out.stride(0), in.extent(0)};
    stream.submit([&](typename Api::Stream native) { return detail::launch_multiply<Api>(call, native); });
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
