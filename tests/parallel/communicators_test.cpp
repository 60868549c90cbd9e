#include <shardwise/comm/shared_memory.hpp>

#include <doctest/doctest.h>

#include "../comm/processes.hpp"
#include "llama_block.hpp"

#include <string>
#include <unistd.h>

using namespace shardwise;
using namespace shardwise::testing;

namespace {

constexpr std::int64_t tokens = 4;

template <Communicator C>
Result<Floats> run_block(LlamaBlock const& block, Floats const& in, C& comm) {
    HostContext context({.threads = 1});
    auto stream = context.make_stream();
    auto rank = BlockRank<Deterministic>::create(block, context, {comm.size(), comm.rank()});
    if (!rank) return rank.error();
    return rank->forward(in, 0, tokens, comm, stream);
}

}  // namespace

TEST_CASE("communicators: a deterministic block has the same bits over processes as over threads and alone") {
    LlamaBlock const block;
    auto const in = random_floats(tokens * block.hidden, 1);
    auto group = ThreadsGroup::create(1).value();
    auto single = group.join(0).value();
    auto const alone = run_block(block, in, single);
    REQUIRE(alone);
    for (std::int32_t const ranks : {2, 3}) {
        auto const key = "parallel-" + std::to_string(getpid()) + "-" + std::to_string(ranks);
        std::vector<std::function<Result<>()>> processes;
        for (std::int32_t rank = 0; rank < ranks; ++rank) {
            processes.push_back([&, rank]() -> Result<> {
                auto comm = SharedMemory::join(key, rank, ranks, {});
                if (!comm) return comm.error();
                auto const made = run_block(block, in, *comm);
                if (!made) return made.error();
                if (is_bitwise_equal(*made, *alone)) return {};
                return Error{ErrorCode::invalid_argument}.in("block").because("has other bits than alone");
            });
        }
        for (auto const& outcome : run_processes(processes)) {
            CAPTURE(outcome.message);
            CHECK(outcome.has_answered);
            CHECK(outcome.succeeded);
        }
    }
}
