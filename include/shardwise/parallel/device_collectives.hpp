// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/device.hpp>
#include <shardwise/comm/communicator.hpp>
#include <shardwise/comm/send_receive.hpp>
#include <shardwise/core/deadline.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/parallel/collectives.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>

// The collectives of parallel/collectives.hpp for views and streams of a device, staged over any communicator of the host: out of the
// device into pinned memory, which waits for what is in the stream; the host's collective; and back in stream order. They work between
// any ranks, also where several share a device, and are what faster ones are held against. A failure stops the stream.

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

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
