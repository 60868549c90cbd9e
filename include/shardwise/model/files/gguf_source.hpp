// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/files/regular_file.hpp>

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

    [[nodiscard]] std::uint64_t size() const { return file_ ? file_->size() : bytes_.size(); }

    /// Copies out.size() bytes from `offset`; false where the system does not give them. The caller stays within
    /// size().
    [[nodiscard]] bool read(std::uint64_t offset, std::span<char> out) const {
        if (file_) {
            auto const count = file_->read(offset, out.data(), out.size());
            return count && *count == out.size();
        }
        std::memcpy(out.data(), bytes_.data() + offset, out.size());
        return true;
    }

private:
    std::string_view bytes_;
    std::optional<RegularFile> file_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
