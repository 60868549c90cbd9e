// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/detail/message_rank.hpp>
#include <shardwise/comm/detail/message_wire.hpp>
#include <shardwise/core/result.hpp>

#include <cstdint>
#include <memory>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// What a communicator over a `Wire` gives; `Self` is the communicator, made of a wire, a group and options.
template <class Self, MessageWire Wire>
class MessageCommunicator : private MessageRank<Wire> {
    using Base = MessageRank<Wire>;

public:
    using Base::agree;
    using Base::exchange;
    using Base::fail;
    using Base::finish_sends;
    using Base::keep_unread;
    using Base::rank;
    using Base::rank_names;
    using Base::receive_bytes;
    using Base::send_bytes;
    using Base::size;
    using Base::took;
    using Base::traffic;
    using Base::wait_gently;

    /// Cuts the group: ranks that give one color become a group of their own, numbered by their rank here.
    ///
    /// Errors  as a collective
    [[nodiscard]] Result<Self> split(std::int32_t color) {
        auto group = Base::members_of(color);
        if (!group) return group.error();
        return Self(Base::wire(), *std::move(group), Base::options());
    }

protected:
    MessageCommunicator(std::shared_ptr<Wire> wire, MessageGroup group, MessageOptions const& options)
        : Base(std::move(wire), std::move(group), options) {}
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
