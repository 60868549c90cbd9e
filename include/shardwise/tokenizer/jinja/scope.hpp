// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/tokenizer/jinja/node.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail::jinja {

/// The names that a part of a template has set, within those of what is around it.
struct JinjaScope {
    std::vector<std::pair<std::string_view, JinjaValue>> names;
    std::shared_ptr<JinjaScope> parent;

    void set(std::string_view name, JinjaValue value) {
        for (auto& [key, held] : names) {
            if (key != name) continue;
            held = std::move(value);
            return;
        }
        names.emplace_back(name, std::move(value));
    }
};

/// A macro, and the names that stood around it; also what a call block hands over as caller.
struct JinjaMacro {
    std::string_view name;
    JinjaNode const* node = nullptr;  // its names are the parameters
    std::size_t body = 0;             // the child that is run; the defaults follow it
    std::shared_ptr<JinjaScope> around;
};

/// A loop that runs: what it goes over, and where it stands.
struct JinjaLoop {
    JinjaNode const* node = nullptr;
    JinjaValue source;   // a sequence; nothing once the loop has ended
    std::size_t at = 0;  // how many of its items are taken, where it does not count them itself
    std::shared_ptr<JinjaScope> around;
    std::optional<std::int64_t> length;  // where it is known before the end
    std::int64_t index = -1;
    std::vector<JinjaValue> ahead;  // items that were asked for before their turn
    JinjaValue previous;
    JinjaValue current;
    std::optional<std::vector<JinjaValue>> last_changed;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail::jinja
