// SPDX-License-Identifier: Apache-2.0
#include <shardwise/executor/training/held_base.hpp>
#include <shardwise/json/value.hpp>
#include <shardwise/model/files/checkpoint.hpp>
#include <shardwise/quant/scheme.hpp>
#include <shardwise/train/train_ranks.hpp>

#include <doctest/doctest.h>

#include "../executor/written_model.hpp"
#include "held_model.hpp"
#include "pair_sample.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

using namespace shardwise;
using namespace shardwise::testing;

namespace {

template <class T>
T take(Result<T> made) {
    return TrainedModel::take(std::move(made));
}

/// The words of write_k_types: more than are decoded together, and no multiple of that.
constexpr std::int32_t words = 320;

/// A GGUF file of a llama whose products are Q4_K and whose table is Q6_K, with a head or without: ranks part their blocks of 256.
void write_k_types(std::string const& path, bool has_head) {
    std::vector<FileTensorData> tensors;
    auto const matrix = [&](std::string const& name, std::int64_t rows, bool is_table = false) {
        std::size_t const size = is_table ? 210 : 144;
        auto bytes = some_bytes(static_cast<std::size_t>(rows) * size, static_cast<unsigned>(tensors.size() + 1));
        for (std::size_t at = 0; at < bytes.size(); at += size) {
            // What scales have in common: 2^-13 and 2^-12, of the lowest values 7.5 times that.
            if (is_table) bytes.replace(at + 208, 2, bytes_of(std::vector<std::uint16_t>{0x0800}));
            if (!is_table) bytes.replace(at, 4, bytes_of(std::vector<std::uint16_t>{0x0C00, 0x1780}));
        }
        tensors.push_back({name + ".weight", "", {rows, 256}, bytes, is_table ? 14U : 12U});
    };
    auto const norm = [&](std::string const& name) {
        tensors.push_back({name + ".weight", "", {256}, bytes_of(std::vector<float>(256, 1.0F)), 0});
    };
    matrix("token_embd", words, true);
    for (std::string const layer : {"blk.0.", "blk.1."}) {
        for (auto const* const name : {"attn_q", "attn_output", "ffn_gate", "ffn_up", "ffn_down"})
            matrix(layer + name, 256);
        for (auto const* const name : {"attn_k", "attn_v"}) matrix(layer + name, 128);
        for (auto const* const name : {"attn_norm", "ffn_norm"}) norm(layer + name);
    }
    norm("output_norm");
    if (has_head) matrix("output", words);
    write_gguf(path, tensors,
               {{"llama.embedding_length", 256},
                {"llama.feed_forward_length", 256},
                {"llama.block_count", 2},
                {"llama.attention.head_count", 4},
                {"llama.attention.head_count_kv", 2},
                {"llama.vocab_size", words},
                {"llama.context_length", 64}},
               {{"general.architecture", "llama"}}, {{"llama.attention.layer_norm_rms_epsilon", 1e-6F}});
}

std::string text_of(std::string const& path) {
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
}
/// The loss of each word by the logits of a reference.
std::vector<double> losses_of(JsonValue const& logits) {
    std::vector<double> out;
    double sum = 0.0;
    std::int32_t word = 0;
    for (auto const value : logits) {
        if (word++ % word_stride() == 0) out.push_back(-*value.real());
        sum += std::exp(*value.real());
    }
    for (auto& value : out) value += std::log(sum);
    return out;
}
double largest_difference(std::vector<float> const& got, std::vector<double> const& expected) {
    REQUIRE(got.size() == expected.size());
    double most = 0.0;
    for (std::size_t i = 0; i < got.size(); ++i)
        most = std::max(most, std::abs(static_cast<double>(got[i]) - expected[i]));
    return most;
}
std::vector<std::int32_t> ids_of(JsonValue const& list) {
    std::vector<std::int32_t> out;
    for (auto const id : list) out.push_back(static_cast<std::int32_t>(*id.integer()));
    return out;
}

}  // namespace

TEST_CASE(
    "TrainingWeights: the packed base of an adapter has the references' logits, and trains as in float32, bit for "
    "bit") {
    auto const root = std::string(SHARDWISE_SOURCE_DIR) + "/tests/golden/packed/";
    auto const text = text_of(root + "expected.json");
    auto const document = parse_json(text);
    REQUIRE(document);
    auto const ids = ids_of(*document->root().find("ids"));
    auto const cases = *document->root().find("cases");
    for (auto const one : cases) {
        auto const name = std::string(one.key());
        CAPTURE(name);
        HeldModel packed(root + name);
        CHECK(packed.program->layout().held_bytes() > 0);
        CHECK(largest_difference(packed.last_losses(ids), losses_of(*one.find("logits"))) < 2e-4);
        HeldModel single(root + name, {}, Held::none);
        // Of other forms nothing that a product takes is as small, and it is held in float32.
        bool const is_small =
            name == "nf4" || name == "nf4_double" || name == "int8" || name == "gptq" || name == "awq";
        if (is_small)
            CHECK(TrainingWeights::bytes(packed.program->layout()) < TrainingWeights::bytes(single.program->layout()));
        auto const steps = packed.train();
        auto const expected = single.train();
        CHECK(steps.back().loss < steps.front().loss);
        CHECK(steps.back().loss == doctest::Approx(expected.back().loss).epsilon(1e-6));
        // bitsandbytes' int8 divides by 127 after the product with a row's largest value, what holds it before.
        if (name == "int8") continue;
        CHECK(steps == expected);
        auto const halves = packed.program->layout().gradient_elements();
        CHECK(std::equal(packed.weights->data(), packed.weights->data() + halves, single.weights->data()));
    }
}

TEST_CASE(
    "TrainingWeights: products of a base whose rows are decoded some at a time have the bits of all rows at once") {
    // Of words, and of what layers make, more than are decoded together; and layers that are narrower than that.
    FormulaModel const wide(
        R"({"model_type":"llama","vocab_size":601,"hidden_size":320,"intermediate_size":600,"num_hidden_layers":1,)"
        R"("num_attention_heads":5,"num_key_value_heads":5,"head_dim":64,"max_position_embeddings":64})");
    FormulaModel const narrow(
        R"({"model_type":"llama","vocab_size":601,"hidden_size":64,"intermediate_size":96,"num_hidden_layers":1,)"
        R"("num_attention_heads":4,"num_key_value_heads":4,"max_position_embeddings":64})");
    struct Case {
        FormulaModel const& files;
        std::string_view scheme;
        int held = 0;
    };
    // The schemes of modules leave the table and the head as they are, those of GGUF pack them.
    for (auto const& one : {Case{wide, "int8", 7}, Case{wide, "Q8_0-pure", 9}, Case{wide, "Q4_0", 9},
                            Case{wide, "F16", 9}, Case{narrow, "Q8_0-pure", 9}}) {
        CAPTURE(std::string(one.scheme));
        auto const quant = take(parse_quant_scheme(one.scheme));
        HeldModel held(one.files.folder.path(), quant);
        HeldModel whole(one.files.folder.path(), {}, Held::none);
        auto const& products = held.weights->held().products();
        auto* const memory = whole.weights->values(0).data() - whole.program->layout().parameters()[0].begin;
        int decoded = 0;
        for (std::size_t i = 0; i < products.size(); ++i) {
            auto const& from = held.program->layout().frozen()[i];
            auto const& to = whole.program->layout().frozen()[i];
            REQUIRE(from.name == to.name);
            if (!from.held) continue;
            auto const values = values_of(products[i].own.source);
            std::copy(values.begin(), values.end(), memory + to.begin);
            ++decoded;
        }
        CHECK(decoded == one.held);
        std::vector<std::int32_t> const ids{5, 17, 3, 600, 40, 257};
        CHECK(held.last_losses(ids, 51) == whole.last_losses(ids, 51));
        auto const steps = whole.train();
        CHECK(held.train() == steps);
        auto const halves = held.program->layout().gradient_elements();
        CHECK(std::equal(held.weights->data(), held.weights->data() + halves, whole.weights->data()));
        CHECK(held.train_over(2, quant) == steps);
    }
}

TEST_CASE("held_products: a table or a head that run does not pack is refused as run refuses it") {
    FormulaModel const files(
        R"({"model_type":"llama","vocab_size":64,"hidden_size":256,"intermediate_size":256,"num_hidden_layers":1,)"
        R"("num_attention_heads":4,"num_key_value_heads":4,"max_position_embeddings":64})");
    auto const stored = take(StoredParameters::open(files.source, files.checkpoint->model));
    CHECK(take(held_products(stored, take(parse_quant_scheme("Q4_0-pure")))).size() == 9);
    // Of this mixture the head is Q6_K.
    auto const quant = take(parse_quant_scheme("Q4_0"));
    LoadOptions options;
    options.quant = quant;
    auto const refused = held_format(take(stored.find("lm_head.weight")), files.checkpoint->model, options);
    REQUIRE_FALSE(refused);
    auto const held = held_products(stored, quant);
    REQUIRE_FALSE(held);
    CHECK(held.error().message() == refused.error().message());
}

TEST_CASE("TrainingWeights: a GGUF base of an adapter has the logits of the model that it was made from") {
    auto const root = std::string(SHARDWISE_SOURCE_DIR) + "/tests/golden/gguf/";
    auto const text = text_of(root + "golden.json");
    auto const document = parse_json(text);
    REQUIRE(document);
    for (auto const* const name : {"llama-q8_0", "gemma-f32", "gpt2-q8_0", "phi3-q8_0", "qwen2-q8_0",
                                   "falcon_groups-bf16", "gpt_neox-f32", "mistral-bf16", "gemma3-q8_0", "olmo2-q8_0"}) {
        CAPTURE(std::string(name));
        auto const one = *document->root().find(name);
        HeldModel model(root + name + ".gguf");
        CHECK(largest_difference(model.last_losses(ids_of(*one.find("ids"))), losses_of(*one.find("output"))) < 2e-4);
        auto const steps = model.train();
        CHECK(steps.back().loss < steps.front().loss);
    }
    HeldModel const one(root + "llama-q8_0.gguf");
    HostContext context({.threads = 1});
    CHECK(TrainingWeights::load(context, one.stored).error().message().find("an adapter alone changes") !=
          std::string::npos);
    auto const adapter = take(TrainedAdapter::create(one.checkpoint.model, {.rank = 2}));
    CHECK_FALSE(TrainingWeights::load(context, one.stored, {}, adapter));
}

TEST_CASE("train_ranks: tensor-parallel ranks train beside a packed base with the bits of one, each with its part") {
    auto const root = std::string(SHARDWISE_SOURCE_DIR) + "/tests/golden/";
    struct Base {
        std::string path;
        std::int32_t ranks = 2;
        Optional<QuantScheme> quant{};
    };
    for (auto const& base :
         {Base{root + "packed/nf4"}, Base{root + "packed/int8"}, Base{root + "packed/gptq"}, Base{root + "packed/awq"},
          Base{root + "packed/fp8"}, Base{root + "gguf/llama-q8_0.gguf"}, Base{root + "gguf/gpt2-q8_0.gguf", 4},
          Base{root + "gguf/phi3-q8_0.gguf"}, Base{root + "gguf/qwen2-q8_0.gguf"},
          Base{root + "gguf/falcon_groups-bf16.gguf"}, Base{root + "gguf/gpt_neox-f32.gguf", 4}}) {
        CAPTURE(base.path);
        HeldModel single(base.path, base.quant);
        auto const steps = single.train();
        CHECK(single.train_over(base.ranks, base.quant) == steps);
    }
}

TEST_CASE(
    "TrainingWeights: the packed table and head of a GGUF base train as in float32, bit for bit, in their own bytes") {
    auto const root = std::string(SHARDWISE_SOURCE_DIR) + "/tests/golden/gguf/";
    struct Base {
        std::string name;
        /// Of the table and, where it is another weight, the head: how many, and the bytes of each.
        std::int64_t tables = 1;
        std::int64_t bytes = 0;
    };
    TemporaryFolder const folder;
    write_k_types(folder / "untied.gguf", true);
    write_k_types(folder / "tied.gguf", false);
    for (auto const& base :
         {Base{root + "llama-q8_0.gguf", 2, 64 * 34}, Base{root + "qwen2-q8_0.gguf", 1, 64 * 34},
          Base{root + "gpt2-q8_0.gguf", 1, 64 * 34}, Base{root + "phi-q8_0.gguf", 2, 64 * 34},
          Base{root + "falcon_groups-bf16.gguf", 1, 64 * 64}, Base{folder / "untied.gguf", 2, words * (210 + 144) / 2},
          Base{folder / "tied.gguf", 1, words * 210}}) {
        CAPTURE(base.name);
        HeldModel held(base.name);
        HeldModel layers(base.name, {}, Held::layers);
        CHECK(held.options.held.size() == layers.options.held.size() + static_cast<std::size_t>(base.tables));
        auto const& config = held.checkpoint.model.config;
        auto const floats = config.vocab_size * config.hidden_size * 4;
        CHECK(TrainingWeights::bytes(layers.program->layout()).count() -
                  TrainingWeights::bytes(held.program->layout()).count() ==
              base.tables * (floats - base.bytes));
        auto const last = static_cast<std::int32_t>(config.vocab_size) - 1;
        std::vector<std::int32_t> const ids{5, 17, 3, last, 40, last / 2 + 1};
        CHECK(held.last_losses(ids, 19) == layers.last_losses(ids, 19));
        auto const steps = layers.train();
        CHECK(held.train() == steps);
        auto const halves = held.program->layout().gradient_elements();
        CHECK(std::equal(held.weights->data(), held.weights->data() + halves, layers.weights->data()));
        CHECK(held.train_over(2, {}) == steps);
        CHECK(held.train_over(1, {}, 2) == steps);
        CHECK(held.train_over(2, {}, 2) == steps);
    }
}
