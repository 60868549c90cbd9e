// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Degrees that may be looked at, with what they cost at least.
struct PlanCandidate {
    /// What counts before the seconds: the number of ranks where that is to be small, else 0.
    double first = 0.0;
    double seconds = 0.0;
    std::int32_t tp = 1;
    std::int32_t pp = 1;
    std::int32_t dp = 1;
    std::int32_t ep = 1;
    /// How much `seconds` knows: 1 what fits, 2 on which devices.
    std::int32_t refined = 0;
    /// The stage of ZeRO, where each is a candidate of its own.
    std::int32_t zero = 0;

    [[nodiscard]] std::int64_t ranks() const {
        return std::int64_t{tp} * std::int64_t{pp} * std::int64_t{dp} * std::int64_t{ep};
    }
    /// Of equal bounds the one with fewer ranks comes first, then that with the smaller tp, pp, ep.
    [[nodiscard]] bool is_before(PlanCandidate const& other) const {
        if (first != other.first) return first < other.first;
        if (seconds != other.seconds) return seconds < other.seconds;
        if (ranks() != other.ranks()) return ranks() < other.ranks();
        if (tp != other.tp) return tp < other.tp;
        if (pp != other.pp) return pp < other.pp;
        return ep < other.ep;
    }
};

/// Candidates, the most promising first.
class CandidateHeap {
public:
    void push(PlanCandidate const& candidate) { items_.push_back(candidate); }
    void clear() { items_.clear(); }
    /// Puts what was pushed in order; before the first pop.
    void build() {
        for (auto i = items_.size() / 2; i-- > 0;) sink(i);
    }
    /// Puts one more among them.
    void insert(PlanCandidate const& candidate) {
        items_.push_back(candidate);
        for (auto at = items_.size() - 1; at > 0 && items_[at].is_before(items_[(at - 1) / 2]); at = (at - 1) / 2)
            std::swap(items_[at], items_[(at - 1) / 2]);
    }
    [[nodiscard]] bool empty() const { return items_.empty(); }

    [[nodiscard]] PlanCandidate const& top() const { return items_.front(); }

    PlanCandidate pop() {
        auto const top = items_.front();
        items_.front() = items_.back();
        items_.pop_back();
        sink(0);
        return top;
    }

private:
    void sink(std::size_t at) {
        while (2 * at + 1 < items_.size()) {
            auto child = 2 * at + 1;
            if (child + 1 < items_.size() && items_[child + 1].is_before(items_[child])) ++child;
            if (!items_[child].is_before(items_[at])) return;
            std::swap(items_[child], items_[at]);
            at = child;
        }
    }

    List<PlanCandidate> items_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
