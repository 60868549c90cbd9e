// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/files/gguf_source.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Reads a GGUF source from front to back through a small window; what is skipped is never read.
///
/// Memory  one window
class GgufCursor {
public:
    GgufCursor(GgufSource const& source, std::uint64_t position, std::size_t window_size)
        : source_(source), position_(position), window_size_(window_size) {}

    [[nodiscard]] std::uint64_t position() const { return position_; }
    [[nodiscard]] std::uint64_t remaining() const { return source_.size() - position_; }
    /// True after the system refused to give bytes that the file has.
    [[nodiscard]] bool has_failed() const { return has_failed_; }

    /// Moves on by `count` bytes; false where the file ends before.
    [[nodiscard]] bool skip(std::uint64_t count) {
        if (count > remaining()) return false;
        position_ += count;
        return true;
    }
    /// A little-endian number; false where the file ends before. Big-endian hosts are refused by read_gguf.
    template <class Number>
    [[nodiscard]] bool read(Number& number) {
        if (!load(sizeof(Number))) return false;
        std::memcpy(&number, at(), sizeof(Number));
        position_ += sizeof(Number);
        return true;
    }
    /// `size` bytes of text, valid until the next call; false where the file ends before. The caller bounds the size.
    [[nodiscard]] bool text(std::uint64_t size, std::string_view& out) {
        if (!load(size)) return false;
        out = {at(), static_cast<std::size_t>(size)};
        position_ += size;
        return true;
    }

private:
    [[nodiscard]] char const* at() const { return window_.data() + (position_ - window_begin_); }

    /// Makes `size` bytes at the position available in the window.
    [[nodiscard]] bool load(std::uint64_t size) {
        if (size > remaining()) return false;
        if (position_ >= window_begin_ && position_ + size <= window_begin_ + window_.size()) return true;
        auto const wanted = std::max<std::uint64_t>(size, window_size_);
        window_.resize(static_cast<std::size_t>(std::min(wanted, remaining())));
        window_begin_ = position_;
        if (source_.read(position_, window_)) return true;
        window_.clear();
        has_failed_ = true;
        return false;
    }

    GgufSource const& source_;
    std::uint64_t position_;
    std::size_t window_size_;
    std::vector<char> window_;
    std::uint64_t window_begin_ = 0;
    bool has_failed_ = false;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
