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

/// How processes come to each other's memory: by the vendor's handles, or by file descriptors where those are refused.
enum class PeerSharing : std::uint8_t { handles, descriptors };

/// A rank's device, as a group of ranks in several processes has to know it.
struct PeerDevice {
    detail::DeviceUuid uuid{};
    /// As its own process counts it.
    std::int32_t number = 0;
    std::int32_t multiprocessors = 0;
};

namespace detail {

static_assert(FaultRecord::max_ranks == PeerMemory::max_ranks);

/// The ranks of a PeerGroup: the memory that they see of each other, and how they fail. All of them lie in this process, or one does.
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
    [[nodiscard]] PeerSharing sharing() const { return sharing_; }
    /// What ranks in other processes `attach` this rank's memory with: a handle, or a descriptor that the caller closes.
    ///
    /// Errors  those of the vendor's call
    [[nodiscard]] Result<SharedHandle> share(Rank rank) const {
        return call_on(rank, [&] { return Api::export_shared(member(rank).memory); });
    }
    [[nodiscard]] Result<int> share_descriptor(Rank rank) const {
        return call_on(rank, [&] { return Api::export_mapped(member(rank).memory); });
    }
    /// Brings the memory of a rank in another process, which lies on `device`, to where kernels of rank `own` reach it. That process
    /// keeps it until this group has ended or has called `detach`.
    ///
    /// Errors  invalid_argument for ranks that are not this process's and another's, or are attached; unsupported where the devices
    ///         cannot reach each other; those of the vendor's calls
    [[nodiscard]] Result<> attach(Rank own, Rank peer, PeerDevice const& device, SharedHandle const& handle) {
        return attach_by(own, peer, device, [&] { return Api::open_shared(handle); });
    }
    [[nodiscard]] Result<> attach(Rank own, Rank peer, PeerDevice const& device, int descriptor) {
        auto const bytes = static_cast<std::size_t>(bytes_of_rank().count());
        return attach_by(own, peer, device, [&] { return Api::open_mapped(descriptor, bytes); });
    }
    /// Ends what `attach` has brought: no kernel of this process looks at other ranks any more.
    void detach() {
        for (auto& member : members_) {
            if (!member.is_foreign || member.memory == nullptr) continue;
            DeviceScope<Api> const scope(member.device);
            close(std::exchange(member.memory, nullptr));
        }
    }
    /// Leaves the memory of this process's ranks to the end of the process: others may still look at it.
    void keep_memory() {
        for (auto& member : members_) {
            if (!member.is_foreign) member.memory = nullptr;
        }
    }
    /// Tells the other ranks that this one puts in no further kernels: theirs end at once, and name it. Between processes its own end, too:
    /// those that it tells may be gone.
    ///
    /// Errors  those of the copies
    [[nodiscard]] Result<> give_up(Rank rank) {
        return tell(rank, ToldFailure::word(rank.value(), -1),
                    [&](std::int32_t peer) { return peer != rank.value() || spans_processes(); });
    }
    /// Ends this rank's own kernels, which may wait for one that is gone.
    ///
    /// Errors  those of the copy
    [[nodiscard]] Result<> end_own(Rank rank) {
        return tell(rank, ToldFailure::word(rank.value(), -1), [&](std::int32_t peer) { return peer == rank.value(); });
    }
    /// Whether other ranks are in other processes.
    [[nodiscard]] bool spans_processes() const {
        return std::any_of(members_.begin(), members_.end(), [](Member const& member) { return member.is_foreign; });
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
        /// Of another process: the memory alone is known, once it is attached, and is reached from `device`.
        bool is_foreign = false;
    };

    explicit PeerMembers(PeerOptions const& options, PeerSharing sharing = PeerSharing::handles)
        : options_(options), sharing_(sharing), half_bytes_(half_bytes(options)) {}
    ~PeerMembers() {
        detach();
        for (auto& member : members_) {
            leave(member);
            if (member.is_foreign || member.memory == nullptr) continue;
            DeviceScope<Api> const scope(member.device);
            if (sharing_ == PeerSharing::handles)
                Api::release(member.memory);
            else
                close(member.memory);
        }
    }

    /// Errors  as PeerGroup::open
    [[nodiscard]] Result<> fill(std::span<DeviceContext<Api>* const> contexts) {
        auto const count_alike = [&](auto const* context) {
            return std::count_if(contexts.begin(), contexts.end(),
                                 [&](auto const* other) { return other->device() == context->device(); });
        };
        std::int32_t max_blocks = PeerMemory::max_blocks;
        for (auto const* const context : contexts)
            max_blocks = std::min(max_blocks, blocks_at_once(context->facts().multiprocessors, count_alike(context)));
        if (auto const checked = check(contexts.size(), max_blocks); !checked) return checked;
        for (auto* const context : contexts) {
            if (auto const added = add(*context); !added) return added;
        }
        return connect();
    }
    /// Errors  as PeerGroup::open_one
    [[nodiscard]] Result<> fill(DeviceContext<Api>& context, Rank own, std::span<PeerDevice const> devices) {
        std::int32_t max_blocks = PeerMemory::max_blocks;
        for (auto const& device : devices) {
            auto const sharing = std::count_if(devices.begin(), devices.end(),
                                               [&](auto const& other) { return other.uuid == device.uuid; });
            max_blocks = std::min(max_blocks, blocks_at_once(device.multiprocessors, sharing));
        }
        if (auto const checked = check(devices.size(), max_blocks); !checked) return checked;
        if (own.value() < 0 || index(own) >= devices.size()) {
            return Error{ErrorCode::invalid_argument}
                .in("peer group")
                .because("there is no such rank")
                .got(own.value())
                .between(0, static_cast<std::int64_t>(devices.size()) - 1);
        }
        for (std::size_t rank = 0; rank < devices.size(); ++rank) {
            if (rank != index(own)) {
                members_.push_back({nullptr, context.device(), nullptr, {}, {}, options_.limit, true});
            } else if (auto const added = add(context); !added) {
                return added;
            }
        }
        return {};
    }

    [[nodiscard]] static std::size_t index(Rank rank) { return static_cast<std::size_t>(rank.value()); }
    [[nodiscard]] Member const& member(Rank rank) const { return members_[index(rank)]; }

    std::vector<Member> members_;

private:
    template <class Call>
    [[nodiscard]] auto call_on(Rank rank, Call const& call) const -> decltype(call()) {
        DeviceScope<Api> const scope(member(rank).device);
        if (!scope.result()) return scope.result().error();
        return call();
    }
    /// attach, where open() -> Result<void*> brings the memory.
    template <class Open>
    [[nodiscard]] Result<> attach_by(Rank own, Rank peer, PeerDevice const& device, Open const& open) {
        auto const is_there = [&](Rank rank) { return rank.value() >= 0 && rank.value() < size(); };
        if (!is_there(own) || !is_there(peer) || member(own).is_foreign || !member(peer).is_foreign ||
            member(peer).memory != nullptr) {
            return Error{ErrorCode::invalid_argument}
                .in("peer group")
                .at("attach")
                .because("needs a rank of this process and one of another whose memory is not attached")
                .got(peer.value());
        }
        DeviceScope<Api> const scope(member(own).device);
        if (!scope.result()) return scope.result();
        auto const number = number_here(device.uuid);
        if (!number) return number.error();
        // A device that this process does not see is opened all the same, where the vendor can.
        if (*number >= 0 && *number != member(own).device) {
            if (auto const enabled = Api::enable_peer(member(own).device, *number); !enabled) return enabled;
        }
        auto const memory = open();
        if (!memory) return memory.error();
        members_[index(peer)].memory = *memory;
        return {};
    }
    /// Memory of another rank, or of descriptors.
    void close(void* memory) const {
        if (sharing_ == PeerSharing::handles)
            Api::close_shared(memory);
        else
            Api::release_mapped(memory, static_cast<std::size_t>(bytes_of_rank().count()));
    }
    [[nodiscard]] static std::int64_t half_bytes(PeerOptions const& options) {
        return round_up(options.staging.count(), PeerMemory::line);
    }
    /// Blocks of a rank's kernel that run at once with those of the other ranks on its device, of which the group has so many there.
    [[nodiscard]] std::int32_t blocks_at_once(std::int32_t multiprocessors, std::int64_t sharing) const {
        auto const neighbours = std::max(static_cast<std::int32_t>(sharing), options_.on_device);
        return std::max(multiprocessors / neighbours, 1);
    }
    /// Checks the options, and says how many blocks kernels have.
    [[nodiscard]] Result<> check(std::size_t members, std::int32_t max_blocks) {
        auto const& options = options_;
        auto const ranks = static_cast<std::int64_t>(members);
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
        if (!options.numbers.empty() && options.numbers.size() != members) {
            return error.because("has another number of ranks than of their numbers")
                .got(static_cast<std::int64_t>(options.numbers.size()))
                .expected(ranks);
        }
        if (options.blocks > max_blocks) {
            return error.because("has more blocks than its ranks' devices run at once")
                .got(options.blocks)
                .at_most(max_blocks)
                .fix("ask for fewer blocks, or put fewer ranks on a device");
        }
        blocks_ = options.blocks > 0 ? options.blocks : std::min<std::int32_t>(16, max_blocks);
        return {};
    }
    /// This process's number of a device; -1: it does not see it.
    [[nodiscard]] static Result<std::int32_t> number_here(DeviceUuid const& uuid) {
        auto const count = Api::count_devices();
        if (!count) return count.error();
        for (std::int32_t device = 0; device < *count; ++device) {
            auto const found = Api::uuid(device);
            if (!found) return found.error();
            if (*found == uuid) return device;
        }
        return -1;
    }
    /// Copies a word to the ranks for which tells(rank) holds.
    template <class Tells>
    [[nodiscard]] Result<> tell(Rank rank, std::uint32_t word, Tells const& tells) {
        auto& own = members_[index(rank)];
        if (own.context == nullptr) return {};
        auto stream = own.context->make_stream();
        own.word->value() = word;
        for (std::int32_t peer = 0; peer < size(); ++peer) {
            if (!tells(peer) || member(Rank{peer}).memory == nullptr) continue;
            stream.submit([&](typename Api::Stream native) {
                return Api::copy(&memory(Rank{peer})->told_of_failure, &own.word->value(), sizeof(std::uint32_t),
                                 native);
            });
        }
        return stream.synchronize(Deadline::after(own.context->limit()));
    }

    [[nodiscard]] Result<> add(DeviceContext<Api>& context) {
        DeviceScope<Api> const scope(context.device());
        if (!scope.result()) return scope.result();
        auto fault = Pinned<Api, FaultRecord>::make();
        if (!fault) return fault.error();
        auto const number = members_.size();
        for (std::size_t rank = 0; rank < options_.numbers.size(); ++rank)
            (*fault)->value().further[rank] = options_.numbers[rank] - static_cast<std::int32_t>(rank);
        auto word = Pinned<Api, std::uint32_t>::make();
        if (!word) return word.error();
        auto const bytes = static_cast<std::size_t>(bytes_of_rank(options_).count());
        auto const memory =
            sharing_ == PeerSharing::handles ? Api::allocate_shared(bytes) : Api::allocate_mapped(bytes);
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
    PeerSharing sharing_;

protected:
    std::int64_t half_bytes_;
    std::int32_t blocks_ = 1;
};

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
