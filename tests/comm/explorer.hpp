// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <ucontext.h>
#include <vector>

namespace shardwise::testing {

/// Runs a few ranks through every execution that release/acquire atomics allow, stale reads included, and says what went
/// wrong in any of them: a data race, a deadlock, or what a rank itself reports.
///
/// The memory model is the usual operational one for release and acquire: each atomic keeps its history of stores; a rank may
/// read any store that is not older than one it already knows of, and learns what the storing rank knew if both sides
/// synchronise. Each atomic has one writer, so that histories are orders of execution. Plain memory is checked by vector
/// clocks. What is explored: which rank goes on where several wait, and which store each waiting load reads. A load that does
/// not end its wait changes nothing, so such loads are not run; and as reading a given store commutes with whatever other
/// ranks do, each choice of stores is run in one order only (sleep sets; Godefroid, LNCS 1032, 1996).
class Explorer {
public:
    static constexpr std::size_t max_ranks = 3;

    struct Outcome {
        std::uint64_t executions = 0;
        /// Empty where every execution is right.
        std::string problem;
    };

    /// What all executions of `body(explorer, rank)` come to; `prepare` makes the shared state before each.
    Outcome explore(std::size_t ranks, std::function<void()> const& prepare,
                    std::function<void(std::size_t)> const& body, std::uint64_t limit = 5'000'000) {
        Outcome outcome;
        choices_.clear();
        current() = this;
        do {
            run_once(ranks, prepare, body);
            ++outcome.executions;
            if (!problem_.empty()) break;
            if (outcome.executions == limit) problem_ = "more executions than the limit";
        } while (problem_.empty() && next_choices());
        outcome.problem = problem_;
        current() = nullptr;
        return outcome;
    }

    /// A rank found something wrong.
    void report(std::string const& problem) {
        if (problem_.empty()) problem_ = problem;
    }

    /// Holds the running rank until the condition holds for some store that its load may read. The condition makes one load.
    void wait_until(std::function<bool()> const& condition) {
        waiting_[running_] = &condition;
        swapcontext(&fibers_[running_].context, &scheduler_);
        waiting_[running_] = nullptr;
    }

    static Explorer*& current() {
        static Explorer* explorer = nullptr;
        return explorer;
    }

private:
    template <class T>
    friend class ModelAtomic;
    friend class ModelCell;

    using Clock = std::vector<std::uint32_t>;

    struct Store {
        std::uint64_t value = 0;
        /// What a reader that synchronises learns: events per rank, and the oldest store of each atomic that it may read.
        Clock events = Clock(max_ranks, 0);
        std::vector<std::size_t> oldest;
        bool is_release = false;
    };
    struct Cell {
        std::size_t writer = 0;
        std::uint32_t written = 0;
        Clock read = Clock(max_ranks, 0);
    };
    struct Fiber {
        ucontext_t context{};
        std::unique_ptr<char[]> stack;
        bool is_done = false;
        Clock events = Clock(max_ranks, 0);
        std::vector<std::size_t> oldest;
    };
    /// A rank goes on with what it reads from a store.
    struct Option {
        std::size_t rank;
        std::size_t store;

        friend bool operator==(Option const&, Option const&) = default;
    };
    /// A place where the execution could go on in several ways: those still to try, and those whose executions were all seen.
    struct Choice {
        std::vector<Option> options;
        std::vector<Option> asleep;
        std::size_t taken = 0;
    };

    static constexpr std::size_t stack_bytes = 256 * 1024;
    static constexpr std::size_t nothing = SIZE_MAX;

    /// What to do next, or nothing where every way on was seen before in another order.
    std::optional<Option> choose(std::vector<Option> const& options) {
        if (depth_ == choices_.size()) {
            Choice choice;
            if (depth_ > 0) {
                // What slept stays asleep unless its rank has moved.
                auto const& last = choices_[depth_ - 1];
                for (auto const& option : last.asleep) {
                    if (option.rank != last.options[last.taken].rank) choice.asleep.push_back(option);
                }
            }
            for (auto const& option : options) {
                bool const sleeps =
                    std::find(choice.asleep.begin(), choice.asleep.end(), option) != choice.asleep.end();
                if (!sleeps) choice.options.push_back(option);
            }
            if (choice.options.empty()) return std::nullopt;
            choices_.push_back(choice);
        }
        auto const& choice = choices_[depth_++];
        return choice.options[choice.taken];
    }
    bool next_choices() {
        while (!choices_.empty()) {
            auto& choice = choices_.back();
            choice.asleep.push_back(choice.options[choice.taken]);
            if (++choice.taken < choice.options.size()) return true;
            choices_.pop_back();
        }
        return false;
    }

    void run_once(std::size_t ranks, std::function<void()> const& prepare,
                  std::function<void(std::size_t)> const& body) {
        histories_.clear();
        cells_.clear();
        depth_ = 0;
        problem_.clear();
        body_ = &body;
        if (fibers_.size() != ranks) fibers_ = std::vector<Fiber>(ranks);
        running_ = nothing;
        prepare();
        for (std::size_t rank = 0; rank < ranks; ++rank) {
            auto& fiber = fibers_[rank];
            if (!fiber.stack) fiber.stack = std::make_unique<char[]>(stack_bytes);
            fiber.is_done = false;
            fiber.events.assign(max_ranks, 0);
            fiber.oldest.assign(histories_.size(), 0);
            waiting_[rank] = nullptr;
            getcontext(&fiber.context);
            fiber.context.uc_stack.ss_sp = fiber.stack.get();
            fiber.context.uc_stack.ss_size = stack_bytes;
            fiber.context.uc_link = &scheduler_;
            makecontext(&fiber.context, &Explorer::enter, 0);
            resume(rank);
        }
        while (problem_.empty()) {
            std::vector<Option> options;
            bool is_finished = true;
            for (std::size_t rank = 0; rank < ranks; ++rank) {
                if (fibers_[rank].is_done) continue;
                is_finished = false;
                for (auto const store : readable_stores(rank)) options.push_back({rank, store});
            }
            if (is_finished) return;
            if (options.empty()) {
                report("deadlock: no rank can go on");
                return;
            }
            auto const option = choose(options);
            if (!option) return;
            forced_ = option->store;
            running_ = option->rank;
            learns_ = true;
            (void)(*waiting_[option->rank])();
            learns_ = false;
            forced_ = nothing;
            resume(option->rank);
        }
    }

    /// The stores that would end the rank's wait.
    std::vector<std::size_t> readable_stores(std::size_t rank) {
        std::vector<std::size_t> stores;
        running_ = rank;
        asked_ = nothing;
        forced_ = 0;
        (void)(*waiting_[rank])();
        for (auto store = fibers_[rank].oldest[asked_]; store < histories_[asked_].size(); ++store) {
            forced_ = store;
            if ((*waiting_[rank])()) stores.push_back(store);
        }
        forced_ = nothing;
        return stores;
    }

    static void enter() {
        auto* const explorer = current();
        auto const rank = explorer->running_;
        (*explorer->body_)(rank);
        explorer->fibers_[rank].is_done = true;
    }
    void resume(std::size_t rank) {
        running_ = rank;
        swapcontext(&scheduler_, &fibers_[rank].context);
    }

    std::size_t add_atomic(std::uint64_t value) {
        histories_.push_back({Store{value, Clock(max_ranks, 0), {}, false}});
        return histories_.size() - 1;
    }
    std::uint64_t load(std::size_t atomic, bool is_acquire) {
        asked_ = atomic;
        auto& history = histories_[atomic];
        if (running_ == nothing) return history.back().value;
        auto& fiber = fibers_[running_];
        auto const store = forced_ == nothing ? history.size() - 1 : forced_;
        auto const& read = history[store];
        if (forced_ != nothing && !learns_) return read.value;
        fiber.oldest[atomic] = std::max(fiber.oldest[atomic], store);
        if (is_acquire && read.is_release) {
            for (std::size_t i = 0; i < max_ranks; ++i) fiber.events[i] = std::max(fiber.events[i], read.events[i]);
            for (std::size_t i = 0; i < read.oldest.size(); ++i) {
                fiber.oldest[i] = std::max(fiber.oldest[i], read.oldest[i]);
            }
        }
        return read.value;
    }
    void store(std::size_t atomic, std::uint64_t value, bool is_release) {
        auto& history = histories_[atomic];
        Store made;
        made.value = value;
        if (running_ != nothing) {
            auto& fiber = fibers_[running_];
            ++fiber.events[running_];
            fiber.oldest[atomic] = history.size();
            made.events = fiber.events;
            made.oldest = fiber.oldest;
            made.is_release = is_release;
        }
        history.push_back(made);
    }

    std::size_t add_cell() {
        cells_.emplace_back();
        return cells_.size() - 1;
    }
    void touch(std::size_t index, bool is_write) {
        auto& cell = cells_[index];
        auto& fiber = fibers_[running_];
        if (cell.writer != running_ && cell.written > fiber.events[cell.writer]) {
            report("data race: rank " + std::to_string(running_) + (is_write ? " writes" : " reads") + " what rank " +
                   std::to_string(cell.writer) + " writes");
        }
        for (std::size_t rank = 0; is_write && rank < fibers_.size(); ++rank) {
            if (rank == running_ || cell.read[rank] <= fiber.events[rank]) continue;
            report("data race: rank " + std::to_string(running_) + " writes what rank " + std::to_string(rank) +
                   " reads");
        }
        // An event that the next release publishes.
        auto const now = fiber.events[running_] + 1;
        if (is_write) {
            cell.writer = running_;
            cell.written = now;
        } else {
            cell.read[running_] = now;
        }
    }

    std::vector<std::vector<Store>> histories_;
    std::vector<Cell> cells_;
    std::vector<Fiber> fibers_;
    std::function<bool()> const* waiting_[max_ranks]{};
    std::function<void(std::size_t)> const* body_ = nullptr;
    ucontext_t scheduler_{};
    std::vector<Choice> choices_;
    std::size_t depth_ = 0;
    std::size_t running_ = nothing;
    std::size_t asked_ = nothing;
    std::size_t forced_ = nothing;
    bool learns_ = false;
    std::string problem_;
};

/// An atomic as the explorer sees it; made in `prepare`.
template <class T>
class ModelAtomic {
public:
    explicit ModelAtomic(T value = {}) : index_(Explorer::current()->add_atomic(static_cast<std::uint64_t>(value))) {}

    [[nodiscard]] T load(std::memory_order order) const {
        return static_cast<T>(Explorer::current()->load(index_, order == std::memory_order_acquire));
    }
    void store(T value, std::memory_order order) {
        Explorer::current()->store(index_, static_cast<std::uint64_t>(value), order == std::memory_order_release);
    }

private:
    std::size_t index_;
};

/// Plain memory with one value in it; made in `prepare`.
class ModelCell {
public:
    ModelCell() : index_(Explorer::current()->add_cell()) {}

    void write(std::uint64_t value) {
        Explorer::current()->touch(index_, true);
        value_ = value;
    }
    [[nodiscard]] std::uint64_t read() const {
        Explorer::current()->touch(index_, false);
        return value_;
    }

private:
    std::size_t index_;
    std::uint64_t value_ = 0;
};

}  // namespace shardwise::testing
