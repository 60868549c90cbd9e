// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/tokenizer/jinja/lexer.hpp>
#include <shardwise/tokenizer/jinja/node.hpp>

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail::jinja {

/// What the readers of expressions and of statements share: the tokens, and the first fault.
class JinjaParserBase {
public:
    [[nodiscard]] JinjaSyntaxFault const& fault() const { return fault_; }

protected:
    static constexpr unsigned max_height = 200;
    static constexpr std::size_t max_nodes = 200'000;
    static constexpr std::size_t max_named = 100;  // parameters of a macro, and named arguments of a call

    explicit JinjaParserBase(std::vector<JinjaToken> tokens) : tokens_(std::move(tokens)) {}

    [[nodiscard]] bool is_failed() const { return !fault_.reason.empty(); }
    JinjaNodePtr fail(std::string reason) {
        if (!is_failed()) fault_ = {std::move(reason), current().line, false};
        return nullptr;
    }
    JinjaNodePtr unsupported(std::string reason) {
        if (!is_failed()) fault_ = {std::move(reason), current().line, true};
        return nullptr;
    }

    [[nodiscard]] JinjaToken const& current() const { return tokens_[std::min(at_, tokens_.size() - 1)]; }
    [[nodiscard]] JinjaToken const& next() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
    [[nodiscard]] bool at_kind(JinjaTokenKind kind) const { return current().kind == kind; }
    [[nodiscard]] bool at_sign(std::string_view sign) const {
        return at_kind(JinjaTokenKind::sign) && current().text == sign;
    }
    [[nodiscard]] bool at_name(std::string_view name) const {
        return at_kind(JinjaTokenKind::name) && current().text == name;
    }
    JinjaToken take() {
        auto token = current();
        if (at_ + 1 < tokens_.size()) ++at_;
        return token;
    }
    bool skip_sign(std::string_view sign) { return at_sign(sign) && (take(), true); }
    bool skip_name(std::string_view name) { return at_name(name) && (take(), true); }
    void expect_sign(std::string_view sign) {
        if (!skip_sign(sign)) fail("expected " + std::string(sign) + found());
    }
    void expect_name(std::string_view name) {
        if (!skip_name(name)) fail("expected " + std::string(name) + found());
    }
    [[nodiscard]] std::string expect_any_name() {
        if (at_kind(JinjaTokenKind::name)) return take().text;
        fail("expected a name" + found());
        return {};
    }
    /// What stands where something else was expected.
    [[nodiscard]] std::string found() const {
        switch (current().kind) {
            case JinjaTokenKind::statement_end:
            case JinjaTokenKind::print_end:
                return ", the tag ends";
            case JinjaTokenKind::end:
                return ", the template ends";
            case JinjaTokenKind::data:
            case JinjaTokenKind::statement_begin:
            case JinjaTokenKind::print_begin:
            case JinjaTokenKind::name:
            case JinjaTokenKind::text:
            case JinjaTokenKind::integer:
            case JinjaTokenKind::real:
            case JinjaTokenKind::sign:
                break;
        }
        return ", found " + current().text;
    }

    [[nodiscard]] JinjaNodePtr make(JinjaNodeKind kind, int line) {
        if (++node_count_ > max_nodes) fail("has more than " + std::to_string(max_nodes) + " parts");
        auto node = std::make_unique<JinjaNode>();
        node->kind = kind;
        node->line = line;
        return node;
    }
    void add(JinjaNodePtr const& node, JinjaNodePtr child) {
        if (child) node->height = std::max(node->height, child->height + 1);
        if (node->height > max_height) fail("nests too deep");
        node->children.push_back(std::move(child));
    }
    [[nodiscard]] JinjaNodePtr pair(JinjaNodeKind kind, int line, JinjaNodePtr left, JinjaNodePtr right) {
        auto node = make(kind, line);
        add(node, std::move(left));
        add(node, std::move(right));
        return node;
    }

    /// One level of the parser's own recursion.
    class Level {
    public:
        explicit Level(JinjaParserBase& parser) : parser_(parser) {
            if (++parser_.depth_ > max_height) parser_.fail("nests too deep");
        }
        ~Level() { --parser_.depth_; }
        Level(Level const&) = delete;
        Level& operator=(Level const&) = delete;

    private:
        JinjaParserBase& parser_;
    };

private:
    std::vector<JinjaToken> tokens_;
    std::size_t at_ = 0;
    std::size_t node_count_ = 0;
    unsigned depth_ = 0;
    JinjaSyntaxFault fault_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail::jinja
