// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/error.hpp>
#include <shardwise/plan/detail/picture_style.hpp>
#include <shardwise/plan/detail/svg_canvas.hpp>
#include <shardwise/plan/merge_picture.hpp>
#include <shardwise/plan/picture.hpp>

#include <algorithm>
#include <string>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Draws devices as boxes of one size.
class CardDrawer {
public:
    static constexpr int width = 212;

    CardDrawer(Picture const& picture, PictureBoxes const& boxes) : picture_(picture) {
        for (auto const& device : picture.devices) {
            if (!device.ranks) continue;
            extend(most_.tp, device.ranks->tp);
            extend(most_.pp, device.ranks->pp);
            extend(most_.dp, device.ranks->dp);
            extend(most_.ep, device.ranks->ep);
        }
        for (auto const& node : boxes.nodes) {
            for (auto const& device : node.devices) {
                max_segments_ = std::max(max_segments_, device.segments.size());
                has_second_line_ = has_second_line_ || !second_line(device).empty();
            }
        }
        max_segments_ = std::min(max_segments_, max_shown_segments);
    }

    [[nodiscard]] int height() const {
        return (has_second_line_ ? 14 : 0) + 70 + static_cast<int>(max_segments_) * pill_height;
    }

    void draw(SvgCanvas& canvas, PictureDevice const& device, int x, int y) const {
        canvas.open_group(description(device));
        // A stack stands for several.
        if (device.count > 1) canvas.rectangle(x + 4, y + 4, width, height() - 4, 4, "class=\"card\"");
        auto const box = device.missing > Bytes{} ? "class=\"short\"" : "class=\"card\"";
        canvas.rectangle(x, y, width, height() - (device.count > 1 ? 4 : 0), 4, box);
        auto const left = x + padding;
        auto const share = share_text(device);
        auto const share_width = share.empty() ? 0 : text_width(share, {12}) + 8;
        draw_name(canvas, device, left, y + 18, inner - share_width);
        if (!share.empty()) canvas.text(left + inner, y + 18, share, {12}, inner, "class=\"ink\"", Anchor::end);
        auto top = y + 26;
        if (has_second_line_) {
            auto const look = device.missing > Bytes{} ? "class=\"bad\"" : "class=\"muted\"";
            canvas.text(left, top + 7, second_line(device), {10}, inner, look);
            top += 14;
        }
        bool const is_summary = device.label.empty() && !device.capacity;
        if (!is_summary) {
            draw_bar(canvas, device, left, top);
            draw_memory(canvas, device, left, top + 29);
        }
        draw_segments(canvas, device, left, top + 37);
        canvas.close_group();
    }

private:
    static constexpr int padding = 10;
    static constexpr int inner = width - 2 * padding;
    static constexpr int pill_height = 22;
    static constexpr std::size_t max_shown_segments = 3;

    void draw_name(SvgCanvas& canvas, PictureDevice const& device, int x, int y, int room) const {
        constexpr Font bold{13, true};
        auto const name = (device.count > 1 ? std::to_string(device.count) + "x " : "") + device.name;
        auto const label = fitted(device.label.empty() ? name : device.label, bold, room);
        canvas.text(x, y, label, bold, room);
        auto const used = text_width(label, bold) + 8;
        if (!device.label.empty()) canvas.text(x + used, y, name, {12}, room - used);
    }

    /// The memory from left to right: what it is filled with, then what is free. Where more is used than there is, a mark
    /// stands where the memory ends.
    void draw_bar(SvgCanvas& canvas, PictureDevice const& device, int x, int y) const {
        auto const used = device.terms.total();
        auto const whole = std::max({device.capacity.value_or(used), used, Bytes{1}});
        auto const at = [&](Bytes size) {
            return static_cast<int>(static_cast<double>(size.count()) / static_cast<double>(whole.count()) * inner +
                                    0.5);
        };
        canvas.rectangle(x, y, inner, 16, 2, "class=\"track\"");
        Bytes before{};
        for (auto const& term : memory_looks) {
            auto const size = device.terms.*term.term;
            if (size <= Bytes{}) continue;
            auto const begin = at(before);
            before += size;
            if (at(before) > begin) canvas.rectangle(x + begin, y, at(before) - begin, 16, 0, term.look);
        }
        if (device.capacity && used > *device.capacity) {
            canvas.rectangle(x + std::max(at(*device.capacity) - 1, 0), y - 3, 3, 22, 0, "class=\"limit\"");
        }
    }

    /// "34.46 of 40.00 GiB"
    void draw_memory(SvgCanvas& canvas, PictureDevice const& device, int x, int y) const {
        auto used = to_text(device.terms.total());
        if (!device.capacity) {
            canvas.text(x, y, used + ", no limit", {11}, inner);
            return;
        }
        auto const whole = to_text(*device.capacity);
        auto const unit = used.substr(used.find(' '));
        if (unit == whole.substr(whole.find(' '))) used.resize(used.size() - unit.size());
        canvas.text(x, y, used + " of " + whole, {11}, inner);
    }

    void draw_segments(SvgCanvas& canvas, PictureDevice const& device, int x, int y) const {
        auto const& held = device.segments;
        auto const shown =
            std::min(held.size(), held.size() > max_shown_segments ? max_shown_segments - 1 : max_shown_segments);
        auto const count = picture_.segments.size();
        for (std::size_t i = 0; i < shown; ++i) {
            canvas.rectangle(x, y, inner, pill_height - 4, 3, segment_fill(held[i], count));
            auto const& segment = picture_.segments[held[i]];
            canvas.text(x + 6, y + 13, segment.text, {11}, inner - 12, segment_ink(held[i], count));
            y += pill_height;
        }
        if (shown < held.size()) {
            canvas.text(x, y + 13, "and " + std::to_string(held.size() - shown) + " more parts", {11}, inner,
                        "class=\"muted\"");
        }
    }

    [[nodiscard]] static std::string share_text(PictureDevice const& device) {
        if (!device.capacity || *device.capacity <= Bytes{}) return {};
        auto const share =
            100.0 * static_cast<double>(device.terms.total().count()) / static_cast<double>(device.capacity->count());
        if (!(share < 1e6)) return {};
        auto const tenths = static_cast<std::int64_t>(share * 10.0 + 0.5);
        return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " %";
    }

    static void add_range(std::string& text, std::string_view name, PictureRange range, PictureRange all) {
        if (all.last == 0) return;
        text += (text.empty() ? "" : ", ") + std::string(name) + " " + std::to_string(range.first);
        if (range.last > range.first) text += "-" + std::to_string(range.last);
    }

    /// Its ranks, "stage 0, tp 3, dp 0-7", or what it lacks.
    [[nodiscard]] std::string second_line(PictureDevice const& device) const {
        if (device.missing > Bytes{}) return to_text(device.missing) + " more would suffice";
        if (!device.ranks) return {};
        std::string text;
        add_range(text, "stage", device.ranks->pp, most_.pp);
        add_range(text, "tp", device.ranks->tp, most_.tp);
        add_range(text, "ep", device.ranks->ep, most_.ep);
        add_range(text, "dp", device.ranks->dp, most_.dp);
        return text;
    }

    /// What the pointer shows: every term and part.
    [[nodiscard]] std::string description(PictureDevice const& device) const {
        auto text = device.label + (device.label.empty() ? "" : " ") + device.name;
        for (auto const& term : memory_looks) {
            if (device.terms.*term.term > Bytes{})
                text += "; " + std::string(memory_name(term, device.ranks.has_value())) + " " +
                        to_text(device.terms.*term.term);
        }
        for (auto const part : device.segments) {
            if (text.size() < 2000) text += "; " + picture_.segments[part].text;
        }
        return text;
    }

    Picture const& picture_;
    PictureRanks most_{};
    std::size_t max_segments_ = 0;
    bool has_second_line_ = false;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
