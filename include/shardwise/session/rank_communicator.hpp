// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/agree_on.hpp>
#include <shardwise/comm/barrier.hpp>
#include <shardwise/comm/device/device_communicator.hpp>
#include <shardwise/comm/device/nccl_library.hpp>
#include <shardwise/comm/device/peer_meeting.hpp>
#include <shardwise/comm/device/peer_processes.hpp>
#include <shardwise/comm/host_communicator.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/session/rank_machine.hpp>
#include <shardwise/session/run_options.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// What a rank's layers add up with over the ranks that share its stage, and its stage hands on with: on the host the groups themselves.
template <ComputeBackend Backend>
class RankCommunicator {
public:
    using Type = HostCommunicator;
    /// Ranks of the host need none.
    struct Meeting {
        explicit Meeting(std::int32_t) {}
    };

    [[nodiscard]] Result<> open(RunOptions const&, HostCommunicator&, HostCommunicator& group, HostCommunicator& team,
                                RankMachine<Backend>&, Meeting*) {
        group_ = &group;
        team_ = &team;
        return {};
    }
    [[nodiscard]] bool set_apart(Bytes, RankMachine<Backend>&) const { return false; }
    [[nodiscard]] Result<> register_values(std::uint64_t) const { return {}; }
    [[nodiscard]] Type& group() { return *group_; }
    [[nodiscard]] Type& team() { return *team_; }
    /// What rows travel with to the experts of other groups.
    [[nodiscard]] Type& over(HostCommunicator& peers) { return peers; }
    [[nodiscard]] Bytes bytes() const { return Bytes{0}; }
    [[nodiscard]] static Bytes predict(RunOptions const&, bool) { return Bytes{0}; }
    [[nodiscard]] std::string_view kind() const { return group_->kind(); }
    [[nodiscard]] std::string const& reason() const { return reason_; }
    void give_up() const {}

private:
    HostCommunicator* group_ = nullptr;
    HostCommunicator* team_ = nullptr;
    std::string reason_;
};

/// On devices: over peers where ranks are threads whose devices reach each other, or processes of a machine with a device each, else
/// through the host's memory.
template <class Api>
class RankCommunicator<DeviceBackend<Api>> {
public:
    using Type = DeviceCommunicator<Api>;
    using Meeting = PeerMeeting<Api>;

    /// `world` has all ranks; `meeting` is null where they are no threads of one process. All ranks of a group come to the same.
    ///
    /// Errors  unsupported for what is asked for and is not there; those of the groups
    [[nodiscard]] Result<> open(RunOptions const& options, HostCommunicator& world, HostCommunicator& group,
                                HostCommunicator& team, RankMachine<DeviceBackend<Api>>& machine, Meeting* meeting) {
        team_.emplace(team);
        Error refused{ErrorCode::unsupported};
        refused.in("comm").fix("use staged, or automatic");
        if (options.comm == DeviceComm::nccl && group.size() > 1) return open_nccl(options, group, machine);
        if (!wants_peers(options) || group.size() == 1) return group_.emplace(group), Result<>{};
        if (group.size() > PeerGroup<Api>::max_ranks || !Api::co_resident_blocks) {
            reason_ = "kernels of this vendor do not run at once";
            if (group.size() > PeerGroup<Api>::max_ranks)
                reason_ = "a group of peers has at most " + std::to_string(PeerGroup<Api>::max_ranks) + " ranks";
            if (options.comm == DeviceComm::peers) return refused.at("peers").because(reason_);
            return group_.emplace(group), Result<>{};
        }
        auto peers = peer_options(options, meeting != nullptr);
        auto const devices = options.devices.count_of(world.rank() - group.rank(), group.size());
        peers.two_shot_bytes = two_shot_from(options.peer_sums, group.size(), devices).value_or(-1);
        auto joined = meeting != nullptr ? meeting->join(group, machine.home().context, machine.stream(), peers)
                                         : join_processes(options, world, group, machine, peers);
        if (joined) return group_.emplace(group, std::move(*joined), machine.stream()), Result<>{};
        if (options.comm == DeviceComm::peers) return joined.error();
        // Where it is the threads' own group that has failed, nothing goes on.
        if (auto const sound = barrier(group); !sound) return sound;
        reason_ = joined.error().message();
        machine.renew_stream();
        return group_.emplace(group), Result<>{};
    }
    /// Sets memory apart for the values that collectives move, where a library of them has its own: before anything is reserved. False:
    /// they lie where all else does.
    [[nodiscard]] bool set_apart(Bytes values, RankMachine<DeviceBackend<Api>>& machine) {
        if (!group_ || group_->nccl() == nullptr || values.count() == 0) return false;
        auto const memory = group_->nccl()->allocate(values);
        if (memory) machine.home().context.set_apart(*memory, values);
        return memory.has_value();
    }
    /// Tells that library of it, of which every rank of the group calls it once its values lie there.
    ///
    /// Errors  as Nccl::register_memory
    [[nodiscard]] Result<> register_values(std::uint64_t layout) {
        if (!group_ || group_->nccl() == nullptr) return {};
        auto const told = group_->nccl()->register_memory(layout);
        reason_ = group_->nccl()->memory().reason();
        return told;
    }
    [[nodiscard]] Type& group() { return *group_; }
    [[nodiscard]] Type& team() { return *team_; }
    /// What rows travel with to the experts of other groups: through the host's memory.
    [[nodiscard]] Type& over(HostCommunicator& peers) { return over_.emplace(peers); }
    /// What the rank holds on its device.
    [[nodiscard]] Bytes bytes() const { return group_ ? group_->bytes() : Bytes{0}; }
    /// The same before it is opened, where peers that are tried are found.
    [[nodiscard]] static Bytes predict(RunOptions const& options, bool are_threads) {
        auto const ranks = static_cast<std::int32_t>(options.ranks());
        bool const has_peers = wants_peers(options) && options.tp > 1 &&
                               (are_threads || options.devices.most_on_one(ranks) == 1) &&
                               options.tp <= PeerGroup<Api>::max_ranks && Api::co_resident_blocks;
        return has_peers ? PeerGroup<Api>::bytes_of_rank(peer_options(options, are_threads)) : Bytes{0};
    }
    [[nodiscard]] std::string_view kind() const {
        return group_->size() == 1 && team_->size() > 1 ? "staged" : group_->kind();
    }
    /// Why it is not peers where those would have been taken, and what NCCL's library did not take of what it was offered; empty: nothing.
    [[nodiscard]] std::string const& reason() const { return reason_; }
    /// Tells ranks whose kernels wait for this one's that it ends.
    void give_up() {
        if (group_ && group_->peers() != nullptr) (void)group_->peers()->give_up(group_->own_rank());
        if (group_ && group_->nccl() != nullptr) group_->nccl()->abort();
    }

private:
    [[nodiscard]] static bool wants_peers(RunOptions const& options) {
        return options.comm == DeviceComm::peers || (options.comm == DeviceComm::automatic && Api::tries_peers);
    }
    [[nodiscard]] static PeerOptions peer_options(RunOptions const& options, bool are_threads) {
        PeerOptions peers;
        // Processes number devices each for itself: one that sees a single device may name it as all others do theirs.
        if (are_threads) peers.on_device = options.devices.most_on_one(static_cast<std::int32_t>(options.ranks()));
        peers.limit = std::chrono::duration_cast<std::chrono::microseconds>(options.timeout);
        return peers;
    }
    [[nodiscard]] static Result<std::shared_ptr<PeerGroup<Api>>> join_processes(
        RunOptions const& options, HostCommunicator& world, HostCommunicator& group,
        RankMachine<DeviceBackend<Api>>& machine, PeerOptions peers) {
        auto& context = machine.home().context;
        bool has_processors = false;
        for (std::int32_t rank = 0; rank < world.size(); ++rank)
            has_processors = has_processors || options.devices.is_processor(rank);
        // Ranks of other groups may share a device; those on the processor take no part in finding out.
        if (world.size() > group.size() && !has_processors) {
            auto const sharing = processes_on_one_device(world, context);
            if (!sharing) return sharing.error();
            peers.on_device = *sharing;
        } else if (has_processors && options.devices.most_on_one(world.size()) > 1) {
            return Error{ErrorCode::unsupported}
                .in("comm")
                .at("peers")
                .because("ranks of several stages share a device, and other stages are on the processor")
                .fix("use staged, or automatic");
        }
        return join_peer_processes(group, context, machine.stream(), peers);
    }
    [[nodiscard]] Result<> open_nccl(RunOptions const& options, HostCommunicator& group,
                                     RankMachine<DeviceBackend<Api>>& machine) {
        auto const table = load_nccl(std::string(Api::nccl_name));
        if (auto const agreed = agree_on(group, table ? Result<>{} : Result<>{table.error()}); !agreed) return agreed;
        auto nccl = Nccl<Api>::join(*table, group, machine.home().context, machine.stream(), options.timeout);
        if (!nccl) return nccl.error();
        group_.emplace(group, std::move(*nccl));
        return {};
    }

    std::optional<Type> group_;
    std::optional<Type> team_;
    std::optional<Type> over_;
    std::string reason_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
