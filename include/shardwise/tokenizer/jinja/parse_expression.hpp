// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/tokenizer/jinja/parser_base.hpp>

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail::jinja {

/// Reads expressions by recursive descent, with the precedences of Jinja: if else; or; and; not; comparisons; + -; ~; * / // %;
/// **; signs; calls, attributes and items; filters and tests.
class JinjaExpressionParser : public JinjaParserBase {
protected:
    using JinjaParserBase::JinjaParserBase;

    /// Where a list of values without brackets ends.
    enum class TupleEnd : std::uint8_t { tag, bracket, in };

    JinjaNodePtr expression() {
        Level const level(*this);
        if (is_failed()) return nullptr;
        auto value = logical_or();
        while (!is_failed() && at_name("if")) {
            auto const line = take().line;
            auto node = make(JinjaNodeKind::conditional, line);
            add(node, logical_or());
            add(node, std::move(value));
            add(node, skip_name("else") ? expression() : nullptr);
            value = std::move(node);
        }
        return value;
    }

    JinjaNodePtr logical_or() {
        auto left = logical_and();
        while (!is_failed() && at_name("or")) {
            auto const line = take().line;
            left = pair(JinjaNodeKind::logical_or, line, std::move(left), logical_and());
        }
        return left;
    }

    /// One value, or several with commas between them, which are a tuple.
    JinjaNodePtr values(bool takes_conditions, TupleEnd end = TupleEnd::tag) {
        auto const line = current().line;
        std::vector<JinjaNodePtr> all;
        bool is_tuple = false;
        while (!is_failed()) {
            if (!all.empty()) expect_sign(",");
            if (at_tuple_end(end)) break;
            all.push_back(takes_conditions ? expression() : leveled_or());
            if (!at_sign(",")) break;
            is_tuple = true;
        }
        if (is_failed()) return nullptr;
        if (!is_tuple && !all.empty()) return std::move(all.front());
        if (!is_tuple && end != TupleEnd::bracket) return fail("expected an expression" + found());
        auto node = make(JinjaNodeKind::tuple, line);
        for (auto& value : all) add(node, std::move(value));
        return node;
    }

    [[nodiscard]] bool at_tuple_end(TupleEnd end) const {
        return at_kind(JinjaTokenKind::print_end) || at_kind(JinjaTokenKind::statement_end) || at_sign(")") ||
               (end == TupleEnd::in && at_name("in"));
    }

    /// Filters after a value; of a block where `value` is nothing.
    JinjaNodePtr filters(JinjaNodePtr value) {
        while (!is_failed() && skip_sign("|")) value = filter(std::move(value));
        return value;
    }
    JinjaNodePtr filter(JinjaNodePtr value) {
        auto node = make(JinjaNodeKind::filter, current().line);
        node->text = dotted_name();
        add(node, std::move(value));
        if (at_sign("(")) arguments(node);
        return node;
    }

    /// Arguments in brackets, the named ones last.
    void arguments(JinjaNodePtr const& node) {
        Level const level(*this);
        expect_sign("(");
        bool is_first = true;
        while (!is_failed() && !at_sign(")")) {
            if (!is_first) expect_sign(",");
            is_first = false;
            if (at_sign(")")) break;
            if (at_sign("*") || at_sign("**")) {
                unsupported("hands over arguments by " + current().text);
            } else if (at_kind(JinjaTokenKind::name) && next().kind == JinjaTokenKind::sign && next().text == "=") {
                auto const name = take().text;
                take();
                if (std::find(node->names.begin(), node->names.end(), name) != node->names.end())
                    fail("gives the argument " + name + " twice");
                node->names.push_back(name);
                if (node->names.size() > max_named) unsupported("has a call of very many named arguments");
                add(node, expression());
            } else if (!node->names.empty()) {
                fail("has a named argument before one without a name");
            } else {
                add(node, expression());
            }
        }
        expect_sign(")");
    }

    /// A name, a literal, or what stands in brackets.
    JinjaNodePtr primary() {
        Level const level(*this);
        if (is_failed()) return nullptr;
        auto const line = current().line;
        if (at_kind(JinjaTokenKind::name)) {
            auto const name = take().text;
            auto node = make(JinjaNodeKind::constant, line);
            if (name == "true" || name == "True" || name == "false" || name == "False") {
                node->constant = JinjaValue::boolean(name == "true" || name == "True");
            } else if (name == "none" || name == "None") {
                node->constant = JinjaValue::none();
            } else {
                node->kind = JinjaNodeKind::name;
                node->text = name;
            }
            return node;
        }
        if (at_kind(JinjaTokenKind::text)) {
            std::string text;
            while (at_kind(JinjaTokenKind::text)) text += take().text;
            auto node = make(JinjaNodeKind::constant, line);
            node->constant = JinjaValue(std::move(text));
            return node;
        }
        if (at_kind(JinjaTokenKind::integer) || at_kind(JinjaTokenKind::real)) return number();
        if (skip_sign("(")) {
            auto node = values(true, TupleEnd::bracket);
            expect_sign(")");
            return node;
        }
        if (at_sign("[") || at_sign("{")) return container(take().text == "{");
        return fail("expected an expression" + found());
    }

private:
    JinjaNodePtr leveled_or() {
        Level const level(*this);
        return is_failed() ? nullptr : logical_or();
    }

    JinjaNodePtr logical_and() {
        auto left = logical_not();
        while (!is_failed() && at_name("and")) {
            auto const line = take().line;
            left = pair(JinjaNodeKind::logical_and, line, std::move(left), logical_not());
        }
        return left;
    }
    JinjaNodePtr logical_not() {
        if (!at_name("not")) return compared();
        Level const level(*this);
        if (is_failed()) return nullptr;
        auto node = make(JinjaNodeKind::logical_not, take().line);
        add(node, logical_not());
        return node;
    }

    /// The comparison that stands here, taken; empty where there is none.
    [[nodiscard]] std::string take_comparison() {
        for (std::string_view const sign : {"==", "!=", ">=", "<=", ">", "<"})
            if (skip_sign(sign)) return std::string(sign);
        if (skip_name("in")) return "in";
        if (!at_name("not") || next().kind != JinjaTokenKind::name || next().text != "in") return {};
        take(), take();
        return "not in";
    }
    JinjaNodePtr compared() {
        auto const line = current().line;
        auto first = summed();
        JinjaNodePtr node;
        while (!is_failed()) {
            auto sign = take_comparison();
            if (sign.empty()) break;
            if (!node) {
                node = make(JinjaNodeKind::compare, line);
                add(node, std::move(first));
            }
            node->names.push_back(std::move(sign));
            add(node, summed());
        }
        return node ? std::move(node) : std::move(first);
    }

    template <class Inner>
    JinjaNodePtr binary(std::initializer_list<std::string_view> signs, Inner inner) {
        auto left = inner();
        while (!is_failed()) {
            auto const sign = std::find_if(signs.begin(), signs.end(), [&](auto text) { return at_sign(text); });
            if (sign == signs.end()) break;
            auto const line = take().line;
            left = pair(JinjaNodeKind::binary, line, std::move(left), inner());
            left->text = *sign;
        }
        return left;
    }
    JinjaNodePtr summed() {
        return binary({"+", "-"}, [&] { return concatenated(); });
    }
    JinjaNodePtr concatenated() {
        auto const line = current().line;
        auto first = multiplied();
        if (is_failed() || !at_sign("~")) return first;
        auto node = make(JinjaNodeKind::concat, line);
        add(node, std::move(first));
        while (!is_failed() && skip_sign("~")) add(node, multiplied());
        return node;
    }
    JinjaNodePtr multiplied() {
        return binary({"*", "/", "//", "%"}, [&] { return binary({"**"}, [&] { return signed_value(true); }); });
    }

    JinjaNodePtr signed_value(bool takes_filters) {
        Level const level(*this);
        if (is_failed()) return nullptr;
        JinjaNodePtr node;
        if (at_sign("-") || at_sign("+")) {
            auto const sign = take();
            node = make(sign.text == "-" ? JinjaNodeKind::negative : JinjaNodeKind::positive, sign.line);
            add(node, signed_value(false));
        } else {
            node = primary();
        }
        node = postfix(std::move(node));
        while (takes_filters && !is_failed()) {
            if (at_sign("|")) {
                node = filters(std::move(node));
            } else if (at_name("is")) {
                node = test(std::move(node));
            } else if (at_sign("(")) {
                node = call(std::move(node));
            } else {
                break;
            }
        }
        return node;
    }

    JinjaNodePtr postfix(JinjaNodePtr node) {
        while (!is_failed()) {
            if (at_sign(".")) {
                node = attribute(std::move(node));
            } else if (at_sign("[")) {
                node = subscript(std::move(node));
            } else if (at_sign("(")) {
                node = call(std::move(node));
            } else {
                break;
            }
        }
        return node;
    }
    JinjaNodePtr attribute(JinjaNodePtr value) {
        auto const line = take().line;
        if (at_kind(JinjaTokenKind::integer)) return pair(JinjaNodeKind::item, line, std::move(value), number());
        auto node = make(JinjaNodeKind::attribute, line);
        node->text = expect_any_name();
        add(node, std::move(value));
        return node;
    }
    JinjaNodePtr subscript(JinjaNodePtr value) {
        Level const level(*this);
        auto const line = take().line;
        JinjaNodePtr first;
        if (!at_sign(":")) first = expression();
        if (is_failed()) return nullptr;
        if (at_sign(",")) return unsupported("asks for an item by more than one key");
        if (!at_sign(":")) {
            expect_sign("]");
            return pair(JinjaNodeKind::item, line, std::move(value), std::move(first));
        }
        auto node = pair(JinjaNodeKind::slice, line, std::move(value), std::move(first));
        while (!is_failed() && node->children.size() < 4) {
            bool const has_part = skip_sign(":") && !at_sign(":") && !at_sign("]");
            add(node, has_part ? expression() : nullptr);
        }
        expect_sign("]");
        return node;
    }
    JinjaNodePtr call(JinjaNodePtr callee) {
        auto node = make(JinjaNodeKind::call, current().line);
        add(node, std::move(callee));
        arguments(node);
        return node;
    }

    JinjaNodePtr test(JinjaNodePtr value) {
        auto const line = take().line;
        bool const is_negated = skip_name("not");
        auto node = make(JinjaNodeKind::test, line);
        node->text = dotted_name();
        add(node, std::move(value));
        bool const is_word = at_name("else") || at_name("or") || at_name("and");
        if (at_sign("(")) {
            arguments(node);
        } else if (at_name("is")) {
            fail("chains tests by is");
        } else if ((at_kind(JinjaTokenKind::name) && !is_word) || at_kind(JinjaTokenKind::text) ||
                   at_kind(JinjaTokenKind::integer) || at_kind(JinjaTokenKind::real) || at_sign("[") || at_sign("{")) {
            add(node, postfix(primary()));
        }
        if (!is_negated) return node;
        auto negation = make(JinjaNodeKind::logical_not, line);
        add(negation, std::move(node));
        return negation;
    }

    [[nodiscard]] std::string dotted_name() {
        auto name = expect_any_name();
        while (!is_failed() && skip_sign(".")) name += "." + expect_any_name();
        return name;
    }

    JinjaNodePtr number() {
        auto const token = take();
        auto node = make(JinjaNodeKind::constant, token.line);
        if (token.kind == JinjaTokenKind::real) {
            node->constant = JinjaValue::real(std::strtod(token.text.c_str(), nullptr));
            return node;
        }
        std::int64_t value = 0;
        auto const read = std::from_chars(token.text.data(), token.text.data() + token.text.size(), value);
        if (read.ec != std::errc{}) return unsupported("has a number that leaves 63 bits");
        node->constant = JinjaValue::integer(value);
        return node;
    }

    /// A list or a dict, whose first bracket has been taken.
    JinjaNodePtr container(bool is_dict) {
        auto node = make(is_dict ? JinjaNodeKind::dict : JinjaNodeKind::list, current().line);
        std::string_view const end = is_dict ? "}" : "]";
        while (!is_failed() && !at_sign(end)) {
            if (!node->children.empty()) expect_sign(",");
            if (at_sign(end)) break;
            add(node, expression());
            if (!is_dict) continue;
            expect_sign(":");
            add(node, expression());
        }
        expect_sign(end);
        return node;
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail::jinja
