// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/files/regular_file.hpp>

#include <cerrno>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A folder that holds a model; gives its files by name and nothing outside it.
///
/// The folder itself may be a link, and links that its listing shows are followed wherever they point: the user named
/// the folder. Names that come out of a file must stay in it, through links too, except that the snapshots of a Hugging
/// Face cache may link into the `blobs` of the same repository. Hard links are files.
class ModelFolder {
public:
    /// Errors  file_not_found, file_unreadable
    [[nodiscard]] static Result<ModelFolder> open(std::string const& path) {
        auto root = real_path(path);
        if (!root) return root.error();
        struct stat status {};
        if (::stat(root->c_str(), &status) != 0) return RegularFile::unreadable(path, errno);
        if (!S_ISDIR(status.st_mode)) return Error{ErrorCode::file_unreadable}.in(path).because("is not a folder");
        return ModelFolder(path, *std::move(root));
    }

    /// As the user named it.
    [[nodiscard]] std::string const& path() const { return path_; }

    /// Opens a file that the folder's listing shows, or that every model has under that name; links are followed.
    ///
    /// Errors  unsafe_path for a name that leads out of the folder; file_not_found, file_unreadable
    [[nodiscard]] Result<RegularFile> listed_file(std::string_view name) const {
        if (auto const checked = check_name(name); !checked) return checked.error();
        return RegularFile::open(root_ + "/" + std::string(name), path_ + "/" + std::string(name));
    }

    /// Opens a file by its name relative to the folder, as an index gives it.
    ///
    /// Errors  unsafe_path for a name or link that leaves the folder; file_not_found, file_unreadable
    [[nodiscard]] Result<RegularFile> file(std::string_view name) const {
        auto resolved = resolve(name);
        if (!resolved) return resolved.error();
        return RegularFile::open(*resolved, path_ + "/" + std::string(name));
    }

    /// The real path of a file of the folder.
    ///
    /// Errors  as file()
    [[nodiscard]] Result<std::string> resolve(std::string_view name) const {
        if (auto const checked = check_name(name); !checked) return checked.error();
        auto target = real_path(root_ + "/" + std::string(name));
        if (!target) {
            auto error = target.error();
            return error.in(path_ + "/" + std::string(name));
        }
        bool const is_inside = is_below(*target, root_) || (!blobs_.empty() && is_below(*target, blobs_));
        if (!is_inside) {
            return Error{ErrorCode::unsafe_path}
                .in(path_ + "/" + std::string(name))
                .because("is a link that leaves the model's folder")
                .fix("replace it by the file itself");
        }
        return target;
    }

    /// Success where a name is relative and has no way up, in any system's spelling.
    ///
    /// Errors  unsafe_path
    [[nodiscard]] static Result<> check_name(std::string_view name) {
        auto const refuse = [name](std::string_view reason) {
            return Error{ErrorCode::unsafe_path}.at(name).because(reason).fix(
                "a shard is a file within the model's folder");
        };
        if (name.empty()) return refuse("an empty file name");
        if (name.find('\0') != std::string_view::npos) return refuse("has a NUL character");
        if (name[0] == '/') return refuse("is an absolute path");
        if (name.find('\\') != std::string_view::npos) return refuse("has a backslash");
        if (name.size() > 1 && name[1] == ':') return refuse("names a drive");
        for (std::size_t first = 0; first <= name.size();) {
            auto const last = name.find('/', first) == std::string_view::npos ? name.size() : name.find('/', first);
            if (name.substr(first, last - first) == "..") return refuse("leads out of the model's folder");
            first = last + 1;
        }
        return {};
    }

private:
    ModelFolder(std::string path, std::string root) : path_(std::move(path)), root_(std::move(root)) {
        // .../models--org--name/snapshots/<revision> may link into .../models--org--name/blobs.
        auto const [snapshots, revision] = split_last(root_);
        auto const [repository, kind] = split_last(snapshots);
        auto const [cache, name] = split_last(repository);
        bool const is_snapshot = kind == "snapshots" && name.substr(0, 8) == "models--" && !revision.empty();
        if (is_snapshot) blobs_ = std::string(repository) + "/blobs";
    }

    static std::pair<std::string_view, std::string_view> split_last(std::string_view path) {
        auto const slash = path.rfind('/');
        if (slash == std::string_view::npos) return {{}, path};
        return {path.substr(0, slash), path.substr(slash + 1)};
    }
    static bool is_below(std::string_view path, std::string_view folder) {
        if (folder == "/") return true;
        return path.size() > folder.size() && path.substr(0, folder.size()) == folder && path[folder.size()] == '/';
    }
    static Result<std::string> real_path(std::string const& path) {
        char* const resolved = ::realpath(path.c_str(), nullptr);
        if (resolved == nullptr) return RegularFile::unreadable(path, errno);
        std::string out = resolved;
        std::free(resolved);
        return out;
    }

    std::string path_;
    std::string root_;
    std::string blobs_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
