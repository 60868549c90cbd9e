// SPDX-License-Identifier: Apache-2.0
#include <shardwise/hardware/spec.hpp>
#include <shardwise/model/presets.hpp>
#include <shardwise/placement/optimal.hpp>
#include <shardwise/plan/draw_picture.hpp>
#include <shardwise/plan/picture_of_map.hpp>
#include <shardwise/plan/picture_of_plan.hpp>

#include <doctest/doctest.h>

#include "svg_reader.hpp"

#include <algorithm>
#include <set>

using namespace shardwise;
using tests::SvgElement;
using tests::SvgReader;

namespace {

struct Box {
    int left = 0;
    int top = 0;
    int right = 0;
    int bottom = 0;

    [[nodiscard]] bool overlaps(Box const& other) const {
        return left < other.right && other.left < right && top < other.bottom && other.top < bottom;
    }
    [[nodiscard]] bool holds(Box const& other) const {
        return left <= other.left && other.right <= right && top <= other.top && other.bottom <= bottom;
    }
};

/// Where a text stands, in the widest of the fonts; letters reach from 0.8 above to 0.25 below their line.
[[nodiscard]] Box box_of(SvgElement const& text) {
    auto const size = text.number("font-size");
    auto const width = detail::text_width(text.text, {size, text.attributes.count("font-weight") > 0});
    auto const place = text.attributes.find("text-anchor");
    auto const anchor = place == text.attributes.end() ? std::string("start") : place->second;
    auto const left = text.number("x") - (anchor == "end" ? width : anchor == "middle" ? width / 2 : 0);
    return {left, text.number("y") - size * 4 / 5, left + width, text.number("y") + size / 4};
}

[[nodiscard]] Box box_of_rectangle(SvgElement const& rectangle) {
    return {rectangle.number("x"), rectangle.number("y"), rectangle.number("x") + rectangle.number("width"),
            rectangle.number("y") + rectangle.number("height")};
}

[[nodiscard]] std::vector<SvgElement> all_of(SvgReader const& svg, std::string const& name) {
    std::vector<SvgElement> found;
    std::copy_if(svg.elements.begin(), svg.elements.end(), std::back_inserter(found),
                 [&](SvgElement const& element) { return element.name == name; });
    return found;
}

[[nodiscard]] int count_text(SvgReader const& svg, std::string_view text) {
    auto const texts = all_of(svg, "text");
    return static_cast<int>(
        std::count_if(texts.begin(), texts.end(), [&](SvgElement const& element) { return element.text == text; }));
}

[[nodiscard]] bool says(SvgReader const& svg, std::string_view text) {
    auto const texts = all_of(svg, "text");
    return std::any_of(texts.begin(), texts.end(),
                       [&](SvgElement const& element) { return element.text.find(text) != std::string::npos; });
}

/// Well-formed, no text over another, nothing outside of the page, no text that leaves the smallest box around its start.
void check_layout(std::string const& svg_text) {
    SvgReader const svg(svg_text);
    CAPTURE(svg.problem);
    REQUIRE(svg.problem.empty());
    auto const& root = svg.elements.front();
    REQUIRE(root.name == "svg");
    Box const page{0, 0, root.number("width"), root.number("height")};
    std::vector<Box> rectangles;
    for (auto const& rectangle : all_of(svg, "rect")) {
        auto const box = box_of_rectangle(rectangle);
        CHECK(page.holds(box));
        bool const is_frame =
            rectangle.has_class("node") || rectangle.has_class("card") || rectangle.has_class("short");
        if (is_frame) rectangles.push_back(box);
    }
    auto const texts = all_of(svg, "text");
    std::vector<Box> boxes;
    for (auto const& text : texts) {
        CAPTURE(text.text);
        auto const box = box_of(text);
        CHECK(page.holds(box));
        for (auto const& rectangle : rectangles) CHECK((!box.overlaps(rectangle) || rectangle.holds(box)));
        boxes.push_back(box);
    }
    for (std::size_t i = 0; i < boxes.size(); ++i) {
        for (std::size_t k = i + 1; k < boxes.size(); ++k) {
            if (!boxes[i].overlaps(boxes[k])) continue;
            FAIL_CHECK("'" << texts[i].text << "' lies over '" << texts[k].text << "'");
        }
    }
}

[[nodiscard]] Picture picture_of_preset(ModelConfig const& config, std::string_view spec, std::int64_t context = 8192) {
    auto const model = describe(config);
    auto const devices = parse_device_spec(spec);
    REQUIRE(devices);
    EstimateRequest request{};
    request.context = context;
    auto const plan = DeviceMap<Optimal>{}.plan(*model, *devices, request);
    REQUIRE(plan);
    auto picture = picture_of(*plan, topology_of(*devices));
    picture.title = "a model on " + std::string(spec);
    return picture;
}

/// A plan of tp x pp x dp on nodes of eight, every stage with other bytes.
[[nodiscard]] Picture picture_of_degrees(std::int64_t tp, std::int64_t pp, std::int64_t dp, std::string_view spec) {
    auto const devices = parse_device_spec(spec);
    REQUIRE(devices);
    ParallelPlan plan;
    plan.degrees.tp = tp;
    plan.degrees.pp = pp;
    plan.degrees.dp = dp;
    std::int32_t device = 0;
    for (std::int64_t stage = 0; stage < pp; ++stage) {
        PlanStage held;
        held.first_layer = stage * 8;
        held.layer_count = 8;
        held.has_embedding = stage == 0;
        held.has_head = stage + 1 == pp;
        plan.stages.push_back(held);
        for (std::int64_t rank = 0; rank < tp * dp; ++rank) {
            PlanRank place;
            place.place = {rank % tp, stage, 0, rank / tp};
            place.device = device++;
            place.terms.weights = 20_GiB + stage * 1_GiB;
            place.terms.optimizer = 30_GiB;
            plan.ranks.push_back(place);
        }
    }
    plan.reasons.push_back("tensor parallel stops at 8: the node's NVLink domain");
    return picture_of(plan, topology_of(*devices));
}

}  // namespace

TEST_CASE("picture: every device and every layer of a map appears") {
    auto const picture = picture_of_preset(presets::llama_3_70b, "4xA100-40GB");
    CHECK(picture.is_fitting);
    auto const svg_text = draw_picture(picture);
    check_layout(svg_text);
    SvgReader const svg(svg_text);
    CHECK(count_text(svg, "A100-40GB") == 4);
    for (auto const* label : {"0", "1", "2", "3"}) CHECK(count_text(svg, label) == 1);
    // In the ribbon and in the device's box.
    for (auto const* text :
         {"embed_tokens, layers 0-18", "layers 19-39", "layers 40-60", "layers 61-79, norm, lm_head"})
        CHECK(count_text(svg, text) == 2);
    CHECK(count_text(svg, "34.46 of 36.80 GiB") == 2);
    CHECK(count_text(svg, "93.6 %") == 2);
    CHECK(says(svg, "NVLink 300 GB/s"));
    for (auto const* term :
         {"weights 131.42 GiB", "kv cache 2.50 GiB", "activations 4.50 GiB", "runtime 2.00 GiB", "free"})
        CHECK(count_text(svg, term) == 1);
}

TEST_CASE("picture: memory is filled in proportion, and a mark stands where more is used than there is") {
    Picture picture;
    PictureDevice device;
    device.label = "0";
    device.capacity = 100_GiB;
    device.terms.weights = 50_GiB;
    device.terms.kv_cache = 25_GiB;
    picture.devices.push_back(device);
    auto const widths = [&](std::string const& fill) {
        std::vector<int> found;
        for (auto const& rectangle : all_of(SvgReader(draw_picture(picture)), "rect")) {
            auto const place = rectangle.attributes.find("fill");
            bool const is_bar = rectangle.number("height") == 16;
            if (is_bar && place != rectangle.attributes.end() && place->second == fill)
                found.push_back(rectangle.number("width"));
        }
        return found;
    };
    CHECK(widths("#3f6fb5") == std::vector<int>{96});
    CHECK(widths("#56b4d3") == std::vector<int>{48});
    CHECK_FALSE(says(SvgReader(draw_picture(picture)), "where the memory ends"));
    picture.devices[0].terms.weights = 175_GiB;
    CHECK(widths("#3f6fb5") == std::vector<int>{168});
    CHECK(says(SvgReader(draw_picture(picture)), "where the memory ends"));
    check_layout(draw_picture(picture));
}

TEST_CASE("picture: what does not fit says so and marks the device that lacks least") {
    auto const picture = picture_of_preset(presets::llama_3_70b, "3xA100-40GB");
    auto const svg_text = draw_picture(picture);
    check_layout(svg_text);
    SvgReader const svg(svg_text);
    CHECK(says(svg, "does not fit"));
    CHECK(says(svg, "more would suffice"));
    auto const rectangles = all_of(svg, "rect");
    CHECK(std::count_if(rectangles.begin(), rectangles.end(), [](auto const& box) { return box.has_class("short"); }) ==
          1);
}

TEST_CASE("picture: hosts, mixed links and pairs of their own are named") {
    auto picture = picture_of_preset(presets::llama_3_70b, "2xA100-80GB+2xRTX4090+cpu:64GiB+disk");
    picture.links.push_back({"2", "3", 0, {LinkType::nvlink, 56.2e9, 5e-6}});
    auto const svg_text = draw_picture(picture);
    check_layout(svg_text);
    SvgReader const svg(svg_text);
    for (auto const* text : {"cpu", "disk", "NVLink 300 GB/s", "NVLink 56.2 GB/s: 2-3"})
        CHECK(count_text(svg, text) == 1);
    CHECK(says(svg, "no limit"));
}

TEST_CASE("picture: groups of devices that a slower link joins have lines of their own") {
    auto picture = picture_of_preset(presets::llama_3_70b, "4xA100-80GB");
    auto const joints = [](Picture const& shown) {
        auto const svg_text = draw_picture(shown);
        check_layout(svg_text);
        auto const lines = all_of(SvgReader(svg_text), "line");
        return std::count_if(lines.begin(), lines.end(),
                             [](auto const& line) { return line.attributes.count("stroke-dasharray") == 1; });
    };
    CHECK(joints(picture) == 0);
    for (auto const* first : {"0", "1"}) {
        for (auto const* second : {"2", "3"}) picture.links.push_back({first, second, 0, {LinkType::pcie, 32e9, 5e-6}});
    }
    CHECK(joints(picture) == 1);
    auto const svg_text = draw_picture(picture);
    SvgReader const svg(svg_text);
    CHECK(count_text(svg, "NVLink 300 GB/s") == 2);
    CHECK(count_text(svg, "2 groups, joined by PCIe 32 GB/s") == 1);
    picture.links.back().link.bandwidth = 16e9;
    CHECK(joints(picture) == 0);
}

TEST_CASE("picture: a plan shows stages, ranks, nodes, the network and the reasons") {
    auto const svg_text = draw_picture(picture_of_degrees(8, 2, 1, "2x(8xH100-80GB)"));
    check_layout(svg_text);
    SvgReader const svg(svg_text);
    CHECK(count_text(svg, "H100-80GB") == 16);
    CHECK(count_text(svg, "embedding, layers 0-7") == 9);
    CHECK(count_text(svg, "layers 8-15, head") == 9);
    for (auto const* text : {"node 0", "node 1", "stage 0, tp 7", "stage 1, tp 0"}) CHECK(count_text(svg, text) == 1);
    CHECK(says(svg, "fits: tp 8, pp 2, dp 1"));
    CHECK(says(svg, "for each device"));
    CHECK(says(svg, "tensor parallel stops at 8: the node's NVLink domain"));
    // Beside the runtime it holds buffers for exchanges.
    auto picture = picture_of_degrees(8, 2, 1, "2x(8xH100-80GB)");
    for (auto& device : picture.devices) device.terms.overhead = 128_MiB;
    auto const named = draw_picture(picture);
    CHECK(says(SvgReader(named), "overhead 2.00 GiB"));
    CHECK(named.find("runtime") == std::string::npos);
}

TEST_CASE("picture: up to 32 devices each has its box; beyond, equal ones are drawn once and the picture says so") {
    auto const few = draw_picture(picture_of_degrees(8, 2, 2, "4x(8xH100-80GB)"));
    CHECK(count_text(SvgReader(few), "H100-80GB") == 32);
    check_layout(few);
    auto const many = draw_picture(picture_of_degrees(8, 16, 8, "128x(8xH100-80GB)"));
    check_layout(many);
    SvgReader const svg(many);
    CHECK(count_text(svg, "64x H100-80GB") == 16);
    CHECK(count_text(svg, "stage 15, tp 0-7, dp 0-7") == 1);
    CHECK(count_text(svg, "8 nodes: 120-127") == 1);
    CHECK(says(svg, "1024 devices in 16 boxes: those that hold the same are drawn once."));
    for (std::int64_t stage = 0; stage < 16; ++stage) {
        auto const layers = "layers " + std::to_string(stage * 8) + "-" + std::to_string(stage * 8 + 7);
        CAPTURE(layers);
        CHECK(says(svg, layers));
    }
}

TEST_CASE("picture: 1,024 devices that all hold something else fit on a page and are counted") {
    Picture picture;
    picture.title = "many";
    for (int i = 0; i < 1024; ++i) {
        PictureDevice device;
        device.label = std::to_string(i);
        device.name = "L4";
        device.capacity = 24_GiB;
        device.terms.weights = 1_GiB;
        device.segments = {picture.segments.size()};
        picture.segments.push_back({"layer " + std::to_string(i), std::to_string(i), "device " + std::to_string(i), 1});
        picture.devices.push_back(device);
    }
    auto const svg_text = draw_picture(picture);
    check_layout(svg_text);
    SvgReader const svg(svg_text);
    auto const rectangles = all_of(svg, "rect");
    CHECK(std::count_if(rectangles.begin(), rectangles.end(), [](auto const& box) { return box.has_class("card"); }) ==
          64);
    CHECK(count_text(svg, "961 more devices") == 1);
    CHECK(says(svg, "961 more devices are not drawn"));
}

TEST_CASE("picture: no text lies over another, whatever is long") {
    for (auto const* spec : {"1xL4", "2xA100-80GB", "3xRTX4090+cpu:999GiB", "5xH100-80GB", "3x(2xH200-141GB)",
                             "7x(1xA100-40GB)", "33xL40S", "2x(3xA100-40GB)+cpu:512GiB+disk"}) {
        CAPTURE(spec);
        check_layout(draw_picture(picture_of_preset(presets::llama_3_8b, spec)));
    }
    auto picture = picture_of_preset(presets::llama_3_8b, "3xL4");
    std::string const wide(300, 'W');
    std::string chinese;
    for (int i = 0; i < 100; ++i) chinese += "\xE6\xA8\xA1";
    for (auto const& text : {wide, chinese, wide + " " + wide, std::string(100'000, 'W')}) {
        picture.title = picture.subtitle = picture.verdict = text;
        picture.notes = {text, text};
        for (auto& segment : picture.segments) segment.text = segment.brief = segment.holder = text;
        for (auto& device : picture.devices) device.label = device.name = text;
        for (auto& device : picture.devices) device.terms.weights = Bytes{INT64_MAX / 8};
        picture.links = {{text, text, 0, {LinkType::nvlink, 1e30, 0.0}}, {"0", "1", 0, {LinkType::pcie, -1.0, 0.0}}};
        check_layout(draw_picture(picture));
    }
}

TEST_CASE("picture: names from outside are escaped") {
    auto picture = picture_of_preset(presets::llama_3_8b, "1xL4");
    picture.title = "<script>alert('x')</script>&amp;\"]]>";
    picture.subtitle =
        std::string("a\0b\x1b[31m", 8) + "\xFF\xC0\x80\xED\xA0\x80\xF4\x90\x80\x80\xEF\xBF\xBE\xE2\x80\xAE";
    picture.verdict = "-->";
    picture.segments[0].text = "</title><svg onload=\"x\">";
    picture.devices[0].name = "'/><image href='http://x'/>";
    auto const svg_text = draw_picture(picture);
    check_layout(svg_text);
    SvgReader const svg(svg_text);
    CHECK(says(svg, "<script>alert('x')</script>&amp;\"]]>"));
    CHECK(all_of(svg, "script").empty());
    CHECK(all_of(svg, "image").empty());
    CHECK(all_of(svg, "svg").size() == 1);
    CHECK(svg_text.find('\0') == std::string::npos);
    CHECK(svg_text.find('\x1b') == std::string::npos);
    CHECK(svg_text.find("\xE2\x80\xAE") == std::string::npos);
    CHECK(says(svg, "a\xEF\xBF\xBD"));
}

TEST_CASE("picture: every colour of its own is set for light and for dark pages") {
    SvgReader const svg(draw_picture(picture_of_preset(presets::llama_3_70b, "3xA100-40GB")));
    auto const style = all_of(svg, "style").front().text;
    auto const dark = style.find("@media screen and (prefers-color-scheme: dark)");
    REQUIRE(dark != std::string::npos);
    std::set<std::string> classes;
    for (auto place = style.find('.'); place < dark; place = style.find("\n.", place)) {
        place = style.find_first_not_of("\n.", place);
        if (place < dark) classes.insert(style.substr(place, style.find(' ', place) - place));
    }
    for (auto const& element : svg.elements) {
        auto const place = element.attributes.find("class");
        if (place != element.attributes.end()) CHECK(classes.count(place->second) == 1);
    }
    CHECK(classes.count("paper") == 1);
    for (auto const& name : classes) {
        CAPTURE(name);
        CHECK(style.find("." + name + " {") < dark);
        CHECK(style.find("." + name + " {", dark) != std::string::npos);
    }
    // Text on a page of its own background: each has a colour that the page sets, or stands on a coloured segment.
    for (auto const& text : all_of(svg, "text"))
        CHECK((text.attributes.count("class") == 1 || text.attributes.count("fill") == 1));
}

TEST_CASE("picture: the scattered parts of a custom map are counted where they are too many to list") {
    List<MapEntry> entries;
    for (int i = 0; i < 12; ++i) entries.push_back({"model.layers." + std::to_string(i), DeviceId::gpu(i % 2)});
    List<DeviceUse> uses(2);
    uses[0].capacity = uses[1].capacity = 24_GiB;
    uses[0].used = uses[0].weights = uses[1].used = uses[1].weights = 6_GiB;
    uses[1].id = DeviceId::gpu(1);
    auto const picture = picture_of_map({uses.data(), 2}, {entries.data(), entries.size()}, Topology{});
    CHECK(picture.segments.size() == 12);
    auto const svg_text = draw_picture(picture);
    check_layout(svg_text);
    CHECK(count_text(SvgReader(svg_text), "and 4 more parts") == 2);
    CHECK(count_text(SvgReader(svg_text), "layer 0") == 2);
}
