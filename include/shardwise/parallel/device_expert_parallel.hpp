// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/buffer.hpp>
#include <shardwise/backend/compute_backend.hpp>
#include <shardwise/backend/device.hpp>
#include <shardwise/backend/memory_counter.hpp>
#include <shardwise/backend/pinned_memory.hpp>
#include <shardwise/comm/threads.hpp>
#include <shardwise/kernels/device/combine_rows.hpp>
#include <shardwise/parallel/expert_parallel.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The same for tokens and experts on devices, in the type of the activations, through the host's memory: rows and their experts are copied
/// out, so that the host sends them where they go; what comes is copied in, computed, and copied out again. Between any ranks, also where
/// several share a device.
///
/// Memory  on the device rows for the worst case, that every token of every rank chooses this rank's experts; the same in pinned memory
template <class Api, Communicator Comm>
class ExpertParallel<DeviceBackend<Api>, Comm> {
    using Backend = DeviceBackend<Api>;

public:
    using Stream = DeviceStream<Api>;

    /// `host` counts the pinned memory, and outlives this.
    ///
    /// Errors  invalid_argument for more experts per token than experts, or extents below 1; size_overflow; out_of_memory
    [[nodiscard]] static Result<ExpertParallel> create(DeviceContext<Api>& context, MemoryCounter& host, Comm& comm,
                                                       ExpertShape const& shape) {
        if (auto const checked = detail::check_shape(shape); !checked) return checked.error();
        auto const room = detail::room_for(shape, comm.size(), comm.rank());
        if (!room) return room.error();
        ExpertParallel layer(comm, shape, *room);
        for (auto const& [buffer, elements] :
             {std::pair{&layer.rows_, layer.size_.rows()}, std::pair{&layer.results_, layer.size_.room.received}}) {
            auto made = Buffer<std::byte, Backend>::allocate(context, layer.size_.element * elements);
            if (!made) return made.error();
            *buffer = std::move(*made);
        }
        auto places = Buffer<std::int32_t, Backend>::allocate(context, layer.size_.pairs);
        if (!places) return places.error();
        layer.places_ = std::move(*places);
        auto pinned = PinnedMemory<Api>::allocate(context, host, layer.size_.pinned());
        if (!pinned) return pinned.error();
        layer.pinned_ = std::move(*pinned);
        return Result<ExpertParallel>(std::move(layer));
    }

    /// What a rank of `ranks` will hold on its device, and in the host's pinned memory.
    ///
    /// Errors  size_overflow
    [[nodiscard]] static Result<Bytes> bytes_for(ExpertShape const& shape, std::int32_t ranks, std::int32_t rank) {
        auto const room = detail::room_for(shape, ranks, rank);
        if (!room) return room.error();
        return Bytes{Sizes(shape, *room).on_device()};
    }
    [[nodiscard]] static Result<Bytes> pinned_for(ExpertShape const& shape, std::int32_t ranks, std::int32_t rank) {
        auto const room = detail::room_for(shape, ranks, rank);
        if (!room) return room.error();
        return Bytes{Sizes(shape, *room).pinned()};
    }

    /// The experts that this rank holds.
    [[nodiscard]] UnitRange local_experts() const { return traffic_.local(); }

    /// As on the host, with its order of every sum: the bits do not depend on the number of ranks, where a product's do not depend on its
    /// rows.
    ///
    /// Order   on `stream`, which is waited for twice: before rows are sent and before results are
    /// Errors  as on the host
    template <ActivationElement T, ExpertWorker<Backend, T> Expert>
    [[nodiscard]] Result<> forward(TensorView<std::type_identity_t<T> const, 2, Backend> in,
                                   TensorView<std::int32_t const, 2, Backend> ids,
                                   TensorView<float const, 2, Backend> weights, TensorView<T, 2, Backend> out,
                                   Expert&& expert, Stream& stream, Deadline deadline,
                                   ExpertInput input = ExpertInput::of_tokens) {
        auto& comm = traffic_.comm();
        auto const& shape = traffic_.shape();
        if (auto const known = check_element<T>(); !known) return comm.fail(known.error());
        auto const checked = detail::check_routed(shape, in, ids, weights, out, input);
        if (!checked) return comm.fail(checked.error());
        // A layer before this one may still copy from the pinned memory: the stream is waited for below before the host writes there.
        auto* const sent_rows = this->sent_rows<T>();
        auto* const by_expert = this->by_expert<T>();
        bool const is_of_tokens = input == ExpertInput::of_tokens;
        auto const fetched = fetch<T>(in, is_of_tokens ? by_expert : sent_rows, ids, stream, deadline);
        if (!fetched) return comm.fail(fetched.error());
        TensorView<std::int32_t const, 2, Host> const chosen(this->ids(), {ids.extent(0), ids.extent(1)});
        if (auto const ordered = traffic_.order(chosen); !ordered) return comm.fail(ordered.error());
        auto* const by_rank = this->by_rank<T>();
        TensorView<T const, 2, Host> const own(by_expert, {in.extent(0), shape.width});
        if (is_of_tokens) traffic_.gather(own, input, sent_rows);
        T const* const gathered = sent_rows;
        if (auto const sent = traffic_.dispatch(gathered, by_rank); !sent) return sent;
        traffic_.group(by_rank, by_expert);
        if (auto const computed = compute<T>(expert, stream, deadline); !computed) return comm.fail(computed.error());
        auto const returned = traffic_.give_back(by_rank, by_expert, sent_rows);
        if (!returned) return returned;
        auto const pairs = weights.elements();
        auto const places = traffic_.exchange().places(pairs);
        std::copy(places.begin(), places.end(), this->ids());
        if (auto const put = send_up(this->ids(), places_.data(), pairs, stream); !put) return put;
        if (auto const put = send_up(sent_rows, rows<T>(), pairs * shape.width, stream); !put) return put;
        return combine_rows(TensorView<T const, 2, Backend>(rows<T>(), {pairs, shape.width}),
                            TensorView<std::int32_t const, 1, Backend>(places_.data(), {pairs}), weights, out, stream);
    }

    /// Rows that this rank's experts have computed since the layer was made: pairs of a token and an expert.
    [[nodiscard]] std::int64_t pairs_computed() const { return traffic_.pairs_computed(); }
    [[nodiscard]] Bytes bytes() const { return rows_.bytes() + results_.bytes() + places_.bytes(); }

private:
    struct Sizes {
        detail::ExpertRoom room;
        std::int64_t pairs;
        std::int64_t own;
        /// Bytes of an element of a row.
        std::int64_t element;

        Sizes(ExpertShape const& shape, detail::ExpertRoom const& most)
            : room(most),
              pairs(shape.max_tokens * shape.experts_per_token),
              own(shape.max_tokens * shape.width),
              element(bits(shape.rows) / 8) {}
        /// What experts read, and later what comes back.
        [[nodiscard]] std::int64_t rows() const { return std::max(room.received, room.sent); }
        [[nodiscard]] std::int64_t on_device() const {
            Bytes sum{0};
            for (auto const bytes : {element * rows(), element * room.received, 4 * pairs})
                sum += allocated_bytes<Backend>(Bytes{bytes});
            return sum.count();
        }
        /// By expert, and before that the rank's own.
        [[nodiscard]] std::int64_t by_expert() const { return std::max(room.received, own); }
        /// Where the numbers lie that come after all rows.
        [[nodiscard]] std::int64_t ids() const {
            return ceil_divide(element * (room.sent + room.received + by_expert()), 4) * 4;
        }
        [[nodiscard]] std::int64_t pinned() const { return ids() + 4 * pairs; }
    };

    ExpertParallel(Comm& comm, ExpertShape const& shape, detail::ExpertRoom const& room)
        : traffic_(comm, shape, room), size_(shape, room) {}

    template <class T>
    [[nodiscard]] Result<> check_element() const {
        if (dtype_of<T> == traffic_.shape().rows) return {};
        return Error{ErrorCode::shape_mismatch}
            .in("expert parallelism")
            .because("has rows of another type than it was made for");
    }

    template <class T>
    [[nodiscard]] T* rows() {
        return reinterpret_cast<T*>(rows_.data());
    }

    // What lies in the pinned memory, one after another.
    template <class T>
    [[nodiscard]] T* sent_rows() {
        return reinterpret_cast<T*>(pinned_.data());
    }
    template <class T>
    [[nodiscard]] T* by_rank() {
        return sent_rows<T>() + size_.room.sent;
    }
    template <class T>
    [[nodiscard]] T* by_expert() {
        return by_rank<T>() + size_.room.received;
    }
    [[nodiscard]] std::int32_t* ids() { return reinterpret_cast<std::int32_t*>(pinned_.data() + size_.ids()); }

    template <class T>
    [[nodiscard]] static Result<> send_up(T const* from, T* to, std::int64_t count, Stream& stream) {
        return Backend::template copy<T>(TensorView<T const, 1, Host>(from, {count}),
                                         TensorView<T, 1, Backend>(to, {count}), stream);
    }
    template <class T>
    [[nodiscard]] static Result<> take_down(T const* from, T* to, std::int64_t count, Stream& stream) {
        return Backend::template copy<T>(TensorView<T const, 1, Backend>(from, {count}),
                                         TensorView<T, 1, Host>(to, {count}), stream);
    }

    /// Rows without the gaps between them.
    template <class T>
    [[nodiscard]] static Result<> take_rows_down(TensorView<T const, 2, Backend> from, T* to, Stream& stream) {
        auto const rows = from.is_dense() ? from.extent(0) : 1;
        for (std::int64_t row = 0; row < from.extent(0); row += rows) {
            auto const put = take_down(from.row(row), to + row * from.extent(1), rows * from.extent(1), stream);
            if (!put) return put;
        }
        return {};
    }

    template <class T>
    [[nodiscard]] Result<> fetch(TensorView<T const, 2, Backend> in, T* to,
                                 TensorView<std::int32_t const, 2, Backend> ids, Stream& stream, Deadline deadline) {
        if (auto const put = take_rows_down(in, to, stream); !put) return put;
        if (auto const put = take_rows_down(ids, this->ids(), stream); !put) return put;
        return stream.synchronize(deadline);
    }

    template <class T, class Expert>
    [[nodiscard]] Result<> compute(Expert& expert, Stream& stream, Deadline deadline) {
        auto const width = traffic_.shape().width;
        auto const elements = traffic_.exchange().rows_received() * width;
        auto* const results = reinterpret_cast<T*>(results_.data());
        if (auto const put = send_up(by_expert<T>(), rows<T>(), elements, stream); !put) return put;
        auto const done = traffic_.for_each_expert([&](std::int64_t i, std::int64_t at, std::int64_t rows) -> Result<> {
            return expert(i, TensorView<T const, 2, Backend>(this->rows<T>() + at, {rows, width}),
                          TensorView<T, 2, Backend>(results + at, {rows, width}), stream);
        });
        if (!done) return done;
        if (auto const put = take_down(results, by_rank<T>(), elements, stream); !put) return put;
        return stream.synchronize(deadline);
    }

    detail::ExpertTraffic<Comm> traffic_;
    Sizes size_;
    Buffer<std::byte, Backend> rows_;
    Buffer<std::byte, Backend> results_;
    Buffer<std::int32_t, Backend> places_;
    PinnedMemory<Api> pinned_;
};

/// A back end's rows travel to experts that other ranks have, and back.
template <class B>
concept ExchangesExperts = ComputeBackend<B> && requires {
    ExpertParallel<B, Threads>::bytes_for(ExpertShape{}, 1, 0);
};

static_assert(ExchangesExperts<Host>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
