// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/session/run_on_threads.hpp>

#include "peer_process.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
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
    explicit PeerTurns(std::string const& command) : peer_(command) {}

    /// Empty where there is no such peer.
    [[nodiscard]] std::string const& version() const { return peer_.version(); }

    /// Tokens per second over some tokens; nothing where there is no such peer.
    [[nodiscard]] std::optional<double> turn(int tokens) { return peer_.ask(std::to_string(tokens), "decode"); }

private:
    PeerProcess peer_;
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
