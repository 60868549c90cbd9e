// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>

#include "peer_process.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// What bench_train prints, and how it races with its peer.
namespace bench {

/// The rows of bench_train.
struct Report {
    bool is_json = false;
    bool is_everything_met = true;
    std::string rows;

    /// `ratio`: of theirs by ours, the middle one of the turns.
    void add(std::string const& name, double ours, std::string const& peer, std::optional<double> theirs,
             std::string_view unit, double ratio, double goal) {
        bool const is_met = theirs && ratio >= goal;
        if (theirs && !is_met) is_everything_met = false;
        if (is_json) {
            char row[512];
            std::snprintf(
                row, sizeof row,
                "%s{\"case\":\"%s\",\"ours\":%.6g,\"peer\":\"%s\",\"theirs\":%s,\"unit\":\"%.*s\",\"ratio\":%s,"
                "\"goal\":%g,\"met\":%s}",
                rows.empty() ? "" : ",", name.c_str(), ours, peer.c_str(),
                theirs ? std::to_string(*theirs).c_str() : "null", static_cast<int>(unit.size()), unit.data(),
                theirs ? std::to_string(ratio).c_str() : "null", goal,
                !theirs  ? "null"
                : is_met ? "true"
                         : "false");
            rows += row;
            return;
        }
        std::printf("%-44s %10.4g %-4.*s %-26s ", name.c_str(), ours, static_cast<int>(unit.size()), unit.data(),
                    peer.c_str());
        if (theirs)
            std::printf("%10.4g  ratio %5.2f (goal %.2f) %s\n", *theirs, ratio, goal, is_met ? "met" : "MISSED");
        else
            std::printf("is not here\n");
        std::fflush(stdout);
    }
};

/// Ends the benchmark where something fails.
[[noreturn]] inline void stop(std::string const& why) {
    std::fprintf(stderr, "bench_train: %s\n", why.c_str());
    std::exit(1);
}
/// What was made, or the end.
template <class T>
T take(shardwise::Result<T> made) {
    if (!made) stop(made.error().message());
    return std::move(*made);
}

/// Ours and the ways of a peer in turns; the row has the fastest of the ways, by the median of its turns.
inline void race_peer(Report& report, std::string const& name, double goal, std::function<double(int)> const& ours,
                      std::vector<std::pair<std::string, std::string>> const& ways, int calls, int rounds) {
    std::vector<std::unique_ptr<PeerProcess>> peers;
    for (auto const& [way, job] : ways) peers.push_back(std::make_unique<PeerProcess>(__FILE__, "train_peer.py", job));
    (void)ours(1);
    std::vector<double> own;
    std::vector<std::vector<double>> theirs(peers.size());
    for (int round = 0; round < rounds; ++round) {
        own.push_back(ours(calls));
        for (std::size_t i = 0; i < peers.size(); ++i) {
            if (auto const seconds = peers[i]->ask(std::to_string(calls), "seconds")) theirs[i].push_back(*seconds);
        }
    }
    auto const middle = [](std::vector<double> values) {
        std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
        return values[values.size() / 2];
    };
    std::size_t best = peers.size();
    for (std::size_t i = 0; i < peers.size(); ++i) {
        if (theirs[i].size() == own.size() && (best == peers.size() || middle(theirs[i]) < middle(theirs[best])))
            best = i;
    }
    if (best == peers.size()) return report.add(name, middle(own) * 1e3, "torch", std::nullopt, "ms", 0.0, goal);
    std::vector<double> ratios;
    for (std::size_t i = 0; i < own.size(); ++i) ratios.push_back(theirs[best][i] / own[i]);
    report.add(name, middle(own) * 1e3, "torch " + peers[best]->version() + ways[best].first,
               middle(theirs[best]) * 1e3, "ms", middle(ratios), goal);
}

}  // namespace bench
