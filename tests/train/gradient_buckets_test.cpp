// SPDX-License-Identifier: Apache-2.0
#include <shardwise/train/gradient_buckets.hpp>

#include <doctest/doctest.h>

#include "golden_lines.hpp"
#include "marked_processes.hpp"
#include "ranks.hpp"

#include <atomic>
#include <chrono>

using namespace shardwise;
using namespace shardwise::testing;

namespace {

using Gradients = std::vector<std::vector<float>>;
using Buckets = GradientBuckets<Threads>;

constexpr std::int64_t sizes[] = {10, 30, 7, 12};
/// Limits under which these sizes make several buckets.
BucketOptions const small{.first = Bytes{40}, .cap = Bytes{100}};

Deadline soon() {
    return Deadline::after(std::chrono::seconds(20));
}

/// The gradients of a rank in a pass.
Gradients gradients_of(std::int32_t rank, int pass) {
    Gradients out;
    for (std::int64_t i = 0; i < 4; ++i) out.push_back(input_numbers(1000 * rank + 100 * i + 17 * pass, sizes[i]));
    return out;
}
/// Their average, as ranks in order add it up.
Gradients average(std::int32_t ranks, int pass) {
    Gradients out;
    auto const factor = 1.0F / static_cast<float>(ranks);
    for (std::int32_t rank = 0; rank < ranks; ++rank) {
        auto const theirs = gradients_of(rank, pass);
        if (rank == 0) out.resize(theirs.size());
        for (std::size_t i = 0; i < theirs.size(); ++i) {
            out[i].resize(theirs[i].size());
            for (std::size_t k = 0; k < theirs[i].size(); ++k)
                out[i][k] = rank == 0 ? theirs[i][k] * factor : out[i][k] + theirs[i][k] * factor;
        }
    }
    return out;
}

/// One rank's parameters and what averages them.
struct Side {
    HostContext context{HostOptions{.threads = 1, .streams = StreamMode::queued}};
    HostStream stream = context.make_stream();
    Gradients gradients{std::vector<float>(10), std::vector<float>(30), std::vector<float>(7), std::vector<float>(12)};

    List<BucketParameter> parameters(bool is_view) {
        List<BucketParameter> out;
        for (std::size_t i = 0; i < 4; ++i) {
            BucketParameter one{.name = "p" + std::to_string(i), .elements = sizes[i]};
            if (!is_view) one.gradient = {gradients[i].data(), {sizes[i]}};
            out.push_back(one);
        }
        return out;
    }
    void set(Buckets& buckets, bool is_view, std::int32_t i, std::vector<float> const& values, bool adds = false) {
        auto* const to = is_view ? buckets.gradient(i).data() : gradients[static_cast<std::size_t>(i)].data();
        for (std::size_t k = 0; k < values.size(); ++k) to[k] = adds ? to[k] + values[k] : values[k];
    }
    std::vector<float> get(Buckets& buckets, bool is_view, std::int32_t i) {
        if (!is_view) return gradients[static_cast<std::size_t>(i)];
        auto const view = buckets.gradient(i);
        return {view.data(), view.data() + view.elements()};
    }
};

}  // namespace

TEST_CASE("GradientBuckets: averages over ranks, as views and as copies, before and after buckets are made again") {
    for (std::int32_t const ranks : {1, 2, 3}) {
        for (bool const is_view : {false, true}) {
            auto const wrong = on_threads(ranks, [&](Threads& comm) {
                Side rank;
                auto buckets = Buckets::create(comm, rank.context, rank.parameters(is_view), {},
                                               {.sizes = small, .is_view = is_view});
                if (!buckets) return -1;
                int count = 0;
                // Ranks differ in the order of their gradients; rank 0's is everybody's.
                std::int32_t const orders[2][4] = {{3, 1, 0, 2}, {0, 1, 2, 3}};
                for (int pass = 0; pass < 3; ++pass) {
                    count += buckets->begin() ? 0 : 100;
                    auto const own = gradients_of(comm.rank(), pass);
                    for (auto const i : orders[comm.rank() % 2]) {
                        rank.set(*buckets, is_view, i, own[static_cast<std::size_t>(i)]);
                        count += buckets->ready(i, rank.stream) ? 0 : 100;
                    }
                    count += buckets->finish(rank.stream, soon()) ? 0 : 100;
                    auto const expected = average(ranks, pass);
                    for (std::int32_t i = 0; i < 4; ++i)
                        count += rank.get(*buckets, is_view, i) == expected[static_cast<std::size_t>(i)] ? 0 : 1;
                    count += buckets->was_rebuilt() == (pass > 0) ? 0 : 1;
                    auto const expected_buckets =
                        pass == 0 ? List<Bucket>{{0, 1, 2, 3}} : List<Bucket>{{3}, {1}, {0, 2}};
                    count += buckets->buckets() == expected_buckets ? 0 : 1;
                }
                return count;
            });
            CHECK(wrong == std::vector<int>(static_cast<std::size_t>(ranks), 0));
        }
    }
}

TEST_CASE("GradientBuckets: a bucket is reduced while gradients of later ones are still being made") {
    auto const wrong = on_threads(2, [&](Threads& comm) {
        Side rank;
        auto buckets =
            Buckets::create(comm, rank.context, rank.parameters(true), {}, {.sizes = small, .is_view = true});
        if (!buckets) return -1;
        std::atomic<int> reduced{0};
        buckets->set_hook([&](Threads& group, std::int32_t, TensorView<float, 1, Host> gradients) -> Result<> {
            auto const done = all_reduce(group, gradients, ReduceOp::sum);
            ++reduced;
            return done;
        });
        int count = 0;
        for (int pass = 0; pass < 2; ++pass) {
            reduced = 0;
            count += buckets->begin() ? 0 : 100;
            for (std::int32_t i = 4; i-- > 0;) {
                rank.set(*buckets, true, i, std::vector<float>(static_cast<std::size_t>(sizes[i]), 1.0F));
                count += buckets->ready(i, rank.stream) ? 0 : 100;
                if (pass == 0) continue;
                // Whole with 3, with 1 and with 0; no rank goes on before one that is whole is reduced.
                auto const whole = i == 3 || i == 2 ? 1 : i == 1 ? 2 : 3;
                count += comes_true(std::chrono::seconds(60), [&] { return reduced == whole; }) ? 0 : 10;
            }
            count += buckets->finish(rank.stream, soon()) ? 0 : 100;
        }
        count += buckets->buckets() == List<Bucket>{{3}, {2, 1}, {0}} ? 0 : 1000;
        return count;
    });
    CHECK(wrong == std::vector<int>(2, 0));
}

TEST_CASE("GradientBuckets: passes without synchronisation add up, also across the pass that makes buckets again") {
    for (bool const is_view : {false, true}) {
        auto const got = on_threads(2, [&](Threads& comm) {
            Side rank;
            auto buckets =
                Buckets::create(comm, rank.context, rank.parameters(is_view), {}, {.sizes = small, .is_view = is_view});
            auto const run = [&](int pass, bool synchronises, bool adds) {
                bool is_good = buckets->begin(synchronises).has_value();
                auto const own = gradients_of(comm.rank(), pass);
                for (std::int32_t i = 4; i-- > 0;) {
                    rank.set(*buckets, is_view, i, own[static_cast<std::size_t>(i)], adds);
                    is_good = buckets->ready(i, rank.stream) && is_good;
                }
                return buckets->finish(rank.stream, soon()) && is_good;
            };
            // The first synchronising pass is followed by an accumulating one, then by the one that makes buckets again.
            bool is_good = run(0, true, false) && run(1, false, false);
            is_good = is_good && !buckets->was_rebuilt() && run(2, true, true) && buckets->was_rebuilt();
            Gradients out;
            for (std::int32_t i = 0; is_good && i < 4; ++i) out.push_back(rank.get(*buckets, is_view, i));
            return out;
        });
        REQUIRE(got[0].size() == 4);
        CHECK(got[1] == got[0]);
        for (std::size_t i = 0; i < 4; ++i) {
            for (std::size_t k = 0; k < got[0][i].size(); ++k) {
                float sum = 0.0F;
                for (std::int32_t r = 0; r < 2; ++r)
                    sum += (gradients_of(r, 1)[i][k] + gradients_of(r, 2)[i][k]) * 0.5F;
                CHECK(got[0][i][k] == sum);
            }
        }
    }
}

TEST_CASE("GradientBuckets: unused parameters count as 0 where another rank has them, and stay where none has") {
    for (bool const is_view : {false, true}) {
        auto const got = on_threads(2, [&](Threads& comm) {
            Side rank;
            auto sizes_and_search = small;
            sizes_and_search.finds_unused = true;
            auto buckets = Buckets::create(comm, rank.context, rank.parameters(is_view), {},
                                           {.sizes = sizes_and_search, .is_view = is_view});
            Gradients out;
            for (int pass = 0; pass < 2; ++pass) {
                for (std::int32_t i = 0; i < 4; ++i)
                    rank.set(*buckets, is_view, i, std::vector<float>(static_cast<std::size_t>(sizes[i]), 9.0F));
                if (!buckets->begin()) return out;
                // Nobody uses 2, rank 1 alone uses 1.
                for (std::int32_t const i : {3, 1, 0}) {
                    if (i == 1 && comm.rank() == 0) continue;
                    rank.set(*buckets, is_view, i, gradients_of(comm.rank(), pass)[static_cast<std::size_t>(i)]);
                    if (!buckets->ready(i, rank.stream)) return out;
                }
                if (!buckets->finish(rank.stream, soon())) return out;
                if (buckets->was_used(2) || !buckets->was_used(1) || buckets->was_rebuilt()) return out;
            }
            for (std::int32_t i = 0; i < 4; ++i) out.push_back(rank.get(*buckets, is_view, i));
            return out;
        });
        REQUIRE(got[0].size() == 4);
        CHECK(got[1] == got[0]);
        CHECK(got[0][0] == average(2, 1)[0]);
        CHECK(got[0][3] == average(2, 1)[3]);
        CHECK(got[0][2] == std::vector<float>(7, 9.0F));
        auto half = gradients_of(1, 1)[1];
        for (auto& value : half) value *= 0.5F;
        CHECK(got[0][1] == half);
    }
}

TEST_CASE("GradientBuckets: a parameter without a gradient is named on every rank, with what to do") {
    auto const messages = on_threads(3, [&](Threads& comm) {
        Side rank;
        auto buckets = Buckets::create(comm, rank.context, rank.parameters(false), {}, {.sizes = small});
        // A rank that is late hears of the failure while it makes its buckets.
        if (!buckets) return buckets.error().message();
        (void)buckets->begin();
        for (std::int32_t i = 0; i < 4; ++i) {
            if (comm.rank() == 1 && i % 2 == 0) continue;
            (void)buckets->ready(i, rank.stream);
        }
        auto const done = buckets->finish(rank.stream, soon());
        return done ? std::string() : done.error().message();
    });
    for (auto const& message : messages) {
        CHECK(message ==
              "rank 1: gradient buckets: p0: got no gradient in this pass (2 of 4 parameters did not); let it take "
              "part in the "
              "loss, freeze it, or set finds_unused");
    }
}

TEST_CASE("GradientBuckets: a static graph learns in its first pass which parameters have no gradient") {
    auto const run = [&](Threads& comm) {
        auto const ranks = comm.size();
        Side rank;
        auto sizes_and_static = small;
        sizes_and_static.is_static = true;
        auto buckets = Buckets::create(comm, rank.context, rank.parameters(false), {}, {.sizes = sizes_and_static});
        for (int pass = 0; pass < 3; ++pass) {
            CHECK(buckets->begin());
            for (std::int32_t const i : {3, 0, 1}) {
                rank.set(*buckets, false, i, gradients_of(comm.rank(), pass)[static_cast<std::size_t>(i)]);
                CHECK(buckets->ready(i, rank.stream));
            }
            CHECK(buckets->finish(rank.stream, soon()));
            for (std::size_t const i : {0U, 1U, 3U}) CHECK(rank.gradients[i] == average(ranks, pass)[i]);
            CHECK(rank.gradients[2] == std::vector<float>(7));
        }
        CHECK(buckets->buckets() == List<Bucket>{{3}, {0, 1}, {2}});
        // A failure would reach a rank that is late in its last pass: one alone tries.
        if (ranks > 1) return 0;
        CHECK(buckets->begin());
        CHECK(buckets->ready(2, rank.stream).error().reason() == "has a gradient, and had none in the first pass");
        return 0;
    };
    (void)on_threads(1, run);
    (void)on_threads(2, run);
}

TEST_CASE("GradientBuckets: parameters that differ between ranks are refused by name when they are made") {
    auto const messages = on_threads(3, [&](Threads& comm) {
        Side rank;
        auto parameters = rank.parameters(true);
        if (comm.rank() == 2) parameters[1].elements = 31;
        auto const buckets = Buckets::create(comm, rank.context, parameters, {}, {.is_view = true});
        return buckets ? std::string() : buckets.error().message();
    });
    for (auto const& message : messages)
        CHECK(message == "rank 2 and rank 0: p1: differ in size (got 31, expected 30)");
    auto const codes = on_threads(2, [&](Threads& comm) {
        Side rank;
        auto parameters = rank.parameters(true);
        if (comm.rank() == 1) parameters.pop_back();
        auto const buckets = Buckets::create(comm, rank.context, parameters, {}, {.is_view = true});
        return buckets ? ErrorCode::unsupported : buckets.error().code();
    });
    CHECK(codes == std::vector<ErrorCode>(2, ErrorCode::collective_mismatch));
    (void)on_threads(1, [&](Threads& comm) {
        Side rank;
        auto parameters = rank.parameters(false);
        parameters[2].gradient = {};
        CHECK(Buckets::create(comm, rank.context, parameters).error().message() ==
              "gradient buckets: p2: has a gradient of another size (got 0, expected 7)");
        return 0;
    });
}

TEST_CASE("GradientBuckets: rank 0's buffers before each pass, but for the one after a pass without synchronisation") {
    auto const seen = on_threads(2, [&](Threads& comm) {
        Side rank;
        std::vector<float> running(3);
        auto buckets =
            Buckets::create(comm, rank.context, rank.parameters(true), {{running.data(), {3}}}, {.is_view = true});
        std::vector<float> values;
        bool const synchronises[] = {true, false, true, true};
        for (int pass = 0; pass < 4; ++pass) {
            running.assign(3, static_cast<float>(10 * pass + comm.rank()));
            CHECK(buckets->begin(synchronises[pass]));
            values.push_back(running[2]);
            for (std::int32_t i = 0; i < 4; ++i) CHECK(buckets->ready(i, rank.stream));
            CHECK(buckets->finish(rank.stream, soon()));
        }
        return values;
    });
    CHECK(seen[0] == std::vector<float>{0, 10, 20, 30});
    CHECK(seen[1] == std::vector<float>{0, 10, 21, 30});
}

TEST_CASE("GradientBuckets: ranks without data shadow the others, who divide by all ranks or by those that go on") {
    for (bool const by_active : {false, true}) {
        auto const got = on_threads(3, [&](Threads& comm) {
            Side rank;
            auto buckets =
                Buckets::create(comm, rank.context, rank.parameters(true), {},
                                {.sizes = small, .is_view = true, .joins = true, .divides_by_active = by_active});
            std::vector<std::vector<float>> seen;
            // Rank r has 3 - r passes.
            for (int pass = 0; pass < 3 - comm.rank(); ++pass) {
                CHECK(buckets->begin());
                for (std::int32_t i = 0; i < 4; ++i) {
                    rank.set(*buckets, true, i, gradients_of(comm.rank(), pass)[static_cast<std::size_t>(i)]);
                    CHECK(buckets->ready(i, rank.stream));
                }
                CHECK(buckets->finish(rank.stream, soon()));
                seen.push_back(rank.get(*buckets, true, 1));
            }
            for (bool goes_on = true; goes_on;) {
                auto const shadowed = buckets->shadow(rank.stream, soon());
                CHECK(shadowed);
                goes_on = shadowed && *shadowed;
            }
            CHECK(buckets->last_active() == 0);
            return seen;
        });
        for (std::int32_t pass = 0; pass < 3; ++pass) {
            auto const active = 3 - pass;
            auto const factor = 1.0F / static_cast<float>(by_active ? active : 3);
            std::vector<float> expected(30);
            for (std::int32_t r = 0; r < active; ++r) {
                for (std::size_t k = 0; k < 30; ++k) expected[k] += gradients_of(r, pass)[1][k] * factor;
            }
            for (std::int32_t r = 0; r < active; ++r)
                CHECK(got[static_cast<std::size_t>(r)][static_cast<std::size_t>(pass)] == expected);
        }
    }
}

TEST_CASE("GradientBuckets: a hook gets each bucket in order, undivided, and what it leaves is the gradient") {
    auto const got = on_threads(2, [&](Threads& comm) {
        Side rank;
        auto buckets =
            Buckets::create(comm, rank.context, rank.parameters(true), {}, {.sizes = small, .is_view = true});
        std::vector<std::int32_t> numbers;
        buckets->set_hook(
            [&numbers](Threads& group, std::int32_t number, TensorView<float, 1, Host> gradients) -> Result<> {
                numbers.push_back(number);
                return all_reduce(group, gradients, ReduceOp::max);
            });
        for (int pass = 0; pass < 2; ++pass) {
            CHECK(buckets->begin());
            for (std::int32_t i = 4; i-- > 0;) {
                rank.set(
                    *buckets, true, i,
                    std::vector<float>(static_cast<std::size_t>(sizes[i]), 3.0F + static_cast<float>(comm.rank())));
                CHECK(buckets->ready(i, rank.stream));
            }
            CHECK(buckets->finish(rank.stream, soon()));
            CHECK(rank.get(*buckets, true, 2) == std::vector<float>(7, 4.0F));
        }
        return numbers;
    });
    CHECK(got[0] == std::vector<std::int32_t>{0, 0, 1, 2});
    CHECK(got[1] == got[0]);
}

TEST_CASE("GradientBuckets: calls out of order are refused") {
    (void)on_threads(1, [&](Threads& comm) {
        Side rank;
        auto buckets = Buckets::create(comm, rank.context, rank.parameters(true), {}, {.is_view = true});
        CHECK_FALSE(buckets->ready(0, rank.stream));
        CHECK_FALSE(buckets->finish(rank.stream, soon()));
        CHECK(buckets->shadow(rank.stream, soon()).error().code() == ErrorCode::unsupported);
        CHECK(buckets->begin());
        CHECK_FALSE(buckets->begin());
        CHECK_FALSE(buckets->ready(4, rank.stream));
        CHECK_FALSE(buckets->ready(-1, rank.stream));
        CHECK(buckets->ready(0, rank.stream));
        CHECK(buckets->ready(0, rank.stream).error().message() == "gradient buckets: p0: was ready twice in one pass");
        return 0;
    });
}
