#pragma once

#include <shardwise/comm/communicator.hpp>
#include <shardwise/comm/detail/message_rank.hpp>
#include <shardwise/comm/detail/mpi_wire.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <mpi.h>
#include <numeric>
#include <string_view>
#include <utility>

namespace shardwise::inline v0_2_0 {

/// How a group of MPI processes is made; all ranks give the same.
struct MpiOptions {
    /// How long a call waits for the other ranks.
    std::chrono::nanoseconds timeout = std::chrono::seconds(30);
    /// Compares collective, type, operation, root and count across ranks before data moves.
    bool checks_calls = true;
};

/// One process of an MPI job (mpirun, srun): the way to more machines where MPI is installed.
///
/// The collectives are our own, over MPI's point-to-point messages, so that every call has a deadline, names the ranks that it
/// did not hear from, and gives the bits that other communicators give. MPI itself cannot lose a rank and go on: after such an
/// error let the process end with a failure, without MPI_Finalize, and mpirun ends the job.
///
/// One thread at a time uses a communicator; MPI is started with MPI_THREAD_MULTIPLE, and where the including program starts
/// it, MPI_THREAD_SERIALIZED is enough if all communicators are used by one thread at a time.
class Mpi : private detail::MessageRank<detail::MpiWire> {
    using Base = detail::MessageRank<detail::MpiWire>;

public:
    static constexpr std::string_view name = "mpi";

    /// Joins the group of all processes of the job. MPI is started unless it runs, and then ended when the last communicator is
    /// gone; a process starts it once.
    ///
    /// Errors  backend_failure with MPI's words; unsupported where MPI lets only one thread call; deadline_exceeded where ranks
    ///         do not join: MPI_Init is then left behind in a thread, so let the process end with a failure
    [[nodiscard]] static Result<Mpi> join(MpiOptions const& options = {}) {
        auto wire = detail::MpiWire::create(options.timeout);
        if (!wire) return wire.error();
        detail::MessageGroup group;
        group.members.resize(static_cast<std::size_t>((*wire)->size()));
        std::iota(group.members.begin(), group.members.end(), 0);
        group.rank = (*wire)->rank();
        return Mpi(*std::move(wire), std::move(group), {options.timeout, options.checks_calls});
    }

    using Base::agree;
    using Base::exchange;
    using Base::fail;
    using Base::finish_sends;
    using Base::keep_unread;
    using Base::rank;
    using Base::receive_bytes;
    using Base::send_bytes;
    using Base::size;
    using Base::took;
    using Base::traffic;

    /// Cuts the group: ranks that give one color become a group of their own, numbered by their rank here.
    ///
    /// Errors  as a collective
    [[nodiscard]] Result<Mpi> split(std::int32_t color) {
        auto group = members_of(color);
        if (!group) return group.error();
        return Mpi(wire(), *std::move(group), options());
    }

private:
    Mpi(std::shared_ptr<detail::MpiWire> wire, detail::MessageGroup group, detail::MessageOptions const& options)
        : Base(std::move(wire), std::move(group), options) {}
};

static_assert(Communicator<Mpi> && KeepsUnread<Mpi>);

}  // namespace shardwise::inline v0_2_0
