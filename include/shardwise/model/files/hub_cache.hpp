// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/files/text_file.hpp>
#include <shardwise/core/result.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <dirent.h>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The names in a folder, sorted, without those that begin with a dot; empty where it cannot be listed.
[[nodiscard]] inline std::vector<std::string> list_folder(std::string const& path, std::size_t limit = 100'000) {
    std::vector<std::string> names;
    DIR* const folder = ::opendir(path.c_str());
    if (folder == nullptr) return names;
    while (names.size() < limit) {
        auto const* const entry = ::readdir(folder);
        if (entry == nullptr) break;
        if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
    }
    ::closedir(folder);
    std::sort(names.begin(), names.end());
    return names;
}

/// The environment variables that say where the Hugging Face cache is.
struct HubEnvironment {
    std::string hub_cache;  // HF_HUB_CACHE
    std::string home;       // HF_HOME
    std::string user_home;  // HOME

    /// Those of this process.
    [[nodiscard]] static HubEnvironment current() {
        auto const get = [](char const* name) {
            auto const* const value = std::getenv(name);
            return std::string(value == nullptr ? "" : value);
        };
        return {get("HF_HUB_CACHE"), get("HF_HOME"), get("HOME")};
    }
};

/// Finds models that the Hugging Face tools have downloaded; downloads nothing.
///
/// Source  https://huggingface.co/docs/huggingface_hub/guides/manage-cache
class HubCache {
public:
    explicit HubCache(std::string folder) : folder_(std::move(folder)) {}
    /// HF_HUB_CACHE, else HF_HOME/hub, else ~/.cache/huggingface/hub.
    explicit HubCache(HubEnvironment const& environment) : folder_(locate(environment)) {}

    [[nodiscard]] std::string const& folder() const { return folder_; }

    /// True for "org/name" (or an old "name") in the letters that the hub allows.
    [[nodiscard]] static bool is_repository_name(std::string_view name) {
        std::size_t slashes = 0;
        for (std::size_t i = 0; i < name.size(); ++i) {
            char const c = name[i];
            bool const is_plain =
                (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
            bool const is_inner = (c == '-' || c == '.') && i > 0 && name[i - 1] != '/' && name[i - 1] != '.';
            bool const is_slash = c == '/' && i > 0 && i + 1 < name.size() && ++slashes == 1;
            if (!is_plain && !is_inner && !is_slash) return false;
        }
        return !name.empty() && name.size() <= 200;
    }

    /// Whether anything of the repository is in the cache.
    [[nodiscard]] bool contains(std::string_view repository) const {
        struct stat status {};
        return is_repository_name(repository) && ::stat(repository_folder(repository).c_str(), &status) == 0 &&
               S_ISDIR(status.st_mode);
    }

    /// The folder of the snapshot that refs/main names; of the only snapshot where there is no ref.
    ///
    /// Errors  invalid_argument for a name that no repository can have; file_not_found, which names what is missing;
    ///         malformed_file
    [[nodiscard]] Result<std::string> snapshot(std::string_view repository) const {
        if (!is_repository_name(repository)) {
            return Error{ErrorCode::invalid_argument}
                .in(repository)
                .because("is not a name that a repository can have");
        }
        auto const root = repository_folder(repository);
        if (!contains(repository)) {
            return Error{ErrorCode::file_not_found}
                .in(repository)
                .because("is not in the Hugging Face cache " + folder_)
                .fix("download it there, or name a folder or a file");
        }
        auto const reference = read_text_file(root + "/refs/main", 256);
        if (reference) {
            auto revision = std::string_view{*reference};
            while (!revision.empty() &&
                   (revision.back() == '\n' || revision.back() == '\r' || revision.back() == ' ')) {
                revision.remove_suffix(1);
            }
            auto const is_plain = [](char c) {
                return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
            };
            if (revision.empty() || !std::all_of(revision.begin(), revision.end(), is_plain)) {
                return Error{ErrorCode::malformed_file}.in(root + "/refs/main").because("does not name a revision");
            }
            return root + "/snapshots/" + std::string(revision);
        }
        if (reference.error().code() != ErrorCode::file_not_found) return reference.error();
        auto const snapshots = list_folder(root + "/snapshots");
        if (snapshots.size() == 1) return root + "/snapshots/" + snapshots.front();
        return Error{ErrorCode::file_not_found}
            .in(root + "/refs/main")
            .because("does not exist, and there is not exactly one snapshot")
            .fix("name the folder of a snapshot");
    }

    /// The repositories of models in the cache, as "org/name".
    [[nodiscard]] std::vector<std::string> repositories() const {
        constexpr std::string_view prefix = "models--";
        std::vector<std::string> out;
        for (auto const& entry : list_folder(folder_)) {
            if (entry.compare(0, prefix.size(), prefix) != 0) continue;
            auto name = entry.substr(prefix.size());
            if (auto const dashes = name.find("--"); dashes != std::string::npos) name.replace(dashes, 2, "/");
            out.push_back(std::move(name));
        }
        return out;
    }

private:
    static std::string locate(HubEnvironment const& environment) {
        auto const expand = [&environment](std::string const& path) {
            bool const is_home = !path.empty() && path[0] == '~' && (path.size() == 1 || path[1] == '/');
            return is_home ? environment.user_home + path.substr(1) : path;
        };
        if (!environment.hub_cache.empty()) return expand(environment.hub_cache);
        if (!environment.home.empty()) return expand(environment.home) + "/hub";
        return environment.user_home + "/.cache/huggingface/hub";
    }
    [[nodiscard]] std::string repository_folder(std::string_view repository) const {
        auto name = std::string(repository);
        if (auto const slash = name.find('/'); slash != std::string::npos) name.replace(slash, 1, "--");
        return folder_ + "/models--" + name;
    }

    std::string folder_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
