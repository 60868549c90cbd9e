// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/list.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/split.hpp>
#include <shardwise/core/tensor_view.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Where the rows of one step go and lie: a pair is a token and one of its experts.
///
/// Memory  lists as long as the group's ranks, its experts and a rank's pairs
class ExpertExchange {
public:
    ExpertExchange() = default;
    ExpertExchange(std::int64_t experts, std::int32_t ranks, std::int32_t rank, std::int64_t max_pairs)
        : experts_(experts),
          ranks_(ranks),
          rank_(rank),
          places_(static_cast<std::size_t>(max_pairs)),
          sent_(static_cast<std::size_t>(experts)),
          received_(static_cast<std::size_t>(ranks * local().size())),
          send_counts_(static_cast<std::size_t>(ranks)),
          receive_counts_(static_cast<std::size_t>(ranks)) {}

    [[nodiscard]] UnitRange local() const { return split_units(experts_, ranks_, rank_); }

    /// Gives every pair its place among the rows that are sent: by expert, then by token.
    ///
    /// Errors  invalid_argument with the first id that is no expert
    template <class Ids>
    [[nodiscard]] Result<> order(Ids const& ids) {
        auto const tokens = ids.extent(0);
        auto const chosen = ids.extent(1);
        for (auto& count : sent_) count = 0;
        for (std::int64_t token = 0; token < tokens; ++token) {
            for (std::int64_t i = 0; i < chosen; ++i) {
                auto const expert = ids.row(token)[i];
                if (expert < 0 || expert >= experts_) {
                    return Error{ErrorCode::invalid_argument}
                        .in("expert parallelism")
                        .at("ids")
                        .because("name no expert")
                        .got(expert)
                        .between(0, experts_ - 1);
                }
                ++sent_[static_cast<std::size_t>(expert)];
            }
        }
        List<std::int64_t> next(sent_.size());
        std::int64_t place = 0;
        for (std::size_t expert = 0; expert < sent_.size(); ++expert) {
            next[expert] = place;
            place += sent_[expert];
        }
        for (std::int64_t token = 0; token < tokens; ++token) {
            for (std::int64_t i = 0; i < chosen; ++i) {
                places_[static_cast<std::size_t>(token * chosen + i)] =
                    static_cast<std::int32_t>(next[static_cast<std::size_t>(ids.row(token)[i])]++);
            }
        }
        for (std::int32_t rank = 0; rank < ranks_; ++rank) {
            auto const theirs = split_units(experts_, ranks_, rank);
            std::int64_t rows = 0;
            for (auto expert = theirs.begin; expert < theirs.end; ++expert)
                rows += sent_[static_cast<std::size_t>(expert)];
            send_counts_[static_cast<std::size_t>(rank)] = rows;
        }
        return {};
    }

    /// Rows per expert, what all_to_all tells the experts' ranks; what it tells this one goes to received().
    [[nodiscard]] std::span<std::int64_t const> sent() const { return {sent_.data(), sent_.size()}; }
    [[nodiscard]] std::span<std::int64_t> received() { return {received_.data(), received_.size()}; }

    /// To be called once received() is filled.
    void count_received() {
        auto const width = local().size();
        for (std::int32_t rank = 0; rank < ranks_; ++rank) {
            std::int64_t rows = 0;
            for (std::int64_t expert = 0; expert < width; ++expert) rows += from(rank, expert);
            receive_counts_[static_cast<std::size_t>(rank)] = rows;
        }
    }

    /// Rows for and from each rank.
    [[nodiscard]] std::span<std::int64_t const> send_counts() const {
        return {send_counts_.data(), send_counts_.size()};
    }
    [[nodiscard]] std::span<std::int64_t const> receive_counts() const {
        return {receive_counts_.data(), receive_counts_.size()};
    }
    [[nodiscard]] std::int64_t rows_received() const {
        std::int64_t rows = 0;
        for (auto const count : receive_counts_) rows += count;
        return rows;
    }

    /// The place of a pair among the rows sent, and among those that come back.
    [[nodiscard]] std::int64_t place(std::int64_t pair) const { return places_[static_cast<std::size_t>(pair)]; }
    /// Those of the first pairs.
    [[nodiscard]] std::span<std::int32_t const> places(std::int64_t pairs) const {
        return {places_.data(), static_cast<std::size_t>(pairs)};
    }

    /// Calls visit(begin in the order of arrival, begin in the order of experts, rows) for every run of rows that stays
    /// together: rows arrive by rank and then by expert, and are computed by expert and then by rank.
    template <class Visit>
    void for_each_run(Visit const& visit) const {
        auto const width = local().size();
        std::int64_t grouped = 0;
        for (std::int64_t expert = 0; expert < width; ++expert) {
            std::int64_t arrived = 0;
            for (std::int32_t rank = 0; rank < ranks_; ++rank) {
                auto begin = arrived;
                for (std::int64_t before = 0; before < expert; ++before) begin += from(rank, before);
                if (from(rank, expert) > 0) visit(begin, grouped, from(rank, expert));
                grouped += from(rank, expert);
                arrived += receive_counts_[static_cast<std::size_t>(rank)];
            }
        }
    }
    /// Rows for a local expert, from all ranks.
    [[nodiscard]] std::int64_t rows_of(std::int64_t expert) const {
        std::int64_t rows = 0;
        for (std::int32_t rank = 0; rank < ranks_; ++rank) rows += from(rank, expert);
        return rows;
    }

private:
    [[nodiscard]] std::int64_t from(std::int32_t rank, std::int64_t expert) const {
        return received_[static_cast<std::size_t>(rank * local().size() + expert)];
    }

    std::int64_t experts_ = 0;
    std::int32_t ranks_ = 1;
    std::int32_t rank_ = 0;
    List<std::int32_t> places_{};
    List<std::int64_t> sent_{};
    List<std::int64_t> received_{};
    List<std::int64_t> send_counts_{};
    List<std::int64_t> receive_counts_{};
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
