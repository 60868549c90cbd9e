// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "nccl_rules.hpp"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <unistd.h>
#include <utility>

namespace shardwise::testing {

inline std::string setting(char const* name) {
    auto const* const value = std::getenv(name);
    return value == nullptr ? "" : value;
}

inline void write_whole(std::string const& path, std::string_view bytes) {
    auto const part = path + ".part";
    std::ofstream(part, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    (void)std::rename(part.c_str(), path.c_str());
}
inline std::optional<std::string> read_whole(std::string const& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) return std::nullopt;
    return std::string(std::istreambuf_iterator<char>(file), {});
}

/// One rank of a group whose ranks meet in a folder.
struct NcclComm {
    /// Windows that were made by this library.
    static inline std::atomic<int> windows_made{0};

    std::string folder;
    int rank = 0;
    int ranks = 0;
    bool has_met = false;
    int calls = 0;
    int splits = 0;
    int windows = 0;
    NcclKnown known{};
    /// By the other rank.
    std::map<int, int> sent{};
    std::map<int, int> received{};
    std::atomic<bool> is_aborted{false};
    std::atomic<int> status{0};

    std::string process_file(int of) const { return folder + "/process." + std::to_string(of); }
    std::string message(int from, int to, int number) const {
        return folder + "/message." + std::to_string(from) + "." + std::to_string(to) + "." + std::to_string(number);
    }
    void come() { write_whole(process_file(rank), std::to_string(getpid())); }
    bool have_all_come() {
        for (int of = 0; of < ranks && !has_met; ++of) {
            if (!std::filesystem::exists(process_file(of))) return false;
        }
        return has_met = true;
    }
    std::string window_file(int of) const {
        return folder + "/window." + std::to_string(windows) + "." + std::to_string(of);
    }
    /// Whether other ranks are waited for that a window is made with. Windows are alike on all ranks.
    bool waits_for_window() {
        if (known.asked == nullptr) return false;
        auto const own = read_whole(window_file(rank));
        bool are_alike = true;
        for (int of = 0; of < ranks; ++of) {
            auto const asked = read_whole(window_file(of));
            if (!asked && is_gone(of)) status = NcclRules::remote_error;
            if (!asked) return true;
            are_alike = are_alike && asked == own;
        }
        auto* const range = std::exchange(known.asked, nullptr);
        if (!are_alike) return status = NcclRules::invalid_usage, false;
        *known.to = range;
        ++windows_made;
        return false;
    }
    bool is_gone(int of) const {
        auto const process = read_whole(process_file(of));
        auto const state = process ? read_whole("/proc/" + *process + "/stat") : std::nullopt;
        // "(name) Z": a zombie, which has ended and was not waited for.
        return !state || state->find(") Z") != std::string::npos;
    }
    /// A message, once it is there; none of a rank that is gone, or after this one's end.
    std::optional<std::string> wait_for(int from, int number) {
        auto const path = message(from, rank, number);
        while (!is_aborted && status == 0) {
            if (auto found = read_whole(path)) {
                (void)std::remove(path.c_str());
                return found;
            }
            if (is_gone(from) && !std::filesystem::exists(path)) status = NcclRules::remote_error;
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        return std::nullopt;
    }
};

}  // namespace shardwise::testing
