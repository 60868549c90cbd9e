// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/plan/detail/picture_card.hpp>
#include <shardwise/plan/detail/picture_groups.hpp>
#include <shardwise/plan/detail/picture_style.hpp>
#include <shardwise/plan/detail/svg_canvas.hpp>
#include <shardwise/plan/merge_picture.hpp>
#include <shardwise/plan/picture.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Draws from top to bottom; `y_` is where the next thing begins.
class PictureDrawer {
public:
    explicit PictureDrawer(Picture const& picture)
        : picture_(picture), boxes_(merge_picture(picture)), cards_(picture, boxes_) {}

    [[nodiscard]] std::string draw() {
        plan_width();
        draw_head();
        draw_ribbon();
        draw_nodes();
        draw_legend();
        draw_notes();
        return document();
    }

private:
    static constexpr int margin = 24;
    static constexpr int gap = 12;
    static constexpr int inset = 14;
    /// Left of boxes that hang on several lines: room for what joins these.
    static constexpr int trunk = 14;
    static constexpr std::size_t max_columns = 4;

    /// Boxes that hang on one line.
    struct Row {
        std::size_t begin = 0;
        std::size_t end = 0;
        /// One for the line, or one for each box; none where the next line says the same.
        std::vector<std::string> labels;
    };

    [[nodiscard]] int trunk_of(std::vector<Row> const& rows) const { return rows.size() > 1 ? trunk : 0; }
    [[nodiscard]] int node_width(PictureNode const& node) const {
        std::size_t columns = 1;
        auto const rows = rows_of(node);
        for (auto const& row : rows) columns = std::max(columns, row.end - row.begin);
        return 2 * inset + trunk_of(rows) + static_cast<int>(columns) * (CardDrawer::width + gap) - gap;
    }

    [[nodiscard]] static std::int64_t accelerators_of(PictureNode const& node) {
        std::int64_t count = 0;
        for (auto const& device : node.devices) count += device.is_accelerator ? device.count : 0;
        return count;
    }

    /// Rows of a node: neighbours with the same link, at most four of them; groups that another link joins apart.
    [[nodiscard]] std::vector<Row> rows_of(PictureNode const& node) const {
        std::vector<Row> rows;
        auto const& devices = node.devices;
        auto const groups = link_groups(picture_, node);
        auto const begins_group = [&groups](std::size_t device) {
            return std::find(groups.begins.begin(), groups.begins.end(), device) != groups.begins.end();
        };
        for (std::size_t i = 0; i < devices.size();) {
            Row row{i, i, {}};
            auto const continues = [&] {
                return row.end < devices.size() && row.end - row.begin < max_columns &&
                       (row.end == row.begin || !begins_group(row.end)) &&
                       devices[row.end].is_accelerator == devices[i].is_accelerator &&
                       (!devices[i].is_accelerator || devices[row.end].link == devices[i].link);
            };
            while (continues()) ++row.end;
            if (devices[i].is_accelerator && accelerators_of(node) > 1) {
                bool const is_grouped = !groups.begins.empty();
                row.labels = {is_grouped ? link_text(groups.within) : link_label(node, devices[i].link)};
                bool const ends_group = is_grouped && begins_group(i);
                if (!rows.empty() && rows.back().labels == row.labels && !ends_group) rows.back().labels.clear();
            } else if (!devices[i].is_accelerator) {
                for (auto k = row.begin; k < row.end; ++k) row.labels.push_back(link_text(devices[k].link));
            }
            i = row.end;
            rows.push_back(std::move(row));
        }
        return rows;
    }

    /// What a row's line says: the one link that all pairs of the node have, else what the devices say.
    [[nodiscard]] std::string link_label(PictureNode const& node, Link const& own) const {
        Link const* common = nullptr;
        std::size_t pairs = 0;
        for (auto const& link : picture_.links) {
            if (link.node != node.number) continue;
            if (common != nullptr && *common != link.link) return link_text(own);
            common = &link.link;
            ++pairs;
        }
        auto const count = static_cast<std::size_t>(accelerators_of(node));
        bool const is_common = common != nullptr && pairs == count * (count - 1) / 2;
        return link_text(is_common ? *common : own);
    }

    /// The pairs of a node that differ from its lines, by link: "NVLink 56 GB/s: 0-1, 2-3".
    [[nodiscard]] std::string odd_links(PictureNode const& node, std::vector<Row> const& rows) const {
        if (auto const groups = link_groups(picture_, node); !groups.begins.empty())
            return std::to_string(groups.begins.size() - 1) + " groups, joined by " + link_text(groups.between);
        std::vector<std::pair<std::string, std::string>> kinds;
        for (auto const& link : picture_.links) {
            auto const name = link_text(link.link);
            bool const is_said = std::any_of(rows.begin(), rows.end(), [&](Row const& row) {
                return row.labels.size() == 1 && row.labels.front() == name;
            });
            if (link.node != node.number || is_said) continue;
            auto kind =
                std::find_if(kinds.begin(), kinds.end(), [&](auto const& known) { return known.first == name; });
            if (kind == kinds.end()) kind = kinds.insert(kinds.end(), {name, ""});
            if (kind->second.size() < 1000)
                kind->second += (kind->second.empty() ? ": " : ", ") + link.first + "-" + link.second;
        }
        std::string text;
        for (auto const& [name, pairs] : kinds) text += (text.empty() ? "" : "; ") + name + pairs;
        return text;
    }

    /// What a row takes under its boxes: the line, and its name where it has one.
    [[nodiscard]] static int bus_height(bool has_label) { return has_label ? 32 : 20; }

    [[nodiscard]] int node_height(PictureNode const& node) const {
        auto const rows = rows_of(node);
        auto height = inset + (node.label.empty() ? 0 : 20);
        for (auto const& row : rows) height += cards_.height() + bus_height(!row.labels.empty());
        if (!odd_links(node, rows).empty()) height += 16;
        return height + 2;
    }

    void plan_width() {
        width_ = std::clamp(text_width(picture_.title, {20, true}), 620, 920);
        for (auto const& node : boxes_.nodes) width_ = std::max(width_, node_width(node));
        auto const& nodes = boxes_.nodes;
        for (auto const& [begin, end] : node_rows()) {
            int row_width = 0;
            for (auto i = begin; i < end; ++i) row_width += node_width(nodes[i]) + (i > begin ? gap : 0);
            width_ = std::max(width_, row_width + (nodes.size() > 1 ? trunk : 0));
        }
    }

    /// Which nodes stand beside each other.
    [[nodiscard]] std::vector<std::pair<std::size_t, std::size_t>> node_rows() const {
        constexpr int max_width = 1000;
        std::vector<std::pair<std::size_t, std::size_t>> rows;
        int row_width = 0;
        for (std::size_t i = 0; i < boxes_.nodes.size(); ++i) {
            auto const width = node_width(boxes_.nodes[i]);
            if (rows.empty() || row_width + gap + width > max_width) {
                rows.emplace_back(i, i);
                row_width = -gap;
            }
            row_width += gap + width;
            rows.back().second = i + 1;
        }
        return rows;
    }

    void draw_head() {
        y_ = margin + 18;
        canvas_.text(margin, y_, picture_.title, {20, true}, width_);
        if (!picture_.subtitle.empty())
            canvas_.text(margin, y_ += 22, picture_.subtitle, {12}, width_, "class=\"muted\"");
        auto const look = picture_.is_fitting ? "class=\"good\"" : "class=\"bad\"";
        for (auto const& line : wrapped_text(picture_.verdict, {13, true}, width_, 3)) {
            canvas_.text(margin, y_ += 22, line, {13, true}, width_, look);
        }
        y_ += 18;
    }

    /// The model from its first part to its last, each segment as wide as it has layers.
    void draw_ribbon() {
        if (picture_.segments.empty()) return;
        std::int64_t total = 0;
        for (auto const& segment : picture_.segments) total += std::max<std::int64_t>(segment.size, 1);
        std::int64_t before = 0;
        bool has_holders = false;
        for (std::size_t i = 0; i < picture_.segments.size(); ++i) {
            auto const& segment = picture_.segments[i];
            auto const x = margin + static_cast<int>(before * width_ / total);
            before += std::max<std::int64_t>(segment.size, 1);
            auto const room = std::max(margin + static_cast<int>(before * width_ / total) - x - 2, 1);
            canvas_.open_group(segment.text + " on " + segment.holder);
            canvas_.rectangle(x, y_, room, 24, 3, segment_fill(i, picture_.segments.size()));
            auto const words = text_width(segment.text, {11}) + 8 <= room ? segment.text : segment.brief;
            if (text_width(words, {11}) + 4 <= room) {
                canvas_.text(x + room / 2, y_ + 16, words, {11}, room, segment_ink(i, picture_.segments.size()),
                             Anchor::middle);
            }
            if (text_width(segment.holder, {10}) + 4 <= room) {
                canvas_.text(x + room / 2, y_ + 37, segment.holder, {10}, room, "class=\"muted\"", Anchor::middle);
                has_holders = true;
            }
            canvas_.close_group();
        }
        y_ += has_holders ? 52 : 38;
    }

    void draw_nodes() {
        auto const rows = node_rows();
        bool const is_cluster = boxes_.nodes.size() > 1;
        auto const left = margin + (is_cluster && rows.size() > 1 ? trunk : 0);
        std::vector<int> buses;
        for (auto const& [begin, end] : rows) {
            int height = 0;
            for (auto i = begin; i < end; ++i) height = std::max(height, node_height(boxes_.nodes[i]));
            auto x = left;
            std::vector<int> stubs;
            for (auto i = begin; i < end; ++i) {
                draw_node(boxes_.nodes[i], x, height);
                stubs.push_back(x + node_width(boxes_.nodes[i]) / 2);
                x += node_width(boxes_.nodes[i]) + gap;
            }
            y_ += height;
            bool const is_last = end == boxes_.nodes.size();
            std::vector<std::string> labels;
            if (is_cluster && is_last) labels.push_back(network_label());
            if (is_cluster) buses.push_back(draw_bus(stubs, rows.size() > 1 ? margin + 4 : stubs.front(), labels));
            y_ += is_cluster ? bus_height(is_last) : gap;
        }
        draw_trunk(margin + 4, buses);
        y_ += 6;
    }

    [[nodiscard]] std::string network_label() const {
        for (auto const& device : picture_.devices) {
            if (!device.is_accelerator) continue;
            bool const is_known = device.network.type != LinkType::none;
            return link_text(is_known ? device.network : default_network) + " for each device" +
                   (is_known ? "" : " (assumed)");
        }
        return {};
    }

    /// Lines from boxes that end at `y_` down to a common one, with its name under it or one under each box; gives where
    /// the common one is.
    int draw_bus(std::vector<int> const& stubs, int from, std::vector<std::string> const& labels) {
        auto const bus = y_ + 9;
        for (auto const stub : stubs) canvas_.line(stub, y_, stub, bus);
        canvas_.line(std::min(from, stubs.front()), bus, stubs.back(), bus);
        auto const room = labels.size() > 1 ? CardDrawer::width : width_ / 2 - 2 * inset;
        for (std::size_t i = 0; i < labels.size(); ++i) {
            canvas_.text(stubs[i] + 6, bus + 13, labels[i], {10}, room, "class=\"muted\"");
        }
        return bus;
    }
    void draw_trunk(int x, std::vector<int> const& buses, std::string_view look = "class=\"wire\"") {
        if (buses.size() > 1) canvas_.line(x, buses.front(), x, buses.back(), look);
    }

    /// Draws a node whose box is at (x, y_).
    void draw_node(PictureNode const& node, int x, int height) {
        auto const top = y_;
        auto const width = node_width(node);
        canvas_.rectangle(x, y_, width, height, 6, "class=\"node\"");
        y_ += inset;
        if (!node.label.empty()) {
            canvas_.text(x + inset, y_ + 8, node.label, {12, true}, width - 2 * inset);
            y_ += 20;
        }
        auto const rows = rows_of(node);
        std::vector<int> buses;
        for (auto const& row : rows) {
            std::vector<int> stubs;
            auto card = x + inset + trunk_of(rows);
            for (auto i = row.begin; i < row.end; ++i) {
                cards_.draw(canvas_, node.devices[i], card, y_);
                stubs.push_back(card + CardDrawer::width / 2);
                card += CardDrawer::width + gap;
            }
            y_ += cards_.height();
            buses.push_back(draw_bus(stubs, rows.size() > 1 ? x + inset : stubs.front(), row.labels));
            y_ += bus_height(!row.labels.empty());
        }
        bool const is_grouped = !link_groups(picture_, node).begins.empty();
        draw_trunk(x + inset, buses, is_grouped ? "class=\"wire\" stroke-dasharray=\"1 5\"" : "class=\"wire\"");
        if (auto const text = odd_links(node, rows); !text.empty()) {
            canvas_.text(x + inset, y_ + 6, text, {10}, width - 2 * inset, "class=\"muted\"");
        }
        y_ = top;
    }

    void draw_legend() {
        MemoryTerms sums;
        for (auto const& device : picture_.devices) sums += device.terms;
        auto x = margin;
        auto const add = [&](std::string_view look, std::string const& words) {
            auto const width = 18 + text_width(words, {11});
            if (x > margin && x + width > margin + width_) {
                x = margin;
                y_ += 20;
            }
            canvas_.rectangle(x, y_, 12, 12, 2, look);
            canvas_.text(x + 18, y_ + 10, words, {11}, width);
            x += width + 18;
        };
        bool const has_ranks = std::any_of(picture_.devices.begin(), picture_.devices.end(),
                                           [](PictureDevice const& device) { return device.ranks.has_value(); });
        for (auto const& term : memory_looks) {
            if (sums.*term.term > Bytes{})
                add(term.look, std::string(memory_name(term, has_ranks)) + " " + to_text(sums.*term.term));
        }
        add("class=\"track\"", "free");
        bool const is_over = std::any_of(
            picture_.devices.begin(), picture_.devices.end(),
            [](PictureDevice const& device) { return device.capacity && *device.capacity < device.terms.total(); });
        if (is_over) add("class=\"limit\"", "where the memory ends");
        y_ += 30;
    }

    void draw_notes() {
        auto notes = boxes_.notes;
        constexpr std::ptrdiff_t max_notes = 12;
        auto const given = std::min(std::ssize(picture_.notes), max_notes);
        notes.insert(notes.end(), picture_.notes.begin(), picture_.notes.begin() + given);
        if (picture_.devices.size() > 1) notes.push_back("Rates of links are those of one direction.");
        for (auto const& note : notes) {
            for (auto const& line : wrapped_text(note, {11}, width_, 3)) {
                canvas_.text(margin, y_ + 8, line, {11}, width_, "class=\"muted\"");
                y_ += 17;
            }
        }
    }

    [[nodiscard]] std::string document() const {
        auto const width = std::to_string(width_ + 2 * margin);
        auto const height = std::to_string(y_ + margin - 6);
        return "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + width + "\" height=\"" + height +
               "\" viewBox=\"0 0 " + width + " " + height + "\" role=\"img\" font-family=\"" +
               std::string(picture_fonts) + "\">\n<title>" + xml_text(picture_.title) + "</title>\n<desc>" +
               xml_text(picture_.subtitle + "; " + picture_.verdict) + "</desc>\n<style>\n" +
               std::string(picture_style) + "</style>\n<rect width=\"" + width + "\" height=\"" + height +
               "\" class=\"paper\"/>\n" + canvas_.elements() + "</svg>\n";
    }

    Picture const& picture_;
    PictureBoxes boxes_;
    CardDrawer cards_;
    SvgCanvas canvas_;
    int width_ = 0;
    int y_ = 0;
};

}  // namespace detail

/// Draws a picture as an SVG document: nodes, devices with their memory filled by what it is for, the layers in colour, the
/// links. It has a background of its own, light or dark as the reader prefers, and always light in print.
///
/// Order   devices, at most 64 boxes
[[nodiscard]] inline std::string draw_picture(Picture const& picture) {
    return detail::PictureDrawer(picture).draw();
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
