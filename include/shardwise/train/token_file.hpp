// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/files/regular_file.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/sha256.hpp>
#include <shardwise/core/span.hpp>
#include <shardwise/model/files/mapped_file.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// What stands before the tokens of a cache file: "SWTOKENS", the version, bytes per token, whether each token says if its loss
/// counts, the number of tokens, and the hash of what follows.
struct TokenCacheHeader {
    static constexpr std::string_view magic = "SWTOKENS";
    static constexpr std::size_t bytes = 64;
    static constexpr char version = 1;

    std::uint64_t tokens = 0;
    std::int64_t width = 4;
    bool has_loss = false;
    Sha256::Digest hash{};

    [[nodiscard]] std::string text() const {
        std::string out(magic);
        out += version;
        out += static_cast<char>(width);
        out += has_loss ? '\1' : '\0';
        out.resize(16, '\0');
        for (unsigned i = 0; i < 8; ++i) out += static_cast<char>((tokens >> (8U * i)) & 0xFFU);
        for (auto const byte : hash) out += static_cast<char>(byte);
        out.resize(bytes, '\0');
        return out;
    }
};

/// The hash of a mapped text, whose pages are given back on the way.
[[nodiscard]] inline Sha256 hash_pages(MappedFile const& mapped) {
    constexpr std::size_t step = std::size_t{1} << 20U;
    Sha256 hash;
    ReadPages pages(&mapped);
    for (std::size_t at = 0; at < mapped.text().size(); at += step) {
        hash.add(mapped.text().substr(at, step));
        pages.release_before(at);
    }
    return hash;
}

/// A number of little-endian bytes.
[[nodiscard]] inline std::uint32_t little_endian(char const* from, std::int64_t width) {
    std::uint32_t value = 0;
    for (auto i = width; i-- > 0;) value = (value << 8U) | static_cast<unsigned char>(from[i]);
    return value;
}

}  // namespace detail

/// Tokens of a file, mapped: `*.u16` and `*.u32` hold little-endian ids and no header; a cache of tokenize_file holds which tokens'
/// losses count, too.
class TokenFile {
public:
    /// Whether a name ends as those of token files do.
    [[nodiscard]] static bool has_name_of_one(std::string_view path) {
        return path.ends_with(".u16") || path.ends_with(".u32");
    }

    /// Errors  file_not_found, file_unreadable; malformed_file with the size where the last id is cut; unknown_name for another
    ///         ending
    [[nodiscard]] static Result<TokenFile> open(std::string const& path) {
        if (!has_name_of_one(path)) {
            return Error{ErrorCode::unknown_name}
                .in(path)
                .because("does not end as token files do")
                .fix("name it *.u16 or *.u32, by the bytes of an id");
        }
        auto file = map(path, 0);
        if (!file) return file;
        file->width_ = path.ends_with(".u16") ? 2 : 4;
        auto const size = static_cast<std::int64_t>(file->map_.text().size());
        if (size % file->width_ != 0) {
            return Error{ErrorCode::malformed_file}
                .in(path)
                .at("its size in bytes")
                .because("is not that of whole ids")
                .got(size)
                .multiple_of(file->width_);
        }
        file->tokens_ = size / file->width_;
        return file;
    }

    /// Opens a cache, whose hash says that it is whole.
    ///
    /// Errors  as open; malformed_file
    [[nodiscard]] static Result<TokenFile> open_cache(std::string const& path) {
        using Header = detail::TokenCacheHeader;
        auto file = map(path, Header::bytes);
        if (!file) return file;
        auto const broken = [&path](std::string_view reason) {
            return Error{ErrorCode::malformed_file}.in(path).because(reason).fix("remove it: it is made again");
        };
        std::array<char, Header::bytes> head{};
        auto const opened = RegularFile::open(path);
        if (!opened) return opened.error();
        if (auto const read = opened->read_all(0, head.data(), head.size()); !read)
            return broken("is no whole cache of tokens");
        Header header;
        header.tokens = std::uint64_t{detail::little_endian(head.data() + 16, 4)} |
                        std::uint64_t{detail::little_endian(head.data() + 20, 4)} << 32U;
        header.width = head[9] == 2 ? 2 : 4;
        header.has_loss = head[10] != 0;
        header.hash = detail::hash_pages(file->map_).digest();
        if (auto const whole = file->map_.check(); !whole) return whole.error();
        if (header.text() != std::string_view(head.data(), head.size())) return broken("is no whole cache of tokens");
        auto const each = static_cast<std::uint64_t>(header.width + (header.has_loss ? 1 : 0));
        if (header.tokens > file->map_.text().size() || header.tokens * each != file->map_.text().size())
            return broken("has another number of tokens than it says");
        file->width_ = header.width;
        file->tokens_ = static_cast<std::int64_t>(header.tokens);
        file->has_loss_ = header.has_loss;
        return file;
    }

    [[nodiscard]] std::string const& path() const { return path_; }
    [[nodiscard]] std::int64_t tokens() const { return tokens_; }
    /// Whether some tokens' losses do not count.
    [[nodiscard]] bool has_loss() const { return has_loss_; }

    /// Copies ids, and whether the loss of predicting each counts; `counts` may be empty.
    ///
    /// Shapes  ids, counts [any], from the token `first` on
    /// Errors  invalid_argument beyond the end; malformed_file with the byte of an id beyond the vocabulary; file_unreadable where
    ///         the file became shorter
    [[nodiscard]] Result<> read(std::int64_t first, std::int64_t vocabulary, Span<std::int32_t> ids,
                                Span<std::uint8_t> counts = {}) const {
        auto const size = static_cast<std::int64_t>(ids.size());
        if (first < 0 || size > tokens_ || first > tokens_ - size)
            return Error{ErrorCode::invalid_argument}
                .in(path_)
                .because("has fewer tokens than are read from the first one on")
                .got(first)
                .at_most(tokens_ - size);
        if (!counts.empty() && counts.size() != ids.size())
            return Error{ErrorCode::shape_mismatch}.in(path_).because("ids and counts differ in size");
        auto const* const from = map_.text().data() + first * width_;
        // Ids are no larger than 31 bits say.
        auto const most = std::min<std::int64_t>(vocabulary, INT32_MAX);
        for (std::int64_t i = 0; i < size; ++i) {
            auto const id = static_cast<std::int64_t>(detail::little_endian(from + i * width_, width_));
            if (id >= most) return beyond(first + i, id, most);
            ids[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(id);
        }
        if (!counts.empty() && has_loss_) {
            std::memcpy(counts.data(), map_.text().data() + tokens_ * width_ + first, counts.size());
        } else {
            for (auto& one : counts) one = 1;
        }
        return map_.check();
    }

    /// Gives the memory of the tokens before one back to the system, as far as they are its: they come again when they are read.
    void release_before(std::int64_t token) const {
        if (!has_loss_) map_.release_before(static_cast<std::size_t>(token * width_));
    }

    /// Asks the system to begin to bring tokens into memory: reading them later waits less, and gives the same. It may refuse.
    void expect(std::int64_t first, std::int64_t count) const {
        if (first < 0 || first >= tokens_ || count < 1) return;
        count = std::min(count, tokens_ - first);
        map_.expect(static_cast<std::size_t>(first * width_), static_cast<std::size_t>(count * width_));
        if (has_loss_) map_.expect(static_cast<std::size_t>(tokens_ * width_ + first), static_cast<std::size_t>(count));
    }

private:
    TokenFile(std::string path, MappedFile map, std::int64_t begin)
        : path_(std::move(path)), map_(std::move(map)), begin_(begin) {}

    [[nodiscard]] static Result<TokenFile> map(std::string const& path, std::uint64_t offset) {
        auto const file = RegularFile::open(path);
        if (!file) return file.error();
        auto mapped = MappedFile::map(*file, offset, UINT64_MAX);
        if (!mapped) return mapped.error();
        return TokenFile(path, std::move(*mapped), static_cast<std::int64_t>(offset));
    }
    [[nodiscard]] Error beyond(std::int64_t token, std::int64_t id, std::int64_t vocabulary) const {
        auto const offset = begin_ + token * width_;
        return Error{ErrorCode::malformed_file}
            .in(path_)
            .at("byte " + std::to_string(offset))
            .because("has an id that the vocabulary does not have")
            .got(id)
            .at_most(vocabulary - 1)
            .fix("make the file with the model's tokenizer, and give its ids the bytes that its name says");
    }

    std::string path_;
    MappedFile map_;
    /// The byte of the file at which ids begin.
    std::int64_t begin_;
    std::int64_t tokens_ = 0;
    std::int64_t width_ = 4;
    bool has_loss_ = false;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
