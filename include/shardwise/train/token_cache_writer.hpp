// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/files/write_file.hpp>
#include <shardwise/core/sha256.hpp>
#include <shardwise/core/span.hpp>
#include <shardwise/tokenizer/vocabulary.hpp>
#include <shardwise/train/token_file.hpp>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unistd.h>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Writes the file of a cache (TokenCacheHeader) while its tokens are made; it has its name when it is whole.
///
/// Memory  a block of a MiB, whatever the number of tokens
class TokenCacheWriter {
public:
    /// Ids below `limit` will come, so that the narrow form is written at once where it is sure to be.
    TokenCacheWriter(std::string path, std::int64_t limit) : path_(std::move(path)), width_(limit <= narrow ? 2 : 4) {}
    TokenCacheWriter(TokenCacheWriter const&) = delete;
    TokenCacheWriter& operator=(TokenCacheWriter const&) = delete;
    ~TokenCacheWriter() { close(); }

    /// Appends tokens; `counts` tell which of them a model is to predict, and matter once `has_loss`.
    ///
    /// Errors  file_unwritable
    [[nodiscard]] Result<> add(Span<TokenId const> ids, Span<std::uint8_t const> counts, bool has_loss) {
        if (auto const opened = open(); !opened) return opened;
        block_.clear();
        for (auto const id : ids) {
            largest_ = std::max(largest_, id);
            append_id(id, width_);
        }
        if (auto const written = write(ids_, block_); !written) return written;
        if (has_loss && counts_.descriptor < 0) {
            // All before were counted.
            if (auto const made = create(counts_, counts_name_); !made) return made;
            block_.assign(block_bytes, '\1');
            for (auto left = tokens_; left > 0; left -= std::min<std::uint64_t>(left, block_bytes)) {
                auto const some = static_cast<std::size_t>(std::min<std::uint64_t>(left, block_bytes));
                if (auto const written = write(counts_, std::string_view(block_).substr(0, some)); !written)
                    return written;
            }
        }
        tokens_ += ids.size();
        if (!has_loss) return {};
        block_.clear();
        for (auto const one : counts) block_ += static_cast<char>(one);
        return write(counts_, block_);
    }

    /// Completes the file and gives it its name.
    ///
    /// Errors  file_unwritable: there is no new file then
    [[nodiscard]] Result<> finish() {
        if (auto const opened = open(); !opened) return opened;
        TokenCacheHeader header;
        header.tokens = tokens_;
        header.width = largest_ < narrow ? 2 : 4;
        header.has_loss = counts_.descriptor >= 0;
        if (auto const narrowed = narrow_to(header.width); !narrowed) return narrowed;
        if (header.has_loss) {
            if (auto const copied = copy_counts(); !copied) return copied;
        }
        Sha256 hash;
        auto const each = static_cast<std::uint64_t>(header.width + (header.has_loss ? 1 : 0));
        for (std::uint64_t done = 0; done < tokens_ * each; done += block_.size()) {
            if (auto const read = read_block(ids_, TokenCacheHeader::bytes + done, tokens_ * each - done); !read)
                return read;
            hash.add(block_);
        }
        header.hash = hash.digest();
        if (::lseek(ids_.descriptor, 0, SEEK_SET) < 0) return unwritable(path_, errno);
        auto const code =
            write_and_rename(std::exchange(ids_.descriptor, -1), std::exchange(ids_name_, {}), path_, header.text());
        if (code != 0) return unwritable(path_, code);
        return {};
    }

private:
    static constexpr std::int64_t narrow = 1 << 16;
    static constexpr std::size_t block_bytes = std::size_t{1} << 20U;

    [[nodiscard]] Result<> open() {
        if (ids_.descriptor >= 0) return {};
        if (auto const made = create(ids_, ids_name_); !made) return made;
        return write(ids_, TokenCacheHeader{}.text());
    }
    [[nodiscard]] Result<> create(LockedFile& file, std::string& name) const {
        file = LockedFile::create_beside(path_, name);
        if (file.descriptor < 0) return unwritable(path_, errno);
        return {};
    }
    [[nodiscard]] Result<> write(LockedFile const& file, std::string_view text) const {
        if (auto const code = write_all(file.descriptor, text); code != 0) return unwritable(path_, code);
        return {};
    }
    void append_id(TokenId id, std::int64_t width) {
        for (unsigned i = 0; i < static_cast<unsigned>(width); ++i)
            block_ += static_cast<char>((static_cast<std::uint32_t>(id) >> (8U * i)) & 0xFFU);
    }
    /// Fills the block from `offset` on, with at most `most` bytes.
    [[nodiscard]] Result<> read_block(LockedFile const& file, std::uint64_t offset, std::uint64_t most) {
        block_.resize(static_cast<std::size_t>(std::min<std::uint64_t>(most, block_bytes)));
        for (std::size_t got = 0; got < block_.size();) {
            auto const some =
                ::pread(file.descriptor, block_.data() + got, block_.size() - got, static_cast<off_t>(offset + got));
            if (some < 0 && errno == EINTR) continue;
            if (some <= 0) return unwritable(path_, some < 0 ? errno : EIO);
            got += static_cast<std::size_t>(some);
        }
        return {};
    }
    /// Rewrites the ids with so many bytes each, in their place, and goes to their end.
    [[nodiscard]] Result<> narrow_to(std::int64_t width) {
        auto const begin = std::uint64_t{TokenCacheHeader::bytes};
        auto const size = [&](std::int64_t each) { return tokens_ * static_cast<std::uint64_t>(each); };
        auto const go_to = [&](std::uint64_t offset) {
            return ::lseek(ids_.descriptor, static_cast<off_t>(offset), SEEK_SET) >= 0;
        };
        if (width != width_) {
            if (!go_to(begin)) return unwritable(path_, errno);
            // A block is written after it was read, and never beyond it.
            for (std::uint64_t done = 0; done < size(width_);) {
                if (auto const read = read_block(ids_, begin + done, size(width_) - done); !read) return read;
                auto const wide = std::exchange(block_, {});
                for (std::size_t at = 0; at < wide.size(); at += static_cast<std::size_t>(width_))
                    append_id(static_cast<TokenId>(little_endian(wide.data() + at, width_)), width);
                if (auto const written = write(ids_, block_); !written) return written;
                done += wide.size();
            }
            if (::ftruncate(ids_.descriptor, static_cast<off_t>(begin + size(width))) != 0)
                return unwritable(path_, errno);
            width_ = width;
        }
        if (!go_to(begin + size(width_))) return unwritable(path_, errno);
        return {};
    }
    [[nodiscard]] Result<> copy_counts() {
        for (std::uint64_t done = 0; done < tokens_; done += block_.size()) {
            if (auto const read = read_block(counts_, done, tokens_ - done); !read) return read;
            if (auto const written = write(ids_, block_); !written) return written;
        }
        return {};
    }
    void close() {
        for (auto const* const name : {&ids_name_, &counts_name_}) {
            if (!name->empty()) (void)::unlink(name->c_str());
        }
        ids_.close();
        counts_.close();
    }

    std::string path_;
    std::int64_t width_;
    TokenId largest_ = 0;
    std::uint64_t tokens_ = 0;
    LockedFile ids_;
    std::string ids_name_;
    LockedFile counts_;
    std::string counts_name_;
    std::string block_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
