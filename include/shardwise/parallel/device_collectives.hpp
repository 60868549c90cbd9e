// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/device.hpp>
#include <shardwise/comm/communicator.hpp>
#include <shardwise/comm/device/device_communicator.hpp>
#include <shardwise/comm/send_receive.hpp>
#include <shardwise/core/deadline.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/parallel/collectives.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

// The collectives of parallel/collectives.hpp for views and streams of a device, staged over any communicator of the host: out of the
// device into pinned memory, which waits for what is in the stream; the host's collective; and back in stream order. They work between
// any ranks, also where several share a device, and are what faster ones are held against. A failure stops the stream.
//
// With a DeviceCommunicator over peers they are kernels that wait for nothing on the host, where its PeerGroup has them for the
// elements: sums, gathers and exchanges of float, bf16 and f16. All else is staged.

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Runs collective(in, out) on copies in pinned memory of the stream's context; `out` may be what `in` is.
template <class T, class Api, class Collective>
void run_staged(TensorView<T const, 1, DeviceBackend<Api>> in, TensorView<T, 1, DeviceBackend<Api>> out,
                Collective const& collective, DeviceStream<Api>& stream) {
    if (stream.failure()) return;
    auto const count = in.elements() + out.elements();
    auto const pinned = stream.context().staging(static_cast<std::size_t>(count) * sizeof(T), stream);
    if (!pinned) return stream.fail(pinned.error());
    auto* const memory = reinterpret_cast<T*>(*pinned);
    TensorView<T, 1, Host> const from(memory, {in.elements()});
    TensorView<T, 1, Host> const to(memory + in.elements(), {out.elements()});
    auto const copied = DeviceBackend<Api>::template copy<T>(in, from, stream);
    if (!copied) return stream.fail(copied.error());
    auto const waited = stream.synchronize(Deadline::after(stream.context().limit()));
    if (!waited) return stream.fail(waited.error());
    Result<> const done = collective(from, to);
    if (!done) return stream.fail(done.error());
    auto const returned = DeviceBackend<Api>::template copy<T>(TensorView<T const, 1, Host>(to), out, stream);
    if (!returned) stream.fail(returned.error());
}

/// Where the element type is one of the vendor's library.
template <class T>
inline constexpr bool is_nccl_element = NcclTable::dtype_of(dtype_of<T>) >= 0;

/// Puts a collective of the vendor's library into the stream.
template <class Api, class Put>
void submit_by_nccl(DeviceStream<Api>& stream, Put const& put) {
    if (stream.failure()) return;
    if (Result<> const done = put(); !done) stream.fail(done.error());
}

/// Puts a collective over peers into the stream: put() -> Result<> does it. Together with the other ranks, but where it is taken down.
template <class Api, class Put>
void submit_over_peers(DeviceCommunicator<Api>& comm, DeviceStream<Api>& stream, Put const& put) {
    if (stream.failure()) return;
    auto const all = [&]() -> Result<> {
        Result<> const done = put();
        if (done && stream.failure()) return *stream.failure();
        return done;
    };
    auto const done = stream.is_captured() ? all() : comm.put_together(all);
    if (!done) stream.fail(done.error());
}

}  // namespace detail

/// Sums (or takes the largest of) `data` over all ranks, in place; nothing to do for one rank.
///
/// Shapes  data [n], the same n on all ranks
/// Order   on `stream`, which is waited for
template <class T, Communicator C, class Api>
void submit_all_reduce(C& comm, TensorView<T, 1, DeviceBackend<Api>> data, ReduceOp op, DeviceStream<Api>& stream) {
    if (comm.size() == 1) return;
    auto const reduce = [&](TensorView<T, 1, Host> from, TensorView<T, 1, Host> to) -> Result<> {
        if (from.elements() > 0)
            std::memcpy(to.data(), from.data(), static_cast<std::size_t>(from.elements()) * sizeof(T));
        return all_reduce(comm, to, op);
    };
    detail::run_staged<T, Api>(data, data, reduce, stream);
}

/// Gathers `count(rank)` elements of each rank, one after another; `in` may lie at its place in `out`.
///
/// Shapes  in [count(own rank)], out [sum of counts]
/// Order   on `stream`, which is waited for
template <class T, Communicator C, class Count, class Api>
void submit_all_gather(C& comm, TensorView<T const, 1, DeviceBackend<Api>> in, TensorView<T, 1, DeviceBackend<Api>> out,
                       Count count, DeviceStream<Api>& stream) {
    auto const gather = [&](TensorView<T const, 1, Host> from, TensorView<T, 1, Host> to) -> Result<> {
        if (auto const checked = detail::check_group(comm.size()); !checked) return checked;
        detail::RankCounts const counts(comm.size(), count);
        return all_gather(comm, from, to, counts.span());
    };
    detail::run_staged<T, Api>(in, out, gather, stream);
}

/// Sums `in` over all ranks and leaves each its `count(rank)` elements.
///
/// Shapes  in [sum of counts], out [count(own rank)]
/// Order   on `stream`, which is waited for
template <class T, Communicator C, class Count, class Api>
void submit_reduce_scatter(C& comm, TensorView<T const, 1, DeviceBackend<Api>> in,
                           TensorView<T, 1, DeviceBackend<Api>> out, Count count, DeviceStream<Api>& stream) {
    auto const reduce = [&](TensorView<T const, 1, Host> from, TensorView<T, 1, Host> to) -> Result<> {
        if (auto const checked = detail::check_group(comm.size()); !checked) return checked;
        detail::RankCounts const counts(comm.size(), count);
        return reduce_scatter(comm, from, to, counts.span());
    };
    detail::run_staged<T, Api>(in, out, reduce, stream);
}

/// Gives rank r the `sent(r)` elements of `in` that are for it and takes `received(r)` from it.
///
/// Shapes  in [sum of sent], out [sum of received]
/// Order   on `stream`, which is waited for
template <class T, Communicator C, class Sent, class Received, class Api>
void submit_all_to_all(C& comm, TensorView<T const, 1, DeviceBackend<Api>> in, Sent sent,
                       TensorView<T, 1, DeviceBackend<Api>> out, Received received, DeviceStream<Api>& stream) {
    auto const exchange = [&](TensorView<T const, 1, Host> from, TensorView<T, 1, Host> to) -> Result<> {
        if (auto const checked = detail::check_group(comm.size()); !checked) return checked;
        detail::RankCounts const send_counts(comm.size(), sent);
        detail::RankCounts const receive_counts(comm.size(), received);
        return all_to_all(comm, from, send_counts.span(), to, receive_counts.span());
    };
    detail::run_staged<T, Api>(in, out, exchange, stream);
}

/// Takes `out` from a rank.
///
/// Order  on `stream`, which is waited for
template <class T, Communicator C, class Api>
void submit_receive_from(C& comm, TensorView<T, 1, DeviceBackend<Api>> out, std::int32_t from,
                         DeviceStream<Api>& stream) {
    auto const take = [&](TensorView<T const, 1, Host>, TensorView<T, 1, Host> to) { return receive(comm, to, from); };
    detail::run_staged<T, Api>({}, out, take, stream);
}

/// Hands `in` to a rank.
///
/// Order  on `stream`, which is waited for
template <class T, Communicator C, class Api>
void submit_send_to(C& comm, TensorView<T const, 1, DeviceBackend<Api>> in, std::int32_t to,
                    DeviceStream<Api>& stream) {
    auto const give = [&](TensorView<T const, 1, Host> from, TensorView<T, 1, Host>) { return send(comm, from, to); };
    detail::run_staged<T, Api>(in, {}, give, stream);
}

// The same over what a DeviceCommunicator has.

template <class T, class Api>
void submit_all_reduce(DeviceCommunicator<Api>& comm, TensorView<T, 1, DeviceBackend<Api>> data, ReduceOp op,
                       DeviceStream<Api>& stream) {
    if (comm.size() == 1) return;
    if constexpr (ActivationElement<T>) {
        if (comm.peers() != nullptr && op == ReduceOp::sum) {
            return detail::submit_over_peers(comm, stream, [&] {
                TensorView<T const, 1, DeviceBackend<Api>> const in = data;
                return comm.peers()->template all_reduce<T>(comm.own_rank(), in, data, stream);
            });
        }
    }
    if constexpr (detail::is_nccl_element<T>) {
        if (comm.nccl() != nullptr && op == ReduceOp::sum)
            return detail::submit_by_nccl(stream, [&] { return comm.nccl()->template all_reduce<T>(data); });
    }
    submit_all_reduce(comm.control(), data, op, stream);
}

template <class T, class Count, class Api>
void submit_all_gather(DeviceCommunicator<Api>& comm, TensorView<T const, 1, DeviceBackend<Api>> in,
                       TensorView<T, 1, DeviceBackend<Api>> out, Count count, DeviceStream<Api>& stream) {
    if constexpr (ActivationElement<T>) {
        if (comm.peers() != nullptr) {
            return detail::submit_over_peers(comm, stream, [&] {
                detail::RankCounts const counts(comm.size(), count);
                return comm.peers()->template all_gather<T>(comm.own_rank(), in, out, counts.span(), stream);
            });
        }
    }
    if constexpr (detail::is_nccl_element<T>) {
        if (comm.nccl() != nullptr) {
            return detail::submit_by_nccl(stream, [&] {
                detail::RankCounts const counts(comm.size(), count);
                return comm.nccl()->template all_gather<T>(in, out, counts.span());
            });
        }
    }
    submit_all_gather(comm.control(), in, out, count, stream);
}

template <class T, class Count, class Api>
void submit_reduce_scatter(DeviceCommunicator<Api>& comm, TensorView<T const, 1, DeviceBackend<Api>> in,
                           TensorView<T, 1, DeviceBackend<Api>> out, Count count, DeviceStream<Api>& stream) {
    if constexpr (ActivationElement<T>) {
        if (comm.peers() != nullptr) {
            return detail::submit_over_peers(comm, stream, [&] {
                detail::RankCounts const counts(comm.size(), count);
                return comm.peers()->template reduce_scatter<T>(comm.own_rank(), in, out, counts.span(), stream);
            });
        }
    }
    if constexpr (detail::is_nccl_element<T>) {
        if (comm.nccl() != nullptr) {
            return detail::submit_by_nccl(stream, [&] {
                detail::RankCounts const counts(comm.size(), count);
                return comm.nccl()->template reduce_scatter<T>(in, out, counts.span());
            });
        }
    }
    submit_reduce_scatter(comm.control(), in, out, count, stream);
}

/// Ranks tell each other on the host what is the most that one sends to another, also while the stream is taken down.
template <class T, class Sent, class Received, class Api>
void submit_all_to_all(DeviceCommunicator<Api>& comm, TensorView<T const, 1, DeviceBackend<Api>> in, Sent sent,
                       TensorView<T, 1, DeviceBackend<Api>> out, Received received, DeviceStream<Api>& stream) {
    if constexpr (ActivationElement<T>) {
        if (comm.peers() != nullptr && !stream.failure()) {
            detail::RankCounts const send_counts(comm.size(), sent);
            detail::RankCounts const receive_counts(comm.size(), received);
            std::int64_t largest = 0;
            for (auto const count : send_counts.span()) largest = std::max(largest, count);
            auto const told =
                all_reduce(comm.control(), TensorView<std::int64_t, 1, Host>(&largest, {1}), ReduceOp::max);
            if (!told) return stream.fail(told.error());
            return detail::submit_over_peers(comm, stream, [&] {
                return comm.peers()->template all_to_all<T>(comm.own_rank(), in, send_counts.span(), out,
                                                            receive_counts.span(), largest, stream);
            });
        }
    }
    if constexpr (detail::is_nccl_element<T>) {
        if (comm.nccl() != nullptr) {
            return detail::submit_by_nccl(stream, [&] {
                detail::RankCounts const send_counts(comm.size(), sent);
                detail::RankCounts const receive_counts(comm.size(), received);
                return comm.nccl()->template all_to_all<T>(in, send_counts.span(), out, receive_counts.span());
            });
        }
    }
    submit_all_to_all(comm.control(), in, sent, out, received, stream);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
