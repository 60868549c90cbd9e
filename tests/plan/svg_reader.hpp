// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cctype>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace shardwise::tests {

/// An element of an SVG document: its attributes, and the text directly inside it.
struct SvgElement {
    std::string name;
    std::map<std::string, std::string> attributes;
    std::string text;

    [[nodiscard]] int number(std::string const& attribute) const {
        auto const place = attributes.find(attribute);
        return place == attributes.end() ? 0 : std::atoi(place->second.c_str());
    }
    [[nodiscard]] bool has_class(std::string_view name_of_class) const {
        auto const place = attributes.find("class");
        return place != attributes.end() && place->second == name_of_class;
    }
};

/// Reads a document strictly: what is not well-formed in the part of XML that pictures use ends it with `problem`.
class SvgReader {
public:
    explicit SvgReader(std::string_view text) : text_(text) {
        while (problem.empty() && position_ < text_.size()) text_[position_] == '<' ? read_tag() : read_text();
        if (problem.empty() && !open_.empty()) problem = "an element is not closed";
        if (problem.empty() && roots_ != 1) problem = "not one root";
    }

    std::vector<SvgElement> elements;
    std::string problem;

private:
    void fail(std::string const& why) { problem = why + " at " + std::to_string(position_); }

    void read_text() {
        auto const end = std::min(text_.find('<', position_), text_.size());
        auto const raw = text_.substr(position_, end - position_);
        auto const words = unescaped(raw);
        if (open_.empty() && words.find_first_not_of(" \n") != std::string::npos) fail("text outside of the root");
        if (!open_.empty()) elements[open_.back()].text += words;
        position_ = end;
    }

    void read_tag() {
        auto const end = text_.find('>', position_);
        if (end == std::string_view::npos) return fail("a tag is not closed");
        auto tag = text_.substr(position_ + 1, end - position_ - 1);
        if (!tag.empty() && tag[0] == '/') {
            if (open_.empty() || elements[open_.back()].name != tag.substr(1)) return fail("a wrong end tag");
            open_.pop_back();
            position_ = end + 1;
            return;
        }
        bool const is_empty = !tag.empty() && tag.back() == '/';
        if (is_empty) tag.remove_suffix(1);
        SvgElement element;
        while (!tag.empty() && std::isalpha(static_cast<unsigned char>(tag[0]))) {
            element.name += tag[0];
            tag.remove_prefix(1);
        }
        while (!tag.empty() && problem.empty()) read_attribute(tag, element);
        if (open_.empty()) ++roots_;
        if (!is_empty) open_.push_back(elements.size());
        elements.push_back(std::move(element));
        position_ = end + 1;
    }

    void read_attribute(std::string_view& tag, SvgElement& element) {
        while (!tag.empty() && tag[0] == ' ') tag.remove_prefix(1);
        if (tag.empty()) return;
        auto const equals = tag.find("=\"");
        if (equals == std::string_view::npos) return fail("an attribute without a value");
        auto const name = std::string(tag.substr(0, equals));
        auto const end = tag.find('"', equals + 2);
        if (end == std::string_view::npos) return fail("an attribute is not closed");
        if (element.attributes.count(name) > 0) return fail("an attribute twice");
        element.attributes[name] = unescaped(tag.substr(equals + 2, end - equals - 2));
        tag.remove_prefix(end + 1);
    }

    std::string unescaped(std::string_view raw) {
        std::string out;
        for (std::size_t i = 0; i < raw.size(); ++i) {
            auto const letter = static_cast<unsigned char>(raw[i]);
            if (letter < 0x20 && letter != '\n') fail("a control character");
            if (raw[i] != '&') {
                out += raw[i];
                continue;
            }
            bool is_known = false;
            for (auto const& [name, meaning] : std::map<std::string_view, char>{
                     {"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&#39;", '\''}}) {
                if (raw.substr(i, name.size()) != name) continue;
                out += meaning;
                i += name.size() - 1;
                is_known = true;
                break;
            }
            if (!is_known) fail("an unknown entity");
        }
        return out;
    }

    std::string_view text_;
    std::size_t position_ = 0;
    std::vector<std::size_t> open_;
    int roots_ = 0;
};

}  // namespace shardwise::tests
