// SPDX-License-Identifier: Apache-2.0
// One rank of an MPI job, started by mpirun (tests/cmake/mpi.cmake): the cases that all communicators share, and what MPI adds.
//
//   mpi_ranks cases               everything must be right
//   mpi_ranks pipelines           tables of every kind over the ranks
//   mpi_ranks blocks              a deterministic block over the ranks, which must have the bits of one alone
//   mpi_training training         a model over the ranks, of which the last fails at its third step: a program of its own
//   mpi_ranks mismatch            rank 1 asks for something else; every rank must be told both calls
//   mpi_ranks stopped             rank 1 stops itself; the others must name it, and the job must end
//   mpi_ranks absent              rank 1 never starts MPI; the others must be told so
//   mpi_ranks silent              rank 1 never calls; the others must name it
//   mpi_ranks twice               two groups of all ranks; MPI must run on when the first is gone
//   mpi_ranks threads             two threads start MPI at the same time; both must get it
//   mpi_ranks leaves              rank 1 leaves; the others must be told so

#include <shardwise/comm/mpi.hpp>

#include "../parallel/block_cases.hpp"
#include "../parallel/pipeline_cases.hpp"
#if defined(SHARDWISE_TEST_TRAINING)
#include "../train/training_over_ranks.hpp"
#endif
#include "collective_cases.hpp"
#include "names_of_parts.hpp"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

using namespace shardwise;
using namespace std::chrono_literals;
using shardwise::testing::flat;

/// What the job came to: 0 where it did what was asked.
int expect_error(Result<> const& result, ErrorCode code, std::string_view words) {
    if (result) {
        std::fprintf(stderr, "FAILED: no error\n");
        return 1;
    }
    auto const text = result.error().message();
    bool const is_expected = result.error().code() == code && text.find(words) != std::string::npos;
    std::fprintf(is_expected ? stdout : stderr, "%s: %s\n", is_expected ? "as expected" : "FAILED", text.c_str());
    std::fflush(stdout);
    return is_expected ? 0 : 1;
}

Result<> reduce(Mpi& comm, std::size_t count) {
    std::vector<float> data(count, 1.0F);
    return all_reduce(comm, flat(data));
}

int tell(Mpi const& comm, Result<> const& done) {
    if (!done) std::fprintf(stderr, "FAILED: rank %d: %s\n", comm.rank(), done.error().message().c_str());
    return done ? 0 : 1;
}

int run_cases(Mpi& comm) {
    if (tell(comm, shardwise::testing::check_collectives(comm, 400'003)) != 0) return 1;
    // A part that fails leaves the others, and the whole, as they are.
    if (comm.size() == 4 && tell(comm, shardwise::testing::check_names_of_parts(comm)) != 0) return 1;
    if (comm.size() == 4 && tell(comm, shardwise::testing::leave_part(comm)) != 0) return 1;
    auto const bytes = comm.traffic().of(CollectiveKind::all_reduce).bytes;
    if (comm.rank() == 0) std::printf("all cases on %d ranks, %lld bytes reduced\n", comm.size(), (long long)bytes);
    return 0;
}

/// Ends this rank without MPI_Finalize, and so the job.
[[noreturn]] void end_job(int status) {
    std::_Exit(status == 0 ? 42 : 1);
}

}  // namespace

int main(int argc, char** argv) {
    std::string_view const what = argc > 1 ? argv[1] : "cases";
    auto const begin = std::chrono::steady_clock::now();
    if (what == "absent") {
        // Open MPI's own variable: MPI_Comm_rank is not known before MPI_Init.
        char const* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
        if (rank != nullptr && rank == std::string_view("1")) std::this_thread::sleep_for(60s);
        auto const joined = Mpi::join({.timeout = 1s});
        auto const status = expect_error(joined ? Result<>{} : Result<>(joined.error()), ErrorCode::deadline_exceeded,
                                         "have not called MPI_Init");
        end_job(status);
    }
    if (what == "threads") {
        using Lifetime = detail::MpiLifetime;
        std::optional<Result<std::shared_ptr<Lifetime>>> shares[2];
        {
            std::thread other([&] { shares[1].emplace(Lifetime::share(60s)); });
            shares[0].emplace(Lifetime::share(60s));
            other.join();
        }
        bool const is_same = *shares[0] && *shares[1] && **shares[0] != nullptr && **shares[0] == **shares[1];
        if (!is_same) std::fprintf(stderr, "FAILED: not the same MPI\n");
        return is_same ? 0 : 1;
    }
    bool const is_right =
        what == "cases" || what == "pipelines" || what == "blocks" || what == "twice" || what == "training";
    auto comm = Mpi::join({.timeout = is_right ? std::chrono::nanoseconds(60s) : std::chrono::nanoseconds(5s)});
    if (!comm) {
        std::fprintf(stderr, "FAILED: %s\n", comm.error().message().c_str());
        return 1;
    }
    if (what == "twice") {
        auto second = Mpi::join({.timeout = 60s});
        if (!second) return 1;
        { auto const first = std::move(*comm); }
        return run_cases(*second);
    }
    if (what == "cases") return run_cases(*comm);
    if (what == "pipelines") return tell(*comm, shardwise::testing::pipelines::check_pipelines(*comm));
    if (what == "blocks") return tell(*comm, shardwise::testing::check_deterministic_block(*comm));
#if defined(SHARDWISE_TEST_TRAINING)
    if (what == "training") {
        auto const status = tell(*comm, shardwise::testing::check_training(*comm, ZeroStage::none));
        if (status == 0) std::printf("trained, and ended on rank %d\n", comm->rank());
        std::fflush(stdout);
        // mpirun ends the job with the first that ends so.
        std::this_thread::sleep_for(2s);
        end_job(status);
    }
#endif
    if (what == "mismatch") {
        auto const result = reduce(*comm, comm->rank() == 1 ? 6 : 5);
        auto const both =
            expect_error(result, ErrorCode::collective_mismatch,
                         "rank 0 is at call 1, all_reduce sum fp32 x 5; rank 1 at call 1, all_reduce sum fp32 x 6");
        // Every later call returns the first error.
        return both + expect_error(barrier(*comm), ErrorCode::collective_mismatch, "fp32 x 6");
    }
    if (what == "leaves" && comm->rank() == 1) return 0;
    if (auto const done = what == "leaves" ? Result<>{} : reduce(*comm, 100); !done) return 1;
    if (what == "leaves") {
        auto const status = expect_error(barrier(*comm), ErrorCode::rank_lost, "rank 1: left the group");
        end_job(status);
    }
    if (comm->rank() == 1) {
        if (what == "stopped") raise(SIGSTOP);
        std::this_thread::sleep_for(60s);
        return 1;
    }
    auto const status = expect_error(reduce(*comm, 100), ErrorCode::deadline_exceeded, "by rank 1");
    if (std::chrono::steady_clock::now() - begin > 15s) {
        std::fprintf(stderr, "FAILED: too late\n");
        return 1;
    }
    // The process ends without MPI_Finalize: mpirun ends the job.
    return status == 0 ? 42 : 1;
}
