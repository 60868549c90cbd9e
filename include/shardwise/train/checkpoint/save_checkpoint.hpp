// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/all_reduce.hpp>
#include <shardwise/comm/broadcast.hpp>
#include <shardwise/comm/communicator.hpp>
#include <shardwise/train/checkpoint/checkpoint_parts.hpp>
#include <shardwise/train/checkpoint/checkpoint_writer.hpp>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Where and how a run's checkpoints are written: the same on all ranks.
struct CheckpointTarget {
    /// The folder of the run: checkpoints are `OUT/step-000004/`.
    std::string out;
    CheckpointLayout const* layout = nullptr;
    CheckpointFiles const* files = nullptr;
    /// Checkpoints that stay, at least one.
    std::int64_t keep = 2;

    /// Errors  invalid_argument
    [[nodiscard]] Result<> check() const {
        Error bad{ErrorCode::invalid_argument};
        bad.in("checkpoint");
        if (out.empty()) return bad.at("out").because("is empty").fix("name a folder");
        if (layout == nullptr || files == nullptr) return bad.because("has no layout or no files");
        if (keep < 1) return bad.at("keep").because("keeps no checkpoint").got(keep).at_least(1);
        return {};
    }
};

namespace detail {

/// Lets all ranks know how a piece of work ended that each did by itself: the error of the first that failed, by number, is
/// everybody's. Unlike agree_on it leaves the group as it is: training goes on where a disk is full.
///
/// Errors  the first failing rank's; as a collective
template <Communicator C>
[[nodiscard]] Result<> share_error(C& comm, Result<> const& mine) {
    if (comm.size() == 1) return mine;
    std::int32_t first = mine ? comm.size() : comm.rank();
    if (auto const done = all_reduce(comm, TensorView<std::int32_t, 1, Host>(&first, {1}), ReduceOp::min); !done)
        return done;
    if (first == comm.size()) return {};
    static_assert(std::is_trivially_copyable_v<Error>, "an error is sent as its bytes");
    using Words = std::array<std::int64_t, sizeof(Error) / sizeof(std::int64_t)>;
    auto words = mine ? Words{} : std::bit_cast<Words>(mine.error());
    auto const size = static_cast<std::int64_t>(words.size());
    if (auto const sent = broadcast(comm, TensorView<std::int64_t, 1, Host>(words.data(), {size}), first); !sent)
        return sent;
    return std::bit_cast<Error>(words);
}

/// The sums of all ranks together, modulo 2^64: halves of them are added, which cannot overflow.
///
/// Errors  as a collective
template <Communicator C>
[[nodiscard]] Result<CheckpointSums> add_sums(C& comm, CheckpointSums sums) {
    if (comm.size() == 1) return sums;
    std::vector<std::int64_t> halves;
    sums.tensors.push_back(sums.elements);
    for (auto const sum : sums.tensors) {
        halves.push_back(static_cast<std::int64_t>(sum & 0xFFFF'FFFFU));
        halves.push_back(static_cast<std::int64_t>(sum >> 32U));
    }
    auto const size = static_cast<std::int64_t>(halves.size());
    TensorView<std::int64_t, 1, Host> const all(halves.data(), {size});
    if (auto const done = all_reduce(comm, all, ReduceOp::sum); !done) return done.error();
    for (std::size_t i = 0; i < sums.tensors.size(); ++i)
        sums.tensors[i] =
            static_cast<std::uint64_t>(halves[2 * i]) + (static_cast<std::uint64_t>(halves[2 * i + 1]) << 32U);
    sums.elements = sums.tensors.back();
    sums.tensors.pop_back();
    return sums;
}

/// What a rank does by itself between `prepare` and `commit`, with memory as CheckpointWriter::open takes it.
template <class Calls>
[[nodiscard]] Result<> write_own(CheckpointTarget const& target, std::int64_t step, Span<CheckpointPart const> parts,
                                 CheckpointSums& sums, Span<std::byte> memory = {}) {
    auto writer = CheckpointWriter<Calls>::open(target.out, *target.layout, step, memory);
    if (!writer) return writer.error();
    if (auto const written = write_parts(*writer, parts); !written) return written;
    sums = writer->sums();
    return writer->finish();
}

}  // namespace detail

/// Writes the checkpoint of a step and waits until it is on the disk. All ranks call it, each with the parts that it writes; together
/// they are all elements, once. Ranks see one file system. `memory` is as CheckpointWriter::open takes it.
///
/// Errors  file_unwritable on all ranks, and older checkpoints are as they were; invalid_argument; as a collective
template <class Calls = FileCalls, Communicator C>
[[nodiscard]] Result<> save_checkpoint(C& comm, CheckpointTarget const& target, TrainerState const& state,
                                       Span<CheckpointPart const> parts, Span<std::byte> memory = {}) {
    using Writer = CheckpointWriter<Calls>;
    if (auto const checked = detail::share_error(comm, target.check()); !checked) return checked;
    bool const is_first = comm.rank() == 0;
    Result<> done;
    if (is_first) done = Writer::prepare(target.out, *target.layout, *target.files, state.step);
    if (auto const prepared = detail::share_error(comm, done); !prepared) return prepared;
    CheckpointSums sums;
    done = detail::share_error(comm, detail::write_own<Calls>(target, state.step, parts, sums, memory));
    if (done) {
        auto const all = detail::add_sums(comm, std::move(sums));
        if (!all) return all.error();
        if (is_first) done = Writer::commit(target.out, *target.layout, *target.files, state, *all, target.keep);
        done = detail::share_error(comm, done);
    }
    if (!done && is_first) Writer::discard(target.out, state.step);
    return done;
}

/// The same for weights, and an optimizer's state, that all ranks have whole or by shares.
template <class Calls = FileCalls, Communicator C, OptimizerRule Rule>
[[nodiscard]] Result<> save_checkpoint(C& comm, CheckpointTarget const& target, TrainerState const& state,
                                       TrainingWeights const& weights, ShardedOptimizer<Rule>& optimizer) {
    if (auto const checked = detail::share_error(comm, target.check()); !checked) return checked;
    auto const parts = checkpoint_parts(*target.layout, weights, optimizer, {comm.size(), comm.rank()});
    if (auto const made = detail::share_error(comm, parts ? Result<>() : Result<>(parts.error())); !made) return made;
    return save_checkpoint<Calls>(comm, target, state, Span<CheckpointPart const>(parts->data(), parts->size()));
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
