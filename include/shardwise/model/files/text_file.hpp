#pragma once

#include <shardwise/model/files/regular_file.hpp>

#include <cstddef>
#include <string>
#include <utility>

namespace shardwise::inline v0 {

/// The whole content of a regular file that is at most `limit` bytes.
///
/// Errors  file_not_found, file_unreadable; capacity_exceeded for a larger file
[[nodiscard]] inline Result<std::string> read_text_file(std::string path, std::size_t limit) {
    auto const file = RegularFile::open(std::move(path));
    if (!file) return file.error();
    if (file->size() > limit) {
        return Error{ErrorCode::capacity_exceeded}.in(file->path()).because("is larger than a file of this kind may be, in bytes")
            .got(static_cast<std::int64_t>(file->size())).expected(static_cast<std::int64_t>(limit));
    }
    std::string text(static_cast<std::size_t>(file->size()), '\0');
    auto const count = file->read(0, text.data(), text.size());
    if (!count) return count.error();
    text.resize(*count);
    return text;
}

}  // namespace shardwise::inline v0
