// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/buffer.hpp>
#include <shardwise/backend/host.hpp>
#include <shardwise/backend/host/start_thread.hpp>
#include <shardwise/core/checked.hpp>
#include <shardwise/core/split.hpp>
#include <shardwise/train/checkpoint/save_checkpoint.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Writes checkpoints beside training: `start` copies what this rank writes, which is all that a step waits for. A thread of its own
/// makes the files, brings the copy to the disk, and makes the folder a checkpoint, of several ranks one after another: `poll`, once a step,
/// goes on where all ranks are through. One is in flight at a time.
///
/// A disk that is full does not end a run: the error is kept (`failure`), the older checkpoints stay, the next one is tried; `finish`
/// gives it where the last one could not be written.
///
/// Memory  staging_bytes, allocated at creation
template <class Calls = FileCalls>
class CheckpointSaver {
public:
    /// What a copy of these parts takes, weights once though two files hold them, and what long ranges are written from.
    [[nodiscard]] static Bytes staging_bytes(Span<CheckpointPart const> parts) {
        std::int64_t sum = 0;
        for (std::size_t i = 0; i < parts.size(); ++i) {
            if (!is_copied_before(parts, i)) sum += padded(parts[i].bytes.size());
        }
        return with_window(sum);
    }
    /// The same of `checkpoint_parts`, before there are any weights; with `is_shared` each has the optimizer's state of its share (ZeRO).
    template <OptimizerRule Rule>
    [[nodiscard]] static Bytes staging_bytes(TrainingLayout const& layout, Rule const& rule,
                                             TensorPlace const& place = {}, bool is_shared = false) {
        std::int64_t sum = 0;
        auto const& tensor = layout.place();
        for (auto const& parameter : layout.parameters()) {
            auto const elements = parameter.elements;
            auto const data = tensor.in_data(place);
            auto const held = is_shared ? optimizer_share(elements, data.ranks, data.rank) : UnitRange{0, elements};
            auto const ranges = written_ranges(parameter, tensor, held, place);
            if (ranges.empty()) continue;
            auto const add = [&](std::int64_t width, std::int64_t block) {
                parameter.for_each_block_run(ranges, block, [&](std::int64_t, std::int64_t, std::int64_t count) {
                    sum += padded(static_cast<std::size_t>(count * width));
                });
            };
            add(WeightStorage({}, detail::weights_dtype<Rule>).width(), 1);
            for (auto const& array : rule.state(parameter.whole_elements, held))
                add(bits(array.dtype) / 8, array.block);
        }
        return with_window(sum);
    }

    /// `context` and what `target` names outlive this. `parts` are as large as those that `start` will be given.
    ///
    /// Errors  invalid_argument; out_of_memory
    [[nodiscard]] static Result<CheckpointSaver> create(HostContext& context, CheckpointTarget const& target,
                                                        Span<CheckpointPart const> parts) {
        if (auto const checked = target.check(); !checked) return checked.error();
        auto memory = Buffer<std::byte, Host>::allocate(context, staging_bytes(parts).count());
        if (!memory) return memory.error();
        // The system gives the pages here, not while the first step waits.
        if (memory->size() > 0) std::memset(memory->data(), 0, static_cast<std::size_t>(memory->size()));
        return Result<CheckpointSaver>(CheckpointSaver(context, target, std::move(*memory)));
    }

    CheckpointSaver(CheckpointSaver&&) noexcept = default;
    CheckpointSaver& operator=(CheckpointSaver&&) = delete;
    CheckpointSaver(CheckpointSaver const&) = delete;
    CheckpointSaver& operator=(CheckpointSaver const&) = delete;
    /// Waits for the thread; a checkpoint that is in flight is dropped.
    ~CheckpointSaver() {
        if (!flight_) return;
        if (flight_->thread.joinable()) flight_->thread.join();
        if (flight_->is_first) CheckpointWriter<Calls>::discard(target_.out, flight_->state.step);
    }

    /// Begins to save; all ranks call it. Waits for the checkpoint that is in flight. When it returns, the parts may change.
    ///
    /// Errors  shape_mismatch for larger parts than at creation; as a collective. What the disk refuses is kept as `failure`
    template <Communicator C>
    [[nodiscard]] Result<> start(C& comm, TrainerState const& state, Span<CheckpointPart const> parts) {
        if (auto const ended = complete(comm); !ended) return ended;
        Result<> fits;
        if (staging_bytes(parts).count() > memory_.size())
            fits = Error{ErrorCode::shape_mismatch}
                       .in("checkpoint")
                       .because("has more bytes than its staging memory")
                       .got(staging_bytes(parts).count())
                       .at_most(memory_.size());
        if (auto const known = detail::share_error(comm, fits); !known) return known;
        flight_ = std::make_unique<Flight>();
        flight_->state = state;
        flight_->is_first = comm.rank() == 0;
        copy(parts);
        // One rank alone writes as soon as there are files.
        bool const is_alone = comm.size() == 1;
        flight_->stage = is_alone ? Stage::write : Stage::prepare;
        launch([is_alone](CheckpointTarget const& target, Flight& flight) {
            if (!flight.is_first) return;
            flight.done =
                CheckpointWriter<Calls>::prepare(target.out, *target.layout, *target.files, flight.state.step);
            if (is_alone && flight.done) write(target, flight);
        });
        return {};
    }

    /// Brings the checkpoint that is in flight on, where all ranks have done their part; all ranks call it after the same step. Does not
    /// wait for the disk.
    ///
    /// Errors  as start
    template <Communicator C>
    [[nodiscard]] Result<> poll(C& comm) {
        if (!flight_) return {};
        std::int32_t is_done = flight_->is_done.load(std::memory_order_acquire) ? 1 : 0;
        if (comm.size() > 1) {
            auto const agreed = all_reduce(comm, TensorView<std::int32_t, 1, Host>(&is_done, {1}), ReduceOp::min);
            if (!agreed) return agreed;
        }
        return is_done == 1 ? go_on(comm) : Result<>();
    }

    /// Waits for the checkpoint that is in flight; all ranks call it.
    ///
    /// Errors  as a collective; that of the last checkpoint, where it could not be written
    template <Communicator C>
    [[nodiscard]] Result<> finish(C& comm) {
        if (auto const ended = complete(comm); !ended) return ended;
        if (failure_) return *failure_;
        return {};
    }

    /// Why the last checkpoint could not be written; nothing where it was.
    [[nodiscard]] std::optional<Error> const& failure() const { return failure_; }
    /// The steps whose checkpoints this object has written.
    [[nodiscard]] std::vector<std::int64_t> const& saved() const { return saved_; }
    [[nodiscard]] bool is_in_flight() const { return flight_ != nullptr; }

private:
    /// What the threads of all ranks do: the first makes the files, each writes its own ranges, the first makes the folder a checkpoint.
    enum class Stage { prepare, write, commit };
    struct Flight {
        TrainerState state;
        std::vector<CheckpointPart> parts;
        /// Of the memory, after the copies.
        Span<std::byte> left;
        CheckpointSums sums;
        Stage stage = Stage::prepare;
        /// How this rank's part of the stage ended.
        Result<> done;
        bool is_first = false;
        std::atomic<bool> is_done{false};
        std::thread thread;
    };

    CheckpointSaver(HostContext& context, CheckpointTarget target, Buffer<std::byte, Host> memory)
        : context_(&context), target_(std::move(target)), memory_(std::move(memory)) {}

    [[nodiscard]] static Bytes with_window(std::int64_t copied) {
        return Bytes{copied} + CheckpointWriter<Calls>::memory_bytes(Bytes{copied});
    }
    [[nodiscard]] static std::int64_t padded(std::size_t bytes) {
        return round_up(static_cast<std::int64_t>(bytes), static_cast<std::int64_t>(Host::alignment));
    }
    [[nodiscard]] static bool is_copied_before(Span<CheckpointPart const> parts, std::size_t i) {
        return i > 0 && parts[i].bytes.data() == parts[i - 1].bytes.data() &&
               parts[i].bytes.size() == parts[i - 1].bytes.size();
    }
    /// By all threads, each a range of the memory: a step waits for it.
    void copy(Span<CheckpointPart const> parts) {
        struct Copied {
            std::byte const* from;
            UnitRange to;
        };
        std::vector<Copied> copied;
        std::int64_t next = 0;
        for (std::size_t i = 0; i < parts.size(); ++i) {
            auto part = parts[i];
            // The copy lies in memory.
            part.is_mapped = false;
            if (is_copied_before(parts, i)) {
                part.bytes = flight_->parts.back().bytes;
            } else {
                auto* const to = memory_.data() + next;
                copied.push_back({part.bytes.data(), {next, next + static_cast<std::int64_t>(part.bytes.size())}});
                part.bytes = {to, part.bytes.size()};
                next += padded(part.bytes.size());
            }
            flight_->parts.push_back(part);
        }
        flight_->left = {memory_.data() + next, static_cast<std::size_t>(memory_.size() - next)};
        context_->pool().run_ranges(next, 4096, [&copied, memory = memory_.data()](auto begin, auto end) {
            for (auto const& [from, to] : copied) {
                auto const first = std::max(begin, to.begin);
                auto const last = std::min(end, to.end);
                if (first < last)
                    std::memcpy(memory + first, from + (first - to.begin), static_cast<std::size_t>(last - first));
            }
        });
    }
    /// Keeps what the disk refused. A lost rank ends the run.
    [[nodiscard]] Result<> keep(Error const& error) {
        bool const is_of_group = error.code() == ErrorCode::rank_lost || error.code() == ErrorCode::deadline_exceeded ||
                                 error.code() == ErrorCode::collective_mismatch;
        if (is_of_group) return error;
        failure_ = error;
        return {};
    }
    /// Does this rank's part of a stage beside training; without a thread the step waits for the disk.
    template <class Work>
    void launch(Work const& work) {
        flight_->is_done.store(false, std::memory_order_relaxed);
        auto const run = [work, target = target_, flight = flight_.get()] {
            work(target, *flight);
            flight->is_done.store(true, std::memory_order_release);
        };
        if (!detail::start_thread(flight_->thread, run)) run();
    }
    static void write(CheckpointTarget const& target, Flight& flight) {
        flight.done = detail::write_own<Calls>(target, flight.state.step, {flight.parts.data(), flight.parts.size()},
                                               flight.sums, flight.left);
    }
    void launch_write() {
        flight_->stage = Stage::write;
        launch([](CheckpointTarget const& target, Flight& flight) { write(target, flight); });
    }
    void launch_commit() {
        flight_->stage = Stage::commit;
        launch([](CheckpointTarget const& target, Flight& flight) {
            if (!flight.is_first) return;
            flight.done = CheckpointWriter<Calls>::commit(target.out, *target.layout, *target.files, flight.state,
                                                          flight.sums, target.keep);
        });
    }
    /// Waits for the stage, and begins the next one.
    template <Communicator C>
    [[nodiscard]] Result<> go_on(C& comm) {
        if (flight_->thread.joinable()) flight_->thread.join();
        auto done = detail::share_error(comm, flight_->done);
        if (done && flight_->stage == Stage::write) {
            auto all = detail::add_sums(comm, std::move(flight_->sums));
            if (!all) return all.error();
            flight_->sums = *std::move(all);
        }
        if (!done || flight_->stage == Stage::commit) {
            auto const flight = std::move(flight_);
            if (!done) {
                if (flight->is_first) CheckpointWriter<Calls>::discard(target_.out, flight->state.step);
                return keep(done.error());
            }
            failure_.reset();
            saved_.push_back(flight->state.step);
            return {};
        }
        flight_->stage == Stage::prepare ? launch_write() : launch_commit();
        return {};
    }
    template <Communicator C>
    [[nodiscard]] Result<> complete(C& comm) {
        while (flight_) {
            if (auto const done = go_on(comm); !done) return done;
        }
        return {};
    }

    HostContext* context_;
    CheckpointTarget target_;
    Buffer<std::byte, Host> memory_;
    std::unique_ptr<Flight> flight_;
    std::optional<Error> failure_;
    std::vector<std::int64_t> saved_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
