// SPDX-License-Identifier: Apache-2.0
#include "train_group.hpp"

#include <shardwise/comm/agree_on.hpp>
#include <shardwise/comm/all_reduce.hpp>
#include <shardwise/comm/broadcast.hpp>
#include <shardwise/core/fnv1a.hpp>
#include <shardwise/train/checkpoint/checkpoint_reader.hpp>
#include <shardwise/train/detail/agree_on_training.hpp>

#include <bit>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace shardwise::cli {

namespace {

[[nodiscard]] Result<> share_text(HostCommunicator& world, std::string& text) {
    auto size = static_cast<std::int64_t>(text.size());
    if (auto const told = broadcast(world, TensorView<std::int64_t, 1, Host>(&size, {1}), 0); !told) return told;
    if (size == 0) {
        text.clear();
        return {};
    }
    std::vector<std::int32_t> letters(text.begin(), text.end());
    letters.resize(static_cast<std::size_t>(size));
    if (auto const told = broadcast(world, TensorView<std::int32_t, 1, Host>(letters.data(), {size}), 0); !told)
        return told;
    text.clear();
    for (auto const letter : letters) text += static_cast<char>(letter);
    return {};
}

}  // namespace

Result<std::int64_t> least_of_ranks(HostCommunicator& world, std::int64_t own) {
    auto const done = all_reduce(world, TensorView<std::int64_t, 1, Host>(&own, {1}), ReduceOp::min);
    if (!done) return done.error();
    return own;
}

Result<> agree_on_settings(HostCommunicator& world, RunSettings const& settings) {
    auto hash = detail::fnv1a("run");
    for (auto const& one : settings.all()) hash = detail::fnv1a_step(hash, detail::fnv1a(one.name + "=" + one.value));
    return detail::agree_on_number(world, std::bit_cast<std::int64_t>(hash),
                                   "trains with other options or other data than rank 0");
}

Result<ResumePoint> share_begin(HostCommunicator& world, Result<ResumePoint> const& found) {
    if (auto const agreed = agree_on(world, found ? Result<>{} : Result<>{found.error()}); !agreed)
        return agreed.error();
    auto point = *found;
    if (auto const told = share_text(world, point.folder); !told) return told.error();
    Result<> read;
    if (world.rank() != 0 && !point.is_beginning()) {
        auto record = read_checkpoint_record(point.folder);
        if (record)
            point.state = std::move(record->state);
        else
            read = record.error();
    }
    if (auto const agreed = agree_on(world, read); !agreed) return agreed.error();
    return point;
}

Result<> share_end(HostCommunicator& world, TrainAnswer& answer) {
    // Of each rank its peak, and messages and bytes of each kind of collective.
    constexpr std::size_t width = 1 + 2 * collective_kinds;
    auto const rank = static_cast<std::size_t>(world.rank());
    std::vector<std::int64_t> numbers(answer.ranks.size() * width);
    auto* own = numbers.data() + rank * width;
    *own++ = answer.ranks[rank].peak.value_or(Bytes{}).count();
    for (std::size_t kind = 0; kind < collective_kinds; ++kind) {
        auto const& traffic = answer.traffic[rank].of(static_cast<CollectiveKind>(kind));
        *own++ = traffic.messages;
        *own++ = traffic.bytes;
    }
    auto const size = static_cast<std::int64_t>(numbers.size());
    if (auto const done = all_reduce(world, TensorView<std::int64_t, 1, Host>(numbers.data(), {size})); !done)
        return done;
    for (std::size_t i = 0; i < answer.ranks.size(); ++i) {
        auto const* from = numbers.data() + i * width;
        answer.ranks[i].peak = Bytes{*from++};
        Traffic traffic;
        for (std::size_t each = 0; each < collective_kinds; ++each) {
            traffic.take(static_cast<CollectiveKind>(each), from[0], from[1]);
            from += 2;
        }
        answer.traffic[i] = traffic;
    }
    std::int32_t signal = answer.signal;
    auto const told = all_reduce(world, TensorView<std::int32_t, 1, Host>(&signal, {1}), ReduceOp::max);
    answer.signal = signal;
    return told;
}

}  // namespace shardwise::cli
