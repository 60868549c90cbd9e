// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/jit/kernel_code.hpp>
#include <shardwise/core/files/regular_file.hpp>
#include <shardwise/core/files/write_file.hpp>
#include <shardwise/core/sha256.hpp>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Kernels that were compiled at run time, kept in a folder that its owner alone may enter, one file each. A file that was cut or changed
/// counts as none, and so does a folder that is another's or open to others: what is not found is compiled again.
class CodeCache {
public:
    explicit CodeCache(std::string folder) : folder_(std::move(folder)) {}

    /// $SHARDWISE_KERNEL_CACHE, or shardwise/kernels in $XDG_CACHE_HOME or ~/.cache; empty where none of the three is set.
    [[nodiscard]] static std::string usual_folder() {
        auto const value = [](char const* name) -> std::string {
            auto const* const text = std::getenv(name);
            return text == nullptr ? "" : text;
        };
        if (auto const own = value("SHARDWISE_KERNEL_CACHE"); !own.empty()) return own;
        if (auto const caches = value("XDG_CACHE_HOME"); !caches.empty()) return caches + "/shardwise/kernels";
        if (auto const home = value("HOME"); !home.empty()) return home + "/.cache/shardwise/kernels";
        return {};
    }

    /// What stands for the sources of requests in the names of their code.
    [[nodiscard]] static std::string digest_of(std::span<detail::DeviceSource const> sources) {
        Parts parts;
        for (auto const& source : sources) parts.add(source.name).add(source.text);
        return parts.hash.hex();
    }
    /// What a request's code is called: it changes with everything that code depends on. `compiler` is the compiler's identity(), `sources`
    /// the digest of the request's.
    [[nodiscard]] static std::string name_of(KernelRequest const& request, std::string_view compiler,
                                             std::string_view sources) {
        Parts parts;
        parts.add(format).add(compiler).add(request.architecture);
        for (auto const& option : request.options) parts.add(option);
        return parts.add(request.kernel).add(request.unit).add(sources).hash.hex();
    }
    [[nodiscard]] static std::string name_of(KernelRequest const& request, std::string_view compiler) {
        return name_of(request, compiler, digest_of(request.sources));
    }

    /// The code of that name; none where there is no file, or one that is not as it was written.
    [[nodiscard]] std::optional<KernelCode> find(std::string const& name) const {
        if (!is_own()) return std::nullopt;
        auto const file = RegularFile::open(path_of(name));
        if (!file || file->size() < head || file->size() > max_size) return std::nullopt;
        std::string text(static_cast<std::size_t>(file->size()), '\0');
        if (!file->read_all(0, text.data(), text.size())) return std::nullopt;
        std::string_view rest = text;
        if (!rest.starts_with(format)) return std::nullopt;
        rest.remove_prefix(format.size());
        auto const digest = rest.substr(0, 64);
        rest.remove_prefix(64);
        if (sha256_hex(rest) != digest) return std::nullopt;
        auto const end = rest.find('\n');
        if (end == std::string_view::npos) return std::nullopt;
        return KernelCode{std::string(rest.substr(0, end)), std::string(rest.substr(end + 1))};
    }

    /// Keeps code for the next program: written beside its place and renamed.
    ///
    /// Errors  file_unwritable: nothing is kept
    [[nodiscard]] Result<> keep(std::string const& name, KernelCode const& code) const {
        if (folder_.empty()) return detail::unwritable(folder_, ENOENT);
        std::error_code failed;
        auto const parent = std::filesystem::path(folder_).parent_path();
        if (!parent.empty()) std::filesystem::create_directories(parent, failed);
        if (::mkdir(folder_.c_str(), 0700) != 0 && errno != EEXIST) return detail::unwritable(folder_, errno);
        if (!is_own()) return detail::unwritable(folder_, EACCES);
        auto const content = code.symbol + "\n" + code.image;
        return write_file(path_of(name), std::string(format) + sha256_hex(content) + content);
    }

private:
    static constexpr std::string_view format = "shardwise kernel 1\n";
    static constexpr std::size_t head = format.size() + 64;
    /// No kernel comes near.
    static constexpr std::uint64_t max_size = std::uint64_t{1} << 28U;

    /// A hash of parts, with the length before each: parts that are cut elsewhere are others.
    struct Parts {
        Sha256 hash;

        Parts& add(std::string_view part) {
            hash.add(std::to_string(part.size()) + ":").add(part);
            return *this;
        }
    };

    [[nodiscard]] bool is_own() const {
        struct stat status {};
        if (folder_.empty() || ::lstat(folder_.c_str(), &status) != 0) return false;
        return S_ISDIR(status.st_mode) && status.st_uid == ::geteuid() && (status.st_mode & 077) == 0;
    }
    [[nodiscard]] std::string path_of(std::string const& name) const { return folder_ + "/" + name; }

    std::string folder_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
