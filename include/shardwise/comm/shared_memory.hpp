// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/process_mark.hpp>
#include <shardwise/comm/communicator.hpp>
#include <shardwise/comm/detail/check_ranks.hpp>
#include <shardwise/comm/detail/group_beacon.hpp>
#include <shardwise/comm/detail/place_in_color.hpp>
#include <shardwise/comm/detail/process_watch.hpp>
#include <shardwise/comm/detail/rank_names.hpp>
#include <shardwise/comm/detail/running_group.hpp>
#include <shardwise/comm/detail/shared_region.hpp>
#include <shardwise/comm/detail/staged_rank.hpp>
#include <shardwise/core/fnv1a.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How a group of processes is made; all ranks give the same.
struct SharedMemoryOptions {
    /// How long a call waits for the other ranks, and how long `join` waits for all to come.
    std::chrono::nanoseconds timeout = std::chrono::seconds(30);
    /// Compares collective, type, operation, root and count across ranks before data moves.
    bool checks_calls = true;
    /// The staging memory of one step and rank: longer data take several steps.
    std::size_t chunk_bytes = std::size_t{256} * 1024;
    /// Asked while `join` waits: an error, that of a rank that cannot come any more, ends the waiting. Ranks may differ
    /// in it.
    std::function<std::optional<Error>()> gives_up{};
};

/// One rank of a group of processes of one machine and one user (Linux: /dev/shm, pidfd).
///
/// A rank that dies is named to the others as soon as they wait for it; one that is stopped, at the deadline.
class SharedMemory : private detail::StagedRank<detail::ProcessWatch> {
    using Base = detail::StagedRank<detail::ProcessWatch>;

public:
    static constexpr std::string_view name = "shared_memory";
    static constexpr std::int32_t max_ranks = 256;

    /// Joins the group `key` and waits until all its ranks have come. The key is any name of letters, digits, '.', '-' and
    /// '_'; two jobs of one user at the same time use different keys. A group that runs, complete and with all its ranks alive,
    /// keeps its key: only its own processes may join under it again. One that failed or lost a rank keeps nobody out.
    ///
    /// Errors  invalid_argument for a rank that is out of range or taken, a group of other options, or one that runs, each with the
    ///         process that has the rank; deadline_exceeded with the ranks that never came; rank_lost with one that came and
    ///         died; backend_failure with the system call
    [[nodiscard]] static Result<SharedMemory> join(std::string_view key, std::int32_t rank, std::int32_t ranks,
                                                   SharedMemoryOptions const& options = {}) {
        if (auto const checked = check(key, rank, ranks, options); !checked) return checked.error();
        if (auto const refused = refused_by_running(key, rank, ranks)) return *refused;
        // A group that was complete just then has taken its name away by the first look.
        bool has_looked = false;
        auto const look_again = [&] {
            return std::exchange(has_looked, true) ? std::nullopt : refused_by_running(key, rank, ranks);
        };
        return gather(key, rank, ranks, Kind::whole, options, {}, look_again);
    }

    SharedMemory(SharedMemory&& other) noexcept = default;
    SharedMemory& operator=(SharedMemory&&) noexcept = delete;
    /// The rank leaves: who still waits for it is told so. In a fork nobody leaves: the process that joined is the rank.
    ~SharedMemory() {
        if (shared_ && process_.is_here()) leave();
    }

    using Base::begin;
    using Base::begin_stores;
    using Base::chunk_bytes;
    using Base::end_stores;
    using Base::fail;
    using Base::lend;
    using Base::lent;
    using Base::lent_bytes;
    using Base::mine;
    using Base::put;
    using Base::rank;
    using Base::rank_names;
    using Base::receive_bytes;
    using Base::send_bytes;
    using Base::size;
    using Base::staging_bytes;
    using Base::step;
    using Base::theirs;
    using Base::took;
    using Base::traffic;
    using Base::wait_gently;

    /// What has ended the group, if something has: its first error, or a rank that left it or died. It does not wait.
    [[nodiscard]] std::optional<Error> lost() const {
        if (auto const first = Base::poisoned()) return first;
        for (std::int32_t peer = 0; peer < size(); ++peer) {
            if (auto const dead = Base::dead_one(std::span(&peer, 1))) return dead;
            if (shared_->region().slot(peer).presence.load(std::memory_order_acquire) != detail::Presence::left)
                continue;
            return Error{ErrorCode::rank_lost}
                .in(rank_names().name(peer))
                .because("left the group")
                .fix("look at its own error and make a new group");
        }
        return std::nullopt;
    }

    /// Cuts the group: ranks that give one color become a group of their own, numbered by their rank here.
    ///
    /// Errors  as a collective; what join refuses: then this group has failed, too
    [[nodiscard]] Result<SharedMemory> split(std::int32_t color) {
        auto const place = detail::place_in_color(*this, color);
        if (!place) return place.error();
        auto const lost = [&] {
            auto const first = Base::poisoned();
            return first ? first : Base::dead_one(place->members);
        };
        auto const is_alone = place->size() == 1;
        auto part = gather(key_of_part(color), place->rank, place->size(), is_alone ? Kind::alone : Kind::part,
                           options_, rank_names().of_part(place->members), lost);
        if (!part) return fail(part.error()).error();
        return part;
    }

private:
    /// A group of its own, what a split makes, and that of one rank. Only the first can be met by who comes too late.
    enum class Kind { whole, part, alone };

    /// Joins and waits for all, until lost() knows of an error that keeps them from coming.
    template <class Lost>
    [[nodiscard]] static Result<SharedMemory> gather(std::string_view key, std::int32_t rank, std::int32_t ranks,
                                                     Kind kind, SharedMemoryOptions const& options,
                                                     detail::RankNames const& names, Lost const& lost) {
        auto const deadline = Deadline::after(options.timeout);
        auto const chunk = detail::GroupRegion::round_up(options.chunk_bytes);
        while (true) {
            auto shared = kind == Kind::alone ? detail::SharedRegion::alone(chunk)
                                              : detail::SharedRegion::open(key, ranks, chunk, deadline);
            if (!shared) return shared.error();
            // Before the group can be complete, so that one which has no name any more can be seen.
            detail::GroupBeacon beacon;
            if (kind == Kind::whole)
                beacon = detail::GroupBeacon(detail::SharedRegion::number_of(key), shared->descriptor());
            auto& slot = shared->region().slot(rank);
            std::int32_t nobody = 0;
            if (!slot.process.compare_exchange_strong(nobody, static_cast<std::int32_t>(getpid()))) {
                return Error{ErrorCode::invalid_argument}
                    .in(shared->name())
                    .at("rank")
                    .because("was taken before by process " + std::to_string(nobody))
                    .got(rank)
                    .fix("give each process a rank of its own, and each job a key of its own");
            }
            if (!shared->count_in()) {
                // Who waits in what another rank gave up is not to believe that this one came.
                slot.process.store(0, std::memory_order_release);
                continue;
            }
            slot.presence.store(detail::Presence::joined, std::memory_order_release);
            if (auto const met = await_all(*shared, deadline, options, names, lost); !met) {
                slot.presence.store(detail::Presence::left, std::memory_order_release);
                return met.error();
            }
            return SharedMemory(std::string(key), options, *std::move(shared), std::move(beacon), rank, names);
        }
    }
    /// Why this process may not join, where the key belongs to a group of others that runs.
    [[nodiscard]] static std::optional<Error> refused_by_running(std::string_view key, std::int32_t rank,
                                                                 std::int32_t ranks) {
        auto const group = detail::RunningGroup::of(key);
        if (!group || group->has(getpid())) return std::nullopt;
        Error error{ErrorCode::invalid_argument};
        error.in("shared_memory").fix("give each process a rank of its own, and each job a key of its own");
        if (group->ranks() == ranks) {
            return error.at("rank")
                .because("runs already in process " + std::to_string(group->process_of(rank)))
                .got(rank);
        }
        auto const nearest = std::min(rank, group->ranks() - 1);
        return error.at(key)
            .because("belongs to a group of another size that runs, with rank " + std::to_string(nearest) +
                     " in process " + std::to_string(group->process_of(nearest)))
            .got(ranks)
            .expected(group->ranks());
    }
    /// Nobody joins any more once it has returned.
    template <class Lost>
    [[nodiscard]] static Result<> await_all(detail::SharedRegion const& shared, Deadline const& deadline,
                                            SharedMemoryOptions const& options, detail::RankNames const& names,
                                            Lost const& lost) {
        // To look costs a few microseconds for each rank that has come.
        auto const interval = std::chrono::milliseconds(5) + std::chrono::microseconds(200) * shared.header().ranks;
        auto next_look = Deadline::after(interval);
        while (!shared.is_complete()) {
            std::optional<Error> trouble;
            bool const is_late = deadline.has_passed();
            if (!is_late && options.gives_up) trouble = options.gives_up();
            if (!is_late && !trouble && next_look.has_passed()) {
                trouble = ended_rank(shared, names);
                if (!trouble) trouble = lost();
                next_look = Deadline::after(interval);
            }
            // The last one may have come meanwhile.
            if ((is_late || trouble) && shared.close_group()) {
                // Nobody must find the remains of a group that failed to gather.
                shared.forget_name();
                return trouble ? *trouble : missing_ranks(shared, names);
            }
            std::this_thread::sleep_for(std::chrono::microseconds(50));
        }
        shared.forget_name();
        return {};
    }

    SharedMemory(std::string key, SharedMemoryOptions const& options, detail::SharedRegion shared,
                 detail::GroupBeacon beacon, std::int32_t rank, detail::RankNames names)
        : Base(shared.region(), rank, {options.timeout, options.checks_calls},
               detail::ProcessWatch(processes_of(shared)), std::move(names)),
          key_(std::move(key)),
          options_(options),
          shared_(std::make_unique<detail::SharedRegion>(std::move(shared))),
          beacon_(std::move(beacon)) {}

    [[nodiscard]] static std::vector<pid_t> processes_of(detail::SharedRegion const& shared) {
        std::vector<pid_t> processes;
        for (std::int32_t peer = 0; peer < shared.header().ranks; ++peer) {
            processes.push_back(shared.region().slot(peer).process.load(std::memory_order_acquire));
        }
        return processes;
    }

    [[nodiscard]] static Result<> check(std::string_view key, std::int32_t rank, std::int32_t ranks,
                                        SharedMemoryOptions const& options) {
        Error error{ErrorCode::invalid_argument};
        error.in("shared_memory");
        if (auto const checked = detail::check_ranks("shared_memory", ranks, max_ranks); !checked) return checked;
        if (rank < 0 || rank >= ranks)
            return error.at("rank").because("is no rank of the group").got(rank).between(0, ranks - 1);
        if (options.chunk_bytes < 64) {
            return error.at("chunk_bytes")
                .because("is less than a cache line")
                .got(static_cast<std::int64_t>(options.chunk_bytes))
                .at_least(64);
        }
        if (options.chunk_bytes > detail::GroupRegion::max_chunk_bytes)
            return error.at("chunk_bytes").because("is more than a GiB");
        bool is_legal = !key.empty() && key.size() <= longest_key;
        for (char const c : key) {
            bool const is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
            is_legal = is_legal && (is_letter || c == '.' || c == '-' || c == '_');
        }
        if (!is_legal) return error.at(key).because("is no key").fix("use 1 to 200 letters, digits, '.', '-' and '_'");
        return {};
    }

    [[nodiscard]] static Error missing_ranks(detail::SharedRegion const& shared, detail::RankNames const& names) {
        std::vector<std::int32_t> missing;
        for (std::int32_t rank = 0; rank < shared.header().ranks; ++rank) {
            if (shared.region().slot(rank).presence.load(std::memory_order_acquire) != detail::Presence::absent)
                continue;
            missing.push_back(rank);
        }
        return Error{ErrorCode::deadline_exceeded}
            .in(shared.name())
            .because("was never joined by rank " + names.list(missing))
            .fix("look at why these ranks did not start");
    }
    [[nodiscard]] static std::optional<Error> ended_rank(detail::SharedRegion const& shared,
                                                         detail::RankNames const& names) {
        bool lives = false;
        auto const rank = shared.ended_rank(lives);
        if (rank < 0) return std::nullopt;
        auto const process = shared.region().slot(rank).process.load(std::memory_order_relaxed);
        return Error{ErrorCode::rank_lost}
            .in(names.name(rank))
            .because(detail::end_of_process(process) + " before all ranks had joined")
            .fix("look at its output and start all ranks again");
    }

    /// The key of the group that ranks of a color split off. Long ones end in a number made of the whole (FNV-1a).
    [[nodiscard]] std::string key_of_part(std::int32_t color) {
        auto const whole = key_ + "." + std::to_string(++splits_) + "." + std::to_string(color);
        if (whole.size() <= longest_key) return whole;
        return whole.substr(0, longest_key / 2) + "." + std::to_string(detail::fnv1a(whole));
    }

    static constexpr std::size_t longest_key = 200;

    std::string key_;
    SharedMemoryOptions options_;
    std::unique_ptr<detail::SharedRegion> shared_;
    detail::GroupBeacon beacon_;
    detail::ProcessMark process_;
    std::uint64_t splits_ = 0;
};

static_assert(Communicator<SharedMemory>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
