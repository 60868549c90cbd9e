// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/fnv1a.hpp>
#include <shardwise/core/result.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The number of a token in a model's vocabulary.
using TokenId = std::int32_t;

/// The texts of a vocabulary by id, and their ids by text.
///
/// Memory  the texts once, 8 bytes for each id and 8 to 16 for each text
class Vocabulary {
public:
    /// Ids beyond this are no model's; it bounds the memory of a file that lies.
    static constexpr TokenId max_tokens = 1 << 21;

    /// Notes the text of an id. Of two ids with one text, the first is found.
    ///
    /// Errors  invalid_field for an id outside 0 to max_tokens, or that has a text already
    Result<> add(std::string_view text, TokenId id) {
        if (id < 0 || id >= max_tokens) {
            return Error{ErrorCode::invalid_field}.at(text).because("has an impossible token id").got(id);
        }
        if (bytes_.size() + text.size() > UINT32_MAX) {
            return Error{ErrorCode::capacity_exceeded}.because("the vocabulary has more than 4 GiB of text");
        }
        auto const index = static_cast<std::size_t>(id);
        if (index >= entries_.size()) entries_.resize(index + 1);
        if (entries_[index].is_present()) {
            return Error{ErrorCode::invalid_field}.at(text).because("has the id of another token").got(id);
        }
        entries_[index] = {static_cast<std::uint32_t>(bytes_.size()), static_cast<std::uint32_t>(text.size())};
        bytes_ += text;
        ++count_;
        if (text.size() > longest_) longest_ = text.size();
        if (count_ * 2 > slots_.size()) grow();
        insert(id);
        return {};
    }

    /// One more than the largest id.
    [[nodiscard]] std::size_t size() const { return entries_.size(); }
    /// Units  bytes of the longest text
    [[nodiscard]] std::size_t longest() const { return longest_; }

    [[nodiscard]] std::optional<TokenId> find(std::string_view text) const {
        if (slots_.empty()) return std::nullopt;
        for (auto slot = hash(text) & (slots_.size() - 1);; slot = (slot + 1) & (slots_.size() - 1)) {
            if (slots_[slot] < 0) return std::nullopt;
            if (text_at(slots_[slot]) == text) return slots_[slot];
        }
    }
    /// The text of an id; nothing where no token has it.
    [[nodiscard]] std::optional<std::string_view> text(TokenId id) const {
        if (id < 0 || static_cast<std::size_t>(id) >= entries_.size()) return std::nullopt;
        if (!entries_[static_cast<std::size_t>(id)].is_present()) return std::nullopt;
        return text_at(id);
    }

private:
    struct Entry {
        std::uint32_t first = UINT32_MAX;
        std::uint32_t size = 0;

        [[nodiscard]] bool is_present() const { return first != UINT32_MAX; }
    };

    /// FNV-1a, mixed: the low bits choose the slot.
    [[nodiscard]] static std::size_t hash(std::string_view text) {
        auto const value = detail::fnv1a(text);
        return static_cast<std::size_t>(value ^ value >> 32U);
    }
    [[nodiscard]] std::string_view text_at(TokenId id) const {
        auto const& entry = entries_[static_cast<std::size_t>(id)];
        return std::string_view(bytes_).substr(entry.first, entry.size);
    }
    void insert(TokenId id) {
        auto const text = text_at(id);
        auto slot = hash(text) & (slots_.size() - 1);
        while (slots_[slot] >= 0) {
            if (text_at(slots_[slot]) == text) return;
            slot = (slot + 1) & (slots_.size() - 1);
        }
        slots_[slot] = id;
    }
    void grow() {
        slots_.assign(slots_.empty() ? 64 : slots_.size() * 2, -1);
        for (std::size_t id = 0; id < entries_.size(); ++id) {
            if (entries_[id].is_present()) insert(static_cast<TokenId>(id));
        }
    }

    std::string bytes_;
    std::vector<Entry> entries_;
    std::vector<TokenId> slots_;
    std::size_t count_ = 0;
    std::size_t longest_ = 0;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
