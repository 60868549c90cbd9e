// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/barrier.hpp>
#include <shardwise/comm/detail/descriptor_mail.hpp>
#include <shardwise/comm/detail/exchange_results.hpp>
#include <shardwise/comm/detail/process_place.hpp>
#include <shardwise/comm/device/try_peers.hpp>
#include <shardwise/comm/host_communicator.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/kernels/device/peer_group.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// What a rank says of itself before peers are made.
struct PeerCard {
    PeerDevice device{};
    ProcessPlace process{};
    bool runs_processes_at_once = false;
    // What ranks must have chosen alike.
    std::int64_t staging = 0;
    std::int64_t two_shot_bytes = 0;
    std::int32_t blocks = 0;
    std::int32_t on_device = 0;
};

/// A rank's device as errors name it: "rank 1 on cuda:0".
[[nodiscard]] inline std::string name_peer(RankNames const& names, std::string_view vendor, std::int32_t rank,
                                           std::int32_t device) {
    return names.name(rank) + " on " + std::string(vendor) + ":" + std::to_string(device);
}
[[nodiscard]] inline Error fail_peer(std::string_view peer, std::string_view what, Error const& error) {
    return Error{error.code()}
        .in("peers")
        .at(peer)
        .because(std::string(what) + error.message())
        .fix("use staged, or look at that device");
}

/// What a rank says of itself.
///
/// Errors  those of the vendor's calls, with rank and device
template <class Api>
[[nodiscard]] Result<PeerCard> introduce_peer(HostCommunicator const& comm, DeviceContext<Api> const& context,
                                              PeerOptions const& options) {
    PeerCard card;
    card.device.number = context.device();
    card.device.multiprocessors = context.facts().multiprocessors;
    card.process = ProcessPlace::current();
    card.staging = options.staging.count();
    card.two_shot_bytes = options.two_shot_bytes;
    card.blocks = options.blocks;
    card.on_device = options.on_device;
    auto const own = name_peer(comm.rank_names(), Api::name, comm.rank(), context.device());
    auto const uuid = Api::uuid(context.device());
    if (!uuid) return fail_peer(own, "has no identity: ", uuid.error());
    card.device.uuid = *uuid;
    auto const at_once = Api::runs_processes_at_once(context.device());
    if (!at_once) return fail_peer(own, "does not say whom it serves: ", at_once.error());
    card.runs_processes_at_once = *at_once;
    return card;
}

/// Why these ranks cannot be peers, the same on all.
///
/// Errors  unsupported
template <class Api>
[[nodiscard]] Result<> check_peer_places(RankNames const& names, std::vector<PeerCard> const& cards) {
    Error refused{ErrorCode::unsupported};
    refused.in("comm").at("peers").fix("use staged, or automatic");
    auto const name = [&](std::size_t rank) {
        return name_peer(names, Api::name, static_cast<std::int32_t>(rank), cards[rank].device.number);
    };
    for (std::size_t rank = 1; rank < cards.size(); ++rank) {
        auto const& card = cards[rank];
        if (card.process.machine != cards[0].process.machine)
            return refused.because(name(rank) + " is on another machine than " + name(0));
        for (std::size_t other = 0; other < rank; ++other) {
            if (cards[other].process == card.process)
                return refused.because(name(rank) + " is in the process of " + name(other) + ", without a meeting");
            bool const is_shared = cards[other].device.uuid == card.device.uuid;
            if (!is_shared || (card.runs_processes_at_once && cards[other].runs_processes_at_once)) continue;
            return refused
                .because(name(rank) + " shares its device with " + name(other) +
                         ", and kernels of two processes do not run there at once")
                .fix("use staged, run the ranks as threads, or start CUDA's Multi-Process Service");
        }
    }
    return {};
}

/// Errors  invalid_argument
template <class Api>
[[nodiscard]] Result<> check_peer_options(RankNames const& names, std::vector<PeerCard> const& cards) {
    auto const& first = cards[0];
    for (std::size_t rank = 1; rank < cards.size(); ++rank) {
        auto const& card = cards[rank];
        if (card.staging == first.staging && card.two_shot_bytes == first.two_shot_bytes &&
            card.blocks == first.blocks && card.on_device == first.on_device)
            continue;
        return Error{ErrorCode::invalid_argument}
            .in("comm")
            .at("peers")
            .because(name_peer(names, Api::name, static_cast<std::int32_t>(rank), card.device.number) +
                     " asks for another kind of group than " + name_peer(names, Api::name, 0, first.device.number))
            .fix("give all ranks the same options");
    }
    return {};
}

/// The ranks' memory, and what each has of the others'.
///
/// Errors  those of the vendor's calls, with rank and device; those of the exchanges
template <class Api>
[[nodiscard]] Result<std::shared_ptr<PeerGroup<Api>>> connect_peers(HostCommunicator& comm, DeviceContext<Api>& context,
                                                                    std::vector<PeerDevice> const& devices,
                                                                    PeerOptions const& options, PeerSharing sharing) {
    using Group = PeerGroup<Api>;
    auto const names = comm.rank_names();
    Rank const own{comm.rank()};
    auto const name = name_peer(names, Api::name, own.value(), context.device());
    std::unique_ptr<Group> made;
    // What the others come to this rank's memory with; of descriptors the address at which they are handed over.
    struct Share {
        SharedHandle handle{};
        DescriptorMail::Address address{};
    };
    std::optional<DescriptorMail> mail;
    OwnedDescriptor descriptor;
    auto const share = [&]() -> Result<Share> {
        auto opened = Group::open_one(context, own, devices, options, sharing);
        if (!opened) return fail_peer(name, "cannot have memory for the others: ", opened.error());
        made = std::move(*opened);
        Share out;
        if (sharing == PeerSharing::handles) {
            auto const handle = made->share(own);
            if (!handle) return fail_peer(name, "cannot share its memory: ", handle.error());
            out.handle = *handle;
            return out;
        }
        auto const file = made->share_descriptor(own);
        if (!file) return fail_peer(name, "cannot share its memory: ", file.error());
        descriptor = OwnedDescriptor(*file);
        auto post = DescriptorMail::open();
        if (!post) return fail_peer(name, "cannot hand over its memory: ", post.error());
        out.address = mail.emplace(std::move(*post)).address();
        return out;
    };
    auto const shares = exchange_results(comm, share());
    if (!shares) return shares.error();
    // Memory goes when no rank looks at it any more; after an error that is not known.
    std::shared_ptr<Group> group(made.release(), [&comm](Group* ended) {
        ended->detach();
        if (!barrier(comm)) ended->keep_memory();
        delete ended;
    });
    auto const attach = [&]() -> Result<std::int32_t> {
        std::vector<OwnedDescriptor> files;
        if (sharing == PeerSharing::descriptors) {
            std::vector<DescriptorMail::Address> addresses;
            for (auto const& one : *shares) addresses.push_back(one.address);
            // Who has failed waits for the others, which wait for it here, no longer than a call of the communicator.
            auto received = mail->exchange(comm, addresses, descriptor.get(), options.limit / 2);
            if (!received && received.error().code() == ErrorCode::backend_failure)
                return fail_peer(name, "cannot hand over its memory: ", received.error());
            if (!received) return received.error();
            files = std::move(*received);
        }
        for (std::int32_t peer = 0; peer < comm.size(); ++peer) {
            if (peer == own.value()) continue;
            auto const at = static_cast<std::size_t>(peer);
            auto const attached = sharing == PeerSharing::handles
                                      ? group->attach(own, Rank{peer}, devices[at], (*shares)[at].handle)
                                      : group->attach(own, Rank{peer}, devices[at], files[at].get());
            if (attached) continue;
            auto const other = name_peer(names, Api::name, peer, devices[at].number);
            return fail_peer(name, "cannot reach the memory of " + other + ": ", attached.error());
        }
        return 0;
    };
    if (auto const attached = exchange_results(comm, attach()); !attached) return attached.error();
    return group;
}

}  // namespace detail

/// The most ranks of a group of processes that share a device, of which every rank calls it: the same answer on all.
///
/// Errors  as join_peer_processes for the places of the ranks
template <class Api>
[[nodiscard]] Result<std::int32_t> processes_on_one_device(HostCommunicator& comm, DeviceContext<Api> const& context) {
    auto const cards = detail::exchange_results(comm, detail::introduce_peer<Api>(comm, context, {}));
    if (!cards) return cards.error();
    auto const checked = detail::check_peer_places<Api>(comm.rank_names(), *cards);
    if (!checked) return checked.error();
    std::ptrdiff_t most = 1;
    for (auto const& card : *cards) {
        auto const shares = [&](detail::PeerCard const& other) { return other.device.uuid == card.device.uuid; };
        most = std::max(most, std::count_if(cards->begin(), cards->end(), shares));
    }
    return static_cast<std::int32_t>(most);
}

/// The peers of ranks that are processes of one machine, a device each, of which every rank calls it: the same answer on all, and a group
/// of `comm` that goes on after an error of peers. Memory is shared by the vendor's handles, which ranks exchange over `comm`, or where
/// those are refused by file descriptors, which travel over unix sockets (ranks of one user and one network namespace); a device is known
/// by its UUID, whatever number processes give it, and must be reached by every other. Processes share a device only where the vendor
/// runs their kernels at once (CUDA's Multi-Process Service). The group has been tried, as PeerMeeting does.
///
/// Memory  the group ends on all ranks together: the last of its owners waits for the other ranks, at most as long as calls of `comm` do,
///         and `comm` outlives it
/// Errors  unsupported by name for ranks that are on several machines, in one process, or on one device, and for devices that do not
///         reach each other; invalid_argument for unlike options; out_of_memory, backend_failure with rank and device; those of try_peers
template <class Api>
[[nodiscard]] Result<std::shared_ptr<PeerGroup<Api>>> join_peer_processes(HostCommunicator& comm,
                                                                          DeviceContext<Api>& context,
                                                                          DeviceStream<Api>& stream,
                                                                          PeerOptions options) {
    auto const names = comm.rank_names();
    Rank const own{comm.rank()};
    auto const cards = detail::exchange_results(comm, detail::introduce_peer<Api>(comm, context, options));
    if (!cards) return cards.error();
    if (auto const checked = detail::check_peer_places<Api>(names, *cards); !checked) return checked.error();
    if (auto const checked = detail::check_peer_options<Api>(names, *cards); !checked) return checked.error();

    std::vector<PeerDevice> devices;
    for (auto const& one : *cards) devices.push_back(one.device);
    options.numbers.clear();
    for (std::int32_t rank = 0; rank < comm.size(); ++rank) options.numbers.push_back(names.in_whole(rank));
    auto joined = detail::connect_peers<Api>(comm, context, devices, options, PeerSharing::handles);
    bool const is_refused = !joined && (joined.error().code() == ErrorCode::unsupported ||
                                        joined.error().code() == ErrorCode::backend_failure);
    if (is_refused) {
        auto mapped = detail::connect_peers<Api>(comm, context, devices, options, PeerSharing::descriptors);
        if (!mapped) {
            auto error = joined.error();
            return error.because(std::string(error.reason()) +
                                 "; by descriptors: " + std::string(mapped.error().message()));
        }
        joined = std::move(mapped);
    }
    if (!joined) return joined.error();
    auto const& group = *joined;
    if (auto const works = try_peers(comm, *group, context, stream, options.limit); !works) {
        group->leave(own);
        return works.error();
    }
    return joined;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
