// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/files/regular_file.hpp>
#include <shardwise/core/result.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Where the bytes of a GGUF file come from: an open file, or a whole file in memory that outlives this.
class GgufSource {
public:
    explicit GgufSource(std::string_view bytes) : bytes_(bytes) {}
    explicit GgufSource(RegularFile file) : file_(std::move(file)) {}

    /// Null for a file in memory.
    [[nodiscard]] RegularFile const* file() const { return file_ ? &*file_ : nullptr; }
    [[nodiscard]] std::uint64_t size() const { return file_ ? file_->size() : bytes_.size(); }

    /// Copies out.size() bytes from `offset`; false where the system does not give them, which check() then tells too. The
    /// caller stays within size().
    [[nodiscard]] bool read(std::uint64_t offset, std::span<char> out) const {
        if (file_) {
            auto const count = file_->read(offset, out.data(), out.size());
            bool const is_whole = count && *count == out.size();
            has_failed_ = has_failed_ || !is_whole;
            return is_whole;
        }
        std::memcpy(out.data(), bytes_.data() + offset, out.size());
        return true;
    }
    /// Success where all that was read so far was the file's: what the metadata do not have is then really absent.
    ///
    /// Errors  file_unreadable
    [[nodiscard]] Result<> check(std::string_view shown) const {
        if (!file_) return {};
        if (auto const checked = file_->check_size(); !checked) return checked;
        if (!has_failed_) return {};
        return Error{ErrorCode::file_unreadable}.in(shown).because("the system does not give its bytes");
    }

private:
    std::string_view bytes_;
    std::optional<RegularFile> file_;
    mutable bool has_failed_ = false;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
