// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/catch_exceptions.hpp>
#include <shardwise/backend/host/start_thread.hpp>
#include <shardwise/comm/communicator.hpp>
#include <shardwise/comm/detail/check_ranks.hpp>
#include <shardwise/comm/detail/place_in_color.hpp>
#include <shardwise/comm/detail/staged_rank.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How a group of threads is made.
struct ThreadsOptions {
    /// How long a call waits for the other ranks.
    std::chrono::nanoseconds timeout = std::chrono::seconds(30);
    /// Compares collective, type, operation, root and count across ranks before data moves.
    bool checks_calls = true;
    /// The staging memory of one step and rank: longer data take several steps.
    std::size_t chunk_bytes = std::size_t{256} * 1024;
};

class Threads;

/// The memory that the ranks of one process share. It outlives the communicators that stand on it.
class ThreadsGroup {
public:
    /// Errors  invalid_argument for no ranks or more than 1,024, or chunks under 64 bytes or over a GiB; out_of_memory
    [[nodiscard]] static Result<ThreadsGroup> create(std::int32_t ranks, ThreadsOptions const& options = {}) {
        if (auto const checked = detail::check_ranks("threads", ranks, max_ranks); !checked) return checked.error();
        if (options.chunk_bytes < 64) {
            return Error{ErrorCode::invalid_argument}
                .in("threads")
                .at("chunk_bytes")
                .because("is less than a cache line")
                .got(static_cast<std::int64_t>(options.chunk_bytes))
                .at_least(64);
        }
        if (options.chunk_bytes > detail::GroupRegion::max_chunk_bytes) {
            return Error{ErrorCode::invalid_argument}.in("threads").at("chunk_bytes").because("is more than a GiB");
        }
        auto const chunk = detail::GroupRegion::round_up(options.chunk_bytes);
        auto const bytes = detail::GroupRegion::bytes(ranks, chunk);
        auto* const memory = ::operator new(bytes, alignment, std::nothrow);
        if (memory == nullptr) {
            return Error{ErrorCode::out_of_memory}
                .in("threads")
                .needs(Bytes{static_cast<std::int64_t>(bytes)})
                .fix("use smaller chunks or fewer ranks");
        }
        ThreadsGroup group;
        group.options_ = options;
        group.state_ = std::make_shared<State>();
        group.state_->region.reset(detail::GroupRegion::create(memory, ranks, chunk));
        return group;
    }

    [[nodiscard]] std::int32_t size() const { return state_->region->ranks; }

    /// The communicator of one rank; one thread uses it at a time.
    ///
    /// Errors  invalid_argument for a rank that does not exist or was taken before
    [[nodiscard]] Result<Threads> join(std::int32_t rank) const;

private:
    friend class Threads;

    [[nodiscard]] Result<Threads> join(std::int32_t rank, detail::RankNames names) const;

    static constexpr std::int32_t max_ranks = 1024;
    static constexpr std::align_val_t alignment{detail::line_pair_bytes};

    struct Free {
        void operator()(detail::GroupRegion* region) const { ::operator delete(static_cast<void*>(region), alignment); }
    };
    struct State {
        std::unique_ptr<detail::GroupRegion, Free> region;
        /// Groups that were split off, by the number of the split and the color, until all their ranks have taken them.
        std::mutex mutex;
        struct Child {
            std::uint64_t split = 0;
            std::int32_t color = 0;
            std::int32_t waiting = 0;
            std::shared_ptr<State> state;
        };
        std::vector<Child> children;
    };

    ThreadsOptions options_;
    std::shared_ptr<State> state_;
};

namespace detail {

/// Threads of a process do not die alone.
struct NobodyDies {
    [[nodiscard]] std::string operator()(std::int32_t) const { return {}; }
    [[nodiscard]] bool is_stopped(std::int32_t) const { return false; }
};

}  // namespace detail

/// One rank of a group of threads.
class Threads : private detail::StagedRank<detail::NobodyDies> {
    using Base = detail::StagedRank<detail::NobodyDies>;

public:
    static constexpr std::string_view name = "threads";

    Threads(Threads&&) noexcept = default;
    Threads& operator=(Threads&&) noexcept = delete;
    /// The rank leaves: who still waits for it is told so.
    ~Threads() {
        if (group_.state_) leave();
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

    /// Cuts the group: ranks that give one color become a group of their own, numbered by their rank here.
    ///
    /// Errors  as a collective; what ThreadsGroup::create refuses
    [[nodiscard]] Result<Threads> split(std::int32_t color);

private:
    friend class ThreadsGroup;

    Threads(ThreadsGroup group, std::int32_t rank, detail::StagedOptions const& options, detail::RankNames names)
        : Base(*group.state_->region, rank, options, {}, std::move(names)), group_(std::move(group)) {}

    ThreadsGroup group_;
    std::uint64_t splits_ = 0;
};

inline Result<Threads> ThreadsGroup::join(std::int32_t rank) const {
    return join(rank, {});
}

inline Result<Threads> ThreadsGroup::join(std::int32_t rank, detail::RankNames names) const {
    if (rank < 0 || rank >= size()) {
        return Error{ErrorCode::invalid_argument}
            .in("threads")
            .at("rank")
            .because("is no rank of the group")
            .got(rank)
            .between(0, size() - 1);
    }
    auto expected = detail::Presence::absent;
    if (!state_->region->slot(rank).presence.compare_exchange_strong(expected, detail::Presence::joined)) {
        return Error{ErrorCode::invalid_argument}
            .in("threads")
            .at("rank")
            .because("was taken before")
            .got(rank)
            .fix("let each thread join with a number of its own");
    }
    return Threads(*this, rank, {options_.timeout, options_.checks_calls}, std::move(names));
}

inline Result<Threads> Threads::split(std::int32_t color) {
    auto const place = detail::place_in_color(*this, color);
    if (!place) return place.error();
    ++splits_;
    ThreadsGroup child;
    {
        auto& state = *group_.state_;
        std::lock_guard const lock(state.mutex);
        auto found = state.children.begin();
        while (found != state.children.end() && (found->split != splits_ || found->color != color)) ++found;
        if (found == state.children.end()) {
            auto made = ThreadsGroup::create(place->size(), group_.options_);
            if (!made) return fail(made.error()).error();
            state.children.push_back({splits_, color, place->size(), made->state_});
            found = state.children.end() - 1;
        }
        child.options_ = group_.options_;
        child.state_ = found->state;
        if (--found->waiting == 0) state.children.erase(found);
    }
    return child.join(place->rank, rank_names().of_part(place->members));
}

/// Runs body(Threads&) on `ranks` threads and waits for all of them. A rank that returns an error or throws ends the group:
/// the others get that error from their next call. The body may move the rank into a handle of its own.
///
/// Errors  the first error of any rank; rank_lost with the text of an exception; capacity_exceeded where the system gives too few
///         threads: rank 0 has not run then
template <class Body>
[[nodiscard]] Result<> run_threads(std::int32_t ranks, Body const& body, ThreadsOptions const& options = {}) {
    auto const group = ThreadsGroup::create(ranks, options);
    if (!group) return group.error();
    std::vector<Result<>> results(static_cast<std::size_t>(ranks));
    auto const run = [&](std::int32_t rank) {
        auto comm = group->join(rank);
        auto& result = results[static_cast<std::size_t>(rank)];
        if (!comm) {
            result = comm.error();
            return;
        }
        auto const subject = "rank " + std::to_string(rank);
        result = detail::catch_exceptions(ErrorCode::rank_lost, subject, [&]() -> Result<> { return body(*comm); });
        if (!result) result = comm->fail(result.error());
    };
    std::vector<std::thread> threads(static_cast<std::size_t>(ranks));
    for (std::int32_t rank = 1; rank < ranks; ++rank) {
        if (detail::start_thread(threads[static_cast<std::size_t>(rank)], [&run, rank] { run(rank); })) continue;
        // The others wait for this rank already.
        if (auto const comm = group->join(rank)) {
            results[0] = comm->fail(Error{ErrorCode::capacity_exceeded}
                                        .in("rank " + std::to_string(rank))
                                        .because("gets no thread")
                                        .fix("use fewer ranks, or allow this process more threads and memory"));
        }
        break;
    }
    if (results[0]) run(0);
    for (auto& thread : threads) {
        if (thread.joinable()) thread.join();
    }
    for (auto const& result : results) {
        if (!result) return result;
    }
    return {};
}

static_assert(Communicator<Threads>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
