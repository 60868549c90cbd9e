// SPDX-License-Identifier: Apache-2.0
#include <shardwise/train/checkpoint/checkpoint_saver.hpp>
#include <shardwise/train/checkpoint/save_checkpoint.hpp>

#include <doctest/doctest.h>

#include "../curve_data.hpp"
#include "../ranks.hpp"
#include "checkpoint_cases.hpp"
#include "pair_sample.hpp"

#include <string>
#include <utility>
#include <vector>

using namespace shardwise;
using namespace shardwise::testing;

namespace {

/// Trains 6 steps, saves after 3 by `ranks` ranks, each with its share of the optimizer's state or all of it; the files.
template <class Rule>
std::map<std::string, std::string> saved_by(std::string_view dtype, std::int32_t ranks, bool is_shared) {
    SmallRun<Rule> run(dtype);
    run.train(0, 3);
    TemporaryFolder const out;
    auto& whole = run.trainer->optimizer();
    auto const target = run.target(out.path());
    auto const done = on_threads(ranks, [&](Threads& comm) -> Result<> {
        if (!is_shared) return save_checkpoint(comm, target, run.state(3), run.trained.weights, whole);
        // This rank's share of the state that one rank has trained.
        TensorPlace const place{comm.size(), comm.rank()};
        HostContext context({.threads = 1});
        auto own = ShardedOptimizer<Rule>::create(context, run.rule, whole.parameters(), place);
        if (!own) return own.error();
        for (std::size_t i = 0; i < whole.parameters().size(); ++i) {
            auto const elements = whole.parameters()[i].weights.elements();
            auto const before = run.rule.state(elements, {0, own->share(i).begin});
            for (std::size_t array = 0; array < own->state(i).count; ++array) {
                auto const to = own->state_memory(i, array);
                auto const width = static_cast<std::size_t>(bits(own->state(i).arrays[array].dtype) / 8);
                auto const* const from = whole.state_memory(i, array).data() +
                                         static_cast<std::size_t>(before.arrays[array].elements) * width;
                std::copy_n(from, to.size(), to.data());
            }
        }
        return save_checkpoint(comm, target, run.state(3), run.trained.weights, *own);
    });
    for (auto const& one : done) REQUIRE_MESSAGE(one, (one ? "" : one.error().message()));
    CHECK(shardwise::detail::entries_of(out.path()) == std::vector<std::string>{"step-000003"});
    return files_of(out / "step-000003");
}

}  // namespace

TEST_CASE("save_checkpoint: tensor-parallel ranks and stages write the bytes of one, and any ranks go on from them") {
    PairSample sample("checkpoint");
    for (std::string_view const dtype : {"float32", "bfloat16"}) {
        CAPTURE(dtype);
        SmallRun<AdamW> run(dtype, {}, 4);
        TemporaryFolder const out;
        auto const [two, four] = save_twice(run, out);
        auto const from = out / "step-000002";
        CHECK(two != four);
        for (auto const& ranks :
             {Ranks{1, 1}, Ranks{2, 2}, Ranks{4, 2, ZeroStage::gradients}, Ranks{4, 4},
              Ranks{8, 4, ZeroStage::optimizer}, Ranks{2, 1, ZeroStage::none, 2}, Ranks{4, 1, ZeroStage::optimizer, 2},
              Ranks{8, 2, ZeroStage::gradients, 2}, Ranks{3, 1, ZeroStage::weights}, Ranks{4, 2, ZeroStage::weights},
              Ranks{2, 1, ZeroStage::none, 2, PipelineKind::zero_bubble_v},
              Ranks{8, 2, ZeroStage::weights, 2, PipelineKind::zero_bubble_v}}) {
            CAPTURE(ranks.all);
            CAPTURE(ranks.pp);
            CAPTURE(ranks.tp);
            auto const of = [](char const* name, auto value) { return name + std::to_string(static_cast<int>(value)); };
            if (!sample.takes({of("dp ", ranks.all / ranks.tp / ranks.pp), of("tp ", ranks.tp), of("pp ", ranks.pp),
                               of("zero ", ranks.zero), of("pipeline ", ranks.pipeline)},
                              {std::string(dtype)}))
                continue;
            CHECK(trained_by(run, ranks, {}, 0, 2) == two);
            CHECK(trained_by(run, ranks, from, 2, 4) == four);
        }
    }
}

TEST_CASE(
    "save_checkpoint: ranks that share one key-value head and have another one alone write the bytes of one, where one "
    "product makes queries, keys and values") {
    for (auto const* const name : {"phi3", "falcon_groups"}) {
        CAPTURE(name);
        SmallRun<AdamW> run(golden_config(name), {});
        TemporaryFolder const out;
        auto const [two, four] = save_twice(run, out);
        for (auto const& ranks : {Ranks{3, 3}, Ranks{4, 4}, Ranks{6, 3, ZeroStage::optimizer}}) {
            CAPTURE(ranks.all);
            CHECK(trained_by(run, ranks, {}, 0, 2) == two);
            CHECK(trained_by(run, ranks, out / "step-000002", 2, 4) == four);
        }
    }
}

TEST_CASE(
    "save_checkpoint: weights in bfloat16 are saved with what rounding took, and no masters; any ranks go on from "
    "them") {
    SmallRun<KahanSum<AdamW>> run("bfloat16");
    CHECK(run.layout->state("kahan_comp.lm_head.weight"));
    CHECK_FALSE(run.layout->state("master.lm_head.weight"));
    TemporaryFolder const out;
    auto const [two, four] = save_twice(run, out);
    auto const from = out / "step-000002";
    for (auto const& ranks : {Ranks{1, 1}, Ranks{3, 1, ZeroStage::optimizer}, Ranks{2, 1, ZeroStage::weights}}) {
        CAPTURE(ranks.all);
        CHECK(trained_by(run, ranks, {}, 0, 2) == two);
        CHECK(trained_by(run, ranks, from, 2, 4) == four);
    }
    auto const refused = CheckpointLayout::create(SmallRun<AdamW>().trained.model(), KahanSum<AdamW>{});
    REQUIRE_FALSE(refused);
    CHECK(refused.error().message().find("without float32 masters") != std::string::npos);
}

TEST_CASE_TEMPLATE("save_checkpoint: the bytes are the same from any ranks, with the state whole or by shares", Rule,
                   AdamW, Sgd, Adam8bit) {
    for (std::string_view const dtype : {"float32", "bfloat16"}) {
        auto const one = saved_by<Rule>(dtype, 1, false);
        REQUIRE(one.size() == 4);
        CHECK(one.contains("model.safetensors"));
        CHECK(one.contains("optimizer.safetensors"));
        CHECK(one.contains("config.json"));
        CHECK(one.at("trainer_state.json").find("rank") == std::string::npos);
        for (std::int32_t const ranks : {2, 3, 4}) {
            CAPTURE(ranks);
            CHECK(saved_by<Rule>(dtype, ranks, false) == one);
            CHECK(saved_by<Rule>(dtype, ranks, true) == one);
        }
    }
}

TEST_CASE("save_checkpoint: weights are rounded to the config's dtype, and the folder is a model") {
    for (std::string_view const dtype : {"float32", "bfloat16", "float16"}) {
        CAPTURE(dtype);
        SmallRun<AdamW> run(dtype);
        run.train(0, 2);
        TemporaryFolder const out;
        REQUIRE(run.save(out.path(), 2));
        auto const source = find_model(out / "step-000002", {}, HubCache(HubEnvironment{}));
        REQUIRE(source);
        auto const read = read_checkpoint(*source);
        REQUIRE_MESSAGE(read, (read ? "" : read.error().message()));
        auto const stored = StoredParameters::open(*source, read->model);
        REQUIRE(stored);
        HostContext context({.threads = 1});
        auto loaded = TrainingWeights::load(context, *stored);
        REQUIRE(loaded);
        for (std::size_t i = 0; i < loaded->layout().parameters().size(); ++i) {
            auto const trained = run.trained.weights.values(i);
            auto const saved = loaded->values(i);
            std::int64_t different = 0;
            for (std::int64_t k = 0; k < saved.elements(); ++k) {
                auto const value = trained.data()[k];
                auto const expected = dtype == "float16"    ? from_f16(to_f16(value))
                                      : dtype == "bfloat16" ? from_bf16(to_bf16(value))
                                                            : value;
                different += saved.data()[k] == expected ? 0 : 1;
            }
            CHECK(different == 0);
        }
    }
}

TEST_CASE("save_checkpoint: a weight that its dtype has no number for is named, and nothing is left") {
    SmallRun<AdamW> run("float16");
    TemporaryFolder const out;
    run.trained.weights.values(3).data()[5] = 70000.0F;
    auto const saved = run.save(out.path(), 1);
    REQUIRE_FALSE(saved);
    CHECK(saved.error().place() == run.trained.weights.layout().parameters()[3].name);
    CHECK(saved.error().reason() == "is no number in float16 at element 5");
    CHECK(shardwise::detail::entries_of(out.path()).empty());
}

TEST_CASE("save_checkpoint: as many stay as are kept, later ones of another run and left-over folders go") {
    SmallRun<AdamW> run;
    TemporaryFolder const out;
    auto const folders = [&] { return shardwise::detail::entries_of(out.path()); };
    using Names = std::vector<std::string>;
    for (std::int64_t step = 1; step <= 4; ++step) REQUIRE(run.save(out.path(), step, 2));
    CHECK(folders() == Names{"step-000003", "step-000004"});
    // The run is begun again: what went further is no part of it.
    REQUIRE(run.save(out.path(), 2, 2));
    CHECK(folders() == Names{"step-000002"});
    // The same step again takes the place of the first.
    run.train(0, 1);
    REQUIRE(run.save(out.path(), 2, 2));
    CHECK(folders() == Names{"step-000002"});
    CHECK(files_of(out / "step-000002").size() == 4);
    CHECK(verify_checkpoint(out / "step-000002", *run.layout));

    (void)out.write(".saving-step-000003/model.safetensors", "half");
    (void)out.write(".removed-1/config.json", "half");
    (void)out.write("step-notes/mine.txt", "stays");
    REQUIRE(remove_leftovers(out.path()));
    CHECK(folders() == Names{"step-000002", "step-notes"});
    CHECK(list_checkpoints(out.path()) == std::vector<std::int64_t>{2});
    CHECK(remove_leftovers(out / "absent"));
    CHECK(checkpoint_name(1234567) == "step-1234567");
    CHECK(checkpoint_step("step-1234567") == 1234567);
    for (auto const* const name : {"step-", "step-4", "step-00000x", "step--00004", "step-0000004", "steps"})
        CHECK_FALSE(checkpoint_step(name));
}

TEST_CASE("CheckpointWriter: ranges that leave elements out, or write them twice, make no checkpoint") {
    SmallRun<AdamW> run;
    TemporaryFolder const out;
    auto const group = ThreadsGroup::create(1);
    auto comm = group->join(0);
    auto parts = TrainedModel::take(checkpoint_parts(*run.layout, run.trained.weights, run.trainer->optimizer()));
    auto const save = [&] {
        return save_checkpoint(*comm, run.target(out.path()), run.state(1),
                               Span<CheckpointPart const>(parts.data(), parts.size()));
    };
    auto const last = parts.back();
    parts.pop_back();
    auto const missing = save();
    REQUIRE_FALSE(missing);
    CHECK(missing.error().message().find("that no rank has written") != std::string::npos);
    parts.push_back(last);
    parts.push_back(last);
    CHECK_FALSE(save());
    parts.pop_back();
    parts.back().first += 1;
    auto const beyond = save();
    REQUIRE_FALSE(beyond);
    CHECK(beyond.error().message().find("is given elements beyond its own") != std::string::npos);
    CHECK(shardwise::detail::entries_of(out.path()).empty());
    parts.back().first -= 1;
    CHECK(save());
}
