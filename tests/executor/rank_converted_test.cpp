// SPDX-License-Identifier: Apache-2.0
#include <shardwise/comm/threads.hpp>
#include <shardwise/executor/rank_executor.hpp>
#include <shardwise/model/files/checkpoint.hpp>

#include <doctest/doctest.h>

#include "golden_json.hpp"
#include "golden_models.hpp"

#include <chrono>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace {

using namespace shardwise;
using namespace shardwise::testing;

/// A file that llama.cpp's converter wrote, and what transformers computes with the model that it was made of.
struct Converted {
    std::string name;
    std::vector<std::int32_t> ids;
    std::vector<float> output;
    /// Of an encoder with a decoder, what the decoder is given.
    std::vector<std::int32_t> target;
};

std::vector<Converted> converted() {
    auto const document = golden_json("gguf/golden.json");
    std::vector<Converted> out;
    for (auto const entry : document.root()) {
        Converted one{std::string(entry.key()), {}, {}, {}};
        auto const ids = entry.find("ids");
        auto const values = entry.find("output");
        for (auto const id : *ids) one.ids.push_back(static_cast<std::int32_t>(*id.integer()));
        for (auto const value : *values) one.output.push_back(static_cast<float>(*value.real()));
        if (auto const target = entry.find("target")) {
            for (auto const id : *target) one.target.push_back(static_cast<std::int32_t>(*id.integer()));
        }
        out.push_back(std::move(one));
    }
    return out;
}

Checkpoint read_converted(std::string const& name, ModelSource& source) {
    auto const path = SHARDWISE_SOURCE_DIR "/tests/golden/gguf/" + name + ".gguf";
    auto const found = find_model(path, {}, HubCache(HubEnvironment{}));
    REQUIRE(found);
    source = *found;
    auto read = read_checkpoint(source);
    REQUIRE_MESSAGE(read, (read ? "" : read.error().message()));
    return *std::move(read);
}

/// What follows the last token, or the states of all tokens of an encoder, which has no pooler in GGUF.
std::vector<float> run_converted(Converted const& one, std::int32_t ranks, std::int64_t step) {
    ModelSource source;
    auto const checkpoint = read_converted(one.name, source);
    auto const parameters = StoredParameters::open(source, checkpoint.model);
    REQUIRE_MESSAGE(parameters, (parameters ? "" : parameters.error().message()));
    bool const is_encoder = is_bidirectional(checkpoint.model) && one.target.empty();
    auto const& given = one.target.empty() ? one.ids : one.target;
    auto const count = static_cast<std::int64_t>(given.size());
    std::vector<float> out;
    auto const done = run_threads(ranks, [&](Threads& comm) -> Result<> {
        HostContext context({.threads = 1});
        auto stream = context.make_stream();
        auto executor = RankExecutor<Host, Fast>::create(
            context, checkpoint.model, *parameters, {comm.size(), comm.rank()},
            {.sequences = 1, .context = 16, .step_tokens = 16, .has_head = !is_encoder});
        if (!executor) return executor.error();
        auto const& made = executor->output();
        std::vector<float> values(static_cast<std::size_t>((is_encoder ? count : 1) * made.width));
        TensorView<float, 2, Host> const view(values.data(), {is_encoder ? count : 1, made.width});
        if (!one.target.empty()) {
            SequencePart const part{0, 0, static_cast<std::int64_t>(one.ids.size())};
            if (auto const ran = executor->encode(one.ids, {&part, 1}, comm, stream); !ran) return ran;
            if (auto const ended = stream.synchronize(Deadline::after(std::chrono::seconds(20))); !ended) return ended;
        }
        for (std::int64_t begin = 0; begin < count; begin += step) {
            auto const size = std::min(step, count - begin);
            SequencePart const part{0, begin, size};
            std::vector<std::int32_t> const ids(given.begin() + begin, given.begin() + begin + size);
            if (auto const ran = executor->forward(ids, {&part, 1}, view, comm, stream); !ran) return ran;
            if (auto const ended = stream.synchronize(Deadline::after(std::chrono::seconds(20))); !ended) return ended;
        }
        if (comm.rank() == 0) out = std::move(values);
        return {};
    });
    CHECK_MESSAGE(done, (done ? "" : done.error().message()));
    return out;
}

TEST_CASE("RankExecutor: GGUF files by llama.cpp's converter give transformers' values within 1e-4, at tp 1 and 2") {
    std::set<std::string> families;
    for (auto const& one : converted()) {
        CAPTURE(one.name);
        ModelSource source;
        families.emplace(read_converted(one.name, source).model.config.model_type.view());
        auto const count = static_cast<std::int64_t>(one.ids.size());
        for (std::int32_t const ranks : {1, 2}) CHECK(worst(run_converted(one, ranks, count), one.output) < 1e-4);
        // Windows and scaled positions also hold step by step.
        bool const is_decoder = one.output.size() == 64;
        if (is_decoder) CHECK(worst(run_converted(one, 1, one.target.empty() ? 5 : 2), one.output) < 1e-4);
    }
    // The converter knows no opt and writes mistral as llama.
    std::set<std::string> const expected{
        "apertus",
        "bert",
        "bloom",
        "cohere",
        "cohere2",
        "deepseek_v2",
        "deepseek_v3",
        "exaone4",
        "falcon",
        "gemma",
        "gemma2",
        "gemma3_text",
        "glm4",
        "nemotron",
        "glm4_moe",
        "gpt2",
        "gpt_neox",
        "gpt_oss",
        "granite",
        "llama",
        "minimax_m2",
        "mixtral",
        "olmo2",
        "olmo3",
        "phi",
        "phi3",
        "qwen2",
        "qwen2_moe",
        "qwen3",
        "qwen3_moe",
        "qwen2_vl_text",
        "qwen3_vl_text",
        "roberta",
        "ernie4_5", "hunyuan_v1_dense", "seed_oss", "smollm3", "stablelm", "starcoder2", "xlm-roberta", "distilbert", "modernbert",
        "llama4_text", "qwen3_next", "qwen3_vl_moe_text", "t5", "umt5",
    };
    CHECK(families == expected);
}

}  // namespace
