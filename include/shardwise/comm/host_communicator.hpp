// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/comm/any_communicator.hpp>
#include <shardwise/comm/shared_memory.hpp>
#include <shardwise/comm/threads.hpp>
#ifdef SHARDWISE_HAS_MPI
#include <shardwise/comm/mpi.hpp>
#endif
#ifdef SHARDWISE_HAS_GLOO
#include <shardwise/comm/gloo.hpp>
#endif

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The communicators between ranks that compute on the host: threads, processes of a machine, and those of MPI and Gloo where
/// shardwise::mpi and shardwise::gloo are linked. What the executor and the session are compiled for.
using HostCommunicator = AnyCommunicator<Threads, SharedMemory
#ifdef SHARDWISE_HAS_MPI
                                         ,
                                         Mpi
#endif
#ifdef SHARDWISE_HAS_GLOO
                                         ,
                                         Gloo
#endif
                                         >;

static_assert(Communicator<HostCommunicator>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
