// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/tokenizer/jinja/value.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail::jinja {

/// What a part of a template does; the comment says what its children are.
enum class JinjaNodeKind : std::uint8_t {
    // expressions
    constant,
    name,
    attribute,    // of a value: text
    item,         // value, key
    slice,        // value, first, end, step; nothing where one is left out
    call,         // callee, arguments; the last ones are named by names
    filter,       // input (nothing: what is piped in), arguments
    test,         // input, arguments
    negative,     // value
    positive,     // value
    binary,       // left, right; text is the sign
    concat,       // values
    compare,      // values; names are the signs between them
    logical_and,  // left, right
    logical_or,   // left, right
    logical_not,  // value
    conditional,  // condition, value, value otherwise or nothing
    list,         // values
    tuple,        // values
    dict,         // key, value, key, value, ...
    // statements
    data,              // text
    print,             // values
    block,             // statements
    loop,              // target, iterable, condition or nothing, body, body without items or nothing
    branch,            // condition, body, condition, body, ..., body otherwise
    assign,            // target, value
    assign_block,      // target, filter or nothing, body
    attribute_target,  // text is the namespace, names the attribute
    macro,             // body, defaults of the last of names
    call_block,        // call, body, defaults of the last of names
    filter_block,      // filter, body
    with,              // body, target, value, target, value, ...
    generation,        // body, which the assistant writes
    leave,             // break
    next               // continue
};

struct JinjaNode {
    JinjaNodeKind kind = JinjaNodeKind::block;
    int line = 0;
    unsigned height = 1;
    std::string text;
    JinjaValue constant;
    bool reads_varargs = false;  // of a macro or a call block: whether its body does
    bool reads_kwargs = false;
    bool reads_caller = false;
    std::vector<std::string> names;
    std::vector<std::unique_ptr<JinjaNode>> children;
};

using JinjaNodePtr = std::unique_ptr<JinjaNode>;

/// Whether a name is read anywhere below.
[[nodiscard]] inline bool reads_name(JinjaNode const& node, std::string_view name) {
    if (node.kind == JinjaNodeKind::name && node.text == name) return true;
    for (auto const& child : node.children) {
        if (child && reads_name(*child, name)) return true;
    }
    return false;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail::jinja
