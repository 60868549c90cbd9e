// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/train/checkpoint/checkpoint_folders.hpp>

#include "train_request.hpp"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

namespace shardwise::cli {

/// A folder for tokens: OUT/tokens, or for a dry run one that is removed.
class TokenFolder {
public:
    /// Errors  file_unwritable
    [[nodiscard]] static Result<TokenFolder> make(TrainRequest const& request) {
        TokenFolder out;
        std::error_code ignored;
        auto const status = std::filesystem::status(request.out, ignored);
        if (std::filesystem::exists(status) && !std::filesystem::is_directory(status))
            return Error{ErrorCode::file_unwritable}
                .in("--out")
                .at(request.out)
                .because("is a file, and checkpoints need a folder")
                .fix("name a folder; it is made");
        if (request.is_dry_run) {
            auto name = std::filesystem::temp_directory_path().string() + "/shardwise-XXXXXX";
            if (::mkdtemp(name.data()) == nullptr) return detail::unwritable(name, errno);
            out.path_ = name;
            out.is_removed_ = true;
            return out;
        }
        out.path_ = request.out + "/tokens";
        out.is_new_ = !std::filesystem::exists(out.path_, ignored);
        out.new_out_ = std::filesystem::exists(status) ? std::string() : request.out;
        if (auto const code = detail::make_folders<FileCalls>(out.path_); code != 0)
            return detail::unwritable(request.out, code);
        return out;
    }
    TokenFolder(TokenFolder&& other) noexcept
        : path_(std::move(other.path_)),
          new_out_(std::move(other.new_out_)),
          is_removed_(std::exchange(other.is_removed_, false)),
          is_new_(other.is_new_) {}
    TokenFolder& operator=(TokenFolder&&) = delete;
    ~TokenFolder() {
        std::error_code ignored;
        if (is_removed_) std::filesystem::remove_all(path_, ignored);
    }

    [[nodiscard]] std::string const& path() const { return path_; }

    /// Removes what was not there before: nothing is to be trained.
    void undo() const {
        std::error_code ignored;
        if (is_new_) std::filesystem::remove_all(path_, ignored);
        // It stays where others have written there.
        if (!new_out_.empty()) std::filesystem::remove(new_out_, ignored);
    }

private:
    TokenFolder() = default;

    std::string path_, new_out_;
    bool is_removed_ = false;
    bool is_new_ = false;
};

}  // namespace shardwise::cli
