// SPDX-License-Identifier: Apache-2.0
#include "monitor_csv.hpp"

#include <shardwise/core/files/regular_file.hpp>
#include <shardwise/core/files/write_file.hpp>

#include "console.hpp"

#include <cerrno>
#include <fcntl.h>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>

namespace shardwise::cli {

Result<CsvFile> CsvFile::open(std::string const& path, std::string const& header) {
    CsvFile file(path);
    if (path == "-") {
        print_text(header);
        return Result<CsvFile>(std::move(file));
    }
    file.descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666);
    // A pipe or a device may be writable only.
    if (file.descriptor_ < 0) file.descriptor_ = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY);
    if (file.descriptor_ < 0) return detail::unwritable(path, errno);
    struct stat status {};
    if (::fstat(file.descriptor_, &status) != 0) return detail::unwritable(path, errno);
    if (S_ISREG(status.st_mode) && status.st_size > 0) {
        std::string before(header.size(), '\0');
        auto const got = RegularFile::read_from(file.descriptor_, path, 0, before.data(), before.size());
        if (!got) return got.error();
        if (before != header) {
            return Error{ErrorCode::invalid_argument}
                .in(path)
                .because("has rows with other columns")
                .fix("name another file, or watch the same number of devices");
        }
        return Result<CsvFile>(std::move(file));
    }
    if (auto const written = file.add(header); !written) return written.error();
    return Result<CsvFile>(std::move(file));
}

CsvFile::~CsvFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
}

Result<> CsvFile::add(std::string const& row) {
    if (descriptor_ < 0) {
        print_text(row);
        if (!flush_output()) return detail::unwritable("the standard output", EPIPE);
        return {};
    }
    auto const code = detail::write_all(descriptor_, row);
    if (code != 0) return detail::unwritable(path_, code);
    return {};
}

}  // namespace shardwise::cli
