// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail::jinja {

/// What a value of a template is, in Python's terms.
enum class JinjaKind : std::uint8_t {
    undefined,
    none,
    boolean,
    integer,
    real,
    string,
    markup,  // a string that was declared safe
    list,
    tuple,
    range,
    view,      // what items(), keys() and values() of a dict give
    iterator,  // gives each of its items once
    dict,
    name_space,
    loop,
    macro,
    function,  // one that is always there, such as range
    method     // a method and the value that it belongs to
};

class JinjaValue;
using JinjaMember = std::pair<JinjaValue, JinjaValue>;

/// Values in order. `depth` counts how far values nest, which bounds every walk.
struct JinjaItems {
    std::vector<JinjaValue> items;
    unsigned depth = 1;
    std::size_t at = 0;  // how many an iterator has given
};

/// Members in the order in which they were added.
struct JinjaDict {
    std::vector<JinjaMember> members;
    unsigned depth = 1;
};

/// A value of a template. Copies share what they hold, and nothing that is shared changes but an iterator's place.
class JinjaValue {
public:
    JinjaValue() = default;
    explicit JinjaValue(JinjaKind kind) : kind_(kind) {}
    explicit JinjaValue(std::string text, JinjaKind kind = JinjaKind::string)
        : kind_(kind), held_(std::make_shared<std::string>(std::move(text))) {}
    [[nodiscard]] static JinjaValue none() { return JinjaValue(JinjaKind::none); }
    [[nodiscard]] static JinjaValue boolean(bool flag) {
        JinjaValue made(JinjaKind::boolean);
        made.number_.integer = flag ? 1 : 0;
        return made;
    }
    [[nodiscard]] static JinjaValue integer(std::int64_t number) {
        JinjaValue made(JinjaKind::integer);
        made.number_.integer = number;
        return made;
    }
    [[nodiscard]] static JinjaValue real(double number) {
        JinjaValue made(JinjaKind::real);
        made.number_.real = number;
        return made;
    }
    /// Nothing; `hint` says what is missing where somebody uses it.
    [[nodiscard]] static JinjaValue undefined(std::string hint) {
        return JinjaValue(std::move(hint), JinjaKind::undefined);
    }
    /// Something that the interpreter holds under this number.
    [[nodiscard]] static JinjaValue numbered(JinjaKind kind, std::size_t index) {
        JinjaValue made(kind);
        made.number_.integer = static_cast<std::int64_t>(index);
        return made;
    }
    [[nodiscard]] static JinjaValue sequence(JinjaKind kind, std::shared_ptr<JinjaItems> items) {
        JinjaValue made(kind);
        made.held_ = std::move(items);
        return made;
    }
    [[nodiscard]] static JinjaValue mapping(std::shared_ptr<JinjaDict> dict) {
        JinjaValue made(JinjaKind::dict);
        made.held_ = std::move(dict);
        return made;
    }
    [[nodiscard]] static JinjaValue method(JinjaValue self, std::string name) {
        JinjaValue made(JinjaKind::method);
        made.held_ = std::make_shared<std::pair<JinjaValue, std::string>>(std::move(self), std::move(name));
        return made;
    }

    [[nodiscard]] JinjaKind kind() const { return kind_; }
    [[nodiscard]] bool is(JinjaKind kind) const { return kind_ == kind; }
    [[nodiscard]] bool is_undefined() const { return kind_ == JinjaKind::undefined; }
    [[nodiscard]] bool is_none() const { return kind_ == JinjaKind::none; }
    [[nodiscard]] bool is_string() const { return kind_ == JinjaKind::string || kind_ == JinjaKind::markup; }
    /// True where it counts as an int: one, or a bool.
    [[nodiscard]] bool is_integer() const { return kind_ == JinjaKind::integer || kind_ == JinjaKind::boolean; }
    [[nodiscard]] bool is_number() const { return is_integer() || kind_ == JinjaKind::real; }
    /// True where it holds JinjaItems.
    [[nodiscard]] bool is_sequence() const { return kind_ >= JinjaKind::list && kind_ <= JinjaKind::iterator; }
    /// True where items can be asked for by number.
    [[nodiscard]] bool is_indexed() const { return kind_ >= JinjaKind::list && kind_ <= JinjaKind::range; }

    [[nodiscard]] std::int64_t integer() const { return number_.integer; }
    [[nodiscard]] bool flag() const { return number_.integer != 0; }
    [[nodiscard]] double real() const {
        return kind_ == JinjaKind::real ? number_.real : static_cast<double>(number_.integer);
    }
    [[nodiscard]] std::size_t index() const { return static_cast<std::size_t>(number_.integer); }
    /// The text of a string, the name of a function, or what is said about something undefined.
    [[nodiscard]] std::string_view text() const {
        return held_ ? std::string_view(*static_cast<std::string const*>(held_.get())) : std::string_view{};
    }
    [[nodiscard]] JinjaItems& sequence() const { return *static_cast<JinjaItems*>(held_.get()); }
    [[nodiscard]] std::vector<JinjaValue> const& items() const { return sequence().items; }
    [[nodiscard]] std::vector<JinjaMember> const& members() const;
    [[nodiscard]] JinjaValue const& self() const;
    [[nodiscard]] std::string_view method_name() const;
    /// Whether both are the same thing, not only equal.
    [[nodiscard]] bool shares(JinjaValue const& other) const { return held_ && held_ == other.held_; }

    /// How far values nest in it.
    [[nodiscard]] unsigned depth() const;

private:
    JinjaKind kind_ = JinjaKind::undefined;
    union {
        std::int64_t integer = 0;
        double real;
    } number_;
    std::shared_ptr<void> held_;
};

inline std::vector<JinjaMember> const& JinjaValue::members() const {
    return static_cast<JinjaDict const*>(held_.get())->members;
}
inline JinjaValue const& JinjaValue::self() const {
    return static_cast<std::pair<JinjaValue, std::string> const*>(held_.get())->first;
}
inline std::string_view JinjaValue::method_name() const {
    return static_cast<std::pair<JinjaValue, std::string> const*>(held_.get())->second;
}
inline unsigned JinjaValue::depth() const {
    if (is_sequence()) return sequence().depth;
    if (kind_ == JinjaKind::dict) return static_cast<JinjaDict const*>(held_.get())->depth;
    return kind_ == JinjaKind::method ? self().depth() + 1 : 0;
}

/// What Python calls the type of a value.
[[nodiscard]] constexpr std::string_view type_name(JinjaKind kind) {
    switch (kind) {
        case JinjaKind::undefined:
            return "Undefined";
        case JinjaKind::none:
            return "NoneType";
        case JinjaKind::boolean:
            return "bool";
        case JinjaKind::integer:
            return "int";
        case JinjaKind::real:
            return "float";
        case JinjaKind::string:
            return "str";
        case JinjaKind::markup:
            return "Markup";
        case JinjaKind::list:
            return "list";
        case JinjaKind::tuple:
            return "tuple";
        case JinjaKind::range:
            return "range";
        case JinjaKind::view:
            return "view of a dict";
        case JinjaKind::iterator:
            return "iterator";
        case JinjaKind::dict:
            return "dict";
        case JinjaKind::name_space:
            return "namespace";
        case JinjaKind::loop:
            return "loop";
        case JinjaKind::macro:
            return "macro";
        case JinjaKind::function:
            return "function";
        case JinjaKind::method:
            return "method";
    }
    return "value";
}

/// Whether Python takes it for true.
[[nodiscard]] inline bool is_true(JinjaValue const& value) {
    switch (value.kind()) {
        case JinjaKind::undefined:
        case JinjaKind::none:
            return false;
        case JinjaKind::boolean:
        case JinjaKind::integer:
            return value.integer() != 0;
        case JinjaKind::real:
            return value.real() != 0.0;
        case JinjaKind::string:
        case JinjaKind::markup:
            return !value.text().empty();
        case JinjaKind::list:
        case JinjaKind::tuple:
        case JinjaKind::range:
        case JinjaKind::view:
            return !value.items().empty();
        case JinjaKind::dict:
            return !value.members().empty();
        case JinjaKind::iterator:
        case JinjaKind::name_space:
        case JinjaKind::loop:
        case JinjaKind::macro:
        case JinjaKind::function:
        case JinjaKind::method:
            return true;
    }
    return false;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail::jinja
