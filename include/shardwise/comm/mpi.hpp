// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/communicator.hpp>
#include <shardwise/comm/detail/message_communicator.hpp>
#include <shardwise/comm/detail/message_group.hpp>
#include <shardwise/comm/detail/mpi_wire.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <mpi.h>
#include <string_view>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

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
class Mpi : public detail::MessageCommunicator<Mpi, detail::MpiWire> {
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
        auto group = detail::whole_group((*wire)->rank(), (*wire)->size());
        return Mpi(*std::move(wire), std::move(group), {options.timeout, options.checks_calls});
    }

private:
    using MessageCommunicator::MessageCommunicator;
    friend MessageCommunicator;
};

static_assert(Communicator<Mpi> && KeepsUnread<Mpi>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
