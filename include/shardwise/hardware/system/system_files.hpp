// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <dirent.h>
#include <fcntl.h>
#include <optional>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Text without blanks and line ends on either side.
[[nodiscard]] inline std::string_view trimmed(std::string_view text) {
    constexpr std::string_view blanks = " \t\r\n";
    auto const first = text.find_first_not_of(blanks);
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

/// The parts between separators; an empty text has one empty part.
[[nodiscard]] inline std::vector<std::string_view> split_text(std::string_view text, char separator) {
    std::vector<std::string_view> parts;
    while (true) {
        auto const end = text.find(separator);
        parts.push_back(text.substr(0, end));
        if (end == std::string_view::npos) return parts;
        text.remove_prefix(end + 1);
    }
}

/// The parts would outlive their text.
std::vector<std::string_view> split_text(std::string&& text, char separator) = delete;

/// A whole text that is a number; nothing where it is none or too large.
[[nodiscard]] inline std::optional<std::int64_t> to_integer(std::string_view text, int base = 10) {
    text = trimmed(text);
    std::int64_t number = 0;
    auto const read = std::from_chars(text.data(), text.data() + text.size(), number, base);
    if (read.ec != std::errc{} || read.ptr != text.data() + text.size() || text.empty()) return std::nullopt;
    return number;
}

}  // namespace detail

/// The kernel's files below a root folder: "/" on a real machine, a made folder in tests. What is absent, unreadable,
/// or no regular file reads as nothing: which of these files exist differs between kernels and containers.
class SystemFiles {
public:
    explicit SystemFiles(std::string root = "/") : root_(std::move(root)) {
        while (!root_.empty() && root_.back() == '/') root_.pop_back();
    }

    /// Where a file really is.
    [[nodiscard]] std::string path_of(std::string const& path) const { return root_ + path; }
    /// A whole file of at most 4 MiB: /proc/cpuinfo of a machine with 1,000 threads takes 1.5.
    [[nodiscard]] std::optional<std::string> text(std::string const& path) const {
        // A FIFO in the way must not block.
        auto const descriptor = ::open((root_ + path).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        if (descriptor < 0) return std::nullopt;
        struct stat status {};
        std::optional<std::string> content;
        if (::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode)) content = read_all(descriptor);
        ::close(descriptor);
        return content;
    }
    /// A file's text without blanks around it.
    [[nodiscard]] std::optional<std::string> word(std::string const& path) const {
        auto const content = text(path);
        if (!content) return std::nullopt;
        return std::string(detail::trimmed(*content));
    }
    /// A file that holds one number.
    [[nodiscard]] std::optional<std::int64_t> integer(std::string const& path, int base = 10) const {
        auto const content = text(path);
        return content ? detail::to_integer(*content, base) : std::nullopt;
    }
    /// The numbers N of the entries "<prefix>N" of a folder, ascending.
    [[nodiscard]] std::vector<std::int64_t> numbered(std::string const& folder, std::string_view prefix) const {
        std::vector<std::int64_t> numbers;
        auto* const stream = ::opendir((root_ + folder).c_str());
        if (stream == nullptr) return numbers;
        while (auto const* entry = ::readdir(stream)) {
            std::string_view const name = entry->d_name;
            if (name.size() <= prefix.size() || name.substr(0, prefix.size()) != prefix) continue;
            auto const digits = name.substr(prefix.size());
            if (digits.find_first_not_of("0123456789") != std::string_view::npos) continue;
            if (auto const number = detail::to_integer(digits)) numbers.push_back(*number);
        }
        ::closedir(stream);
        std::sort(numbers.begin(), numbers.end());
        return numbers;
    }
    [[nodiscard]] bool has_folder(std::string const& path) const {
        struct stat status {};
        return ::stat((root_ + path).c_str(), &status) == 0 && S_ISDIR(status.st_mode);
    }
    /// Where a symbolic link points, as it is written; "" where there is none.
    [[nodiscard]] std::string link(std::string const& path) const {
        std::string target(4096, '\0');
        auto const length = ::readlink((root_ + path).c_str(), target.data(), target.size());
        target.resize(length < 0 ? 0 : static_cast<std::size_t>(length));
        return target;
    }

private:
    static std::optional<std::string> read_all(int descriptor) {
        constexpr std::size_t most = 4U << 20U;
        std::string content;
        char block[16384];
        while (content.size() < most) {
            auto const got = ::read(descriptor, block, sizeof block);
            if (got < 0 && errno == EINTR) continue;
            if (got < 0) return std::nullopt;
            if (got == 0) break;
            content.append(block, static_cast<std::size_t>(got));
        }
        return content;
    }

    std::string root_;
};

/// Numbers of a kernel list ("0-3,8,10-11"), ascending; what is not a list reads as nothing.
[[nodiscard]] inline std::vector<std::int64_t> parse_number_list(std::string_view text) {
    // The kernel's largest number of processors, with room.
    constexpr std::int64_t most = 65536;
    std::vector<std::int64_t> numbers;
    text = detail::trimmed(text);
    if (text.empty()) return numbers;
    for (auto const part : detail::split_text(text, ',')) {
        auto const dash = part.find('-');
        auto const first = detail::to_integer(part.substr(0, dash));
        auto const last = dash == std::string_view::npos ? first : detail::to_integer(part.substr(dash + 1));
        if (!first || !last || *first < 0 || *last < *first || *last >= most) return {};
        for (auto number = *first; number <= *last; ++number) numbers.push_back(number);
        if (numbers.size() > static_cast<std::size_t>(most)) return {};
    }
    std::sort(numbers.begin(), numbers.end());
    numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
    return numbers;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
