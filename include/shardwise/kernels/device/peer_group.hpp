// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/device.hpp>
#include <shardwise/core/ids.hpp>
#include <shardwise/core/split.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/kernels/detail/element.hpp>
#include <shardwise/kernels/device/peer_members.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Defined in kernels/all_reduce_launch.cuh.
template <class Api, class T>
Result<> launch_all_reduce(AllReduceCall const& call, typename Api::Stream stream);

/// Defined in kernels/exchange_parts_launch.cuh.
template <class Api, class T>
Result<> launch_exchange_parts(PeerPartsCall const& call, typename Api::Stream stream);

}  // namespace detail

/// Ranks that reach each other's device memory: one device each, or several on one device. A rank is a context, a stream and what
/// lies here. Ranks are those of one process (`open`), or each has a process and a group object of its own (`open_one`;
/// comm/device/peer_processes.hpp brings them together). A group may be shared by the threads of its ranks, each of which calls what
/// names its rank.
///
/// A kernel waits for those of the other ranks while it runs. Where ranks share a device, or a driver loads code when it is first
/// called, a rank's other calls may wait for that kernel to end: the ranks put such kernels in together (DeviceCommunicator does so).
///
/// Memory  owned by the group: contexts outlive it or `leave` it, and the streams of its calls are waited for before it ends
template <class Api>
class PeerGroup : public detail::PeerMembers<Api> {
    using Members = detail::PeerMembers<Api>;

public:
    using Backend = DeviceBackend<Api>;
    using Members::max_ranks;

    /// A rank for each context; a context may stand several times.
    ///
    /// Errors  invalid_argument for no or too many ranks or an impossible option; unsupported where two devices cannot reach
    ///         each other; out_of_memory; backend_failure
    [[nodiscard]] static Result<std::unique_ptr<PeerGroup>> open(std::span<DeviceContext<Api>* const> contexts,
                                                                 PeerOptions const& options = {}) {
        std::unique_ptr<PeerGroup> group(new PeerGroup(options));
        if (auto const filled = group->fill(contexts); !filled) return filled.error();
        return group;
    }

    /// The rank `own` of a group whose others are in other processes, each on its device of `devices`, which all ranks give alike, as
    /// they do the options. It is complete once every other rank's memory is attached, and every rank's is.
    ///
    /// Errors  invalid_argument as open; out_of_memory; backend_failure
    [[nodiscard]] static Result<std::unique_ptr<PeerGroup>> open_one(DeviceContext<Api>& context, Rank own,
                                                                     std::span<PeerDevice const> devices,
                                                                     PeerOptions const& options = {},
                                                                     PeerSharing sharing = PeerSharing::handles) {
        std::unique_ptr<PeerGroup> group(new PeerGroup(options, sharing));
        if (auto const filled = group->fill(context, own, devices); !filled) return filled.error();
        return group;
    }

    /// out = the sum of every rank's `in`, in the order of ranks, in float: the same bits on all ranks. Every rank calls it,
    /// with the same count and T, in a stream of its own device; a rank's calls run one after another. A rank that does not
    /// come in time, or asks for something else, ends the group: the stream reports it, and so does every later call.
    ///
    /// Shapes  in, out [count]; out may be in
    /// Order   on `stream`
    /// Errors  shape_mismatch; invalid_argument; the failure that ended the group
    template <ActivationElement T>
    [[nodiscard]] Result<> all_reduce(Rank rank, TensorView<T const, 1, Backend> in, TensorView<T, 1, Backend> out,
                                      DeviceStream<Api>& stream) {
        auto const count = in.elements();
        if (auto const checked = check("all_reduce", rank, out.elements(), count, stream); !checked) return checked;
        if (takes_two_shots(count * static_cast<std::int64_t>(sizeof(T)))) {
            std::array<std::int64_t, max_ranks> counts{};
            for (std::int32_t peer = 0; peer < this->size(); ++peer)
                counts[static_cast<std::size_t>(peer)] = split_units(count, this->size(), peer).size();
            std::span<std::int64_t const> const parts(counts.data(), this->members_.size());
            auto const own = split_units(count, this->size(), rank.value());
            auto const part = out.part(own.begin, own.size());
            if (auto const done = reduce_scatter<T>(rank, in, part, parts, stream); !done) return done;
            return all_gather<T>(rank, TensorView<T const, 1, Backend>(part), out, parts, stream);
        }
        auto call = start<T>(rank, detail::PeerCall::all_reduce, count, stream);
        auto const piece = this->half_bytes_ / static_cast<std::int64_t>(sizeof(T));
        for (std::int64_t first = 0; first < count; first += piece) {
            call.in = in.data() + first;
            call.out = out.data() + first;
            call.count = std::min(piece, count - first);
            stream.submit([&](typename Api::Stream native) { return detail::launch_all_reduce<Api, T>(call, native); });
        }
        return {};
    }

    /// Gathers `counts[rank]` elements of each rank, one after another; `in` may lie at its place in `out`. Otherwise as all_reduce.
    ///
    /// Shapes  in [counts[rank]], out [sum of counts]
    template <ActivationElement T>
    [[nodiscard]] Result<> all_gather(Rank rank, TensorView<T const, 1, Backend> in, TensorView<T, 1, Backend> out,
                                      std::span<std::int64_t const> counts, DeviceStream<Api>& stream) {
        if (auto const checked = check_counts("all_gather", counts, in.elements(), rank); !checked) return checked;
        Parts parts;
        auto const largest = Parts::lay_out(counts, parts.received, parts.received_at);
        parts.sent[0] = in.elements();
        auto const all = parts.all_received();
        if (auto const checked = check("all_gather", rank, out.elements(), all, stream); !checked) return checked;
        put_parts<T>(start<T>(rank, detail::PeerCall::all_gather, all, stream), parts, in.data(), out.data(), largest,
                     1, stream);
        return {};
    }

    /// Sums every rank's `in`, in the order of ranks, and leaves each its `counts[rank]` elements. `out` may lie at its place in `in`.
    /// Otherwise as all_reduce.
    ///
    /// Shapes  in [sum of counts], out [counts[rank]]
    template <ActivationElement T>
    [[nodiscard]] Result<> reduce_scatter(Rank rank, TensorView<T const, 1, Backend> in, TensorView<T, 1, Backend> out,
                                          std::span<std::int64_t const> counts, DeviceStream<Api>& stream) {
        if (auto const checked = check_counts("reduce_scatter", counts, out.elements(), rank); !checked) return checked;
        Parts parts;
        auto const largest = Parts::lay_out(counts, parts.sent, parts.sent_at);
        parts.received[0] = out.elements();
        auto const all = parts.all_sent();
        if (auto const checked = check("reduce_scatter", rank, in.elements(), all, stream); !checked) return checked;
        put_parts<T>(start<T>(rank, detail::PeerCall::reduce_scatter, all, stream), parts, in.data(), out.data(),
                     largest, this->size(), stream);
        return {};
    }

    /// Gives rank r the `sent[r]` elements of `in` that are for it and takes `received[r]` from it. `largest` is the most that any rank
    /// sends to any other, which all ranks say alike. Otherwise as all_reduce.
    ///
    /// Shapes  in [sum of sent], out [sum of received]; they do not overlap
    template <ActivationElement T>
    [[nodiscard]] Result<> all_to_all(Rank rank, TensorView<T const, 1, Backend> in, std::span<std::int64_t const> sent,
                                      TensorView<T, 1, Backend> out, std::span<std::int64_t const> received,
                                      std::int64_t largest, DeviceStream<Api>& stream) {
        auto const own = sent.size() == this->members_.size() && rank.value() >= 0 && rank.value() < this->size()
                             ? sent[this->index(rank)]
                             : std::int64_t{0};
        if (auto const checked = check_counts("all_to_all", sent, own, rank); !checked) return checked;
        if (auto const checked = check_counts("all_to_all", received, own, rank); !checked) return checked;
        Parts parts;
        for (std::size_t peer = 0; peer < sent.size(); ++peer) {
            parts.sent_at[peer] = parts.all_sent();
            parts.received_at[peer] = parts.all_received();
            parts.sent[peer] = sent[peer];
            parts.received[peer] = received[peer];
            if (sent[peer] > largest || received[peer] > largest) {
                return Error{ErrorCode::invalid_argument}
                    .in("all_to_all")
                    .because("moves more elements between two ranks than are the most")
                    .got(std::max(sent[peer], received[peer]))
                    .at_most(largest);
            }
        }
        if (auto const checked = check("all_to_all", rank, in.elements(), parts.all_sent(), stream); !checked)
            return checked;
        if (auto const checked = check("all_to_all", rank, out.elements(), parts.all_received(), stream); !checked)
            return checked;
        put_parts<T>(start<T>(rank, detail::PeerCall::all_to_all, largest, stream), parts, in.data(), out.data(),
                     largest, this->size(), stream);
        return {};
    }

    /// Whether a sum of so many bytes is made in two steps, each rank summing its share, rather than by every rank reading all of it: as
    /// the options say, or by is_two_shot.
    [[nodiscard]] bool takes_two_shots(std::int64_t bytes) const {
        auto const from = this->options().two_shot_bytes;
        return from < 0 ? is_two_shot(this->size(), bytes) : this->size() > 1 && bytes >= from;
    }
    /// The choice where nothing was measured.
    ///
    /// Source  vLLM 0.6, csrc/custom_all_reduce.cuh: one step for 2 ranks, below 512 KiB for 4 and below 256 KiB for 8
    [[nodiscard]] static constexpr bool is_two_shot(std::int32_t ranks, std::int64_t bytes) {
        if (ranks <= 2) return false;
        return bytes >= (ranks <= 4 ? std::int64_t{512} << 10U : std::int64_t{256} << 10U);
    }

private:
    /// What a rank hands out and takes.
    struct Parts {
        std::array<std::int64_t, max_ranks> sent{};
        std::array<std::int64_t, max_ranks> sent_at{};
        std::array<std::int64_t, max_ranks> received{};
        std::array<std::int64_t, max_ranks> received_at{};

        /// Lays checked counts one after another; returns the largest.
        static std::int64_t lay_out(std::span<std::int64_t const> counts, std::array<std::int64_t, max_ranks>& sizes,
                                    std::array<std::int64_t, max_ranks>& begins) {
            std::int64_t end = 0;
            std::int64_t largest = 0;
            for (std::size_t i = 0; i < counts.size(); ++i) {
                begins[i] = end;
                sizes[i] = counts[i];
                end += counts[i];
                largest = std::max(largest, counts[i]);
            }
            return largest;
        }
        [[nodiscard]] std::int64_t all_sent() const { return sum(sent); }
        [[nodiscard]] std::int64_t all_received() const { return sum(received); }
        [[nodiscard]] static std::int64_t sum(std::array<std::int64_t, max_ranks> const& counts) {
            std::int64_t all = 0;
            for (auto const count : counts) all += count;
            return all;
        }
    };

    explicit PeerGroup(PeerOptions const& options, PeerSharing sharing = PeerSharing::handles)
        : Members(options, sharing) {}

    [[nodiscard]] Result<> check(std::string_view name, Rank rank, std::int64_t elements, std::int64_t expected,
                                 DeviceStream<Api> const& stream) const {
        Error error{ErrorCode::invalid_argument};
        error.in(name);
        if (rank.value() < 0 || rank.value() >= this->size()) {
            return error.because("there is no such rank").got(rank.value()).between(0, this->size() - 1);
        }
        if (elements != expected) {
            return Error{ErrorCode::shape_mismatch}
                .in(name)
                .because("the output is not as long as the input")
                .got(elements)
                .expected(expected);
        }
        auto const& own = this->member(rank);
        if (own.is_foreign) return error.because("the rank is of another process").got(rank.value());
        for (std::int32_t other = 0; other < this->size(); ++other) {
            if (this->member(Rank{other}).memory == nullptr)
                return error.because("the memory of a rank is not attached").got(other).fix("attach it first");
        }
        if (stream.device() != own.device) {
            return error.because("the stream is of another device than the rank")
                .got(stream.device())
                .expected(own.device);
        }
        return detail::fault_result(own.fault->value());
    }
    [[nodiscard]] Result<> check_counts(std::string_view name, std::span<std::int64_t const> counts, std::int64_t own,
                                        Rank rank) const {
        Error error{ErrorCode::invalid_argument};
        error.in(name);
        if (counts.size() != this->members_.size()) {
            return error.because("has another number of counts than of ranks")
                .got(static_cast<std::int64_t>(counts.size()))
                .expected(this->size());
        }
        if (rank.value() < 0 || rank.value() >= this->size())
            return error.because("there is no such rank").got(rank.value()).between(0, this->size() - 1);
        for (auto const count : counts) {
            if (count < 0) return error.because("has a negative count").got(count);
        }
        if (name != "all_to_all" && counts[this->index(rank)] != own) {
            return Error{ErrorCode::shape_mismatch}
                .in(name)
                .because("the rank's own part does not have its count of elements")
                .got(own)
                .expected(counts[this->index(rank)]);
        }
        return {};
    }

    /// A call without its data. `total` is what all ranks must say alike.
    template <class T>
    [[nodiscard]] detail::AllReduceCall start(Rank rank, detail::PeerCall kind, std::int64_t total,
                                              DeviceStream<Api>& stream) {
        auto const& own = this->member(rank);
        stream.watch(own.fault);
        detail::AllReduceCall call{};
        for (std::int32_t peer = 0; peer < this->size(); ++peer) call.peers[peer] = this->memory(Rank{peer});
        call.rank = rank.value();
        call.ranks = this->size();
        call.half_bytes = this->half_bytes_;
        call.fault = &own.fault->value();
        // More than a year is for ever, and would leave 63 bits of ticks.
        constexpr std::chrono::microseconds longest = std::chrono::hours{24 * 365};
        call.limit_ticks = std::min(own.limit, longest).count() * Api::ticks_per_microsecond;
        call.blocks = this->blocks_;
        call.kind = kind;
        // The count in elements, so that a difference reads well, with the dtype in the low digit: of the whole, for the first
        // pieces of two lengths may be alike. The kind is far above any count.
        call.identity = static_cast<std::uint64_t>(total) * 10U + static_cast<std::uint64_t>(dtype_of<T>) % 10U +
                        (static_cast<std::uint64_t>(kind) << 60U);
        return call;
    }
    template <class T>
    void put_parts(detail::AllReduceCall const& base, Parts const& parts, T const* in, T* out, std::int64_t largest,
                   std::int32_t slots, DeviceStream<Api>& stream) {
        constexpr auto pack = static_cast<std::int64_t>(16 / sizeof(T));
        detail::PeerPartsCall call{};
        call.base = base;
        call.base.in = in;
        call.base.out = out;
        call.slot = this->half_bytes_ / static_cast<std::int64_t>(sizeof(T)) / slots / pack * pack;
        for (std::int64_t first = 0; first < largest; first += call.slot) {
            auto const piece = [&](std::int64_t count) {
                return std::clamp<std::int64_t>(count - first, 0, call.slot);
            };
            for (std::size_t peer = 0; peer < this->members_.size(); ++peer) {
                call.sent[peer] = piece(parts.sent[peer]);
                call.sent_at[peer] = parts.sent_at[peer] + first;
                call.received[peer] = piece(parts.received[peer]);
                call.received_at[peer] = parts.received_at[peer] + first;
            }
            stream.submit(
                [&](typename Api::Stream native) { return detail::launch_exchange_parts<Api, T>(call, native); });
        }
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
