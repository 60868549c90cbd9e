// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/buffer.hpp>
#include <shardwise/backend/compute_backend.hpp>
#include <shardwise/backend/host/products.hpp>
#include <shardwise/comm/barrier.hpp>
#include <shardwise/comm/call.hpp>
#include <shardwise/comm/communicator.hpp>
#include <shardwise/comm/send_receive.hpp>
#include <shardwise/core/checked.hpp>
#include <shardwise/core/deadline.hpp>
#include <shardwise/core/list.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/schedule/check_schedule.hpp>
#include <shardwise/schedule/message_queues.hpp>
#include <shardwise/schedule/messages.hpp>
#include <shardwise/schedule/schedule.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What a pipeline's rank computes: a micro-batch through one of its chunks of layers. `in` and `out` are empty views at the
/// ends of the model, where `work` reads tokens and makes logits or losses itself.
///
/// Shapes  in, out, gradients [rows, width] of one micro-batch
/// Memory  `in` stays as it is until the micro-batch's last pass through this chunk is done, so that nothing has to copy it
/// Order   on `stream`
template <class W, class T, class Backend>
concept PipelineWorker = requires(W& work, PipelineSlot const& slot, TensorView<T const, 2, Backend> in,
                                  TensorView<T, 2, Backend> out, typename Backend::Stream& stream) {
    { work.forward(slot, in, out, stream) } -> std::same_as<Result<>>;
};

/// A worker that also goes back: from the gradients of its outputs to those of its inputs and, where the table has them in
/// two parts, later of its weights. `in` is what the forward pass read.
template <class W, class T, class Backend>
concept PipelineTrainer = PipelineWorker<W, T, Backend> &&
    requires(W& work, PipelineSlot const& slot, TensorView<T const, 2, Backend> in, TensorView<T, 2, Backend> out,
             typename Backend::Stream& stream) {
    { work.backward(slot, in, in, out, stream) } -> std::same_as<Result<>>;
    { work.weights(slot, in, in, stream) } -> std::same_as<Result<>>;
};

/// A back end whose rows a pipeline can move: those in the host's memory.
template <class B>
concept RunsPipelines = ComputeBackend<B> && HasHostMemory<B>;

namespace detail {

/// What all ranks of a pipeline must hold alike.
[[nodiscard]] inline CollectiveCall call_of(PipelineSchedule const& schedule) {
    List<std::int64_t> numbers;
    for (auto const number : {schedule.stages, schedule.micro_batches, schedule.chunks,
                              static_cast<std::int64_t>(schedule.order), std::int64_t{schedule.is_split ? 1 : 0}})
        numbers.push_back(number);
    for (auto const& rank : schedule.ranks) {
        for (auto const& slot : rank) {
            for (auto const number :
                 {static_cast<std::int64_t>(slot.work), std::int64_t{slot.micro_batch}, std::int64_t{slot.chunk}})
                numbers.push_back(number);
        }
    }
    CollectiveCall call{CollectiveKind::pipeline};
    call.count = schedule.micro_batches;
    call.parts = fingerprint_of({numbers.data(), numbers.size()});
    return call;
}

/// Places of a rank for messages that wait to be sent.
///
/// Errors  invalid_argument for a table that comes to a standstill
[[nodiscard]] inline Result<std::int64_t> pipeline_queue(PipelineSchedule const& schedule) {
    // One message travels while the next is made.
    constexpr std::int64_t shortest_queue = 2;
    auto const queue = queue_needed(schedule, shortest_queue);
    if (queue) return *queue;
    return Error{ErrorCode::invalid_argument}
        .in("pipeline")
        .at("schedule")
        .because("comes to a standstill")
        .fix("put each rank's passes into an order that its neighbours can follow");
}

}  // namespace detail

/// One rank of a pipeline: walks its row of a table (schedule/), receives what each slot of work needs and sends on what
/// it makes. Messages wait for their receivers beside the work, in a queue as long as the table needs to never come to a
/// standstill, however fast each rank is: sent in a stream of its own where ranks share memory, else kept by the communicator,
/// which one thread at a time uses.
///
/// Example  PipelineParallel<Host, Threads>::create(context, comm, one_forward_one_backward(4, 8), {rows, width})
template <ComputeBackend Backend, Communicator Comm, class T = float>
class PipelineParallel {
    static_assert(RunsPipelines<Backend>, "a pipeline moves rows in the host's memory");
    static_assert(SharesMemory<Comm> || KeepsUnread<Comm>,
                  "a pipeline's messages wait for their receivers: the communicator is used by two threads at a time "
                  "(SharesMemory) or keeps them itself (KeepsUnread)");
    /// Whether which it does is known at run time alone.
    static constexpr bool is_any = HoldsCommunicator<Comm>;

public:
    using Stream = typename Backend::Stream;

    /// The activations of one micro-batch between two virtual stages of the model.
    struct Boundary {
        std::int64_t rows = 0;
        std::int64_t width = 0;
    };

    /// Allocates what the table needs to keep. The context, the communicator and nothing else outlive the pipeline.
    ///
    /// Memory  bytes() of the context; a communicator that keeps messages (KeepsUnread) holds up to queue() of them besides
    /// Errors  shape_mismatch where the table has another number of stages than the group has ranks; invalid_argument for
    ///         a table without each pass once (check_schedule), one that comes to a standstill, or a boundary without
    ///         rows; out_of_memory
    [[nodiscard]] static Result<PipelineParallel> create(typename Backend::Context& context, Comm& comm,
                                                         PipelineSchedule schedule, Boundary const& boundary) {
        Error refused{ErrorCode::invalid_argument};
        refused.in("pipeline");
        if (boundary.rows < 1 || boundary.width < 1) {
            return refused.at("boundary")
                .because(boundary.rows < 1 ? "has less than one row" : "has a width of less than one")
                .got(boundary.rows < 1 ? boundary.rows : boundary.width)
                .at_least(1);
        }
        if (schedule.stages != comm.size() || static_cast<std::int64_t>(schedule.ranks.size()) != schedule.stages) {
            return Error{ErrorCode::shape_mismatch}
                .in("pipeline")
                .because("the table has another number of stages than the group has ranks")
                .got(schedule.stages)
                .expected(comm.size())
                .fix("make the table for as many stages as the group has ranks");
        }
        if (auto const checked = check_schedule(schedule); !checked) return checked.error();
        auto const queue = detail::pipeline_queue(schedule);
        if (!queue) return queue.error();
        auto const places = places_needed(schedule, comm.rank());
        if (!places) return places.error();
        auto const size = checked_multiply(boundary.rows, boundary.width);
        auto const all_received = size ? checked_multiply(*places, *size) : std::nullopt;
        auto const places_to_send = schedule.stages == 1 ? 0 : is_any || has_sender(comm) ? *queue : 1;
        auto const all_queued = size ? checked_multiply(places_to_send, *size) : std::nullopt;
        auto const bytes = size ? checked_multiply(*size, static_cast<std::int64_t>(sizeof(T))) : std::nullopt;
        if (!all_received || !all_queued || !bytes)
            return Error{ErrorCode::size_overflow}.in("pipeline").at("boundary").got(boundary.rows);
        auto received = Buffer<T, Backend>::allocate(context, *all_received);
        if (!received) return received.error();
        auto queued = Buffer<T, Backend>::allocate(context, *all_queued);
        if (!queued) return queued.error();
        if constexpr (KeepsUnread<Comm>) comm.keep_unread(*queue, *bytes);
        return PipelineParallel(comm, std::move(schedule), boundary, std::move(*received), std::move(*queued), *queue);
    }

    /// Waits for all ranks once, and compares their tables; the first run does it where nobody did before.
    ///
    /// Errors  collective_mismatch, rank_lost, deadline_exceeded
    [[nodiscard]] Result<> compare() {
        if (std::exchange(is_compared_, true)) return {};
        return detail::meet(*comm_, detail::call_of(schedule_));
    }

    /// Runs the table once. The rank's first error ends the group: all ranks' calls return it. The first run begins when all
    /// ranks have come to it, and compares their tables: of unlike ones the messages of one micro-batch would be taken for those
    /// of another.
    ///
    /// Order   waits for `stream` after each slot of work, and at the end until everything is sent. A message is waited
    ///         for as long as the group's timeout says; no slot of work is begun after `deadline`
    /// Errors  those of `work`; collective_mismatch, rank_lost, deadline_exceeded
    template <PipelineWorker<T, Backend> Work>
    [[nodiscard]] Result<> run(Work& work, Stream& stream, Deadline deadline) {
        bool const trains = is_training(schedule_);
        if constexpr (!PipelineTrainer<Work, T, Backend>) {
            if (trains) {
                return Error{ErrorCode::invalid_argument}
                    .in("pipeline")
                    .because("has backward passes in its table and a worker without any")
                    .fix("use forward_only, or give the worker backward and weights");
            }
        }
        if (auto const alike = compare(); !alike) return alike;
        Walk walk{PipelineInbox(schedule_, comm_->rank())};
        for (auto const& slot : schedule_.ranks[static_cast<std::size_t>(comm_->rank())]) {
            if (auto const done = step(walk, slot, work, stream, deadline); !done) return comm_->fail(done.error());
            for (auto const& message : messages_done(schedule_, comm_->rank(), slot, trains))
                walk.inbox.release(message);
        }
        auto const sent = finish_sends(deadline);
        return sent ? sent : comm_->fail(sent.error());
    }

    /// Places for messages that were received, and for messages that wait to be sent.
    [[nodiscard]] std::int64_t places() const { return received_.size() / size(); }
    [[nodiscard]] std::int64_t queue() const { return queue_; }
    [[nodiscard]] Bytes bytes() const { return received_.bytes() + queued_.bytes(); }
    /// What `create` allocates for a rank, at most: one whose communicator keeps messages has a single place to send from, unless which
    /// it is is known at run time alone.
    ///
    /// Errors  as create
    [[nodiscard]] static Result<Bytes> bytes(PipelineSchedule const& schedule, std::int64_t rank,
                                             Boundary const& boundary) {
        auto const queue = detail::pipeline_queue(schedule);
        if (!queue) return queue.error();
        auto const places = places_needed(schedule, rank);
        if (!places) return places.error();
        auto const all = *places + (schedule.stages == 1 ? 0 : *queue);
        return Bytes{all * boundary.rows * boundary.width * static_cast<std::int64_t>(sizeof(T))};
    }

private:
    using In = TensorView<T const, 2, Backend>;
    using Out = TensorView<T, 2, Backend>;

    /// Whether messages are sent in a stream of its own.
    [[nodiscard]] static bool has_sender(Comm const& comm) {
        if constexpr (is_any)
            return !comm.keeps_unread();
        else
            return SharesMemory<Comm>;
    }
    /// What one walk through the table knows.
    struct Walk {
        PipelineInbox inbox;
        std::int64_t sent = 0;
    };

    PipelineParallel(Comm& comm, PipelineSchedule schedule, Boundary const& boundary, Buffer<T, Backend> received,
                     Buffer<T, Backend> queued, std::int64_t queue)
        : comm_(&comm),
          schedule_(std::move(schedule)),
          boundary_(boundary),
          received_(std::move(received)),
          queued_(std::move(queued)),
          queue_(queue),
          sent_(static_cast<std::size_t>(queue)),
          sends_(has_sender(comm) ? StreamMode::queued : StreamMode::immediate) {}

    [[nodiscard]] std::int64_t size() const { return boundary_.rows * boundary_.width; }
    [[nodiscard]] Out view(Buffer<T, Backend>& buffer, std::int64_t place) {
        return {buffer.data() + place * size(), {boundary_.rows, boundary_.width}};
    }
    /// Where a message is, received now if it was not before.
    [[nodiscard]] Result<In> fetch(Walk& walk, PipelineMessage const& message) {
        auto const place = walk.inbox.fetch(message, [&](std::int64_t sender, std::int64_t free) {
            auto const to = view(received_, free);
            return receive(*comm_, TensorView<T, 1, Backend>(to.data(), {size()}), static_cast<std::int32_t>(sender));
        });
        if (!place) return place.error();
        return In(view(received_, *place));
    }

    /// The input that the forward pass of this slot of work read: it is still there.
    [[nodiscard]] Result<In> kept(Walk& walk, PipelineSlot const& slot, PipelineWork work) {
        auto const message = message_needed(schedule_, comm_->rank(), {work, slot.micro_batch, slot.chunk});
        return message ? fetch(walk, *message) : Result<In>(In{});
    }

    template <class Work>
    [[nodiscard]] Result<> step(Walk& walk, PipelineSlot const& slot, Work& work, Stream& stream, Deadline deadline) {
        auto const in = kept(walk, slot, PipelineWork::forward);
        if (!in) return in.error();
        In gradients;
        if (slot.work != PipelineWork::forward) {
            auto const received = kept(walk, slot, PipelineWork::backward);
            if (!received) return received.error();
            gradients = *received;
        }
        if (deadline.has_passed()) {
            return Error{ErrorCode::deadline_exceeded}
                .in("pipeline")
                .because("did not finish before its deadline")
                .got(slot.micro_batch)
                .fix("allow more time, or look for the stage that is slow");
        }
        auto const made = message_made(schedule_, comm_->rank(), slot);
        auto const receiver = made ? rank_of_virtual_stage(schedule_, made->virtual_stage) : std::int64_t{-1};
        bool const is_sent = made && receiver != comm_->rank();
        bool const is_beside = has_sender(*comm_);
        auto const place = is_beside ? walk.sent % queue_ : 0;
        Out out;
        if (is_sent) {
            if (is_beside) {
                if (auto const waited = sent_[static_cast<std::size_t>(place)].synchronize(deadline); !waited)
                    return waited;
            }
            out = view(queued_, place);
        } else if (made) {
            out = view(received_, walk.inbox.keep(*made));
        }
        if (auto const computed = compute(slot, *in, gradients, out, work, stream); !computed) return computed;
        if (auto const done = stream.synchronize(deadline); !done) return done;
        if (!is_sent) return {};
        auto const send_out = [comm = comm_, out, receiver] {
            return send(*comm, TensorView<T const, 1, Backend>(out.data(), {out.elements()}),
                        static_cast<std::int32_t>(receiver));
        };
        if (!is_beside) return send_out();
        sends_.submit(send_out);
        sent_[static_cast<std::size_t>(place)].record(sends_);
        ++walk.sent;
        return {};
    }

    [[nodiscard]] Result<> finish_sends(Deadline deadline) {
        if constexpr (KeepsUnread<Comm>) {
            if (!has_sender(*comm_)) return comm_->finish_sends();
        }
        return sends_.synchronize(deadline);
    }

    template <class Work>
    [[nodiscard]] static Result<> compute(PipelineSlot const& slot, In in, In gradients, Out out, Work& work,
                                          Stream& stream) {
        if (slot.work == PipelineWork::forward) return work.forward(slot, in, out, stream);
        if constexpr (PipelineTrainer<Work, T, Backend>) {
            if (slot.work == PipelineWork::backward) return work.backward(slot, in, gradients, out, stream);
            return work.weights(slot, in, gradients, stream);
        }
        return {};
    }

    Comm* comm_;
    PipelineSchedule schedule_;
    Boundary boundary_;
    Buffer<T, Backend> received_;
    Buffer<T, Backend> queued_;
    std::int64_t queue_;
    List<HostEvent> sent_;
    HostStream sends_;
    /// Whether the tables of all ranks were found to be the same.
    bool is_compared_ = false;
};

static_assert(RunsPipelines<Host>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
