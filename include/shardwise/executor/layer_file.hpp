// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/files/regular_file.hpp>
#include <shardwise/core/result.hpp>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A file of the folder for temporary files that layers are written to. It has no name from the beginning: it goes with this
/// process, however that ends.
class LayerFile {
public:
    /// Writes the next layer's bytes, and says where they lie.
    ///
    /// Errors  file_unwritable with the system's words
    [[nodiscard]] Result<std::int64_t> write(std::span<std::byte const> bytes) {
        if (descriptor_.number < 0) {
            std::error_code problem;
            auto const folder = std::filesystem::temp_directory_path(problem);
            if (problem) return unwritable(named_folder(), problem.message());
            path_ = (folder / "shardwise-layers-XXXXXX").string();
            descriptor_.number = mkostemp(path_.data(), O_CLOEXEC);
            if (descriptor_.number < 0) return unwritable(path_, std::strerror(errno));
            (void)unlink(path_.c_str());
        }
        for (std::size_t done = 0; done < bytes.size();) {
            auto const written = ::pwrite(descriptor_.number, bytes.data() + done, bytes.size() - done,
                                          static_cast<off_t>(written_) + static_cast<off_t>(done));
            if (written < 0 && errno == EINTR) continue;
            if (written <= 0) return unwritable(path_, std::strerror(errno));
            done += static_cast<std::size_t>(written);
        }
        return std::exchange(written_, written_ + static_cast<std::int64_t>(bytes.size()));
    }
    /// Errors  file_unreadable; malformed_file where the file was cut
    [[nodiscard]] Result<> read(std::int64_t offset, std::span<std::byte> to) const {
        auto const got = RegularFile::read_from(descriptor_.number, path_, static_cast<std::uint64_t>(offset),
                                                reinterpret_cast<char*>(to.data()), to.size());
        if (!got) return got.error();
        if (*got < to.size()) return Error{ErrorCode::malformed_file}.in(path_).because("ends within a layer");
        return {};
    }

private:
    struct Descriptor {
        int number = -1;

        Descriptor() = default;
        Descriptor(Descriptor&& other) noexcept : number(std::exchange(other.number, -1)) {}
        Descriptor& operator=(Descriptor&& other) noexcept {
            std::swap(number, other.number);
            return *this;
        }
        ~Descriptor() {
            if (number >= 0) close(number);
        }
    };

    /// What temp_directory_path looks at, in its order.
    [[nodiscard]] static std::string_view named_folder() {
        for (auto const* const variable : {"TMPDIR", "TMP", "TEMP", "TEMPDIR"}) {
            if (auto const* const folder = std::getenv(variable)) return folder;
        }
        return "/tmp";
    }
    [[nodiscard]] static Error unwritable(std::string_view path, std::string_view problem) {
        return Error{ErrorCode::file_unwritable}.in(path).because(problem).fix(
            "set TMPDIR to a folder with room for the layers on disk");
    }

    Descriptor descriptor_;
    std::string path_;
    std::int64_t written_ = 0;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
