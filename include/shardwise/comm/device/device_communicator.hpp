// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/all_reduce.hpp>
#include <shardwise/comm/barrier.hpp>
#include <shardwise/comm/device/nccl.hpp>
#include <shardwise/comm/host_communicator.hpp>
#include <shardwise/core/deadline.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/kernels/device/all_reduce.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// One rank of a group whose data lie on devices. Its collectives in streams (parallel/device_collectives.hpp) are kernels over a
/// PeerGroup or those of Nccl where it has one, and go through the host's memory where it has none; collectives of the host, which ranks
/// agree by, are those of the communicator that it stands on, and which outlives it.
template <class Api>
class DeviceCommunicator {
public:
    explicit DeviceCommunicator(HostCommunicator& control) : control_(&control) {}
    /// Over peers, by kernels in one stream, which is waited for before this goes. Where ranks are processes, a wait for the stream ends as
    /// soon as the control communicator sees that one of them is gone, by its name.
    DeviceCommunicator(HostCommunicator& control, std::shared_ptr<PeerGroup<Api>> peers, DeviceStream<Api>& stream)
        : control_(&control), peers_(std::move(peers)) {
        stream.watch_always(peers_->fault(own_rank()));
        if (!peers_->spans_processes()) return;
        watched_ = &stream;
        stream.watch_by([control_of = control_, group = peers_.get(), own = own_rank(), watched = &stream,
                         has_ended = false](std::chrono::nanoseconds waited) mutable -> Result<> {
            // A look is a system call for each rank.
            if (has_ended || waited < std::chrono::milliseconds(2)) return {};
            std::optional<Error> lost;
            if (!watched->failure()) {
                lost = control_of->lost();
                if (!lost) return {};
                // First the reason, so that no rank takes the end of this one's kernels for it.
                (void)control_of->fail(*lost);
            }
            // The wait goes on until they have ended. Also where the stream has failed otherwise, as when the control communicator saw the
            // loss first: they may wait for a rank that does not come.
            has_ended = true;
            (void)group->end_own(own);
            if (lost) watched->fail(*lost);
            return {};
        });
    }
    /// By the vendor's library.
    DeviceCommunicator(HostCommunicator& control, std::unique_ptr<Nccl<Api>> nccl)
        : control_(&control), nccl_(std::move(nccl)) {}
    DeviceCommunicator(DeviceCommunicator&&) noexcept = default;
    DeviceCommunicator& operator=(DeviceCommunicator&&) noexcept = delete;
    ~DeviceCommunicator() {
        if (!peers_) return;
        if (watched_ != nullptr) {
            watched_->watch_by({});
            // No memory of others goes while a kernel looks at it.
            if (watched_->failure()) (void)peers_->end_own(own_rank());
            (void)watched_->synchronize(Deadline::after(watched_->context().limit()));
        }
        peers_->leave(own_rank());
    }

    [[nodiscard]] std::int32_t rank() const { return control_->rank(); }
    [[nodiscard]] std::int32_t size() const { return control_->size(); }
    [[nodiscard]] Rank own_rank() const { return Rank{rank()}; }
    [[nodiscard]] HostCommunicator& control() { return *control_; }
    /// "peers", "nccl", "staged", or "none" of one rank.
    [[nodiscard]] std::string_view kind() const {
        return size() == 1 ? "none" : peers_ ? "peers" : nccl_ ? "nccl" : "staged";
    }
    /// What the rank holds on its device.
    [[nodiscard]] Bytes bytes() const { return peers_ ? peers_->bytes_of_rank() : Bytes{0}; }
    /// Null where there is none.
    [[nodiscard]] PeerGroup<Api>* peers() { return peers_.get(); }
    [[nodiscard]] Nccl<Api>* nccl() { return nccl_.get(); }
    /// True where collectives put kernels alone into a stream, which a graph may hold.
    [[nodiscard]] bool repeats() const { return size() == 1 || peers_; }

    /// Puts in what waits for other ranks' kernels: `put()` by all ranks at a time at which none calls anything else. A driver may load
    /// code, or allocate, only when what runs has ended, and what runs may be a kernel that waits for one that is not put in yet.
    ///
    /// Source  CUDA C++ Programming Guide 12.4, 17.3 "Lazy Loading: concurrent execution"
    /// Errors  those of put; of the barriers, which name the rank that does not come
    template <class Put>
    [[nodiscard]] Result<> put_together(Put const& put) {
        if (size() == 1 || !peers_) return put();
        if (auto const met = barrier(*control_); !met) return met;
        Result<> const done = put();
        if (!done) return fail(done.error());
        return barrier(*control_);
    }
    /// Whether something holds on every rank.
    ///
    /// Errors  those of the collective
    [[nodiscard]] Result<bool> holds_on_all(bool own) {
        if (size() == 1) return own;
        std::int32_t all = own ? 1 : 0;
        auto const told = all_reduce(*control_, TensorView<std::int32_t, 1, Host>(&all, {1}), ReduceOp::min);
        if (!told) return told.error();
        return all != 0;
    }

    // What a Communicator has: the host's.
    [[nodiscard]] Traffic& traffic() { return control_->traffic(); }
    void took(std::int64_t messages, std::int64_t bytes) { control_->took(messages, bytes); }
    [[nodiscard]] Result<> send_bytes(std::int32_t to, Dtype dtype, std::byte const* data, std::int64_t count,
                                      std::size_t element_bytes) {
        return control_->send_bytes(to, dtype, data, count, element_bytes);
    }
    [[nodiscard]] Result<> receive_bytes(std::int32_t from, Dtype dtype, std::byte* data, std::int64_t count,
                                         std::size_t element_bytes) {
        return control_->receive_bytes(from, dtype, data, count, element_bytes);
    }
    /// Also of those whose kernels wait for this rank's.
    Result<> fail(Error const& error) {
        auto const failed = control_->fail(error);
        if (peers_) (void)peers_->give_up(own_rank());
        if (nccl_) nccl_->abort();
        return failed;
    }
    template <class Use>
    [[nodiscard]] Result<> visit(Use&& use) {
        return control_->visit(std::forward<Use>(use));
    }
    [[nodiscard]] detail::RankNames rank_names() const { return control_->rank_names(); }

private:
    HostCommunicator* control_;
    std::shared_ptr<PeerGroup<Api>> peers_;
    /// Null where it is not watched.
    DeviceStream<Api>* watched_ = nullptr;
    std::unique_ptr<Nccl<Api>> nccl_;
};

namespace detail {

/// DeviceCommunicator's, of any communicator: of others that are asked there is one rank.
template <class C>
[[nodiscard]] Result<bool> holds_on_all(C& comm, bool own) {
    if constexpr (requires { comm.holds_on_all(own); })
        return comm.holds_on_all(own);
    else
        return own;
}
template <class C, class Put>
[[nodiscard]] Result<> put_together(C& comm, Put const& put) {
    if constexpr (requires { comm.put_together(put); })
        return comm.put_together(put);
    else
        return put();
}

}  // namespace detail

/// Why no graph may hold what a communicator's collectives put into a stream; null where one may.
template <class C>
[[nodiscard]] char const* obstacle_to_repeat(C const& comm) {
    if (comm.size() == 1) return nullptr;
    if constexpr (requires { comm.repeats(); }) {
        if (comm.repeats()) return nullptr;
        return comm.kind() == "nccl" ? "collectives are NCCL's, whose graphs are not made here"
                                     : "ranks add up in the host's memory";
    }
    return "ranks add up in the host's memory";
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
