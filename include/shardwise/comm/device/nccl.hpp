// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/detail/poll.hpp>
#include <shardwise/backend/device.hpp>
#include <shardwise/comm/agree_on.hpp>
#include <shardwise/comm/all_gather.hpp>
#include <shardwise/comm/broadcast.hpp>
#include <shardwise/comm/device/nccl_library.hpp>
#include <shardwise/comm/device/nccl_memory.hpp>
#include <shardwise/comm/host_communicator.hpp>
#include <shardwise/core/deadline.hpp>
#include <shardwise/core/tensor_view.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// One rank's collectives by NCCL or RCCL, in one stream of its device. Nothing of it blocks: the library's communicator is told not to,
/// and is asked how it is, also while the stream is waited for; what does not end within the limit, or fails on another rank, is aborted,
/// and with it every later call.
///
/// Ranks meet on the host communicator: it carries the library's id, names a rank that does not come, and compares what ranks have
/// called where one is late. It outlives this, and so does the stream, which is waited for before this goes.
template <class Api>
class Nccl {
public:
    using Backend = DeviceBackend<Api>;
    using Stream = DeviceStream<Api>;

    /// Every rank of `control` calls it; `limit` is how long a rank waits for another.
    ///
    /// Errors  those of the library's calls, of the first rank that fails; deadline_exceeded
    [[nodiscard]] static Result<std::unique_ptr<Nccl>> join(NcclTable const& table, HostCommunicator& control,
                                                            DeviceContext<Api>& context, Stream& stream,
                                                            std::chrono::nanoseconds limit) {
        std::unique_ptr<Nccl> made(new Nccl(table, control, context, stream, limit));
        if (auto const met = made->meet(); !met) return met.error();
        made->begin_watch();
        return made;
    }
    /// Cuts the group, of which every rank calls it: the ranks of `part`, which `control` was split into, become a group of the library's of
    /// their own. It works in another stream of the same device. End the part before this group, the stream and the context.
    ///
    /// Errors  as join; the failure that ended this group; invalid_argument for this group's own stream
    [[nodiscard]] Result<std::unique_ptr<Nccl>> split(HostCommunicator& part, Stream& stream) {
        if (failure_) return *failure_;
        bool const is_other = &stream != stream_ && stream.device() == stream_->device();
        // Before the library is called: the others would wait in it for a rank that is not.
        auto const checked =
            agree_on(*control_, is_other ? Result<>{}
                                         : Error{ErrorCode::invalid_argument}
                                               .in("ncclCommSplit")
                                               .because("a part works in another stream of the same device")
                                               .fix("make it a stream of its own"));
        if (!checked) return stop(checked.error());
        std::unique_ptr<Nccl> made(new Nccl(table_, part, *context_, stream, limit_));
        auto const cut = [&]() -> Result<> {
            detail::DeviceScope<Api> const scope(context_->device());
            if (!scope.result()) return scope.result();
            NcclTable::Config config;
            config.blocking = 0;
            // A part is known by its first rank.
            auto const color = part.rank_names().in_whole(0);
            auto const called =
                table_.result(table_.split(handle_, color, part.rank(), &made->handle_, &config), "ncclCommSplit");
            if (!called) return called;
            // The part's handle is there once this group's is at rest.
            if (auto const settled = settle("ncclCommSplit"); !settled) return settled;
            return made->settle("ncclCommSplit");
        };
        auto const agreed = agree_on(*control_, cut());
        if (!agreed) {
            made->abort();
            return stop(agreed.error());
        }
        made->begin_watch();
        return made;
    }
    Nccl(Nccl const&) = delete;
    Nccl& operator=(Nccl const&) = delete;
    ~Nccl() {
        stream_->watch_by({});
        detail::DeviceScope<Api> const scope(context_->device());
        if (handle_ != nullptr) {
            memory_.remove(handle_);
            // Who has not failed lets the others end first.
            auto const ended = table_.result(table_.finalize(handle_), "ncclCommFinalize");
            if (ended && settle("ncclCommFinalize"))
                (void)table_.destroy(handle_);
            else
                abort();
        }
        memory_.release();
    }

    [[nodiscard]] std::int32_t rank() const { return control_->rank(); }
    [[nodiscard]] std::int32_t size() const { return control_->size(); }

    /// Memory of the rank's device for what its collectives move, which goes with this; once.
    ///
    /// Errors  unsupported where the library has none of its own (before 2.19); those of its call
    [[nodiscard]] Result<void*> allocate(Bytes bytes) {
        detail::DeviceScope<Api> const scope(context_->device());
        if (!scope.result()) return scope.result().error();
        return memory_.allocate(bytes);
    }
    /// Tells the library of that memory, of which every rank calls it before any collective: as a window where it has windows and all ranks
    /// say one size and one `layout`, as they may where what a collective moves lies at the same offset on all of them; else as each rank's
    /// buffer. What the library does not do is no error: `memory()` says what came of it, alike on all ranks.
    ///
    /// Errors  the failure that ended this group, or ends it: those of join, where a window has ended the library's communicator
    [[nodiscard]] Result<> register_memory(std::uint64_t layout) {
        if (failure_) return *failure_;
        detail::DeviceScope<Api> const scope(context_->device());
        if (!scope.result()) return scope.result();
        auto const told = memory_.tell(
            *control_, handle_, layout,
            // Who has failed waits for the others, which wait for it in the library, no longer than a call of the control communicator.
            [this](std::string_view call) { return settle(call, 2); },
            [this]() -> Result<> {
                abort();
                return meet();
            });
        return told ? told : stop(told.error());
    }
    [[nodiscard]] NcclMemory const& memory() const { return memory_; }

    /// Sums `data` over the ranks, in place.
    ///
    /// Order   on the stream
    /// Errors  unsupported for a T that the library does not know; the first failure of the group
    template <class T>
    [[nodiscard]] Result<> all_reduce(TensorView<T, 1, Backend> data) {
        return call<T>("ncclAllReduce", [&](int dtype, void* native) {
            return table_.all_reduce(data.data(), data.data(), size_of(data), dtype, NcclTable::sum, handle_, native);
        });
    }
    /// Gathers `counts[rank]` elements of each rank, one after another; `in` may lie at its place in `out`.
    template <class T>
    [[nodiscard]] Result<> all_gather(TensorView<T const, 1, Backend> in, TensorView<T, 1, Backend> out,
                                      std::span<std::int64_t const> counts) {
        if (auto const checked = check_counts("ncclAllGather", counts, in.elements(), out.elements()); !checked)
            return checked;
        if (are_alike(counts)) {
            return call<T>("ncclAllGather", [&](int dtype, void* native) {
                return table_.all_gather(in.data(), out.data(), size_of(in), dtype, handle_, native);
            });
        }
        return call<T>("ncclBroadcast", [&](int dtype, void* native) {
            return group([&](int from) {
                auto* const to = out.data() + first_of(counts, from);
                auto const* const data = from == rank() ? in.data() : to;
                return table_.broadcast(data, to, count_of(counts, from), dtype, from, handle_, native);
            });
        });
    }
    /// Sums `in` over the ranks and leaves each its `counts[rank]` elements; `out` may lie at its place in `in` where counts are alike.
    template <class T>
    [[nodiscard]] Result<> reduce_scatter(TensorView<T const, 1, Backend> in, TensorView<T, 1, Backend> out,
                                          std::span<std::int64_t const> counts) {
        if (auto const checked = check_counts("ncclReduceScatter", counts, out.elements(), in.elements()); !checked)
            return checked;
        if (are_alike(counts)) {
            return call<T>("ncclReduceScatter", [&](int dtype, void* native) {
                return table_.reduce_scatter(in.data(), out.data(), size_of(out), dtype, NcclTable::sum, handle_,
                                             native);
            });
        }
        return call<T>("ncclReduce", [&](int dtype, void* native) {
            return group([&](int to) {
                // Only the root's output is written.
                return table_.reduce(in.data() + first_of(counts, to), out.data(), count_of(counts, to), dtype,
                                     NcclTable::sum, to, handle_, native);
            });
        });
    }
    /// Gives rank r `sent[r]` elements of `in` and takes `received[r]` from it.
    template <class T>
    [[nodiscard]] Result<> all_to_all(TensorView<T const, 1, Backend> in, std::span<std::int64_t const> sent,
                                      TensorView<T, 1, Backend> out, std::span<std::int64_t const> received) {
        return call<T>("ncclSend", [&](int dtype, void* native) {
            return group([&](int peer) {
                auto const done =
                    table_.send(in.data() + first_of(sent, peer), count_of(sent, peer), dtype, peer, handle_, native);
                if (done != NcclTable::success && done != NcclTable::in_progress) return done;
                return table_.receive(out.data() + first_of(received, peer), count_of(received, peer), dtype, peer,
                                      handle_, native);
            });
        });
    }
    template <class T>
    [[nodiscard]] Result<> send(TensorView<T const, 1, Backend> in, std::int32_t to) {
        return call<T>("ncclSend", [&](int dtype, void* native) {
            return table_.send(in.data(), size_of(in), dtype, to, handle_, native);
        });
    }
    template <class T>
    [[nodiscard]] Result<> receive(TensorView<T, 1, Backend> out, std::int32_t from) {
        return call<T>("ncclRecv", [&](int dtype, void* native) {
            return table_.receive(out.data(), size_of(out), dtype, from, handle_, native);
        });
    }
    template <class T>
    [[nodiscard]] Result<> broadcast_from(TensorView<T, 1, Backend> data, std::int32_t root) {
        return call<T>("ncclBroadcast", [&](int dtype, void* native) {
            return table_.broadcast(data.data(), data.data(), size_of(data), dtype, root, handle_, native);
        });
    }

    /// Ends the library's communicator with what its kernels wait for; every later call is refused.
    void abort() {
        if (handle_ == nullptr) return;
        detail::DeviceScope<Api> const scope(context_->device());
        memory_.forget();
        (void)table_.abort(std::exchange(handle_, nullptr));
    }

private:
    Nccl(NcclTable const& table, HostCommunicator& control, DeviceContext<Api>& context, Stream& stream,
         std::chrono::nanoseconds limit)
        : table_(table), memory_(table), control_(&control), context_(&context), stream_(&stream), limit_(limit) {}

    void begin_watch() {
        stream_->watch_by([this](std::chrono::nanoseconds waited) { return watch(waited); });
    }
    template <class View>
    [[nodiscard]] static std::size_t size_of(View const& view) {
        return static_cast<std::size_t>(view.elements());
    }
    [[nodiscard]] static std::size_t count_of(std::span<std::int64_t const> counts, int rank) {
        return static_cast<std::size_t>(counts[static_cast<std::size_t>(rank)]);
    }
    [[nodiscard]] static std::int64_t first_of(std::span<std::int64_t const> counts, int rank) {
        std::int64_t first = 0;
        for (auto const count : counts.first(static_cast<std::size_t>(rank))) first += count;
        return first;
    }
    [[nodiscard]] static bool are_alike(std::span<std::int64_t const> counts) {
        return std::all_of(counts.begin(), counts.end(), [&](std::int64_t count) { return count == counts.front(); });
    }
    [[nodiscard]] Result<> check_counts(std::string_view name, std::span<std::int64_t const> counts, std::int64_t own,
                                        std::int64_t all) const {
        Error error{ErrorCode::shape_mismatch};
        error.in(name);
        if (static_cast<std::int32_t>(counts.size()) != size())
            return error.because("has another number of counts than of ranks").expected(size());
        if (counts[static_cast<std::size_t>(rank())] != own)
            return error.because("the rank's own part does not have its count of elements").got(own);
        if (first_of(counts, size()) != all) return error.because("the whole is not the sum of the counts").got(all);
        return {};
    }

    /// Errors  as join
    [[nodiscard]] Result<> meet() {
        NcclTable::UniqueId id{};
        auto const asked = rank() == 0 ? table_.result(table_.get_unique_id(&id), "ncclGetUniqueId") : Result<>{};
        if (auto const agreed = agree_on(*control_, asked); !agreed) return agreed;
        TensorView<std::int8_t, 1, Host> const bytes(reinterpret_cast<std::int8_t*>(id.internal), {sizeof id.internal});
        if (auto const told = broadcast(*control_, bytes, 0); !told) return told;
        return agree_on(*control_, open(id));
    }
    /// Errors  those of the library; deadline_exceeded
    [[nodiscard]] Result<> open(NcclTable::UniqueId const& id) {
        detail::DeviceScope<Api> const scope(context_->device());
        if (!scope.result()) return scope.result();
        NcclTable::Config config;
        config.blocking = 0;
        auto const made =
            table_.result(table_.init_rank(&handle_, size(), id, rank(), &config), "ncclCommInitRankConfig");
        auto const settled = made ? settle("ncclCommInitRankConfig") : made;
        if (!settled) abort();
        return settled;
    }
    /// How the communicator is now.
    [[nodiscard]] Result<> ask(std::string_view call, bool* in_progress = nullptr) {
        int status = NcclTable::success;
        auto const asked = table_.result(table_.async_error(handle_, &status), "ncclCommGetAsyncError");
        if (!asked) return asked;
        if (in_progress != nullptr) *in_progress = status == NcclTable::in_progress;
        auto const found = table_.result(status, call);
        if (found) return {};
        auto error = found.error();
        return Error{ErrorCode::rank_lost}
            .in(call)
            .because(std::string(error.message()))
            .fix("look at the other ranks");
    }
    /// Waits until the library has done what it was called for.
    [[nodiscard]] Result<> settle(std::string_view call, int share = 1) {
        auto const settled = detail::poll(
            [&]() -> Result<bool> {
                bool in_progress = false;
                if (auto const sound = ask(call, &in_progress); !sound) return sound.error();
                return !in_progress;
            },
            Deadline::after(limit_ / share));
        if (!settled) return settled.error();
        if (*settled) return {};
        return Error{ErrorCode::deadline_exceeded}.in(call).because("is still in progress after the group's limit");
    }
    /// A part of a collective for every rank, put in together.
    template <class Each>
    [[nodiscard]] int group(Each const& each) {
        if (auto const status = table_.group_start(); status != NcclTable::success) return status;
        int failed = NcclTable::success;
        for (int peer = 0; peer < size() && failed == NcclTable::success; ++peer) {
            auto const status = each(peer);
            if (status != NcclTable::in_progress) failed = status;
        }
        // A group that was begun is ended, whatever it holds.
        auto const ended = table_.group_end();
        return failed != NcclTable::success ? failed : ended;
    }
    /// Puts one collective in: put(dtype, native stream) gives the library's status.
    template <class T, class Put>
    [[nodiscard]] Result<> call(std::string_view name, Put const& put) {
        if (failure_) return *failure_;
        constexpr int dtype = NcclTable::dtype_of(shardwise::dtype_of<T>);
        static_assert(dtype >= 0, "the library has no such element type");
        ++calls_;
        stream_->submit([&](typename Api::Stream native) -> Result<> {
            auto const done = table_.result(put(dtype, native), name);
            return done ? settle(name) : done;
        });
        if (stream_->failure()) return stop(*stream_->failure());
        return {};
    }
    /// Asked while the stream is waited for.
    [[nodiscard]] Result<> watch(std::chrono::nanoseconds waited) {
        // The stream has failed with it: whoever waits once more waits for what still runs.
        if (failure_ || handle_ == nullptr) return {};
        if (auto const sound = ask("ncclCommGetAsyncError"); !sound) return stop(sound.error());
        if (waited <= limit_) return {};
        return stop(blame(Error{ErrorCode::deadline_exceeded}
                              .in("nccl")
                              .because("has not done what every rank has called after the group's limit")
                              .fix("look at the devices and the links between them")));
    }
    /// Which rank is gone: the library does not say, and may see a rank's end before the system tells the group of it.
    [[nodiscard]] std::optional<Error> find_lost() const {
        std::optional<Error> lost;
        auto const is_told = [&]() -> Result<bool> {
            lost = control_->lost();
            return lost.has_value();
        };
        (void)detail::poll(is_told, Deadline::after(std::chrono::milliseconds(200)));
        return lost;
    }
    /// Ends the group with what came up on this rank.
    [[nodiscard]] Error stop(Error const& error) {
        abort();
        if (!failure_) {
            auto const lost = error.code() == ErrorCode::rank_lost ? find_lost() : std::nullopt;
            failure_ = end_group(*control_, lost ? *lost : error);
        }
        stream_->fail(*failure_);
        return *failure_;
    }
    /// Which rank a stream waits for: that which has called least, where the others still answer.
    [[nodiscard]] Error blame(Error const& late) {
        std::vector<std::int64_t> calls(static_cast<std::size_t>(size()));
        std::vector<std::int64_t> const counts(calls.size(), 1);
        auto const told = shardwise::all_gather(*control_, TensorView<std::int64_t const, 1, Host>(&calls_, {1}),
                                                TensorView<std::int64_t, 1, Host>(calls.data(), {size()}),
                                                std::span<std::int64_t const>(counts));
        if (!told) return told.error();
        auto const least = std::min_element(calls.begin(), calls.end());
        if (*least == *std::max_element(calls.begin(), calls.end())) return late;
        auto const number = static_cast<std::int32_t>(least - calls.begin());
        return Error{ErrorCode::deadline_exceeded}
            .in("nccl")
            .at(control_->rank_names().name(number))
            .because("has called fewer collectives than the others, which wait for it")
            .got(*least)
            .expected(*std::max_element(calls.begin(), calls.end()));
    }

    NcclTable table_;
    NcclMemory memory_;
    HostCommunicator* control_;
    DeviceContext<Api>* context_;
    Stream* stream_;
    std::chrono::nanoseconds limit_;
    NcclTable::Handle handle_ = nullptr;
    std::int64_t calls_ = 0;
    std::optional<Error> failure_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
