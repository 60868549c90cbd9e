// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/all_gather.hpp>
#include <shardwise/comm/broadcast.hpp>
#include <shardwise/comm/host_communicator.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/session/session.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// Groups of ranks that share a model's experts and take the requests in turn, one each. They step together until none
/// has anything left, and tell each other what they made.
class ExpertGroups {
public:
    /// `peers` are the ranks with this rank's place in every group; a step makes a token of each of `sequences` at most.
    ExpertGroups(HostCommunicator peers, std::int64_t sequences)
        : peers_(std::move(peers)),
          size_(2 + 2 * sequences),
          own_(static_cast<std::size_t>(size_)),
          all_(static_cast<std::size_t>(size_ * peers_.size())) {}

    [[nodiscard]] HostCommunicator& peers() { return peers_; }
    /// The group that computes a request.
    [[nodiscard]] std::int32_t owner_of(std::int64_t request) const {
        return static_cast<std::int32_t>(request % peers_.size());
    }
    [[nodiscard]] bool owns(std::int64_t request) const { return owner_of(request) == peers_.rank(); }
    /// A request's number among its group's own, and back.
    [[nodiscard]] std::int64_t own_number(std::int64_t request) const { return request / peers_.size(); }
    [[nodiscard]] std::int64_t request_of(std::int64_t own_number) const {
        return own_number * peers_.size() + peers_.rank();
    }

    /// Notes a token that this group has made, for `share`.
    void note(std::int64_t request, std::int32_t token) {
        auto const at = static_cast<std::size_t>(2 + 2 * own_[1]++);
        own_[at] = static_cast<std::int32_t>(request);
        own_[at + 1] = token;
    }
    /// Calls tell(request, token) for the tokens that the other groups have noted since; true where any group is busy.
    ///
    /// Errors  those of the collective
    template <class Tell>
    [[nodiscard]] Result<bool> share(bool is_busy, Tell const& tell) {
        own_[0] = is_busy ? 1 : 0;
        std::vector<std::int64_t> const counts(static_cast<std::size_t>(peers_.size()), size_);
        auto const done = all_gather(peers_, TensorView<std::int32_t const, 1, Host>(own_.data(), {size_}),
                                     TensorView<std::int32_t, 1, Host>(all_.data(), {size_ * peers_.size()}),
                                     std::span<std::int64_t const>(counts));
        if (!done) return done.error();
        own_[1] = 0;
        bool is_any_busy = false;
        for (std::int32_t group = 0; group < peers_.size(); ++group) {
            auto const* const told = all_.data() + group * size_;
            is_any_busy = is_any_busy || told[0] != 0;
            if (group == peers_.rank()) continue;
            for (std::int32_t i = 0; i < told[1]; ++i) tell(std::int64_t{told[2 + 2 * i]}, told[3 + 2 * i]);
        }
        return is_any_busy;
    }

    /// Completes the generations of all requests with those of the other groups.
    ///
    /// Errors  those of the collectives
    [[nodiscard]] Result<> gather(std::vector<Generation>& generations) {
        for (std::size_t i = 0; i < generations.size(); ++i) {
            auto& one = generations[i];
            auto const root = owner_of(static_cast<std::int64_t>(i));
            std::array<std::int64_t, 2> head{static_cast<std::int64_t>(one.tokens.size()),
                                             static_cast<std::int64_t>(one.reason)};
            if (auto const told = broadcast(peers_, TensorView<std::int64_t, 1, Host>(head.data(), {2}), root); !told)
                return told;
            one.request = static_cast<std::int64_t>(i);
            one.tokens.resize(static_cast<std::size_t>(head[0]));
            one.reason = static_cast<FinishReason>(head[1]);
            auto const told = broadcast(peers_, TensorView<std::int32_t, 1, Host>(one.tokens.data(), {head[0]}), root);
            if (!told) return told;
        }
        return {};
    }

private:
    HostCommunicator peers_;
    std::int64_t size_;
    /// Whether the group is busy, how many tokens it has made, and of each its request and itself.
    std::vector<std::int32_t> own_;
    std::vector<std::int32_t> all_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
