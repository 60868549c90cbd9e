// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/tokenizer/jinja/format_text.hpp>
#include <shardwise/tokenizer/jinja/value_text.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail::jinja {

/// The result of an int operation that may leave 63 bits, where Python goes on.
[[nodiscard]] inline JinjaValue checked_integer(JinjaRunState& run, bool overflows, std::int64_t number) {
    if (overflows) return run.unsupported("computes a number that leaves 63 bits");
    return JinjaValue::integer(number);
}

[[nodiscard]] inline JinjaValue integer_power(JinjaRunState& run, std::int64_t base, std::int64_t exponent) {
    std::int64_t result = 1;
    bool overflows = false;
    if (base == 0 || base == 1) return JinjaValue::integer(exponent == 0 ? 1 : base);
    if (base == -1) return JinjaValue::integer(exponent % 2 == 0 ? 1 : -1);
    for (; exponent > 0 && !overflows; --exponent) overflows = __builtin_mul_overflow(result, base, &result);
    return checked_integer(run, overflows, result);
}

/// // and % of floats, as Python rounds them.
[[nodiscard]] inline JinjaValue real_division(double a, double b, bool is_remainder) {
    double rest = std::fmod(a, b);
    double quotient = (a - rest) / b;
    if (rest != 0.0 && (b < 0) != (rest < 0)) rest += b, quotient -= 1.0;
    if (is_remainder) return JinjaValue::real(rest == 0.0 ? std::copysign(0.0, b) : rest);
    if (quotient == 0.0) return JinjaValue::real(std::copysign(0.0, a / b));
    double whole = std::floor(quotient);
    if (quotient - whole > 0.5) whole += 1.0;
    return JinjaValue::real(whole);
}

[[nodiscard]] inline JinjaValue compute_numbers(JinjaRunState& run, std::string_view sign, JinjaValue const& a,
                                                JinjaValue const& b) {
    bool const divides = sign == "/" || sign == "//" || sign == "%";
    bool const is_real = a.is(JinjaKind::real) || b.is(JinjaKind::real);
    if (divides && b.real() == 0.0) return run.wrong("divides by zero");
    if (sign == "**" && (is_real || b.integer() < 0)) {
        if (a.real() == 0.0 && b.real() < 0.0) return run.wrong("divides by zero");
        if (a.real() < 0.0 && b.real() != std::trunc(b.real())) return run.unsupported("computes a complex number");
        double const power = std::pow(a.real(), b.real());
        if (std::isinf(power) && !std::isinf(a.real()) && !std::isinf(b.real()))
            return run.wrong("computes too large a number");
        return JinjaValue::real(power);
    }
    if (is_real || sign == "/") {
        constexpr std::int64_t exact = std::int64_t{1} << 53U;
        auto const is_large = [](JinjaValue const& value) {
            return value.is_integer() && (value.integer() > exact || value.integer() < -exact);
        };
        if (sign == "/" && !is_real && (is_large(a) || is_large(b)))
            return run.unsupported("divides numbers that leave 53 bits");
        if (sign == "+") return JinjaValue::real(a.real() + b.real());
        if (sign == "-") return JinjaValue::real(a.real() - b.real());
        if (sign == "*") return JinjaValue::real(a.real() * b.real());
        if (sign == "/") return JinjaValue::real(a.real() / b.real());
        return real_division(a.real(), b.real(), sign == "%");
    }
    auto const x = a.integer();
    auto const y = b.integer();
    std::int64_t result = 0;
    if (sign == "+" || sign == "-" || sign == "*") {
        bool const overflows = sign == "+"   ? __builtin_add_overflow(x, y, &result)
                               : sign == "-" ? __builtin_sub_overflow(x, y, &result)
                                             : __builtin_mul_overflow(x, y, &result);
        return checked_integer(run, overflows, result);
    }
    if (sign == "**") return integer_power(run, x, y);
    // The one quotient that leaves 63 bits; its remainder is 0.
    if (y == -1)
        return sign == "%" ? JinjaValue::integer(0) : checked_integer(run, x == INT64_MIN, x == INT64_MIN ? 0 : -x);
    auto const rest = x % y;
    bool const goes_down = rest != 0 && (rest < 0) != (y < 0);
    return JinjaValue::integer(sign == "%" ? rest + (goes_down ? y : 0) : x / y - (goes_down ? 1 : 0));
}

/// A string or list several times.
[[nodiscard]] inline JinjaValue repeat(JinjaRunState& run, JinjaValue const& value, std::int64_t times) {
    auto const count = times < 0 ? std::uint64_t{0} : static_cast<std::uint64_t>(times);
    auto const size = value.is_string() ? value.text().size() : value.items().size() * sizeof(JinjaValue);
    auto const most = run.limits().bytes;
    if (size > 0 && count > most / size) {
        run.take(most + 1);
        return {};
    }
    if (value.is_string()) {
        if (!run.take(size * count)) return {};
        std::string text;
        text.reserve(size * count);
        for (std::uint64_t i = 0; i < count && size > 0; ++i) text += value.text();
        return JinjaValue(std::move(text));
    }
    if (!run.take(size * count)) return {};
    std::vector<JinjaValue> items;
    for (std::uint64_t i = 0; i < count && size > 0; ++i)
        items.insert(items.end(), value.items().begin(), value.items().end());
    return run.make_sequence(value.kind(), std::move(items));
}

/// left sign right, for + - * / // % and **.
///
/// Errors  wrong where Python refuses it
[[nodiscard]] inline JinjaValue compute(JinjaRunState& run, std::string_view sign, JinjaValue const& a,
                                        JinjaValue const& b) {
    if (run.is_failed()) return {};
    if (sign == "%" && a.is_string()) {
        if (a.is(JinjaKind::markup) || b.is(JinjaKind::markup))
            return run.unsupported("formats text that is declared safe");
        bool const is_tuple = b.is(JinjaKind::tuple);
        return format_percent(run, a.text(), is_tuple ? b.items() : std::vector{b}, is_tuple);
    }
    if (a.is_undefined() || b.is_undefined()) return run.wrong(std::string((a.is_undefined() ? a : b).text()));
    if (a.is_number() && b.is_number()) return compute_numbers(run, sign, a, b);
    if (a.is(JinjaKind::markup) || b.is(JinjaKind::markup))
        return run.unsupported("computes with text that is declared safe");
    if (sign == "+" && a.is_string() && b.is_string()) {
        if (!run.take(a.text().size() + b.text().size())) return {};
        std::string text;
        text.reserve(a.text().size() + b.text().size());
        return JinjaValue(std::move((text += a.text()) += b.text()));
    }
    bool const is_list = a.is(JinjaKind::list) || a.is(JinjaKind::tuple);
    if (sign == "+" && is_list && a.kind() == b.kind()) {
        if (!run.take(a.items().size() * sizeof(JinjaValue))) return {};
        auto items = a.items();
        items.insert(items.end(), b.items().begin(), b.items().end());
        return run.make_sequence(a.kind(), std::move(items));
    }
    if (sign == "*" && (a.is_string() || is_list) && b.is_integer()) return repeat(run, a, b.integer());
    if (sign == "*" && a.is_integer() && (b.is_string() || b.is(JinjaKind::list) || b.is(JinjaKind::tuple)))
        return repeat(run, b, a.integer());
    return run.wrong("computes " + std::string(type_name(a.kind())) + " " + std::string(sign) + " " +
                     std::string(type_name(b.kind())));
}

/// value[first:end:step] of a string, list or tuple.
///
/// Errors  wrong where Python refuses it
[[nodiscard]] inline JinjaValue slice(JinjaRunState& run, JinjaValue const& value, JinjaValue const& first,
                                      JinjaValue const& end, JinjaValue const& step) {
    if (value.is_undefined()) return run.wrong(std::string(value.text()));
    for (auto const* const part : {&first, &end, &step})
        if (!part->is_integer() && !part->is_none()) return run.wrong("slices by what is no int");
    if (!value.is_string() && !value.is_indexed()) return run.wrong("slices a " + std::string(type_name(value.kind())));
    auto const by = step.is_none() ? 1 : step.integer();
    if (by == 0) return run.wrong("slices in steps of 0");
    if (value.is_string() && !run.take(value.text().size())) return {};
    auto const count =
        static_cast<std::int64_t>(value.is_string() ? count_code_points(value.text()) : value.items().size());
    auto const bound = [&](JinjaValue const& part, std::int64_t otherwise) {
        if (part.is_none()) return otherwise;
        auto const at = part.integer() < 0 ? part.integer() + count : part.integer();
        return std::clamp<std::int64_t>(at, by < 0 ? -1 : 0, by < 0 ? count - 1 : count);
    };
    auto const low = bound(first, by < 0 ? count - 1 : 0);
    auto const high = bound(end, by < 0 ? -1 : count);
    if (value.is_string() && by == 1) {
        if (low >= high) return run.make_string({});
        auto const begin = byte_of(value.text(), static_cast<std::size_t>(low));
        auto const rest = value.text().substr(begin);
        return run.make_string(std::string(rest.substr(0, byte_of(rest, static_cast<std::size_t>(high - low)))));
    }
    std::vector<std::size_t> places;
    for (auto at = low; by < 0 ? at > high : at < high;) {
        places.push_back(static_cast<std::size_t>(at));
        if (__builtin_add_overflow(at, by, &at)) break;
    }
    if (value.is_string()) {
        auto const codes = to_code_points(value.text());
        std::string text;
        for (auto const place : places) append_utf8(text, codes[place]);
        return run.make_string(std::move(text));
    }
    std::vector<JinjaValue> items;
    for (auto const place : places) items.push_back(value.items()[place]);
    return run.make_sequence(value.kind(), std::move(items));
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail::jinja
