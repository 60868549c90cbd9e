// SPDX-License-Identifier: Apache-2.0
#include <shardwise/train/checkpoint/checkpoint_saver.hpp>
#include <shardwise/train/train_ranks.hpp>

#include <doctest/doctest.h>

#include "../../comm/shared_memory_ranks.hpp"
#include "checkpoint_cases.hpp"
#include "phased_calls.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <new>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>
#include <vector>

using namespace shardwise;
using namespace shardwise::testing;

namespace {

using namespace std::chrono_literals;
using Phase = TrainingPhase;

constexpr std::array<Phase, 9> all_phases{Phase::data,   Phase::forward,    Phase::backward,
                                          Phase::bucket, Phase::norm,       Phase::optimizer,
                                          Phase::gather, Phase::checkpoint, Phase::validation};

using Fault = PhasedCalls::Fault;

/// Ranks that share the work in some way.
struct Way {
    std::int32_t ranks;
    ZeroStage zero;
    std::int32_t tp = 1;
    std::int32_t pp = 1;
};
constexpr std::array<Way, 5> all_ways{Way{2, ZeroStage::optimizer}, Way{3, ZeroStage::gradients},
                                      Way{2, ZeroStage::weights}, Way{2, ZeroStage::none, 2},
                                      Way{2, ZeroStage::none, 1, 2}};
bool has(Way const& way, Phase phase) {
    return phase != Phase::gather || way.zero == ZeroStage::optimizer || way.zero == ZeroStage::gradients;
}

/// What happens to the checkpoint of the second step while training is at a phase of a later one.
struct Trouble {
    std::int32_t rank = 0;
    Fault fault = Fault::none;
    int call = 0;
    int code = 0;
    /// Where the checkpoint is whole by then, what is done to its folder; the rank dies of it.
    std::function<void(std::string const& folder)> act{};
};

/// Trains four steps, with a checkpoint after each but the third, of which the first one is whole before the next begins.
class SavedRuns {
public:
    SavedRuns() : met_(new (shared_word()) std::atomic<int>(0)) {
        PhasedCalls::met = met_;
        TemporaryFolder const out;
        auto const ran = run_threads(1, [&](Threads& own) {
            return train({1, ZeroStage::none}, out.path(), Phase::data, {}, HostCommunicator(std::move(own)));
        });
        REQUIRE_MESSAGE(ran, (ran ? "" : ran.error().message()));
        for (std::int64_t const step : {1, 2, 4}) expected_[step] = files_of(out.path() + "/" + checkpoint_name(step));
        calls_ = PhasedCalls::count / 3;
        CHECK(calls_ > 50);
    }
    SavedRuns(SavedRuns const&) = delete;
    SavedRuns& operator=(SavedRuns const&) = delete;
    ~SavedRuns() { ::munmap(met_, sizeof(std::atomic<int>)); }

    /// Of a save by one rank; others make fewer.
    [[nodiscard]] int calls() const { return calls_; }
    /// How many faults were met in their phase.
    [[nodiscard]] int met() const { return *met_; }
    [[nodiscard]] CheckpointLayout const& layout() const { return *run_.layout; }

    /// A rank is killed at a call of a save: the old checkpoint or the new one is whole, and a run goes on from it.
    void kill(Way const& way, Phase phase, std::int32_t rank, Fault how, int call) {
        TemporaryFolder const out;
        auto const outcomes = run(way, out.path(), phase, {.rank = rank, .fault = how, .call = call});
        check_survivors(outcomes, rank);
        go_on(out.path(), {});
    }
    /// The disk fails at a call of a save: training goes on, the error is told, the old checkpoint stays and nothing else.
    void refuse(Way const& way, Phase phase, std::int32_t rank, Fault how, int call, int code) {
        TemporaryFolder const out;
        for (auto const& one : run(way, out.path(), phase, {rank, how, call, code})) {
            REQUIRE(one.has_answered);
            CHECK_MESSAGE(one.succeeded, one.message);
        }
        REQUIRE(remove_leftovers(out.path()));
        check_whole(out.path());
        auto const left = list_checkpoints(out.path());
        CHECK(left.front() == 4);
        CHECK(left.back() == 1);
    }
    /// A bit of the newest checkpoint flips, and a rank dies: the tensor is named, and a run goes on from the one before.
    void flip(Way const& way, Phase phase, std::string const& file, LaidTensor const& tensor, unsigned number) {
        TemporaryFolder const out;
        auto const at = tensor.offset + static_cast<std::int64_t>(number * 7919U) % tensor.bytes();
        Trouble trouble{.rank = way.ranks - 1};
        trouble.act = [&](std::string const& folder) {
            flip_bit(folder + "/" + file, static_cast<std::size_t>(at), number % 8);
            ++*met_;
        };
        check_survivors(run(way, out.path(), phase, trouble), trouble.rank);
        go_on(out.path(),
              out.path() + "/step-000002/" + file + ": " + tensor.name + ": has changed since it was written");
    }

private:
    using Outcomes = std::vector<ProcessOutcome>;

    static constexpr auto timeout = 20s;

    static void* shared_word() {
        return ::mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    }
    [[nodiscard]] Outcomes run(Way const& way, std::string const& out, Phase phase, Trouble const& trouble) const {
        std::vector<shared_memory::Body> bodies;
        for (std::int32_t rank = 0; rank < way.ranks; ++rank) {
            auto const own = rank == trouble.rank ? trouble : Trouble{};
            bool const is_before = trouble.act != nullptr;
            bodies.emplace_back([this, &way, &out, phase, own, is_before](SharedMemory& comm) {
                return train(way, out, phase, own, HostCommunicator(std::move(comm)), is_before);
            });
        }
        auto outcomes = shared_memory::run_ranks(bodies, {.timeout = timeout});
        CHECK(shared_memory::leaves_nothing_behind());
        return outcomes;
    }
    [[nodiscard]] Result<> train(Way const& way, std::string const& out, Phase at, Trouble const& trouble,
                                 HostCommunicator comm, bool is_whole_before = false) const {
        HostContext context({.threads = 1});
        TrainOptions options{.steps = run_steps,
                             .schedule = {.learning_rate = 3e-3, .warm_up = 3, .total = run_steps, .floor = 0.1},
                             .zero = way.zero};
        options.tp = way.tp;
        options.pp = way.pp;
        options.timeout = timeout;
        auto const place = options.model_place(comm.rank());
        auto const program = TrainingProgram::create(run_.trained.model(), place);
        if (!program) return program.error();
        WeightStorage storage;
        if (way.zero == ZeroStage::weights) storage.shares = {comm.size(), comm.rank()};
        auto weights = TrainingWeights::initialise(context, run_.trained.model(), {.seed = 1}, place, storage);
        if (!weights) return weights.error();
        return train_in_group(comm, context, *program, *weights, AdamW{}, *run_.batches, options,
                              [&](Trainer<AdamW>& trainer, HostStream& stream) -> Result<> {
                                  trainer.phases().on_begin([&](Phase phase, std::int64_t step) -> Result<> {
                                      if (phase != at || step < 2) return {};
                                      PhasedCalls::meet();
                                      if (!trouble.act) return {};
                                      trouble.act(out + "/step-000002");
                                      (void)::kill(::getpid(), SIGKILL);
                                      return {};
                                  });
                                  return take_steps(trainer, stream, out, trouble, is_whole_before);
                              });
    }
    [[nodiscard]] Result<> take_steps(Trainer<AdamW>& trainer, HostStream& stream, std::string const& out,
                                      Trouble const& trouble, bool is_whole_before) const {
        PhasedCalls::reset();
        auto& comm = trainer.comm();
        auto const parts =
            checkpoint_parts(*run_.layout, trainer.weights(), trainer.optimizer(), {comm.size(), comm.rank()});
        if (!parts) return end_group(comm, parts.error());
        Span<CheckpointPart const> const all(parts->data(), parts->size());
        auto saver = CheckpointSaver<PhasedCalls>::create(trainer.context(), run_.target(out, 9), all);
        if (!saver) return end_group(comm, saver.error());
        auto const save = [&](std::int64_t step) -> Result<> {
            if (auto const begun = trainer.phases().begin(Phase::checkpoint); !begun) return begun;
            if (step == 3) return saver->poll(comm);
            if (step == 4) {
                // A call that has not met its phase yet does not wait for it any more.
                PhasedCalls::is_over = true;
                auto const ended = saver->finish(comm);
                if (auto const told = check_told(*saver, ended, out, trouble); !told) return told;
                PhasedCalls::faulty = 0;
            }
            if (step == 2 && trouble.call > 0) {
                PhasedCalls::fault = trouble.fault;
                PhasedCalls::code = trouble.code;
                PhasedCalls::count = 0;
                PhasedCalls::faulty = trouble.call;
            }
            if (auto const begun = saver->start(comm, run_.state(step), all); !begun) return begun;
            return step != 2 || is_whole_before ? saver->finish(comm) : Result<>();
        };
        for (std::int64_t step = 1; step <= 4; ++step) {
            auto const taken = trainer.step(stream);
            if (!taken) return taken.error();
            auto const valid = trainer.validate(held_out(), stream);
            if (!valid) return valid.error();
            if (auto const saved = save(step); !saved) return trainer.phases().name(end_group(comm, saved.error()));
        }
        // Where bytes or their room were refused, what was there of the checkpoint is removed.
        for (auto const& name : shardwise::detail::entries_of(out)) {
            if (PhasedCalls::is_of_bytes && !name.starts_with("step-"))
                return Error{ErrorCode::invalid_argument}.because("has left " + name);
        }
        return {};
    }
    /// Whether the saver says what happened to the second checkpoint, which then has left nothing.
    [[nodiscard]] static Result<> check_told(CheckpointSaver<PhasedCalls> const& saver, Result<> const& ended,
                                             std::string const& out, Trouble const& trouble) {
        Error const wrong{ErrorCode::invalid_argument};
        if (!ended && ended.error().code() != ErrorCode::file_unwritable) return ended;
        bool const is_there = !files_of(out + "/step-000002").empty();
        if (ended && !is_there) return Error{wrong}.because("has lost a checkpoint and says nothing");
        bool const is_told = PhasedCalls::is_done && PhasedCalls::is_of_bytes && trouble.fault == Fault::refused;
        if (is_told && (ended || is_there)) return Error{wrong}.because("says nothing of a disk that failed");
        if (!is_told && trouble.fault == Fault::cut && !ended) return ended;
        if (saver.failure().has_value() == ended.has_value()) return Error{wrong}.because("keeps another error");
        return {};
    }
    [[nodiscard]] Batches held_out() const {
        BatchOptions const options{.context = run_context, .batch = 1, .shuffles = false};
        return TrainedModel::take(Batches::create(*run_.dataset, {0, 6 * run_context + 1}, options));
    }
    static void check_survivors(Outcomes const& outcomes, std::int32_t rank) {
        auto const dead = static_cast<std::size_t>(rank);
        // Ranks make different numbers of calls.
        bool const has_died = !outcomes[dead].has_answered;
        for (std::size_t other = 0; other < outcomes.size(); ++other) {
            if (has_died && other == dead) continue;
            auto const& one = outcomes[other];
            CAPTURE(one.message);
            REQUIRE(one.has_answered);
            CHECK(one.succeeded == !has_died);
            if (!has_died) continue;
            CHECK(one.code == ErrorCode::rank_lost);
            // "was ended by signal Killed", or "has ended" where the parent of all knows already: before a call or, of stages, during it.
            CHECK(one.message.find("rank " + std::to_string(rank) + ": ") == 0);
            CHECK(one.message.find(" ended ") != std::string::npos);
            CHECK(one.message.find(", in phase ") != std::string::npos);
        }
    }
    /// Each checkpoint that is there has the bytes of the run that nothing happened to.
    void check_whole(std::string const& out) const {
        for (auto const& name : shardwise::detail::entries_of(out)) {
            CAPTURE(name);
            auto const step = checkpoint_step(name);
            REQUIRE(step);
            CHECK((files_of(out + "/" + name) == expected_.at(*step)));
        }
    }
    /// Begins again where a run has ended, on one rank: the newest checkpoint is whole, or was damaged as `warning` says.
    void go_on(std::string const& out, std::string const& warning) {
        REQUIRE(remove_leftovers(out));
        auto const point = run_.newest(out);
        REQUIRE_MESSAGE(point, (point ? "" : point.error().message()));
        CHECK(point->warnings.size() == (warning.empty() ? 0U : 1U));
        if (!warning.empty()) {
            CHECK(point->state.step == 1);
            CHECK_MESSAGE(point->warnings.front().find(warning) == 0, point->warnings.front());
        }
        CHECK(point->state.step >= 1);
        if (warning.empty()) check_whole(out);
        run_.load(point->folder);
        for (auto step = point->state.step + 1; step <= 4; ++step) {
            run_.train(step - 1, step);
            if (step != 3) REQUIRE(run_.save(out, step, 9));
        }
        check_whole(out);
    }

    /// Two layers: each may be a stage.
    SmallRun<AdamW> run_{"float32", {}, 2};
    std::map<std::int64_t, std::map<std::string, std::string>> expected_;
    std::atomic<int>* met_;
    int calls_ = 0;
};

/// Goes through tensors of a checkpoint's files.
template <class Visit>
void each_tensor(CheckpointLayout const& layout, Visit const& visit) {
    for (auto const& file : layout.files()) {
        for (auto const& tensor : file.tensors()) visit(file.file(), tensor);
    }
}

}  // namespace

// A process that is killed at a call, a disk that is full or broken, and bits that flip.
TEST_CASE(
    "CheckpointSaver: in any phase of training, a kill, a full disk and a flipped bit leave a checkpoint that is "
    "whole") {
    SavedRuns runs;
    int number = 0;
    for (auto const phase : all_phases) {
        auto const name = name_of(phase);
        CAPTURE(name);
        auto const& next = all_ways[static_cast<std::size_t>(number) % all_ways.size()];
        auto const& way = has(next, phase) ? next : all_ways.front();
        auto const call = 1 + (number * 11 + 3) % runs.calls();
        CAPTURE(call);
        runs.kill(way, phase, 0, number % 2 == 0 ? Fault::killed_after : Fault::killed_before, call);
        runs.refuse(way, phase, number % 3 == 0 ? 0 : way.ranks - 1, number % 4 == 3 ? Fault::cut : Fault::refused,
                    1 + (number * 5) % 30, number % 2 == 0 ? ENOSPC : EIO);
        auto const& file = runs.layout().files()[static_cast<std::size_t>(number) % runs.layout().files().size()];
        auto const& tensors = file.tensors();
        runs.flip(way, phase, file.file(), tensors[static_cast<std::size_t>(number * 5) % tensors.size()],
                  static_cast<unsigned>(number));
        ++number;
    }
    CHECK(runs.met() > 2 * number);
}

TEST_SUITE("long") {
    TEST_CASE("CheckpointSaver: kills at every call of a save, disks that fail and flipped bits, in every phase") {
        SavedRuns runs;
        int number = 0;
        int tried = 0;
        for (auto const& way : all_ways) {
            for (auto const phase : all_phases) {
                if (!has(way, phase)) continue;
                CAPTURE(way.ranks);
                CAPTURE(way.tp);
                CAPTURE(way.pp);
                auto const name = name_of(phase);
                CAPTURE(name);
                // All calls over the ways and phases.
                for (int call = 1 + number % 6; call <= runs.calls(); call += 6) {
                    CAPTURE(call);
                    auto const rank = (call / 6) % 2 == 0 ? 0 : way.ranks - 1;
                    runs.kill(way, phase, rank, number % 4 < 2 ? Fault::killed_before : Fault::killed_after, call);
                    ++tried;
                }
                for (int call = 1 + number % 9; call <= runs.calls(); call += 9) {
                    CAPTURE(call);
                    auto const rank = (call / 9) % 2 == 0 ? 0 : way.ranks - 1;
                    auto const which = (call + number) % 3;
                    runs.refuse(way, phase, rank, which == 2 ? Fault::cut : Fault::refused, call,
                                which == 0 ? ENOSPC : EIO);
                    ++tried;
                }
                int i = 0;
                each_tensor(runs.layout(), [&](std::string const& file, LaidTensor const& tensor) {
                    if (++i % 4 == number % 4) runs.flip(way, phase, file, tensor, static_cast<unsigned>(i + number));
                });
                ++number;
            }
        }
        CHECK(2 * runs.met() > tried);
    }
}
