// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "machine_rates.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

/// Both sides of a comparison in turns, A B A B ...: what a machine does beside, and how fast its memory is shared out at the
/// moment, meets both alike.
namespace bench {

/// Something that is timed.
struct Contender {
    std::function<void()> run;
    /// Before and after what is timed.
    std::function<void()> wake = [] {};
    std::function<void()> rest = [] {};
    /// Seconds of each turn.
    std::vector<double> times = {};

    /// The time that a tenth of the turns stayed under: what else the machine does makes most turns longer, and a single turn may be
    /// lucky in what its neighbours did.
    [[nodiscard]] double time() const {
        if (times.empty()) return std::numeric_limits<double>::infinity();
        auto sorted = times;
        auto const place = sorted.begin() + static_cast<std::ptrdiff_t>((sorted.size() - 1) / 10);
        std::nth_element(sorted.begin(), place, sorted.end());
        return *place;
    }
};

/// The shortest time of several ways to do the same.
inline double best_of(std::vector<Contender> const& ways) {
    double best = std::numeric_limits<double>::infinity();
    for (auto const& way : ways) best = std::min(best, way.time());
    return best;
}

/// The median over all turns of their time by ours in the same turn: what the two are to each other while others share the machine.
inline double median_ratio(Contender const& theirs, Contender const& ours) {
    std::vector<double> ratios;
    for (std::size_t i = 0; i < std::min(theirs.times.size(), ours.times.size()); ++i) {
        ratios.push_back(theirs.times[i] / ours.times[i]);
    }
    if (ratios.empty()) return 0.0;
    auto const middle = ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2);
    std::nth_element(ratios.begin(), middle, ratios.end());
    return *middle;
}

/// Brings the threads of a context out of their sleep before a turn is timed, as they are between the products of one program.
inline std::function<void()> waken(HostContext& context) {
    return [&context] {
        context.pool().run(context.pool().size() * std::int64_t{1000}, [](std::int64_t) {
            auto const until = std::chrono::steady_clock::now() + std::chrono::microseconds(1);
            while (std::chrono::steady_clock::now() < until) {
            }
        });
    };
}

/// How long contenders are timed.
struct Turns {
    int least = 8;
    /// Seconds over all contenders.
    double seconds = 0.5;
};

/// Times contenders in turns; each one's first turn does not count.
inline void race(std::vector<Contender*> const& contenders, Turns const& turns) {
    double total = 0.0;
    for (int turn = 0; turn <= turns.least || total < turns.seconds; ++turn) {
        for (auto* const contender : contenders) {
            contender->wake();
            auto const time = time_once(contender->run);
            contender->rest();
            total += time;
            if (turn > 0) contender->times.push_back(time);
        }
    }
}

}  // namespace bench
