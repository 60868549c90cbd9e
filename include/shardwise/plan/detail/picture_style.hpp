// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/hardware/device.hpp>
#include <shardwise/memory/estimate.hpp>
#include <shardwise/plan/detail/svg_canvas.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// How pictures look: colours, fonts, and words for numbers.
namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

inline constexpr std::string_view picture_fonts = "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif";

/// Dark on a dark screen only: paper is white.
inline constexpr std::string_view picture_style = R"(.paper { fill: #ffffff; }
.ink { fill: #1c2128; }
.muted { fill: #59636e; }
.good { fill: #1a7f37; }
.bad { fill: #c62828; }
.node { fill: #f3f5f8; stroke: #aab4c0; }
.card { fill: #ffffff; stroke: #8592a1; }
.short { fill: #ffffff; stroke: #c62828; stroke-width: 2; }
.track { fill: #e4e8ed; stroke: #8592a1; }
.limit { fill: #c62828; }
.wire { stroke: #6b7887; stroke-width: 2; stroke-linecap: round; }
@media screen and (prefers-color-scheme: dark) {
.paper { fill: #0f1319; }
.ink { fill: #e9edf2; }
.muted { fill: #9aa7b5; }
.good { fill: #56d364; }
.bad { fill: #ff7b72; }
.node { fill: #171d26; stroke: #485464; }
.card { fill: #1f2733; stroke: #5d6b7c; }
.short { fill: #1f2733; stroke: #ff7b72; }
.track { fill: #333e4c; stroke: #5d6b7c; }
.limit { fill: #ff7b72; }
.wire { stroke: #8794a3; }
}
)";

/// A kind of memory with its name and colour.
struct MemoryLook {
    Bytes MemoryTerms::*term;
    std::string_view name;
    std::string_view look;
};

/// Told apart by colour and, in grey, by lightness.
inline constexpr std::array<MemoryLook, 6> memory_looks{{
    {&MemoryTerms::weights, "weights", "fill=\"#3f6fb5\""},
    {&MemoryTerms::kv_cache, "kv cache", "fill=\"#56b4d3\""},
    {&MemoryTerms::activations, "activations", "fill=\"#e8b23a\""},
    {&MemoryTerms::gradients, "gradients", "fill=\"#b48ad1\""},
    {&MemoryTerms::optimizer, "optimizer", "fill=\"#7a4fa3\""},
    {&MemoryTerms::overhead, "runtime", "fill=\"#7d8794\""},
}};

/// What a kind of memory is called: beside the runtime, ranks of a plan have buffers for their exchanges.
[[nodiscard]] constexpr std::string_view memory_name(MemoryLook const& look, bool has_ranks) {
    return has_ranks && look.term == &MemoryTerms::overhead ? std::string_view{"overhead"} : look.name;
}

struct Color {
    int red = 0;
    int green = 0;
    int blue = 0;
};

/// The colour of one segment of several: from the model's first layer to its last along a scale.
[[nodiscard]] constexpr Color segment_color(std::size_t index, std::size_t count) {
    constexpr std::array<Color, 5> scale{
        {{38, 104, 130}, {58, 148, 118}, {168, 186, 72}, {238, 164, 74}, {201, 84, 82}}};
    auto const position = count > 1 ? static_cast<int>(index * 400 / (count - 1)) : 0;
    auto const from = position >= 400 ? 3 : position / 100;
    auto const part = position - from * 100;
    auto const& a = scale[static_cast<std::size_t>(from)];
    auto const& b = scale[static_cast<std::size_t>(from) + 1];
    auto const mix = [&](int first, int second) { return first + (second - first) * part / 100; };
    return {mix(a.red, b.red), mix(a.green, b.green), mix(a.blue, b.blue)};
}

[[nodiscard]] inline std::string segment_fill(std::size_t index, std::size_t count) {
    auto const color = segment_color(index, count);
    return "fill=\"rgb(" + std::to_string(color.red) + "," + std::to_string(color.green) + "," +
           std::to_string(color.blue) + ")\"";
}

/// Black or white, whichever reads better on the segment's colour (luma of ITU-R BT.601).
[[nodiscard]] constexpr std::string_view segment_ink(std::size_t index, std::size_t count) {
    auto const color = segment_color(index, count);
    bool const is_light = 299 * color.red + 587 * color.green + 114 * color.blue > 128'000;
    return is_light ? "fill=\"#10151b\"" : "fill=\"#ffffff\"";
}

/// A number with at most one decimal: "12.5", "300".
[[nodiscard]] inline std::string short_number(double value) {
    auto const tenths = static_cast<std::int64_t>(value * 10.0 + 0.5);
    auto text = std::to_string(tenths / 10);
    if (tenths % 10 != 0 && tenths < 1000) text += "." + std::to_string(tenths % 10);
    return text;
}

[[nodiscard]] constexpr std::string_view link_name(LinkType type) {
    switch (type) {
        case LinkType::none:
            return "unknown link";
        case LinkType::pcie:
            return "PCIe";
        case LinkType::nvlink:
            return "NVLink";
        case LinkType::infinity_fabric:
            return "Infinity Fabric";
        case LinkType::ethernet:
            return "Ethernet";
        case LinkType::infiniband:
            return "InfiniBand";
        case LinkType::memory_bus:
            return "shared memory";
    }
    return "unknown link";
}

/// "NVLink 300 GB/s"; rates are those of one direction.
[[nodiscard]] inline std::string link_text(Link const& link) {
    std::string text{link_name(link.type)};
    if (!(link.bandwidth > 0.0) || link.bandwidth > 1e18) return text;
    bool const is_slow = link.bandwidth < 1e9;
    return text + " " + short_number(link.bandwidth / (is_slow ? 1e6 : 1e9)) + (is_slow ? " MB/s" : " GB/s");
}

/// Breaks text at blanks into at most `most` lines that fit into `room`; the last is cut where it does not.
[[nodiscard]] inline std::vector<std::string> wrapped_text(std::string_view text, Font font, int room,
                                                           std::size_t most) {
    std::vector<std::string> lines;
    while (!text.empty()) {
        auto const end = text.find(' ');
        auto const word = text.substr(0, end);
        bool const is_last_line = lines.size() == most;
        bool const fits = !lines.empty() && text_width(lines.back() + " " + std::string(word), font) <= room;
        if (!lines.empty() && (fits || is_last_line)) {
            if (lines.back().size() < 4096) lines.back() += " " + std::string(word);
        } else {
            lines.emplace_back(word);
        }
        text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    }
    for (auto& line : lines) line = fitted(line, font, room);
    return lines;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
