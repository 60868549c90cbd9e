// SPDX-License-Identifier: Apache-2.0
#include <shardwise/comm/all_reduce.hpp>
#include <shardwise/comm/threads.hpp>
#include <shardwise/executor/rank_executor.hpp>
#include <shardwise/json/value.hpp>
#include <shardwise/memory/estimator.hpp>
#include <shardwise/model/files/checkpoint.hpp>

#include <doctest/doctest.h>

#include "formula.hpp"
#include "golden_models.hpp"
#include "loaded_model.hpp"
#include "temporary_folder.hpp"
#include "written_files.hpp"

#include <chrono>
#include <cstdint>
#include <fstream>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using namespace shardwise;
using namespace shardwise::testing;

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

TEST_CASE("RankExecutor: logits of integers and fp8 that compressed-tensors saved are the references', over 1 and 2 ranks") {
    CHECK(check_packed("compressed", {2}).size() == 11);
}

TEST_CASE("RankExecutor: gpt_oss as it is published, MXFP4 or bf16, is computed on as it is, over 1 to 4 ranks") {
    auto const held = check_packed("packed_experts", {2, 3, 4});
    REQUIRE(held.size() == 2);
    // The experts alone have 55296 elements: decoded, to bf16 even, they would take more.
    CHECK(held[0] < Bytes{2 * 55296});
}

constexpr auto uneven_mixtral =
    R"({"model_type":"mixtral","vocab_size":96,"hidden_size":48,"intermediate_size":50,"num_hidden_layers":2,)"
    R"("num_attention_heads":4,"num_key_value_heads":4,"num_local_experts":3,"num_experts_per_tok":2,)"
    R"("tie_word_embeddings":false})";

TEST_CASE("RankExecutor: ranks that tell each other their rows' largest values pack int8 from their own share alone") {
    // Experts' columns are sharded unevenly.
    for (auto const* const config : {even_llama, uneven_mixtral}) {
        CAPTURE(std::string(config));
        FormulaModel const model(config);
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
                        share += 4 * shard_of(tensor, request.parallel, {.tp = comm.rank()}).elements();
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
ModelSource as_rounded(FormulaModel const& model, LoadOptions const& options, TemporaryFolder const& folder) {
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
    FormulaModel const model(even_llama);
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
        // The rotation's frequencies, once for all layers; of int8 files, the byte that names their format; of nf4 ones, the code.
        auto expected = estimate->terms.weights.count() + 16 * 4;
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

}  // namespace
