// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/tokenizer/jinja/parse_expression.hpp>

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail::jinja {

/// Reads a template's statements: for, if, set, macro, call, filter, with, print, and what transformers adds: break, continue
/// (Jinja's loopcontrols) and generation.
class JinjaParser : public JinjaExpressionParser {
public:
    explicit JinjaParser(std::vector<JinjaToken> tokens) : JinjaExpressionParser(std::move(tokens)) {}

    /// The whole template; nothing where `fault` says why.
    [[nodiscard]] JinjaNodePtr run() {
        auto all = body({});
        return is_failed() ? nullptr : std::move(all);
    }

private:
    using Words = std::initializer_list<std::string_view>;

    /// Statements up to a tag with one of these words, which stands next then; to the template's end without words.
    JinjaNodePtr body(Words ends) {
        Level const level(*this);
        auto block = make(JinjaNodeKind::block, current().line);
        while (!is_failed()) {
            if (at_kind(JinjaTokenKind::end)) {
                if (ends.size() > 0) fail("ends before " + std::string(*(ends.end() - 1)));
                break;
            }
            auto const token = take();
            if (token.kind == JinjaTokenKind::data) {
                auto node = make(JinjaNodeKind::data, token.line);
                node->text = token.text;
                add(block, std::move(node));
            } else if (token.kind == JinjaTokenKind::print_begin) {
                auto node = make(JinjaNodeKind::print, token.line);
                add(node, values(true));
                add(block, std::move(node));
                if (!is_failed() && take().kind != JinjaTokenKind::print_end) fail("expected }}" + before());
            } else {
                for (auto const word : ends)
                    if (at_name(word)) return block;
                add(block, statement());
                end_tag();
            }
        }
        return block;
    }
    [[nodiscard]] static std::string before() { return " after an expression"; }
    void end_tag() {
        if (!is_failed() && !at_kind(JinjaTokenKind::statement_end)) fail("expected %}" + found());
        if (!is_failed()) take();
    }
    /// The inside of a tag that ends here, up to one of the words; the last word is taken.
    JinjaNodePtr inner(Words ends) {
        skip_sign(":");
        end_tag();
        auto block = body(ends);
        if (!is_failed()) last_end_ = take().text;
        return block;
    }
    /// The inside of a tag in which no outer loop can be left.
    JinjaNodePtr closed(Words ends) {
        auto const loops = std::exchange(loops_, 0);
        auto block = inner(ends);
        loops_ = loops;
        return block;
    }

    JinjaNodePtr statement() {
        auto const line = current().line;
        auto const word = expect_any_name();
        if (is_failed()) return nullptr;
        if (word == "for") return loop(line);
        if (word == "if") return branch(line);
        if (word == "set") return assign(line);
        if (word == "macro") return macro(line);
        if (word == "call") return call_block(line);
        if (word == "filter") {
            auto node = make(JinjaNodeKind::filter_block, line);
            add(node, filters(filter(nullptr)));
            add(node, inner({"endfilter"}));
            return node;
        }
        if (word == "with") return with(line);
        if (word == "print") {
            auto node = make(JinjaNodeKind::print, line);
            while (!is_failed() && !at_kind(JinjaTokenKind::statement_end)) {
                if (!node->children.empty()) expect_sign(",");
                add(node, expression());
            }
            return node;
        }
        if (word == "generation") {
            auto node = make(JinjaNodeKind::generation, line);
            add(node, closed({"endgeneration"}));
            return node;
        }
        if (word == "break" || word == "continue") {
            if (loops_ == 0) return fail("has a " + word + " outside of a loop");
            return make(word == "break" ? JinjaNodeKind::leave : JinjaNodeKind::next, line);
        }
        for (std::string_view const known : {"block", "extends", "include", "import", "from", "autoescape"})
            if (word == known) return unsupported("has the tag " + word);
        return fail("has the unknown tag " + word);
    }

    JinjaNodePtr loop(int line) {
        auto node = make(JinjaNodeKind::loop, line);
        add(node, target(TupleEnd::in, false));
        expect_name("in");
        add(node, values(false));
        add(node, skip_name("if") ? expression() : nullptr);
        skip_name("recursive");  // matters only to a loop that is called
        ++loops_;
        add(node, inner({"else", "endfor"}));
        --loops_;
        add(node, !is_failed() && last_end_ == "else" ? inner({"endfor"}) : nullptr);
        return node;
    }

    JinjaNodePtr branch(int line) {
        auto node = make(JinjaNodeKind::branch, line);
        do {
            add(node, values(false));
            add(node, inner({"elif", "else", "endif"}));
        } while (!is_failed() && last_end_ == "elif");
        if (!is_failed() && last_end_ == "else") add(node, inner({"endif"}));
        return node;
    }

    JinjaNodePtr assign(int line) {
        auto to = target(TupleEnd::tag, true);
        if (is_failed()) return nullptr;
        if (skip_sign("=")) return pair(JinjaNodeKind::assign, line, std::move(to), values(true));
        auto node = make(JinjaNodeKind::assign_block, line);
        add(node, std::move(to));
        add(node, at_sign("|") ? filters(nullptr) : nullptr);
        add(node, inner({"endset"}));
        return node;
    }

    /// The names of a macro and their defaults, which follow the body among the children.
    void parameters(JinjaNodePtr const& node, std::vector<JinjaNodePtr>& defaults) {
        expect_sign("(");
        while (!is_failed() && !at_sign(")")) {
            if (!node->names.empty()) expect_sign(",");
            node->names.push_back(expect_any_name());
            if (node->names.size() > max_named) unsupported("has a macro of very many parameters");
            if (skip_sign("=")) {
                defaults.push_back(expression());
            } else if (!defaults.empty()) {
                fail("has a parameter without a default after one with it");
            }
        }
        expect_sign(")");
    }
    void add_body(JinjaNodePtr const& node, JinjaNodePtr block) {
        if (is_failed()) return;
        node->reads_varargs = reads_name(*block, "varargs");
        node->reads_kwargs = reads_name(*block, "kwargs");
        node->reads_caller = reads_name(*block, "caller");
        add(node, std::move(block));
    }
    JinjaNodePtr macro(int line) {
        auto node = make(JinjaNodeKind::macro, line);
        node->text = expect_any_name();
        std::vector<JinjaNodePtr> defaults;
        parameters(node, defaults);
        add_body(node, closed({"endmacro"}));
        for (auto& value : defaults) add(node, std::move(value));
        return node;
    }
    JinjaNodePtr call_block(int line) {
        auto node = make(JinjaNodeKind::call_block, line);
        std::vector<JinjaNodePtr> defaults;
        if (at_sign("(")) parameters(node, defaults);
        add(node, expression());
        if (!is_failed() && node->children[0]->kind != JinjaNodeKind::call) return fail("expected a call" + found());
        add_body(node, closed({"endcall"}));
        for (auto& value : defaults) add(node, std::move(value));
        return node;
    }
    JinjaNodePtr with(int line) {
        std::vector<JinjaNodePtr> pairs;
        while (!is_failed() && !at_kind(JinjaTokenKind::statement_end)) {
            if (!pairs.empty()) expect_sign(",");
            pairs.push_back(target(TupleEnd::tag, false));
            expect_sign("=");
            pairs.push_back(expression());
        }
        auto node = make(JinjaNodeKind::with, line);
        add(node, inner({"endwith"}));
        for (auto& part : pairs) add(node, std::move(part));
        return node;
    }

    /// What can be assigned to: a name, names with commas between them, an attribute of a namespace.
    JinjaNodePtr target(TupleEnd end, bool takes_attributes) {
        auto const line = current().line;
        std::vector<JinjaNodePtr> all;
        bool is_tuple = false;
        while (!is_failed()) {
            if (!all.empty()) expect_sign(",");
            if (at_tuple_end(end)) break;
            all.push_back(one_target(takes_attributes));
            if (!at_sign(",")) break;
            is_tuple = true;
        }
        if (is_failed()) return nullptr;
        if (all.empty()) return fail("expected a name" + found());
        if (!is_tuple) return std::move(all.front());
        auto node = make(JinjaNodeKind::tuple, line);
        for (auto& part : all) add(node, std::move(part));
        return node;
    }
    JinjaNodePtr one_target(bool takes_attributes) {
        bool const has_attribute = takes_attributes && next().kind == JinjaTokenKind::sign && next().text == ".";
        auto node = primary();
        if (!node) return nullptr;
        if (node->kind == JinjaNodeKind::name && has_attribute) {
            expect_sign(".");
            node->kind = JinjaNodeKind::attribute_target;
            node->names.push_back(expect_any_name());
        }
        if (!is_target(*node)) return fail("assigns to what is no name");
        return node;
    }
    [[nodiscard]] static bool is_target(JinjaNode const& node) {
        if (node.kind == JinjaNodeKind::name) return true;
        if (node.kind == JinjaNodeKind::attribute_target) return true;
        if (node.kind != JinjaNodeKind::tuple) return false;
        for (auto const& child : node.children)
            if (!is_target(*child)) return false;
        return true;
    }

    int loops_ = 0;
    std::string last_end_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail::jinja
