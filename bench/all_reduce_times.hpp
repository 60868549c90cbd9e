// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <map>
#include <unistd.h>
#include <vector>

/// The times of bench_all_reduce: how processes tell them to each other, and what becomes of a row.
namespace all_reduce_times {

enum Kind { threads, shared_memory, open_mpi, bare };

/// Microseconds of the better batch of each turn, by size and kind.
using Times = std::map<std::int64_t, std::map<int, std::vector<double>>>;

/// One turn: ours, the peer's, and what two threads without any check take; 0 where that was not measured.
struct Turn {
    double ours = 0.0;
    double theirs = 0.0;
    double bare = 0.0;
};

/// The turn whose ratio is the median: the host moves the cores about, nearer and farther by a factor of ten, so that the best turns
/// of the two need not have met the same machine.
inline Turn median_turn(std::vector<double> const& ours, std::vector<double> const& theirs,
                        std::vector<double> const& bare) {
    std::vector<Turn> turns;
    for (std::size_t i = 0; i < std::min(ours.size(), theirs.size()); ++i)
        turns.push_back({ours[i], theirs[i], i < bare.size() ? bare[i] : 0.0});
    if (turns.empty()) return {};
    auto const middle = turns.begin() + static_cast<std::ptrdiff_t>(turns.size() / 2);
    std::nth_element(turns.begin(), middle, turns.end(),
                     [](Turn const& a, Turn const& b) { return a.theirs * b.ours < b.theirs * a.ours; });
    return *middle;
}

/// The median turn of the peer's setting that is best against ours, by size and kind.
using Medians = std::map<std::int64_t, std::map<int, Turn>>;

inline void keep_setting(Medians& medians, Times const& times) {
    for (auto const& [bytes, of_kinds] : times) {
        auto const peer = of_kinds.find(open_mpi);
        auto const bound = of_kinds.find(bare);
        for (auto const& [kind, turns] : of_kinds) {
            if (kind == open_mpi || kind == bare) continue;
            auto const found =
                peer == of_kinds.end()
                    ? Turn{*std::min_element(turns.begin(), turns.end())}
                    : median_turn(turns, peer->second, bound == of_kinds.end() ? std::vector<double>{} : bound->second);
            auto const [place, is_new] = medians[bytes].emplace(kind, found);
            if (!is_new && found.theirs * place->second.ours < place->second.theirs * found.ours) place->second = found;
        }
    }
}

/// The better of two times; ends the process where a call failed.
inline double best_of(double one, double other) {
    if (one >= 0.0 && other >= 0.0) return std::min(one, other);
    std::fprintf(stderr, "an all-reduce failed\n");
    _exit(1);
}

inline void print_times(std::FILE* to, Times const& times) {
    for (auto const& [bytes, of_kinds] : times) {
        for (auto const& [kind, turns] : of_kinds) {
            for (auto const time : turns) std::fprintf(to, "%lld %d %.6f\n", static_cast<long long>(bytes), kind, time);
        }
    }
}

/// False where there is nothing to read.
inline bool read_times(std::FILE* from, Times& times) {
    long long bytes = 0;
    int kind = 0;
    double time = 0.0;
    bool has_any = false;
    while (std::fscanf(from, "%lld %d %lf", &bytes, &kind, &time) == 3) {
        times[bytes][kind].push_back(time);
        has_any = true;
    }
    return has_any;
}

}  // namespace all_reduce_times
