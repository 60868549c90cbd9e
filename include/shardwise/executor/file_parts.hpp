// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/dtype.hpp>
#include <shardwise/core/shape.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What a tensor of a quantised checkpoint holds of its parameter.
enum class FilePart : std::uint8_t {
    weight,
    qweight,
    qzeros,
    scales,
    g_idx,
    absmax,
    quant_map,
    nested_absmax,
    nested_quant_map,
    quant_state,
    scb,
    weight_scale,
    weight_packed,
    weight_zero_point,
    blocks,
    block_scales,
    other,
};

/// What a name says that its tensor holds.
///
/// Source  as encoded_name
[[nodiscard]] constexpr FilePart file_part(std::string_view name) {
    if (name.find(".quant_state.") != std::string_view::npos) return FilePart::quant_state;
    struct Row {
        std::string_view ending;
        FilePart part;
    };
    constexpr std::array<Row, 20> rows{{
        {".qweight", FilePart::qweight},
        {".qzeros", FilePart::qzeros},
        {".scales", FilePart::scales},
        {".g_idx", FilePart::g_idx},
        {".weight_g_idx", FilePart::g_idx},
        {".nested_absmax", FilePart::nested_absmax},
        {".absmax", FilePart::absmax},
        {".nested_quant_map", FilePart::nested_quant_map},
        {".quant_map", FilePart::quant_map},
        {".SCB", FilePart::scb},
        {".weight_scale_inv", FilePart::weight_scale},
        {".weight_scale", FilePart::weight_scale},
        {".weight_packed", FilePart::weight_packed},
        {".weight_zero_point", FilePart::weight_zero_point},
        {"_blocks", FilePart::blocks},
        {"_scales", FilePart::block_scales},
        {".weight_format", FilePart::other},
        {"input_scale", FilePart::other},
        {"activation_scale", FilePart::other},
        {".weight", FilePart::weight},
    }};
    for (auto const& row : rows) {
        if (name.ends_with(row.ending)) return row.part;
    }
    return FilePart::other;
}

/// A tensor of a file with its bytes.
struct FileView {
    Dtype dtype = Dtype::f32;
    Shape shape;
    std::span<std::byte const> data;
};

/// The tensors under which a checkpoint stores one parameter.
class FileParts {
public:
    void put(FilePart part, FileView const& view) { parts_[static_cast<std::size_t>(part)] = view; }
    [[nodiscard]] FileView const* find(FilePart part) const {
        auto const& found = parts_[static_cast<std::size_t>(part)];
        return found ? &*found : nullptr;
    }

private:
    std::array<std::optional<FileView>, static_cast<std::size_t>(FilePart::other) + 1> parts_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
