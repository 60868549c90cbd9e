// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/tokenizer/jinja/value.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What one rendering of a template may take; a hostile one ends in an error that names the limit.
struct ChatTemplateLimits {
    std::uint64_t steps = 10'000'000;
    /// Bytes that strings and lists written by the template may take in all, beside 256 for each byte that is given to it.
    std::uint64_t bytes = std::uint64_t{256} << 20U;
    /// How deep expressions, calls and statements nest while they run.
    unsigned depth = 250;
};

namespace detail::jinja {

/// Why a template did not run to its end.
enum class JinjaFault : std::uint8_t {
    refused,      // the template refuses the conversation: raise_exception
    wrong,        // what Jinja refuses too
    unsupported,  // what Jinja has, and this interpreter has not
    limit         // it takes more than a rendering may
};

/// What every part of the interpreter reports to: the first fault, and what has been taken so far. After a fault all values
/// are undefined and every loop ends.
class JinjaRunState {
public:
    explicit JinjaRunState(ChatTemplateLimits limits) : limits_(limits) {}

    [[nodiscard]] bool is_failed() const { return is_failed_; }
    [[nodiscard]] JinjaFault fault() const { return fault_; }
    [[nodiscard]] std::string const& reason() const { return reason_; }
    [[nodiscard]] int fault_line() const { return fault_line_; }
    [[nodiscard]] ChatTemplateLimits const& limits() const { return limits_; }

    void at_line(int line) { line_ = line; }
    JinjaValue fail(JinjaFault fault, std::string reason) {
        if (!is_failed_) {
            is_failed_ = true;
            fault_ = fault;
            fault_line_ = line_;
            reason_ = std::move(reason);
        }
        return {};
    }
    JinjaValue wrong(std::string reason) { return fail(JinjaFault::wrong, std::move(reason)); }
    JinjaValue unsupported(std::string reason) { return fail(JinjaFault::unsupported, std::move(reason)); }

    /// False where this many steps more are too many, or something failed.
    bool step(std::uint64_t count = 1) {
        if (is_failed_) return false;
        steps_ += count;
        if (steps_ > limits_.steps)
            fail(JinjaFault::limit, "takes more than " + std::to_string(limits_.steps) + " steps");
        return !is_failed_;
    }
    /// False where this many bytes more, read or written, are too many, or something failed.
    bool take(std::uint64_t bytes) {
        if (is_failed_) return false;
        if (bytes > limits_.bytes - bytes_)
            fail(JinjaFault::limit, "works on more than " + std::to_string(limits_.bytes) + " bytes");
        else
            bytes_ += bytes;
        return !is_failed_;
    }

    /// As step, for going through so many names for one of so many bytes.
    bool search_names(std::size_t count, std::size_t size) { return step(1 + count * (1 + size / 32) / 8); }
    /// As take, for looking for `wanted` bytes among `size`, which takes their product at worst.
    bool search_text(std::uint64_t size, std::uint64_t wanted) {
        auto const rounds = 1 + wanted / 64;
        return take(size > UINT64_MAX / rounds ? UINT64_MAX : size * rounds);
    }

    /// One level deeper as long as it lives; false where that is too deep.
    class Level {
    public:
        explicit Level(JinjaRunState& state) : state_(state) {
            if (++state_.depth_ > state_.limits_.depth) state_.fail(JinjaFault::limit, "nests too deep");
        }
        ~Level() { --state_.depth_; }
        Level(Level const&) = delete;
        Level& operator=(Level const&) = delete;

    private:
        JinjaRunState& state_;
    };

    [[nodiscard]] JinjaValue make_string(std::string text) {
        return take(text.size()) ? JinjaValue(std::move(text)) : JinjaValue{};
    }
    [[nodiscard]] JinjaValue make_sequence(JinjaKind kind, std::vector<JinjaValue> items) {
        if (!take(items.size() * sizeof(JinjaValue))) return {};
        auto made = std::make_shared<JinjaItems>();
        for (auto const& item : items) made->depth = std::max(made->depth, item.depth() + 1);
        if (made->depth > max_depth) return fail(JinjaFault::limit, "makes lists that nest too deep");
        made->items = std::move(items);
        return JinjaValue::sequence(kind, std::move(made));
    }
    [[nodiscard]] JinjaValue make_list(std::vector<JinjaValue> items) {
        return make_sequence(JinjaKind::list, std::move(items));
    }
    [[nodiscard]] JinjaValue make_dict(std::vector<JinjaMember> members) {
        if (!take(members.size() * sizeof(JinjaMember))) return {};
        auto made = std::make_shared<JinjaDict>();
        for (auto const& [key, value] : members)
            made->depth = std::max(made->depth, std::max(key.depth(), value.depth()) + 1);
        if (made->depth > max_depth) return fail(JinjaFault::limit, "makes dicts that nest too deep");
        made->members = std::move(members);
        return JinjaValue::mapping(std::move(made));
    }

    /// Namespaces live as long as the run: they may hold each other.
    using Members = std::vector<std::pair<std::string, JinjaValue>>;
    [[nodiscard]] JinjaValue make_name_space(Members members) {
        if (!take(64 + members.size() * sizeof(Members::value_type))) return {};
        name_spaces_.push_back(std::move(members));
        return JinjaValue::numbered(JinjaKind::name_space, name_spaces_.size() - 1);
    }
    [[nodiscard]] Members& name_space(std::size_t index) { return name_spaces_[index]; }

private:
    static constexpr unsigned max_depth = 64;

    ChatTemplateLimits limits_;
    std::uint64_t steps_ = 0;
    std::uint64_t bytes_ = 0;
    unsigned depth_ = 0;
    int line_ = 0;
    bool is_failed_ = false;
    JinjaFault fault_ = JinjaFault::wrong;
    int fault_line_ = 0;
    std::string reason_;
    std::vector<Members> name_spaces_;
};

}  // namespace detail::jinja

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
