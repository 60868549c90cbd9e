#include <shardwise/comm/all_reduce.hpp>
#include <shardwise/comm/threads.hpp>
#include <shardwise/executor/rank_executor.hpp>
#include <shardwise/json/value.hpp>
#include <shardwise/memory/estimator.hpp>
#include <shardwise/model/files/checkpoint.hpp>

#include <doctest/doctest.h>

#include "formula.hpp"
#include "temporary_folder.hpp"
#include "written_files.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace shardwise;
using namespace shardwise::testing;

/// What transformers computes with one small model.
struct Case {
    std::string name;
    std::string config;
    std::vector<std::int32_t> ids;
    /// Behind so many tokens, the logits.
    std::vector<std::pair<std::int64_t, std::vector<float>>> logits;
    std::uint64_t seed = 0;
};

std::vector<Case> const& golden() {
    static std::vector<Case> const cases = [] {
        std::vector<Case> out;
        for (std::string const name : {"logits", "latent", "scaled", "classic", "experts"}) {
            std::ifstream file(SHARDWISE_SOURCE_DIR "/tests/golden/executor/" + name + ".json");
            std::stringstream text;
            text << file.rdbuf();
            auto const document = parse_json(text.str());
            REQUIRE(document);
            for (auto const entry : document->root()) {
                Case one{std::string(entry.key()), std::string(*entry.find("config")->string()), {}, {}};
                if (auto const seed = entry.find("seed")) one.seed = static_cast<std::uint64_t>(*seed->integer());
                auto const ids = entry.find("ids");
                auto const logits = entry.find("logits");
                for (auto const id : *ids) one.ids.push_back(static_cast<std::int32_t>(*id.integer()));
                for (auto const row : *logits) {
                    one.logits.push_back({std::stoll(std::string(row.key())), {}});
                    for (auto const value : row) one.logits.back().second.push_back(static_cast<float>(*value.real()));
                }
                out.push_back(std::move(one));
            }
        }
        return out;
    }();
    return cases;
}

/// A model on disk, as its files describe it.
struct OnDisk {
    TemporaryFolder folder;
    ModelSource source;
    std::optional<Checkpoint> checkpoint;

    explicit OnDisk(std::string const& config, std::uint64_t seed = 0) {
        (void)folder.write("config.json", config);
        auto const only = find_model(folder / "config.json", {}, HubCache(HubEnvironment{}));
        REQUIRE(only);
        auto const described = read_checkpoint(*only);
        REQUIRE_MESSAGE(described, (described ? "" : described.error().message()));
        write_formula_model(described->model, folder / "model.safetensors", seed);
        auto found = find_model(folder.path(), {}, HubCache(HubEnvironment{}));
        REQUIRE(found);
        source = *found;
        auto read = read_checkpoint(source);
        REQUIRE_MESSAGE(read, (read ? "" : read.error().message()));
        checkpoint.emplace(std::move(*read));
    }
};

/// The logits behind each of some numbers of tokens, computed in steps between them, the last ones a token at a time.
template <class Policy>
std::vector<std::vector<float>> compute(OnDisk const& model, Case const& one, std::int32_t ranks,
                                        StreamMode mode = StreamMode::immediate) {
    auto const parameters = StoredParameters::open(model.source, model.checkpoint->model);
    REQUIRE_MESSAGE(parameters, (parameters ? "" : parameters.error().message()));
    auto const vocabulary = model.checkpoint->model.config.vocab_size;
    std::vector<std::vector<float>> out;
    auto const done = run_threads(ranks, [&](Threads& comm) -> Result<> {
        HostContext context({.threads = 1, .streams = mode});
        auto stream = context.make_stream();
        auto executor = RankExecutor<Host, Policy>::create(context, model.checkpoint->model, *parameters,
                                                           {comm.size(), comm.rank()},
                                                           {.sequences = 2, .context = 32, .step_tokens = 16});
        if (!executor) return executor.error();
        CHECK(context.memory().current() ==
              executor->weight_bytes() + executor->cache_bytes() + executor->activation_bytes());
        // Of a latent attention the cache holds the latents alone, on every rank.
        auto const& config = model.checkpoint->model.config;
        if (config.kv_lora_rank > 0) {
            auto const width = config.kv_lora_rank + config.qk_rope_head_dim;
            CHECK(executor->cache_bytes().count() == 2 * 32 * config.layers * width * 4);
        }
        auto const peak = context.memory().peak();
        std::vector<float> logits(static_cast<std::size_t>(vocabulary));
        TensorView<float, 2, Host> const view(logits.data(), {1, vocabulary});
        std::int64_t past = 0;
        for (auto const& [behind, expected] : one.logits) {
            auto const step = one.logits.size() > 1 && behind == one.logits.back().first ? 1 : behind - past;
            while (past < behind) {
                SequencePart const part{1, past, step};
                std::span<std::int32_t const> const ids(one.ids.data() + past, static_cast<std::size_t>(step));
                if (auto const ran = executor->forward(ids, {&part, 1}, view, comm, stream); !ran) return ran;
                if (auto const ended = stream.synchronize(Deadline::after(std::chrono::seconds(20))); !ended)
                    return ended;
                past += step;
            }
            if (comm.rank() == 0) out.push_back(logits);
        }
        // Nothing is allocated while it runs.
        CHECK(context.memory().peak() == peak);
        return {};
    });
    CHECK_MESSAGE(done, (done ? "" : done.error().message()));
    return out;
}

double worst(std::vector<float> const& got, std::vector<float> const& expected) {
    double most = got.size() == expected.size() ? 0.0 : 1e9;
    for (std::size_t i = 0; i < got.size() && i < expected.size(); ++i)
        most = std::max(most, std::abs(static_cast<double>(got[i]) - static_cast<double>(expected[i])));
    return most;
}

TEST_CASE("RankExecutor: logits of every family are transformers' within 1e-4, in chunks and a token at a time") {
    for (auto const& one : golden()) {
        CAPTURE(one.name);
        OnDisk const model(one.config, one.seed);
        auto const logits = compute<Fast>(model, one, 1);
        REQUIRE(logits.size() == one.logits.size());
        for (std::size_t i = 0; i < logits.size(); ++i) {
            CAPTURE(one.logits[i].first);
            CHECK(worst(logits[i], one.logits[i].second) < 1e-4);
        }
    }
}

TEST_CASE("RankExecutor: Deterministic gives the same bits for any number of ranks, Fast the same within 1e-4") {
    for (auto const& one : golden()) {
        CAPTURE(one.name);
        OnDisk const model(one.config, one.seed);
        auto const alone = compute<Deterministic>(model, one, 1);
        for (std::int32_t const ranks : {2, 3, 4, 6}) {
            bool const is_odd = one.name == "mixtral" || one.name == "qwen3_moe" || one.name == "gpt_oss" ||
                                one.name.starts_with("qwen2") || one.name == "gpt2" || one.name == "deepseek_v3" ||
                                one.name == "deepseek_v3_experts" || one.name == "gpt_neox";
            if (ranks > 2 && !is_odd) continue;
            CAPTURE(ranks);
            CHECK(compute<Deterministic>(model, one, ranks) == alone);
        }
        auto const fast = compute<Fast>(model, one, 2);
        for (std::size_t i = 0; i < fast.size(); ++i) CHECK(worst(fast[i], one.logits[i].second) < 1e-4);
    }
}

/// What each of some groups makes of a sequence of its own, in steps of five tokens: the logits behind each step.
template <class Policy>
std::vector<std::vector<float>> compute_groups(OnDisk const& model,
                                               std::vector<std::vector<std::int32_t>> const& sequences,
                                               std::int32_t tp) {
    auto const parameters = StoredParameters::open(model.source, model.checkpoint->model);
    REQUIRE(parameters);
    auto const vocabulary = model.checkpoint->model.config.vocab_size;
    auto const groups = static_cast<std::int32_t>(sequences.size());
    std::size_t steps = 0;
    for (auto const& sequence : sequences) steps = std::max(steps, (sequence.size() + 4) / 5);
    std::vector<std::vector<float>> out(sequences.size());
    auto const done = run_threads(groups * tp, [&](Threads& world) -> Result<> {
        auto const group = world.rank() / tp;
        auto const member = world.rank() % tp;
        auto comm = world.split(group);
        if (!comm) return comm.error();
        auto peers = world.split(member);
        if (!peers) return peers.error();
        HostContext context({.threads = 1});
        auto stream = context.make_stream();
        auto executor =
            RankExecutor<Host, Policy>::create(context, model.checkpoint->model, *parameters, {tp, member},
                                               {.sequences = 1, .context = 32, .step_tokens = 5}, {groups, group});
        if (!executor) return executor.error();
        auto exchange = executor->make_exchange(context, *peers);
        if (!exchange) return exchange.error();
        auto const& ids = sequences[static_cast<std::size_t>(group)];
        std::vector<float> logits(static_cast<std::size_t>(vocabulary));
        for (std::size_t step = 0; step < steps; ++step) {
            auto const past = std::min(step * 5, ids.size());
            auto const count = std::min<std::size_t>(5, ids.size() - past);
            SequencePart const part{0, static_cast<std::int64_t>(past), static_cast<std::int64_t>(count)};
            TensorView<float, 2, Host> const view(logits.data(), {1, vocabulary});
            auto const ran = count > 0 ? executor->forward(std::span(ids).subspan(past, count), {&part, 1}, view, *comm,
                                                           &*exchange, stream)
                                       : executor->join_step(*comm, *exchange, stream);
            if (!ran) return ran;
            if (auto const ended = stream.synchronize(Deadline::after(std::chrono::seconds(20))); !ended) return ended;
            auto& made = out[static_cast<std::size_t>(group)];
            if (count > 0 && member == tp - 1) made.insert(made.end(), logits.begin(), logits.end());
        }
        return {};
    });
    CHECK_MESSAGE(done, (done ? "" : done.error().message()));
    return out;
}

TEST_CASE(
    "RankExecutor: experts dealt to ranks with sequences of their own give the bits of one rank, for any (tp, ep)") {
    for (auto const& one : golden()) {
        if (one.name != "deepseek_v3_experts" && one.name != "qwen2_moe_normed" && one.name != "gpt_oss") continue;
        CAPTURE(one.name);
        OnDisk const model(one.config, one.seed);
        auto other = one.ids;
        std::reverse(other.begin(), other.end());
        std::vector<std::vector<std::int32_t>> const sequences{
            one.ids, {other.begin(), other.begin() + 7}, {other.begin() + 2, other.begin() + 15}, {}};
        std::vector<std::vector<float>> alone;
        for (auto const& sequence : sequences) alone.push_back(compute_groups<Deterministic>(model, {sequence}, 1)[0]);
        for (auto const& degrees : {std::pair{1, 2}, {1, 4}, {2, 2}, {3, 3}}) {
            auto const tp = degrees.first;
            auto const ep = degrees.second;
            CAPTURE(tp);
            CAPTURE(ep);
            std::vector<std::vector<std::int32_t>> const some(sequences.begin(), sequences.begin() + ep);
            auto const groups = compute_groups<Deterministic>(model, some, tp);
            for (std::size_t i = 0; i < groups.size(); ++i) CHECK(groups[i] == alone[i]);
        }
        auto const fast = compute_groups<Fast>(model, {sequences[0], sequences[1]}, 2);
        for (std::size_t i = 0; i < fast.size(); ++i) CHECK(worst(fast[i], alone[i]) < 1e-4);
    }
}

TEST_CASE("RankExecutor: ranks that share experts are checked") {
    auto const& one =
        *std::find_if(golden().begin(), golden().end(), [](auto const& c) { return c.name == "mixtral"; });
    OnDisk const model(one.config, one.seed);
    auto const parameters = StoredParameters::open(model.source, model.checkpoint->model);
    REQUIRE(parameters);
    HostContext context({.threads = 1});
    auto stream = context.make_stream();
    ExecutorLimits const limits{.sequences = 1, .context = 8, .step_tokens = 4};
    auto const create = [&](TensorPlace experts) {
        return RankExecutor<Host, Fast>::create(context, model.checkpoint->model, *parameters, {}, limits, experts);
    };
    auto const too_many = create({6, 0});
    REQUIRE_FALSE(too_many);
    CHECK(too_many.error().message().find("more ranks than the model has experts") != std::string::npos);
    auto half = create({2, 1});
    REQUIRE(half);
    auto const whole = create({});
    REQUIRE(whole);
    CHECK(half->weight_bytes() < whole->weight_bytes());
    auto const done = run_threads(1, [&](Threads& comm) -> Result<> {
        std::int32_t const ids[] = {1};
        SequencePart const part{0, 0, 1};
        std::vector<float> logits(97);
        TensorView<float, 2, Host> const view(logits.data(), {1, 97});
        auto const alone = half->forward(ids, {&part, 1}, view, comm, stream);
        REQUIRE_FALSE(alone);
        CHECK(alone.error().message().find("needs an exchange") != std::string::npos);
        CHECK_FALSE(half->make_exchange(context, comm));
        return {};
    });
    CHECK(done);
}

TEST_CASE("RankExecutor: what a sequence of a model with experts becomes does not depend on the batch") {
    for (auto const& one : golden()) {
        if (one.name != "qwen2_moe" && one.name != "gpt_oss") continue;
        CAPTURE(one.name);
        OnDisk const model(one.config, one.seed);
        auto const parameters = StoredParameters::open(model.source, model.checkpoint->model);
        REQUIRE(parameters);
        // The same tokens in slot 1, beside those of another sequence in slot 0 or alone.
        auto const behind = [&](std::int64_t others) {
            std::vector<float> logits(2 * 97);
            auto const done = run_threads(1, [&](Threads& comm) -> Result<> {
                HostContext context({.threads = 1});
                auto stream = context.make_stream();
                auto executor =
                    RankExecutor<Host, Deterministic>::create(context, model.checkpoint->model, *parameters, {},
                                                              {.sequences = 2, .context = 32, .step_tokens = 32});
                if (!executor) return executor.error();
                std::vector<std::int32_t> ids(one.ids.begin(), one.ids.begin() + others);
                ids.insert(ids.end(), one.ids.begin(), one.ids.begin() + 9);
                std::vector<SequencePart> parts{{1, 0, 9}};
                if (others > 0) parts.insert(parts.begin(), {0, 0, others});
                TensorView<float, 2, Host> const view(logits.data(), {static_cast<std::int64_t>(parts.size()), 97});
                if (auto const ran = executor->forward(ids, parts, view, comm, stream); !ran) return ran;
                return stream.synchronize(Deadline::after(std::chrono::seconds(20)));
            });
            CHECK_MESSAGE(done, (done ? "" : done.error().message()));
            return std::vector<float>(logits.begin() + (others > 0 ? 97 : 0), logits.begin() + (others > 0 ? 194 : 97));
        };
        CHECK(behind(0) == behind(13));
    }
}

TEST_CASE("RankExecutor: experts' rows that ranks sum in parts give the bits of one rank") {
    // 96 tokens with 3 experts each: more than one shot of 16 Ki elements.
    OnDisk const model(
        R"({"model_type":"mixtral","vocab_size":31,"hidden_size":72,"intermediate_size":40,"num_hidden_layers":1,)"
        R"("num_attention_heads":6,"num_key_value_heads":2,"num_local_experts":4,"num_experts_per_tok":3})");
    auto const parameters = StoredParameters::open(model.source, model.checkpoint->model);
    REQUIRE(parameters);
    auto const behind = [&](std::int32_t ranks) {
        std::vector<float> out;
        auto const done = run_threads(ranks, [&](Threads& comm) -> Result<> {
            HostContext context({.threads = 1});
            auto stream = context.make_stream();
            auto executor = RankExecutor<Host, Deterministic>::create(
                context, model.checkpoint->model, *parameters, {comm.size(), comm.rank()},
                {.sequences = 1, .context = 96, .step_tokens = 96});
            if (!executor) return executor.error();
            std::vector<std::int32_t> ids(96);
            for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(i * i % 31);
            SequencePart const part{0, 0, 96};
            std::vector<float> logits(31);
            TensorView<float, 2, Host> const view(logits.data(), {1, 31});
            if (auto const ran = executor->forward(ids, {&part, 1}, view, comm, stream); !ran) return ran;
            if (auto const ended = stream.synchronize(Deadline::after(std::chrono::seconds(20))); !ended) return ended;
            if (comm.rank() == 0) out = logits;
            return {};
        });
        CHECK_MESSAGE(done, (done ? "" : done.error().message()));
        return out;
    };
    CHECK(behind(3) == behind(1));
}

TEST_CASE("RankExecutor: a stream that queues its work gives the same bits") {
    for (auto const& one : golden()) {
        if (one.name != "llama" && one.name != "mixtral") continue;
        OnDisk const model(one.config, one.seed);
        CHECK(compute<Fast>(model, one, 2, StreamMode::queued) == compute<Fast>(model, one, 2));
    }
}

/// An encoder's states and results as transformers gives them, sequences one behind another.
struct EncoderCase {
    std::string name, config;
    std::uint64_t seed = 0;
    std::vector<std::vector<std::int32_t>> sequences;
    std::vector<float> hidden, output;
};

std::vector<EncoderCase> encoders() {
    std::ifstream file(SHARDWISE_SOURCE_DIR "/tests/golden/executor/encoders.json");
    std::stringstream text;
    text << file.rdbuf();
    auto const document = parse_json(text.str());
    REQUIRE(document);
    std::vector<EncoderCase> out;
    for (auto const entry : document->root()) {
        EncoderCase one;
        one.name = entry.key();
        one.config = *entry.find("config")->string();
        one.seed = static_cast<std::uint64_t>(*entry.find("seed")->integer());
        auto const sequences = entry.find("sequences");
        for (auto const sequence : *sequences) {
            one.sequences.emplace_back();
            for (auto const id : sequence) one.sequences.back().push_back(static_cast<std::int32_t>(*id.integer()));
        }
        auto const read = [&](char const* key, std::vector<float>& to) {
            auto const values = entry.find(key);
            for (auto const value : *values) to.push_back(static_cast<float>(*value.real()));
        };
        read("hidden", one.hidden);
        read("output", one.output);
        out.push_back(std::move(one));
    }
    return out;
}

/// What an encoder makes of some sequences in one step.
template <class Policy>
std::vector<float> encode(OnDisk const& model, std::vector<std::vector<std::int32_t>> const& sequences, bool has_head,
                          std::int32_t ranks) {
    auto const parameters = StoredParameters::open(model.source, model.checkpoint->model);
    REQUIRE(parameters);
    std::vector<std::int32_t> ids;
    std::vector<SequencePart> parts;
    for (auto const& sequence : sequences) {
        parts.push_back({static_cast<std::int64_t>(parts.size()), 0, static_cast<std::int64_t>(sequence.size())});
        ids.insert(ids.end(), sequence.begin(), sequence.end());
    }
    std::vector<float> out;
    auto const done = run_threads(ranks, [&](Threads& comm) -> Result<> {
        HostContext context({.threads = 1});
        auto stream = context.make_stream();
        auto executor = RankExecutor<Host, Policy>::create(
            context, model.checkpoint->model, *parameters, {comm.size(), comm.rank()},
            {.sequences = 3, .context = 20, .step_tokens = 24, .has_head = has_head});
        if (!executor) return executor.error();
        // Only decoders look back.
        CHECK((executor->cache_bytes().count() > 0) == (model.checkpoint->model.config.model_type.view() == "llama"));
        auto const& made = executor->output();
        auto const rows = made.rows == Rows::tokens ? ids.size() : parts.size();
        std::vector<float> values(rows * static_cast<std::size_t>(made.width));
        TensorView<float, 2, Host> const view(values.data(), {static_cast<std::int64_t>(rows), made.width});
        if (auto const ran = executor->forward(ids, parts, view, comm, stream); !ran) return ran;
        if (auto const ended = stream.synchronize(Deadline::after(std::chrono::seconds(20))); !ended) return ended;
        if (comm.rank() == comm.size() - 1) out = std::move(values);
        return {};
    });
    CHECK_MESSAGE(done, (done ? "" : done.error().message()));
    return out;
}

TEST_CASE("RankExecutor: states, pooled and masked results of encoders are transformers' within 1e-4, over any ranks") {
    for (auto const& one : encoders()) {
        CAPTURE(one.name);
        OnDisk const model(one.config, one.seed);
        CHECK(worst(encode<Fast>(model, one.sequences, false, 1), one.hidden) < 1e-4);
        CHECK(worst(encode<Fast>(model, one.sequences, true, 3), one.output) < 1e-4);
        auto const alone = encode<Deterministic>(model, one.sequences, true, 1);
        CHECK(worst(alone, one.output) < 1e-4);
        for (std::int32_t const ranks : {2, 3, 4})
            CHECK(encode<Deterministic>(model, one.sequences, true, ranks) == alone);
    }
}

TEST_CASE("RankExecutor: an encoder takes its sequences whole") {
    auto const one = encoders().front();
    OnDisk const model(one.config, one.seed);
    auto const parameters = StoredParameters::open(model.source, model.checkpoint->model);
    REQUIRE(parameters);
    auto const done = run_threads(1, [&](Threads& comm) -> Result<> {
        HostContext context({.threads = 1});
        auto stream = context.make_stream();
        auto executor = RankExecutor<Host, Fast>::create(context, model.checkpoint->model, *parameters, {1, 0},
                                                         {.sequences = 1, .context = 8, .step_tokens = 8});
        if (!executor) return executor.error();
        std::vector<float> values(36);
        TensorView<float, 2, Host> const view(values.data(), {1, 36});
        SequencePart const part{0, 2, 2};
        std::int32_t const ids[] = {1, 2};
        return executor->forward(ids, {&part, 1}, view, comm, stream);
    });
    REQUIRE_FALSE(done);
    CHECK(done.error().code() == ErrorCode::invalid_argument);
    CHECK(done.error().message().find("sees in both directions") != std::string::npos);
}

/// What ranks held and read, and the logits behind all ids.
struct Loaded {
    std::vector<float> logits;
    std::vector<Bytes> weights;
    std::vector<Bytes> read;
};
template <class Policy>
Loaded load_and_run(ModelSource const& source, Model const& model, std::vector<std::int32_t> const& ids,
                    std::int32_t ranks, LoadOptions const& options = {}) {
    auto const parameters = StoredParameters::open(source, model);
    REQUIRE_MESSAGE(parameters, (parameters ? "" : parameters.error().message()));
    Loaded out;
    out.weights.resize(static_cast<std::size_t>(ranks));
    out.read.resize(static_cast<std::size_t>(ranks));
    auto const done = run_threads(ranks, [&](Threads& comm) -> Result<> {
        HostContext context({.threads = 1});
        auto stream = context.make_stream();
        auto executor =
            RankExecutor<Host, Policy>::create(context, model, *parameters, {comm.size(), comm.rank()},
                                               {.sequences = 1, .context = 16, .step_tokens = 16}, {}, options);
        if (!executor) return executor.error();
        auto const rank = static_cast<std::size_t>(comm.rank());
        out.weights[rank] = executor->weight_bytes();
        out.read[rank] = executor->bytes_read();
        std::vector<float> logits(static_cast<std::size_t>(model.config.vocab_size));
        TensorView<float, 2, Host> const view(logits.data(), {1, model.config.vocab_size});
        SequencePart const part{0, 0, static_cast<std::int64_t>(ids.size())};
        if (auto const ran = executor->forward(ids, {&part, 1}, view, comm, stream); !ran) return ran;
        if (auto const ended = stream.synchronize(Deadline::after(std::chrono::seconds(20))); !ended) return ended;
        if (rank == 0) out.logits = logits;
        return {};
    });
    CHECK_MESSAGE(done, (done ? "" : done.error().message()));
    return out;
}

/// Holds checkpoints of a folder to the references' logits, over 1 and more ranks; what one rank held of each.
std::vector<Bytes> check_packed(std::string const& folder, std::vector<std::int32_t> const& more) {
    auto const root = std::string(SHARDWISE_SOURCE_DIR) + "/tests/golden/" + folder + "/";
    std::stringstream text;
    text << std::ifstream(root + "expected.json").rdbuf();
    auto const document = parse_json(text.str());
    REQUIRE(document);
    auto const ids_entry = document->root().find("ids");
    auto const cases = document->root().find("cases");
    std::vector<std::int32_t> ids;
    for (auto const id : *ids_entry) ids.push_back(static_cast<std::int32_t>(*id.integer()));
    std::vector<Bytes> held;
    for (auto const one : *cases) {
        auto const name = std::string(one.key());
        CAPTURE(name);
        auto const source = find_model(root + name, {}, HubCache(HubEnvironment{}));
        REQUIRE(source);
        auto const checkpoint = read_checkpoint(*source);
        REQUIRE_MESSAGE(checkpoint, (checkpoint ? "" : checkpoint.error().message()));
        std::vector<float> expected;
        auto const logits = one.find("logits");
        for (auto const value : *logits) expected.push_back(static_cast<float>(*value.real()));
        auto const alone = load_and_run<Deterministic>(*source, checkpoint->model, ids, 1);
        // Sums of at most 192 products in fp32 of values below 10, seven layers deep: 192 * 2^-24 * 10 and some.
        CHECK(worst(alone.logits, expected) < 1e-4);
        for (auto const ranks : more)
            CHECK(load_and_run<Deterministic>(*source, checkpoint->model, ids, ranks).logits == alone.logits);
        held.push_back(alone.weights[0]);
    }
    return held;
}

TEST_CASE(
    "RankExecutor: logits of bitsandbytes, GPTQ, AWQ and fp8 checkpoints are the references', over 1 and 2 ranks") {
    CHECK(check_packed("packed", {2}).size() > 8);
}

TEST_CASE("RankExecutor: gpt_oss as it is published, MXFP4 or bf16, is computed on as it is, over 1 to 4 ranks") {
    auto const held = check_packed("packed_experts", {2, 3, 4});
    REQUIRE(held.size() == 2);
    // The experts alone have 55296 elements: decoded, to bf16 even, they would take more.
    CHECK(held[0] < Bytes{2 * 55296});
}

constexpr auto even_llama =
    R"({"model_type":"llama","vocab_size":96,"hidden_size":128,"intermediate_size":256,"num_hidden_layers":2,)"
    R"("num_attention_heads":4,"num_key_value_heads":4,"head_dim":32,"max_position_embeddings":64})";

/// The name of a parameter in GGUF files.
std::string gguf_name(Model const& model, std::string_view name) {
    std::string pattern, number;
    for (std::size_t i = 0; i < name.size(); ++i) {
        // Of the layer, a component of its own.
        bool const begins = i > 0 && name[i - 1] == '.' && number.empty();
        if (!begins || name[i] < '0' || name[i] > '9') {
            pattern += name[i];
            continue;
        }
        number = name.substr(i, name.find('.', i) - i);
        pattern += "{}";
        i += number.size() - 1;
    }
    std::string out;
    Architectures::with(model.config.model_type.view(), [&]<class Arch>(Arch) {
        for (auto const& alias : Arch::aliases) {
            if (out.empty() && alias.tree == pattern) out = alias.file;
        }
    });
    if (auto const at = out.find("{}"); at != std::string::npos) out.replace(at, 2, number);
    return out;
}

ModelSource weights_in(TemporaryFolder const& folder, SourceKind kind, std::string const& file) {
    ModelSource source;
    source.kind = kind;
    source.folder = folder.path();
    source.weights = {file};
    return source;
}

/// What newer files have instead of deepseek's kv_b, [heads * (10 + 8), 20]: each head's keys turned, and its values.
std::vector<FileTensorData> halves_of_kv(FileTensorData const& whole, std::vector<float> const& rows,
                                         ModelConfig const& config) {
    auto const heads = config.heads, latent = config.kv_lora_rank;
    auto const keys = config.qk_nope_head_dim, values = config.v_head_dim;
    std::vector<float> k, v;
    for (std::int64_t head = 0; head < heads; ++head) {
        auto const at = [&](std::int64_t row, std::int64_t i) {
            return rows[static_cast<std::size_t>((head * (keys + values) + row) * latent + i)];
        };
        for (std::int64_t i = 0; i < latent; ++i) {
            for (std::int64_t row = 0; row < keys; ++row) k.push_back(at(row, i));
        }
        for (auto row = keys; row < keys + values; ++row) {
            for (std::int64_t i = 0; i < latent; ++i) v.push_back(at(row, i));
        }
    }
    auto const begin = whole.name.substr(0, whole.name.find("attn_kv_b"));
    return {{begin + "attn_k_b.weight", "", {heads, latent, keys}, bytes_of(k)},
            {begin + "attn_v_b.weight", "", {heads, values, latent}, bytes_of(v)}};
}

/// The same model as GGUF, of `values_of(name, shape)`: in fp32, or where that is empty zeros, matrices in Q8_0.
template <class ValuesOf>
ModelSource as_gguf(OnDisk const& model, TemporaryFolder const& folder, ValuesOf const& values_of) {
    std::vector<FileTensorData> tensors;
    walk_tensors(model.checkpoint->model.tree, [&](std::string_view name, Tensor const& tensor) {
        if (!tensor.is_parameter()) return;
        std::vector<std::int64_t> shape(tensor.shape.begin(), tensor.shape.end());
        auto const elements = static_cast<std::size_t>(tensor.shape.elements());
        std::vector<float> const values = values_of(name, tensor.shape);
        bool const is_packed = values.empty() && tensor.shape.rank() == 2;
        auto bytes =
            values.empty() ? std::string(is_packed ? elements / 32 * 34 : elements * 4, '\0') : bytes_of(values);
        FileTensorData tensor_of_file{gguf_name(model.checkpoint->model, name), "", shape, std::move(bytes),
                                      is_packed ? 8U : 0U};
        if (name.find("kv_b_proj") == std::string_view::npos) return tensors.push_back(std::move(tensor_of_file));
        for (auto& half : halves_of_kv(tensor_of_file, values, model.checkpoint->model.config))
            tensors.push_back(std::move(half));
    });
    write_gguf(folder / "model.gguf", tensors);
    return weights_in(folder, SourceKind::gguf, "model.gguf");
}

TEST_CASE("RankExecutor: GGUF has the heads' queries of gpt_neox together, then their keys, then their values") {
    for (auto const& one : golden()) {
        if (one.name != "gpt_neox") continue;
        OnDisk const model(one.config, one.seed);
        TemporaryFolder const folder;
        auto const source = as_gguf(model, folder, [&one](std::string_view name, Shape const& shape) {
            auto const values = formula(name, shape, one.seed);
            if (name.find("query_key_value") == std::string_view::npos) return values;
            // 6 heads of 8 rows each, by head in the formula.
            auto const row = values.size() / 144;
            std::vector<float> out;
            for (std::size_t to = 0; to < 144; ++to) {
                auto const from = to % 48 / 8 * 24 + to / 48 * 8 + to % 8;
                out.insert(out.end(), values.begin() + static_cast<std::ptrdiff_t>(from * row),
                           values.begin() + static_cast<std::ptrdiff_t>((from + 1) * row));
            }
            return out;
        });
        auto const ids = std::vector<std::int32_t>(one.ids.begin(), one.ids.begin() + 12);
        auto const& described = model.checkpoint->model;
        CHECK(load_and_run<Fast>(source, described, ids, 1).logits ==
              load_and_run<Fast>(model.source, described, ids, 1).logits);
    }
}

TEST_CASE("RankExecutor: GGUF has deepseek's kv_b in two tensors, of which the keys are turned") {
    for (auto const& one : golden()) {
        if (one.name != "deepseek_v2" && one.name != "deepseek_v3") continue;
        CAPTURE(one.name);
        OnDisk const model(one.config, one.seed);
        TemporaryFolder const folder;
        auto const source = as_gguf(model, folder, [&one](std::string_view name, Shape const& shape) {
            return formula(name, shape, one.seed);
        });
        auto const ids = std::vector<std::int32_t>(one.ids.begin(), one.ids.begin() + 12);
        auto const& described = model.checkpoint->model;
        for (std::int32_t const ranks : {1, 2}) {
            CHECK(load_and_run<Fast>(source, described, ids, ranks).logits ==
                  load_and_run<Fast>(model.source, described, ids, ranks).logits);
        }
    }
}

TEST_CASE("RankExecutor: layers of one kind whose formats cut them differently do not share a plan") {
    // Of 160 in blocks of 32 two ranks have 96 and 64, of 160 in fp32 80 each.
    OnDisk const model(
        R"({"model_type":"llama","architectures":["LlamaForCausalLM"],"vocab_size":96,"hidden_size":64,)"
        R"("intermediate_size":160,"num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":2})");
    TemporaryFolder const folder;
    auto const source = as_gguf(model, folder, [](std::string_view name, Shape const& shape) {
        bool const is_packed = name.find("layers.0.mlp") != std::string_view::npos;
        return is_packed ? std::vector<float>{} : formula(name, shape);
    });
    auto const& described = model.checkpoint->model;
    // As many as there is room for: values fill their places in the arena.
    std::vector<std::int32_t> const ids{5, 90, 33, 7, 1, 2, 3, 4, 50, 60, 70, 80, 9, 8, 7, 6};
    auto const alone = load_and_run<Fast>(source, described, ids, 1);
    CHECK(worst(load_and_run<Fast>(source, described, ids, 2).logits, alone.logits) < 1e-4);
}

TEST_CASE("RankExecutor: a rank reads its own share of safetensors and GGUF and 1 % at most, tables included") {
    OnDisk const model(even_llama);
    TemporaryFolder const folder;
    auto const gguf = as_gguf(model, folder, [](std::string_view, Shape const&) { return std::vector<float>{}; });
    auto const& described = model.checkpoint->model;
    for (auto const* source : {&model.source, &gguf}) {
        for (std::int32_t const ranks : {1, 2, 4}) {
            CAPTURE(ranks);
            auto const loaded = load_and_run<Fast>(*source, described, {1, 2, 3}, ranks);
            for (std::int32_t rank = 0; rank < ranks; ++rank) {
                EstimateRequest request;
                request.parallel.tp = ranks;
                std::int64_t own = 0;
                walk_tensors(described.tree, [&](std::string_view, Tensor const& tensor) {
                    if (!tensor.is_parameter()) return;
                    auto const elements = shard_of(tensor, request.parallel, {.tp = rank}).shape.elements();
                    bool const is_packed = source == &gguf && tensor.shape.rank() == 2;
                    own += is_packed ? elements / 32 * 34 : elements * 4;
                });
                auto const read = loaded.read[static_cast<std::size_t>(rank)].count();
                CHECK(read <= own + own / 100);
                CHECK(read >= own - own / 100);
            }
        }
    }
}

constexpr auto uneven_mixtral =
    R"({"model_type":"mixtral","vocab_size":96,"hidden_size":48,"intermediate_size":50,"num_hidden_layers":2,)"
    R"("num_attention_heads":4,"num_key_value_heads":4,"num_local_experts":3,"num_experts_per_tok":2,)"
    R"("tie_word_embeddings":false})";

TEST_CASE("RankExecutor: ranks that tell each other their rows' largest values pack int8 from their own share alone") {
    // Experts' columns are dealt unevenly.
    for (auto const* const config : {even_llama, uneven_mixtral}) {
        CAPTURE(std::string(config));
        OnDisk const model(config);
        auto const& described = model.checkpoint->model;
        LoadOptions options;
        options.quant = *parse_quant_scheme("int8");
        auto const parameters = StoredParameters::open(model.source, described);
        REQUIRE(parameters);
        std::vector<float> apart;
        for (bool const shares : {false, true}) {
            CAPTURE(shares);
            auto const done = run_threads(4, [&](Threads& comm) -> Result<> {
                auto own = options;
                if (shares) {
                    own.share_largest = [&comm](std::span<float> values) {
                        auto const count = static_cast<std::int64_t>(values.size());
                        return all_reduce(comm, TensorView<float, 1, Host>(values.data(), {count}), ReduceOp::max);
                    };
                }
                HostContext context({.threads = 1});
                auto stream = context.make_stream();
                auto executor = RankExecutor<Host, Fast>::create(context, described, *parameters, {4, comm.rank()},
                                                                 {1, 4, 4}, {}, own);
                if (!executor) return executor.error();
                std::vector<float> logits(static_cast<std::size_t>(described.config.vocab_size));
                TensorView<float, 2, Host> const out(logits.data(), {1, described.config.vocab_size});
                std::vector<std::int32_t> const ids{5, 90, 33};
                SequencePart const part{0, 0, 3};
                if (auto const ran = executor->forward(ids, {&part, 1}, out, comm, stream); !ran) return ran;
                if (comm.rank() == 0 && !shares) apart = logits;
                if (comm.rank() == 0 && shares) CHECK(logits == apart);
                EstimateRequest request;
                request.parallel.tp = 4;
                std::int64_t share = 0;
                walk_tensors(described.tree, [&](std::string_view, Tensor const& tensor) {
                    if (tensor.is_parameter())
                        share += 4 * shard_of(tensor, request.parallel, {.tp = comm.rank()}).shape.elements();
                });
                auto const read = executor->bytes_read().count();
                CHECK((read <= share + share / 100) == shares);
                return {};
            });
            CHECK_MESSAGE(done, (done ? "" : done.error().message()));
        }
    }
}

/// The model with the values that its weights have once they are packed, in fp32.
ModelSource as_rounded(OnDisk const& model, LoadOptions const& options, TemporaryFolder const& folder) {
    auto const parameters = StoredParameters::open(model.source, model.checkpoint->model);
    REQUIRE(parameters);
    HostContext context({.threads = 1});
    ParameterLoader<Host> loader(context, *parameters, options);
    std::vector<FileTensorData> tensors;
    walk_tensors(model.checkpoint->model.tree, [&](std::string_view name, Tensor const& tensor) {
        if (!tensor.is_parameter()) return;
        auto values = formula(name, tensor.shape);
        if (tensor.shape.rank() == 2) {
            auto const found = parameters->find(name);
            REQUIRE(found);
            auto const matrix = loader.matrix(*found, {.outputs = tensor.shape[0], .inputs = tensor.shape[1]});
            REQUIRE_MESSAGE(matrix, (matrix ? "" : matrix.error().message()));
            for (std::int64_t row = 0; row < tensor.shape[0]; ++row)
                detail::decode_source(matrix->source(), row, 0, tensor.shape[1], values.data() + row * tensor.shape[1]);
        }
        tensors.push_back({std::string(name), "F32", {tensor.shape.begin(), tensor.shape.end()}, bytes_of(values), 0});
    });
    write_tensors(folder / "model.safetensors", tensors);
    return weights_in(folder, SourceKind::safetensors, "model.safetensors");
}

TEST_CASE("RankExecutor: weights packed on load take what the estimator says, and give the packed weights' logits") {
    OnDisk const model(even_llama);
    auto const& described = model.checkpoint->model;
    std::vector<std::int32_t> const ids{5, 90, 33, 7};
    auto const plain = load_and_run<Deterministic>(model.source, described, ids, 1);
    for (std::string const name : {"int4-g32", "q8_0", "int8", "nf4"}) {
        CAPTURE(name);
        LoadOptions options;
        options.quant = *parse_quant_scheme(name);
        auto const alone = load_and_run<Deterministic>(model.source, described, ids, 1, options);
        CHECK(load_and_run<Deterministic>(model.source, described, ids, 2, options).logits == alone.logits);
        CHECK(worst(alone.logits, plain.logits) > 1e-4);
        TemporaryFolder const folder;
        auto const rounded = load_and_run<Fast>(as_rounded(model, options, folder), described, ids, 1);
        CHECK(worst(alone.logits, rounded.logits) < 1e-4);
        EstimateRequest request;
        request.quant = options.quant;
        auto const estimate = estimate_memory(described, request);
        REQUIRE(estimate);
        // The rotation's frequencies of each layer; of int8 files, the byte that names their format; of nf4 ones, the code.
        auto expected = estimate->terms.weights.count() + 2 * 16 * 4;
        if (options.quant->method == QuantMethod::int8) expected -= 14;
        if (options.quant->method == QuantMethod::nf4) expected -= 14 * 64;
        // Sums by a tree hold a weight for each leaf, which is whole cache lines.
        auto const whole = load_and_run<Fast>(model.source, described, ids, 1, options);
        CHECK(whole.weights[0].count() == expected);
    }
    LoadOptions halves;
    halves.dtype = Dtype::bf16;
    auto const rounded = load_and_run<Deterministic>(model.source, described, ids, 2, halves);
    TemporaryFolder const folder;
    CHECK(worst(rounded.logits, load_and_run<Fast>(as_rounded(model, halves, folder), described, ids, 1).logits) <
          1e-4);
    CHECK(rounded.logits != plain.logits);
    auto const first = load_and_run<Fast>(model.source, described, ids, 1, halves);
    auto const fast = load_and_run<Fast>(model.source, described, ids, 1);
    CHECK(first.weights[0].count() < fast.weights[0].count() * 51 / 100);
}

TEST_CASE("RankExecutor: rounded linear biases are refused, not left out") {
    OnDisk const model(R"({"model_type":"falcon","vocab_size":31,"hidden_size":16,"num_hidden_layers":1,)"
                       R"("num_attention_heads":2,"alibi":true})");
    auto const parameters = StoredParameters::open(model.source, model.checkpoint->model);
    REQUIRE(parameters);
    HostContext context({.threads = 1});
    auto const executor = RankExecutor<Host, Fast>::create(context, model.checkpoint->model, *parameters, {1, 0},
                                                           {.sequences = 1, .context = 8, .step_tokens = 8});
    REQUIRE_FALSE(executor);
    CHECK(executor.error().code() == ErrorCode::unsupported);
    CHECK(executor.error().message().find("ALiBi") != std::string::npos);
}

}  // namespace
