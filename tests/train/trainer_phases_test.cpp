// SPDX-License-Identifier: Apache-2.0
#include <shardwise/train/checkpoint/save_checkpoint.hpp>
#include <shardwise/train/train_ranks.hpp>

#include <doctest/doctest.h>

#include "../comm/shared_memory_ranks.hpp"
#include "curve_data.hpp"
#include "marked_processes.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

using namespace shardwise;
using namespace shardwise::testing;

namespace {

using namespace std::chrono_literals;
using Phase = TrainingPhase;
using Outcomes = std::vector<ProcessOutcome>;

/// What a rank does at a phase.
using Fault = std::function<Result<>(HostCommunicator&)>;
using Meanwhile = std::function<void(pid_t victim)>;

constexpr auto timeout = 2s;
constexpr std::int64_t faulty_step = 1;
constexpr std::array<Phase, 9> all_phases{Phase::data,   Phase::forward,    Phase::backward,
                                          Phase::bucket, Phase::norm,       Phase::optimizer,
                                          Phase::gather, Phase::checkpoint, Phase::validation};

/// Ranks that share the work in some way.
struct Way {
    std::int32_t ranks;
    ZeroStage zero;
    std::int32_t tp = 1;
    std::int32_t pp = 1;
    /// Gradients are in several buckets, which are exchanged beside backward passes.
    bool is_beside = false;
};
constexpr std::array<Way, 5> all_ways{Way{2, ZeroStage::optimizer}, Way{3, ZeroStage::gradients},
                                      Way{2, ZeroStage::weights}, Way{2, ZeroStage::none, 2},
                                      Way{4, ZeroStage::optimizer, 1, 2}};

/// Whether ranks of a way come to a phase, and whether all of them wait for each other in it.
bool has(Way const& way, Phase phase) {
    bool const gathers = way.zero == ZeroStage::optimizer || way.zero == ZeroStage::gradients;
    return phase != Phase::gather || gathers;
}
bool waits_in(Way const& way, Phase phase) {
    bool const is_pass = phase == Phase::forward || phase == Phase::backward;
    if (phase == Phase::optimizer) return false;
    if (phase == Phase::bucket) return way.pp == 1 && way.tp == 1;
    return !is_pass || way.tp > 1 || way.zero == ZeroStage::weights;
}

/// Waits until a process is stopped.
void wait_for_stop(pid_t process) {
    comes_true(20s, [&] {
        std::ifstream file("/proc/" + std::to_string(process) + "/stat");
        std::string text;
        std::getline(file, text);
        auto const end = text.rfind(')');
        return end != std::string::npos && text.substr(end, 3) == ") T";
    });
}

/// Trains three steps, with a validation and a checkpoint after each; the last rank meets its fault in the second.
class FaultyRuns {
public:
    FaultyRuns() {
        auto const ran = run_threads(1, [&](Threads& own) {
            return train({1, ZeroStage::none}, "", Phase::data, {}, HostCommunicator(std::move(own)));
        });
        REQUIRE_MESSAGE(ran, ran.error().message());
        expected_ = losses_;
        REQUIRE(expected_.size() == 6);
    }

    [[nodiscard]] Outcomes run(Way const& way, Phase phase, Fault const& fault, Meanwhile const& meanwhile = {}) const {
        TemporaryFolder const folder;
        auto* const moment = static_cast<std::atomic<std::int64_t>*>(
            ::mmap(nullptr, sizeof(std::int64_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
        std::vector<shared_memory::Body> bodies;
        std::int64_t begin = 0;
        for (std::int32_t rank = 0; rank < way.ranks; ++rank) {
            bodies.emplace_back([&, rank](SharedMemory& own) {
                auto const timed = [&](HostCommunicator& comm) {
                    *moment = now();
                    return fault(comm);
                };
                return train(way, folder.path(), phase, rank == way.ranks - 1 ? Fault(timed) : Fault{},
                             HostCommunicator(std::move(own)));
            });
        }
        begin = now();
        auto out = shared_memory::run_ranks(bodies, {.timeout = timeout}, [&](std::vector<pid_t> const& processes) {
            if (meanwhile) meanwhile(processes.back());
        });
        // From the fault on.
        for (auto& one : out) one.took -= std::chrono::nanoseconds(*moment - begin);
        ::munmap(moment, sizeof(std::int64_t));
        CHECK(shared_memory::leaves_nothing_behind());
        return out;
    }
    /// The same for ranks that are threads: the error of all.
    [[nodiscard]] Result<> run_as_threads(Way const& way, Phase phase, Fault const& fault) const {
        TemporaryFolder const folder;
        return run_threads(way.ranks,
                           [&](Threads& own) {
                               auto const mine = own.rank() == way.ranks - 1 ? fault : Fault{};
                               return train(way, folder.path(), phase, mine, HostCommunicator(std::move(own)));
                           },
                           {.timeout = timeout});
    }

private:
    [[nodiscard]] static std::int64_t now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

    [[nodiscard]] Result<> train(Way const& way, std::string const& folder, Phase at, Fault const& fault,
                                 HostCommunicator comm) const {
        HostContext context({.threads = 1});
        TrainOptions options{
            .steps = 3, .schedule = {.learning_rate = 3e-3, .total = 3, .floor = 0.1}, .zero = way.zero};
        options.tp = way.tp;
        options.pp = way.pp;
        options.timeout = timeout;
        if (way.is_beside) options.buckets = BucketLimits::with_cap(Bytes{4000});
        auto const place = options.model_place(comm.rank());
        auto const program = TrainingProgram::create(base_.model(), place);
        if (!program) return program.error();
        WeightStorage storage;
        if (way.zero == ZeroStage::weights) storage.shares = {comm.size(), comm.rank()};
        auto weights = TrainingWeights::initialise(context, base_.model(), {.seed = 1}, place, storage);
        if (!weights) return weights.error();
        auto const layout = CheckpointLayout::create(base_.model(), AdamW{});
        if (!layout) return layout.error();
        CheckpointTarget const target{.out = folder + "/out", .layout = &*layout, .files = &files_};
        return train_in_group(comm, context, *program, *weights, AdamW{}, data_.batches(), options,
                              [&](Trainer<AdamW>& trainer, HostStream& stream) -> Result<> {
                                  bool is_over = false;
                                  trainer.phases().on_begin([&](Phase phase, std::int64_t step) -> Result<> {
                                      if (!fault || phase != at || step != faulty_step || is_over) return {};
                                      is_over = true;
                                      return fault(trainer.comm());
                                  });
                                  return take_steps(trainer, stream, folder.empty() ? nullptr : &target);
                              });
    }
    [[nodiscard]] Result<> take_steps(Trainer<AdamW>& trainer, HostStream& stream,
                                      CheckpointTarget const* target) const {
        std::vector<double> losses;
        while (true) {
            auto const step = trainer.step(stream);
            if (!step) return step.error();
            if (!*step) break;
            auto const valid = trainer.validate(held_out(), stream);
            if (!valid) return valid.error();
            losses.insert(losses.end(), {(*step)->loss, valid->mean()});
            if (target == nullptr) continue;
            TrainerState state;
            state.step = (*step)->number + 1;
            auto saved = trainer.phases().begin(Phase::checkpoint);
            if (saved) saved = save_checkpoint(trainer.comm(), *target, state, trainer.weights(), trainer.optimizer());
            if (!saved) return trainer.phases().name(end_group(trainer.comm(), saved.error()));
        }
        if (trainer.comm().size() == 1) losses_ = losses;
        bool const is_same = trainer.comm().size() == 1 || losses == expected_;
        return is_same ? Result<>{} : Error{ErrorCode::invalid_argument}.because("has other losses than one rank");
    }
    [[nodiscard]] Batches held_out() const {
        BatchOptions const options{.context = golden_context, .batch = 1, .shuffles = false};
        return TrainedModel::take(Batches::create(*data_.dataset, {0, 6 * golden_context + 1}, options));
    }

    CurveData data_;
    TrainedModel base_{golden_config("llama_tied")};
    CheckpointFiles files_ = TrainedModel::take(read_checkpoint_files(base_.files.source));
    mutable std::vector<double> losses_;
    std::vector<double> expected_;
};

/// What a fault makes of the others.
struct Row {
    std::string name;
    Fault fault;
    Meanwhile meanwhile{};
    /// In each survivor's error, beside the rank; none: all ends well.
    std::vector<std::string> says{};
    std::optional<ErrorCode> code{};
    std::chrono::nanoseconds within = 1s;
    /// Of data-parallel ranks alone: others have more groups than the one that the fault is in.
    bool is_of_one_group = false;
    bool has_phase = true;
};

[[noreturn]] void end_by(int signal) {
    std::signal(signal, SIG_DFL);
    ::raise(signal);
    ::_exit(99);
}
template <class T>
Fault reduces(std::int64_t count) {
    return [count](HostCommunicator& comm) -> Result<> {
        std::vector<T> values(static_cast<std::size_t>(count));
        return all_reduce(comm, TensorView<T, 1, Host>{values.data(), {count}}, ReduceOp::max);
    };
}

/// What a rank does in place of its part of a phase, what is done to it meanwhile, and what the others must say of it.
std::vector<Row> rows() {
    auto const dies = [](HostCommunicator&) -> Result<> { end_by(SIGKILL); };
    auto const crashes = [](HostCommunicator&) -> Result<> { end_by(SIGSEGV); };
    auto const leaves = [](HostCommunicator&) -> Result<> { ::_exit(0); };
    auto const stops = [](HostCommunicator&) -> Result<> { return ::raise(SIGSTOP), Result<>{}; };
    auto const sleeps = [](HostCommunicator&) -> Result<> {
        std::this_thread::sleep_for(timeout + 700ms);
        return {};
    };
    auto const refuses = [](HostCommunicator&) -> Result<> {
        return Error{ErrorCode::file_unwritable}.in("loss.csv").because("the disk is full");
    };
    auto const ends_stopped = [](pid_t victim) {
        wait_for_stop(victim);
        std::this_thread::sleep_for(timeout + 700ms);
        ::kill(victim, SIGKILL);
    };
    auto const goes_on = [](pid_t victim) {
        wait_for_stop(victim);
        std::this_thread::sleep_for(timeout / 4);
        ::kill(victim, SIGCONT);
    };
    return {{"1 SIGKILL", dies, {}, {"was ended by signal Killed"}, ErrorCode::rank_lost},
            {"2 SIGSEGV", crashes, {}, {"was ended by signal Segmentation fault"}, ErrorCode::rank_lost},
            {"3 _exit(0)", leaves, {}, {"ended with exit code 0"}, ErrorCode::rank_lost},
            {"4 SIGSTOP", stops, ends_stopped, {"stopped"}, ErrorCode::deadline_exceeded, timeout + 500ms},
            {"5 SIGSTOP, SIGCONT", stops, goes_on},
            {"8 another shape", reduces<std::int64_t>(3), {}, {"int64 x 3"}, ErrorCode::collective_mismatch, 1s, true},
            {"9 another dtype", reduces<float>(2), {}, {"fp32 x 2"}, ErrorCode::collective_mismatch, 1s, true},
            {"10 another order",
             [](HostCommunicator& comm) { return barrier(comm); },
             {},
             {"barrier"},
             ErrorCode::collective_mismatch,
             1s,
             true},
            {"11 skipped", sleeps, {}, {}, ErrorCode::deadline_exceeded, timeout + 500ms},
            {"12 an error", refuses, {}, {"loss.csv: the disk is full"}, ErrorCode::file_unwritable, 1s, false, false}};
}

void check(FaultyRuns const& runs, Row const& row, Way way, Phase phase) {
    // A fault in a call is one thread's, of the group that others use beside it.
    way.is_beside = !row.is_of_one_group;
    auto const name = std::string(name_of(phase));
    CAPTURE(row.name);
    CAPTURE(name);
    CAPTURE(way.ranks);
    CAPTURE(way.tp);
    CAPTURE(way.pp);
    auto const outcomes = runs.run(way, phase, row.fault, row.meanwhile);
    for (std::int32_t rank = 0; rank < way.ranks; ++rank) {
        auto const& one = outcomes[static_cast<std::size_t>(rank)];
        bool const is_faulty = rank == way.ranks - 1;
        if (is_faulty && row.code) continue;
        CAPTURE(rank);
        CAPTURE(one.message);
        REQUIRE(one.has_answered);
        CHECK(one.succeeded == !row.code);
        if (!row.code) continue;
        CHECK(one.code == *row.code);
        for (auto const& text : row.says) CHECK(one.message.find(text) != std::string::npos);
        CHECK(one.took < row.within);
        if (!row.has_phase) continue;
        // Where a stage is late for the other's ties, who waits for it may be late for others, too, and is named.
        bool const is_chain = way.pp > 1 && row.code == ErrorCode::deadline_exceeded && phase == Phase::bucket;
        auto const number = std::to_string(way.ranks - 1);
        bool const is_named = one.message.find("rank " + number) != std::string::npos ||
                              one.message.find(", " + number + " (stopped") != std::string::npos ||
                              one.message.find(", " + number + ", in phase") != std::string::npos;
        CHECK((is_chain || is_named));
        auto const text = std::string(", in phase ");
        auto at = one.message.find(text + (waits_in(way, phase) ? name + " of step 2" : ""));
        // Who gathers nothing from the faulty rank goes on to what comes next.
        if (at == std::string::npos && phase == Phase::gather && way.pp > 1)
            at = one.message.find(text + "validation of step 2");
        // Shared weights are gathered for passes while gradients are exchanged: either call may be the first to miss the rank, and each
        // is told with its own phase.
        if (at == std::string::npos && way.zero == ZeroStage::weights && way.is_beside) {
            bool const is_exchange = one.message.find("all_to_all") != std::string::npos;
            if (phase == TrainingPhase::bucket && !is_exchange) at = one.message.find(text + "forward of step 2");
            if (phase == TrainingPhase::backward && is_exchange) at = one.message.find(text + "bucket of step 2");
        }
        CHECK(at != std::string::npos);
    }
}

}  // namespace

TEST_SUITE("timing") {
    TEST_CASE("Trainer: what happens to a rank in a phase of a step is told by all others, with rank and phase") {
        FaultyRuns const runs;
        auto const all = rows();
        // Each row once, each phase once, each way twice.
        std::size_t i = 0;
        for (auto const& row : all) {
            auto const phase = all_phases[(4 * i + 2) % all_phases.size()];
            auto const& way = all_ways[row.is_of_one_group ? i % 2 : i % all_ways.size()];
            if (has(way, phase)) check(runs, row, way, phase);
            ++i;
        }
        for (auto const phase : {TrainingPhase::data, TrainingPhase::norm, TrainingPhase::gather}) {
            auto const ended = runs.run_as_threads(
                all_ways[1], phase, [](HostCommunicator&) -> Result<> { throw std::runtime_error("a hook's own"); });
            REQUIRE_FALSE(ended);
            CHECK_MESSAGE(ended.error().message().find("a hook's own") != std::string::npos, ended.error().message());
        }
    }
}

TEST_SUITE("long") {
    TEST_CASE("Trainer: every fault in every phase, over ranks that share the work in every way") {
        FaultyRuns const runs;
        for (auto const& row : rows()) {
            for (auto const& way : all_ways) {
                if (row.is_of_one_group && (way.tp > 1 || way.pp > 1 || way.zero == ZeroStage::weights)) continue;
                for (auto const phase : all_phases) {
                    if (has(way, phase)) check(runs, row, way, phase);
                }
            }
        }
        for (auto const& way : all_ways) {
            for (auto const phase : all_phases) {
                if (!has(way, phase)) continue;
                auto const ended = runs.run_as_threads(
                    way, phase, [](HostCommunicator&) -> Result<> { throw std::runtime_error("a hook's own"); });
                REQUIRE_FALSE(ended);
                CHECK_MESSAGE(ended.error().message().find("a hook's own") != std::string::npos,
                              ended.error().message());
            }
        }
    }
}
