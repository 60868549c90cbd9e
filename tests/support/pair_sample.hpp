// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

/// Samples of large matrices: the suite takes them, the whole has the label long.
namespace shardwise::testing {

/// Whether the environment asks for samples: ctest does for <room> and asan.<room>; long.whole.<room> and long.asan.<room> run all.
[[nodiscard]] inline bool takes_samples() {
    static bool const is_set = std::getenv("SHARDWISE_SAMPLES") != nullptr;
    return is_set;
}

/// How often something alike is done again: as many times as `whole`, or in a sample `few` times.
template <class Count>
[[nodiscard]] Count sampled_count(Count whole, Count few) {
    return takes_samples() ? few : whole;
}

/// Whether one of some alternatives runs: all do, or in a sample each in another round.
[[nodiscard]] inline bool takes_alternative(std::size_t round, std::size_t number, std::size_t alternatives) {
    return !takes_samples() || round % alternatives == number;
}

/// Which combinations of a case's matrix run: all of them, or, in a sample, the case's first and each in which two features
/// meet that had not met in a case of the same kind.
class PairSample {
public:
    explicit PairSample(std::string kind) : kind_(std::move(kind)) {}

    /// Features are texts that say what they are of: "zero 2", "tp 4". Those that count alone need not meet all others.
    [[nodiscard]] bool takes(std::vector<std::string> const& features, std::vector<std::string> const& alone = {}) {
        static std::map<std::string, std::set<std::pair<std::string, std::string>>> met_by_kind;
        auto& met = met_by_kind[kind_];
        bool is_new = is_first_ || !takes_samples();
        is_first_ = false;
        for (std::size_t i = 0; i < features.size(); ++i)
            for (std::size_t k = i + 1; k < features.size(); ++k)
                if (met.emplace(features[i], features[k]).second) is_new = true;
        for (auto const& feature : alone)
            if (met.emplace(feature, "").second) is_new = true;
        return is_new;
    }

private:
    std::string kind_;
    bool is_first_ = true;
};

}  // namespace shardwise::testing
