// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/json/value.hpp>
#include <shardwise/session/run_on_threads.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <optional>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

/// Sides of a comparison that decode in turns, so that both meet the same neighbours of a shared machine: each is loaded once,
/// and sleeps while the others have their turn.
namespace bench {

/// Decoding by this library, in a thread of its own.
class DecodeTurns {
public:
    DecodeTurns(shardwise::ModelSource const& source, shardwise::Model const& model, shardwise::RunOptions options) {
        shardwise::GenerationRequest request;
        for (std::int32_t i = 0; i < 16; ++i) request.prompt.push_back(i * 7 % 30000 + 100);
        request.max_new_tokens = 512;
        options.on_token = [this](std::int64_t, std::int32_t) { return take(); };
        thread_ = std::thread([this, &source, &model, request, options] {
            auto const report = shardwise::run_on_threads(source, model, {request}, options);
            if (!report) std::fprintf(stderr, "bench_generate: %s\n", report.error().message().c_str());
            std::lock_guard const lock(mutex_);
            has_ended_ = true;
            changed_.notify_all();
        });
    }
    DecodeTurns(DecodeTurns const&) = delete;
    DecodeTurns& operator=(DecodeTurns const&) = delete;
    ~DecodeTurns() {
        {
            std::lock_guard const lock(mutex_);
            is_stopped_ = true;
        }
        changed_.notify_all();
        thread_.join();
    }

    /// Tokens per second over some tokens, after one that wakes the threads; nothing where the run failed.
    [[nodiscard]] std::optional<double> turn(int tokens) {
        std::unique_lock lock(mutex_);
        left_ = tokens + 1;
        changed_.notify_all();
        changed_.wait(lock, [this] { return left_ == 0 || has_ended_; });
        if (has_ended_) return std::nullopt;
        return tokens / std::chrono::duration<double>(end_ - begin_).count();
    }

private:
    using Clock = std::chrono::steady_clock;

    /// A token has been made: goes on while this side has its turn.
    [[nodiscard]] bool take() {
        std::unique_lock lock(mutex_);
        auto const now = Clock::now();
        if (is_awake_) {
            if (is_first_) begin_ = now;
            is_first_ = false;
            end_ = now;
            if (--left_ > 0) return true;
            is_awake_ = false;
            changed_.notify_all();
        }
        changed_.wait(lock, [this] { return left_ > 0 || is_stopped_; });
        is_awake_ = is_first_ = true;
        return !is_stopped_;
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    int left_ = 0;
    bool is_awake_ = false;
    bool is_first_ = false;
    bool is_stopped_ = false;
    bool has_ended_ = false;
    Clock::time_point begin_{};
    Clock::time_point end_{};
    std::thread thread_;
};

/// A peer of generate_peer.py that waits for its turns.
class PeerTurns {
public:
    /// `command` is a line for the shell.
    explicit PeerTurns(std::string const& command) {
        std::array<int, 2> to{};
        std::array<int, 2> from{};
        if (::pipe(to.data()) != 0 || ::pipe(from.data()) != 0) return;
        child_ = ::fork();
        if (child_ == 0) {
            ::dup2(to[0], 0);
            ::dup2(from[1], 1);
            for (int const end : {to[0], to[1], from[0], from[1]}) ::close(end);
            ::execl("/bin/sh", "sh", "-c", command.c_str(), static_cast<char*>(nullptr));
            ::_exit(127);
        }
        ::close(to[0]);
        ::close(from[1]);
        to_ = ::fdopen(to[1], "w");
        from_ = ::fdopen(from[0], "r");
        version_ = text_of(answer());
    }
    PeerTurns(PeerTurns const&) = delete;
    PeerTurns& operator=(PeerTurns const&) = delete;
    ~PeerTurns() {
        if (to_ != nullptr) std::fclose(to_);
        if (from_ != nullptr) std::fclose(from_);
        if (child_ > 0) (void)::waitpid(child_, nullptr, 0);
    }

    /// Empty where there is no such peer.
    [[nodiscard]] std::string const& version() const { return version_; }

    /// Tokens per second over some tokens; nothing where there is no such peer.
    [[nodiscard]] std::optional<double> turn(int tokens) {
        if (version_.empty()) return std::nullopt;
        std::fprintf(to_, "%d\n", tokens);
        std::fflush(to_);
        auto const line = answer();
        // Its threads spin for a tenth of a second before they sleep.
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        auto const document = shardwise::parse_json(line);
        if (!document) return std::nullopt;
        auto const rate = document->root().find("decode");
        return rate ? std::optional(rate->real().value_or(0.0)) : std::nullopt;
    }

private:
    [[nodiscard]] std::string answer() const {
        std::array<char, 256> line{};
        if (from_ == nullptr || std::fgets(line.data(), line.size(), from_) == nullptr) return {};
        return line.data();
    }
    [[nodiscard]] static std::string text_of(std::string const& line) {
        auto const document = shardwise::parse_json(line);
        if (!document) return {};
        auto const version = document->root().find("version");
        return version ? std::string(version->string().value_or("")) : std::string{};
    }

    pid_t child_ = -1;
    std::FILE* to_ = nullptr;
    std::FILE* from_ = nullptr;
    std::string version_;
};

/// What two sides reached in one round of turns.
struct Round {
    double ours = 0.0;
    double theirs = 0.0;
};

/// The round whose ratio is the middle one: neighbours that came or went between two turns make the outer ones.
[[nodiscard]] inline std::optional<Round> middle_of(std::vector<Round> rounds) {
    if (rounds.empty()) return std::nullopt;
    std::sort(rounds.begin(), rounds.end(),
              [](Round const& a, Round const& b) { return a.ours * b.theirs < b.ours * a.theirs; });
    return rounds[rounds.size() / 2];
}

}  // namespace bench
