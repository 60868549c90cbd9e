// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/device.hpp>
#include <shardwise/core/checked.hpp>
#include <shardwise/core/ids.hpp>
#include <shardwise/kernels/detail/peer_memory.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How a group of peers works together.
struct PeerOptions {
    /// What a rank can hand over at a time; longer vectors go in pieces. Ranks keep twice as much.
    Bytes staging = Bytes{std::int64_t{1} << 20U};
    /// Blocks of every kernel; 0: as many as run at once on the fullest device, at most 16.
    std::int32_t blocks = 0;
    /// Ranks on the fullest device, where other groups have some there too; 0: those of the group.
    std::int32_t on_device = 0;
    /// How long a rank waits for another before the group is over.
    std::chrono::microseconds limit = std::chrono::seconds{10};
    /// What errors call the ranks, where a group is a part of another: their numbers there.
    std::vector<std::int32_t> numbers{};
    /// Sums of so many bytes and more are made in two steps; -1: as PeerGroup::is_two_shot says.
    std::int64_t two_shot_bytes = -1;
};

namespace detail {

static_assert(FaultRecord::max_ranks == PeerMemory::max_ranks);

/// The ranks of a PeerGroup: the memory that they see of each other, and how they fail.
template <class Api>
class PeerMembers {
public:
    static constexpr std::int32_t max_ranks = PeerMemory::max_ranks;

    PeerMembers(PeerMembers const&) = delete;
    PeerMembers& operator=(PeerMembers const&) = delete;

    /// What a group keeps for each rank on the rank's device.
    [[nodiscard]] static Bytes bytes_of_rank(PeerOptions const& options) {
        return Bytes{static_cast<std::int64_t>(sizeof(PeerMemory)) + 2 * half_bytes(options)};
    }

    [[nodiscard]] std::int32_t size() const { return static_cast<std::int32_t>(members_.size()); }
    [[nodiscard]] std::int32_t blocks() const { return blocks_; }
    [[nodiscard]] PeerOptions const& options() const { return options_; }
    [[nodiscard]] Bytes bytes_of_rank() const { return bytes_of_rank(options_); }
    /// The memory of a rank, on its device.
    [[nodiscard]] PeerMemory* memory(Rank rank) const { return static_cast<PeerMemory*>(member(rank).memory); }
    /// Where a rank's kernels report, for its stream to watch.
    [[nodiscard]] typename DeviceStream<Api>::Fault const& fault(Rank rank) const { return member(rank).fault; }
    /// How long a rank's later calls wait for another rank.
    void wait_at_most(Rank rank, std::chrono::microseconds limit) { members_[index(rank)].limit = limit; }
    /// Ends what ties the group to a rank's context, which may go then; its memory stays for the others as long as the group.
    void leave(Rank rank) { leave(members_[index(rank)]); }
    /// Tells the other ranks that this one puts in no further kernels: theirs end at once, and name it.
    ///
    /// Errors  those of the copies
    [[nodiscard]] Result<> give_up(Rank rank) {
        auto& own = members_[index(rank)];
        if (own.context == nullptr) return {};
        auto stream = own.context->make_stream();
        own.word->value() = static_cast<std::uint32_t>(rank.value()) + 1U;
        for (std::int32_t peer = 0; peer < size(); ++peer) {
            if (peer == rank.value()) continue;
            stream.submit([&](typename Api::Stream native) {
                return Api::copy(&memory(Rank{peer})->told_of_failure, &own.word->value(), sizeof(std::uint32_t),
                                 native);
            });
        }
        return stream.synchronize(Deadline::after(own.context->limit()));
    }

protected:
    struct Member {
        /// Null once it has left.
        DeviceContext<Api>* context;
        std::int32_t device;
        void* memory;
        typename DeviceStream<Api>::Fault fault;
        std::shared_ptr<Pinned<Api, std::uint32_t>> word;
        std::chrono::microseconds limit;
    };

    explicit PeerMembers(PeerOptions const& options) : options_(options), half_bytes_(half_bytes(options)) {}
    ~PeerMembers() {
        for (auto& member : members_) {
            leave(member);
            DeviceScope<Api> const scope(member.device);
            Api::release(member.memory);
        }
    }

    /// Errors  as PeerGroup::open
    [[nodiscard]] Result<> fill(std::span<DeviceContext<Api>* const> contexts) {
        auto const& options = options_;
        auto const ranks = static_cast<std::int64_t>(contexts.size());
        Error error{ErrorCode::invalid_argument};
        error.in("peer group");
        if (ranks < 1 || ranks > max_ranks)
            return error.because("has no ranks or too many").got(ranks).between(1, max_ranks);
        if (options.blocks < 0 || options.blocks > PeerMemory::max_blocks) {
            return error.because("has an impossible number of blocks")
                .got(options.blocks)
                .between(1, PeerMemory::max_blocks);
        }
        if (options.staging < Bytes{16}) {
            return error.because("has staging memory for less than 16 bytes").got(options.staging.count()).at_least(16);
        }
        if (options.limit.count() <= 0) return error.because("has no time to wait").got(options.limit.count());
        if (!options.numbers.empty() && options.numbers.size() != contexts.size()) {
            return error.because("has another number of ranks than of their numbers")
                .got(static_cast<std::int64_t>(options.numbers.size()))
                .expected(ranks);
        }
        auto const max_blocks = co_resident_blocks(contexts, options.on_device);
        if (options.blocks > max_blocks) {
            return error.because("has more blocks than its ranks' devices run at once")
                .got(options.blocks)
                .at_most(max_blocks)
                .fix("ask for fewer blocks, or put fewer ranks on a device");
        }
        blocks_ = options.blocks > 0 ? options.blocks : std::min<std::int32_t>(16, max_blocks);
        for (auto* const context : contexts) {
            if (auto const added = add(*context); !added) return added;
        }
        return connect();
    }

    [[nodiscard]] static std::size_t index(Rank rank) { return static_cast<std::size_t>(rank.value()); }
    [[nodiscard]] Member const& member(Rank rank) const { return members_[index(rank)]; }

    std::vector<Member> members_;

private:
    [[nodiscard]] static std::int64_t half_bytes(PeerOptions const& options) {
        return round_up(options.staging.count(), PeerMemory::line);
    }
    /// Blocks of a rank's kernel that run at once with those of the other ranks on its device.
    [[nodiscard]] static std::int32_t co_resident_blocks(std::span<DeviceContext<Api>* const> contexts,
                                                         std::int32_t on_device) {
        std::int32_t least = PeerMemory::max_blocks;
        for (auto const* const context : contexts) {
            auto const own = std::count_if(contexts.begin(), contexts.end(),
                                           [&](auto const* other) { return other->device() == context->device(); });
            auto const neighbours = std::max(static_cast<std::int32_t>(own), on_device);
            least = std::min(least, context->facts().multiprocessors / neighbours);
        }
        return std::max(least, 1);
    }

    [[nodiscard]] Result<> add(DeviceContext<Api>& context) {
        auto fault = Pinned<Api, FaultRecord>::make();
        if (!fault) return fault.error();
        auto const number = members_.size();
        for (std::size_t rank = 0; rank < options_.numbers.size(); ++rank)
            (*fault)->value().further[rank] = options_.numbers[rank] - static_cast<std::int32_t>(rank);
        auto word = Pinned<Api, std::uint32_t>::make();
        if (!word) return word.error();
        DeviceScope<Api> const scope(context.device());
        if (!scope.result()) return scope.result();
        auto const bytes = static_cast<std::size_t>(bytes_of_rank(options_).count());
        auto const memory = Api::allocate_shared(bytes);
        if (!memory) return memory.error();
        context.memory().add(bytes_of_rank(options_));
        members_.push_back({&context, context.device(), *memory, std::move(*fault), std::move(*word), options_.limit});
        auto stream = context.make_stream();
        stream.submit([&](typename Api::Stream native) {
            return Api::clear(members_[number].memory, sizeof(PeerMemory), native);
        });
        return stream.synchronize(Deadline::after(context.limit()));
    }
    [[nodiscard]] Result<> connect() {
        for (auto const& member : members_) {
            DeviceScope<Api> const scope(member.device);
            if (!scope.result()) return scope.result();
            for (auto const& peer : members_) {
                if (peer.device == member.device) continue;
                auto const enabled = Api::enable_peer(member.device, peer.device);
                if (!enabled) return enabled;
            }
        }
        return {};
    }
    void leave(Member& member) {
        if (member.context == nullptr) return;
        member.context->memory().remove(bytes_of_rank(options_));
        member.context = nullptr;
    }

    PeerOptions options_;

protected:
    std::int64_t half_bytes_;
    std::int32_t blocks_ = 1;
};

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
