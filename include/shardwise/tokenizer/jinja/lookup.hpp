// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/tokenizer/jinja/compare.hpp>
#include <shardwise/tokenizer/jinja/python_text.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail::jinja {

/// What Python has under a name of a value.
enum class JinjaMethod : std::uint8_t {
    none,         // nothing
    known,        // a method that call_method runs
    unsupported,  // something that this interpreter has not
    unsafe        // a method that changes the value, which transformers' sandbox refuses
};

[[nodiscard]] inline JinjaMethod method_of(JinjaKind kind, std::string_view name) {
    auto const has = [&](auto const& names) {
        for (std::string_view const each : names)
            if (each == name) return true;
        return false;
    };
    static constexpr std::array text_methods{
        "upper",        "lower",        "strip",      "lstrip",  "rstrip",    "split",     "rsplit",  "splitlines",
        "startswith",   "endswith",     "find",       "rfind",   "index",     "rindex",    "count",   "replace",
        "join",         "title",        "capitalize", "format",  "partition", "zfill",     "isdigit", "isalpha",
        "isalnum",      "isspace",      "isupper",    "islower", "isnumeric", "isdecimal", "isascii", "rpartition",
        "removeprefix", "removesuffix", "ljust",      "rjust",   "center"};
    static constexpr std::array other_text_methods{"casefold",    "encode",  "expandtabs", "format_map", "isidentifier",
                                                   "isprintable", "istitle", "maketrans",  "swapcase",   "translate"};
    static constexpr std::array dict_methods{"items", "keys", "values", "get", "copy"};
    static constexpr std::array unsafe_dict_methods{"clear", "pop", "popitem", "setdefault", "update"};
    static constexpr std::array list_methods{"index", "count", "copy"};
    static constexpr std::array unsafe_list_methods{"append", "clear", "pop",    "reverse",
                                                    "insert", "sort",  "extend", "remove"};
    static constexpr std::array number_attributes{
        "real",       "imag",      "numerator",  "denominator", "conjugate", "to_bytes", "as_integer_ratio",
        "bit_length", "bit_count", "from_bytes", "is_integer",  "hex",       "fromhex"};
    static constexpr std::array range_attributes{"start", "stop", "step", "index", "count"};
    using enum JinjaMethod;
    switch (kind) {
        case JinjaKind::string:
            return has(text_methods) ? known : has(other_text_methods) ? unsupported : none;
        case JinjaKind::markup:
            return has(text_methods) || has(other_text_methods) || name == "unescape" || name == "striptags" ||
                           name == "escape"
                       ? unsupported
                       : none;
        case JinjaKind::dict:
            return has(dict_methods)          ? known
                   : has(unsafe_dict_methods) ? unsafe
                   : name == "fromkeys"       ? unsupported
                                              : none;
        case JinjaKind::list:
            return has(list_methods) ? known : has(unsafe_list_methods) ? unsafe : none;
        case JinjaKind::tuple:
            return name == "index" || name == "count" ? known : none;
        case JinjaKind::range:
            return has(range_attributes) ? unsupported : none;
        case JinjaKind::view:
            return name == "isdisjoint" || name == "mapping" ? unsupported : none;
        case JinjaKind::boolean:
        case JinjaKind::integer:
        case JinjaKind::real:
            return has(number_attributes) ? unsupported : none;
        case JinjaKind::iterator:
        case JinjaKind::undefined:
        case JinjaKind::none:
        case JinjaKind::name_space:
        case JinjaKind::loop:
        case JinjaKind::macro:
        case JinjaKind::function:
        case JinjaKind::method:
            return none;
    }
    return none;
}

/// What Python's getattr finds of a value; nothing where it has no such attribute.
[[nodiscard]] inline std::optional<JinjaValue> own_attribute(JinjaRunState& run, JinjaValue const& value,
                                                             std::string_view name) {
    if (value.is(JinjaKind::name_space)) {
        auto const& members = run.name_space(value.index());
        if (!run.search_names(members.size(), name.size())) return JinjaValue{};
        for (auto const& [key, member] : members)
            if (key == name) return member;
        return std::nullopt;
    }
    switch (method_of(value.kind(), name)) {
        case JinjaMethod::none:
            return std::nullopt;
        case JinjaMethod::known:
            return JinjaValue::method(value, std::string(name));
        case JinjaMethod::unsupported:
            return run.unsupported("uses " + std::string(type_name(value.kind())) + "." + std::string(name));
        case JinjaMethod::unsafe:
            return JinjaValue::undefined("changes a " + std::string(type_name(value.kind())) + " by " +
                                         std::string(name) + ", which templates may not");
    }
    return std::nullopt;
}

[[nodiscard]] inline JinjaValue missing_attribute(JinjaValue const& value, std::string_view name) {
    return JinjaValue::undefined("'" + std::string(type_name(value.kind())) + " object' has no attribute '" +
                                 std::string(name) + "'");
}

/// value.name: an attribute or, where there is none, an item.
///
/// Errors  wrong for anything undefined
[[nodiscard]] inline JinjaValue get_attribute(JinjaRunState& run, JinjaValue const& value, std::string_view name) {
    if (value.is_undefined()) return run.wrong(std::string(value.text()));
    if (auto found = own_attribute(run, value, name)) return *std::move(found);
    if (value.is(JinjaKind::dict)) {
        if (auto const* const member = find_member(run, value, name)) return *member;
    }
    return missing_attribute(value, name);
}

/// value[key]: an item or, for a name that no item has, an attribute.
///
/// Errors  wrong for anything undefined
[[nodiscard]] inline JinjaValue get_item(JinjaRunState& run, JinjaValue const& value, JinjaValue const& key) {
    if (value.is_undefined()) return run.wrong(std::string(value.text()));
    if (value.is(JinjaKind::dict) && !key.is(JinjaKind::list) && !key.is(JinjaKind::dict)) {
        if (auto const* const member = find_member(run, value, key)) return *member;
    } else if (key.is_integer() && (value.is_string() || value.is_indexed())) {
        bool const is_text = value.is_string();
        if (is_text && !run.take(value.text().size())) return {};
        auto const count = static_cast<std::int64_t>(is_text ? count_code_points(value.text()) : value.items().size());
        auto const at = key.integer() < 0 ? key.integer() + count : key.integer();
        if (at < 0 || at >= count)
            return JinjaValue::undefined("'" + std::string(type_name(value.kind())) + " object' has no element " +
                                         std::to_string(key.integer()));
        if (!is_text) return value.items()[static_cast<std::size_t>(at)];
        auto const rest = value.text().substr(byte_of(value.text(), static_cast<std::size_t>(at)));
        return run.make_string(std::string(rest.substr(0, length_at(rest, 0))));
    }
    if (!key.is_string()) {
        return JinjaValue::undefined("'" + std::string(type_name(value.kind())) + " object' has no such element");
    }
    if (auto found = own_attribute(run, value, key.text())) return *std::move(found);
    return missing_attribute(value, key.text());
}

/// What `attribute` of a filter means: names and numbers with dots between them. `otherwise`, where it is given, stands for
/// each of them that is missing.
[[nodiscard]] inline JinjaValue get_path(JinjaRunState& run, JinjaValue value, JinjaValue const& path,
                                         JinjaValue const* otherwise = nullptr) {
    auto const found = [&](JinjaValue item) { return otherwise && item.is_undefined() ? *otherwise : std::move(item); };
    if (path.is_integer()) return found(get_item(run, value, path));
    if (!path.is_string()) return run.wrong("names an attribute by a " + std::string(type_name(path.kind())));
    auto rest = path.text();
    while (!run.is_failed()) {
        auto const dot = rest.find('.');
        auto const name = rest.substr(0, dot);
        bool const is_number = !name.empty() && name.find_first_not_of("0123456789") == std::string_view::npos;
        auto const number = is_number ? read_integer(name) : std::nullopt;
        value = found(get_item(run, value, number ? JinjaValue::integer(*number) : JinjaValue(std::string(name))));
        if (dot == std::string_view::npos) break;
        rest.remove_prefix(dot + 1);
    }
    return value;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail::jinja
