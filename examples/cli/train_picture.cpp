// SPDX-License-Identifier: Apache-2.0
#include "train_picture.hpp"

#include <shardwise/core/files/write_file.hpp>

#include "text.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace shardwise::cli {

namespace {

constexpr double width = 720.0;
constexpr double height = 360.0;
constexpr double left = 56.0;
constexpr double right = 16.0;
constexpr double top = 40.0;
constexpr double bottom = 40.0;
/// More points than pixels show nothing more.
constexpr std::size_t max_points = 1400;

struct Point {
    double step = 0.0;
    double loss = 0.0;
};

/// Points of the curve, thinned out.
template <class Value>
[[nodiscard]] std::vector<Point> points_of(std::vector<TrainRow> const& rows, Value const& value) {
    std::vector<Point> all;
    for (auto const& row : rows) {
        std::optional<double> const loss = value(row);
        if (loss && std::isfinite(*loss)) all.push_back({static_cast<double>(row.step), *loss});
    }
    if (all.size() <= max_points) return all;
    std::vector<Point> out;
    for (std::size_t i = 0; i < max_points; ++i) out.push_back(all[i * (all.size() - 1) / (max_points - 1)]);
    return out;
}

/// Where steps and losses lie on the page.
struct Scale {
    double last = 1.0;
    double low = 0.0;
    double high = 1.0;

    [[nodiscard]] double x(double step) const { return left + (width - left - right) * step / last; }
    [[nodiscard]] double y(double loss) const { return top + (height - top - bottom) * (high - loss) / (high - low); }
};

[[nodiscard]] std::string number(double value) {
    return decimals(value, 1);
}

[[nodiscard]] std::string line_of(std::vector<Point> const& points, Scale const& scale, std::string_view kind) {
    if (points.empty()) return {};
    std::string out = "<polyline class=\"" + std::string(kind) + "\" points=\"";
    for (auto const& point : points) out += number(scale.x(point.step)) + "," + number(scale.y(point.loss)) + " ";
    out.back() = '"';
    return out + "/>\n";
}

[[nodiscard]] std::string text_at(double x, double y, std::string_view anchor, std::string_view text) {
    return "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" text-anchor=\"" + std::string(anchor) + "\">" +
           std::string(text) + "</text>\n";
}

[[nodiscard]] std::string escaped_text(std::string_view text) {
    std::string out;
    for (auto const letter : text) {
        if (letter == '<')
            out += "&lt;";
        else if (letter == '>')
            out += "&gt;";
        else if (letter == '&')
            out += "&amp;";
        else if (static_cast<unsigned char>(letter) >= 0x20)
            out += letter;
    }
    return out;
}

constexpr std::string_view style =
    "<style>text{font:12px sans-serif;fill:#333}.title{font-size:14px;font-weight:bold}polyline{fill:none;"
    "stroke-width:1.5}.loss{stroke:#2a6fb0}.valid{stroke:#c05a1c;stroke-width:2}line{stroke:#8886;stroke-width:1}"
    ".page{fill:#fff}@media(prefers-color-scheme:dark){text{fill:#ddd}.loss{stroke:#6db3f2}.valid{stroke:#f0a060}"
    ".page{fill:#15181c}}</style>\n";

}  // namespace

std::string train_picture(TrainAnswer const& answer) {
    auto const losses = points_of(answer.rows, [](auto const& row) { return std::optional(row.loss); });
    auto const validations = points_of(answer.rows, [](auto const& row) { return row.valid_loss; });
    Scale scale;
    scale.last = static_cast<double>(std::max<std::int64_t>(answer.steps, 1));
    if (!losses.empty()) {
        scale.low = scale.high = losses.front().loss;
        for (auto const* const points : {&losses, &validations}) {
            for (auto const& point : *points) {
                scale.low = std::min(scale.low, point.loss);
                scale.high = std::max(scale.high, point.loss);
            }
        }
        scale.low = std::floor(scale.low * 2.0) / 2.0;
        scale.high = std::max(std::ceil(scale.high * 2.0) / 2.0, scale.low + 0.5);
    }
    auto const size =
        std::to_string(static_cast<int>(width)) + "\" height=\"" + std::to_string(static_cast<int>(height));
    std::string out = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + size + "\" role=\"img\">\n";
    out += style;
    out += "<rect class=\"page\" width=\"" + size + "\"/>\n";
    out += "<g class=\"title\">" + text_at(left, 22.0, "start", "loss of " + escaped_text(answer.model)) + "</g>";
    constexpr int grid = 4;
    for (int i = 0; i <= grid; ++i) {
        auto const part = static_cast<double>(i) / grid;
        auto const loss = scale.low + (scale.high - scale.low) * part;
        auto const y = scale.y(loss);
        out += "<line x1=\"" + number(left) + "\" x2=\"" + number(width - right) + "\" y1=\"" + number(y) + "\" y2=\"" +
               number(y) + "\"/>\n" + text_at(left - 8.0, y + 4.0, "end", decimals(loss, 2));
        auto const step = scale.last * part;
        out += text_at(scale.x(step), height - bottom + 18.0, i == grid ? "end" : "middle",
                       grouped(static_cast<std::int64_t>(step + 0.5)));
    }
    out += text_at(width / 2.0, height - 6.0, "middle", "steps");
    out += line_of(losses, scale, "loss") + line_of(validations, scale, "valid");
    if (!validations.empty()) {
        out += "<polyline class=\"loss\" points=\"520,18 540,18\"/>" + text_at(546.0, 22.0, "start", "training");
        out += "<polyline class=\"valid\" points=\"610,18 630,18\"/>" + text_at(636.0, 22.0, "start", "validation");
    }
    return out + "</svg>\n";
}

Result<> write_train_picture(std::string const& path, TrainAnswer const& answer) {
    return write_file(path, train_picture(answer));
}

}  // namespace shardwise::cli
