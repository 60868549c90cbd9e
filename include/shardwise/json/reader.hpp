// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/json/detail/listener.hpp>
#include <shardwise/json/detail/sax_adapter.hpp>
#include <shardwise/json/handler.hpp>

#include <cstddef>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The deepest nesting that any reading may ask for.
inline constexpr std::size_t max_json_depth = 1024;

/// Reads a JSON text (RFC 8259) with nlohmann_json and tells the handler what it meets, in order.
///
/// Strict: UTF-8 only, no byte order mark, no lone surrogates, no comments, no NaN, nothing after the value. Whoever
/// must know of duplicate keys looks at them in `key`; parse_json refuses them.
///
/// Memory  a few times the longest string, which is at most max_json_token; one bit for each open bracket
/// Errors  malformed_file with the byte; capacity_exceeded for what is longer than max_json_token, unless the handler
///         ignores it; what the handler refuses
template <JsonHandler Handler>
Result<> read_json(std::string_view text, Handler& handler, std::size_t max_depth = 64) {
    auto const depth = max_depth < max_json_depth ? max_depth : max_json_depth;
    detail::HandlerListener<Handler> listener(handler);
    return detail::JsonSaxAdapter(text, listener, depth).read();
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
