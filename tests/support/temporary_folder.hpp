// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>

namespace shardwise::testing {

/// A folder of a test's own, gone with the object.
class TemporaryFolder {
public:
    TemporaryFolder() {
        std::string pattern = (std::filesystem::temp_directory_path() / "shardwise-test-XXXXXX").string();
        path_ = ::mkdtemp(pattern.data()) == nullptr ? std::string{} : pattern;
    }
    TemporaryFolder(TemporaryFolder const&) = delete;
    TemporaryFolder& operator=(TemporaryFolder const&) = delete;
    ~TemporaryFolder() {
        std::error_code ignored;
        if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
    }

    [[nodiscard]] std::string const& path() const { return path_; }
    [[nodiscard]] std::string path(std::string_view name) const { return path_ + "/" + std::string(name); }
    [[nodiscard]] std::string operator/(std::string_view name) const { return path(name); }

    /// Writes a file, with the folders that it needs; returns its path.
    std::string write(std::string_view name, std::string_view text) const {
        auto const path = std::filesystem::path(path_) / name;
        std::filesystem::create_directories(path.parent_path());
        std::ofstream(path, std::ios::binary) << text;
        return path.string();
    }
    /// Makes a symbolic link in the folder.
    void link(std::string const& name, std::string const& target) const {
        auto const path = std::filesystem::path(path_) / name;
        std::filesystem::create_directories(path.parent_path());
        std::filesystem::create_symlink(target, path);
    }

private:
    std::string path_;
};

}  // namespace shardwise::testing
