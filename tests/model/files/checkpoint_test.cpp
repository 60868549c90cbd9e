// SPDX-License-Identifier: Apache-2.0
#include <shardwise/json/value.hpp>
#include <shardwise/model/files/checkpoint.hpp>
#include <shardwise/model/tree_totals.hpp>
#include <shardwise/model/walk.hpp>

#include <doctest/doctest.h>

#include "checkpoint_fixtures.hpp"
#include "skip.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace shardwise;
using namespace shardwise::testing;

TEST_CASE("config.json, safetensors and GGUF of one model give the same names, shapes and counts") {
    for (std::string const name : {"llama-tied", "mixtral", "gpt2"}) {
        CAPTURE(name);
        auto const folder = std::string(SHARDWISE_SOURCE_DIR) + "/tests/golden/checkpoints/" + name + "/";
        auto const config = read(folder + "config.json");
        auto const safetensors = read(folder + "model.safetensors");
        auto const gguf = read(folder + "model.gguf");
        REQUIRE(config.has_value());
        REQUIRE(safetensors.has_value());
        REQUIRE(gguf.has_value());

        auto const text = read_text_file(folder + "expected.json", 1 << 20);
        REQUIRE(text.has_value());
        auto const expected = parse_json(*text);
        REQUIRE(expected.has_value());
        auto const parameters = expected->root().find("parameters")->integer();
        std::vector<std::pair<std::string, Shape>> wanted;
        auto const tensors = expected->root().find("tensors");
        for (auto const entry : *tensors) {
            auto item = entry.begin();
            std::string const tensor_name(*(*item).string());
            ++item;
            Shape shape;
            for (auto const extent : *item) shape.push_back(*extent.integer());
            wanted.emplace_back(tensor_name, shape);
        }

        CHECK(count_parameters(config->model.tree) == parameters);
        CHECK(count_parameters(safetensors->model.tree) == parameters);
        CHECK(count_parameters(gguf->model.tree) == parameters);
        CHECK(entries(config->model.tree) == wanted);
        CHECK(entries(safetensors->model.tree) == wanted);
        CHECK(entries(gguf->model.tree) == wanted);
        CHECK(safetensors->warnings.empty());
        CHECK(gguf->warnings.empty());
        CHECK_FALSE(config->has_stored_sizes);
        CHECK(safetensors->has_stored_sizes);

        // Bytes are each file's own: bf16 throughout in the one, fp32 vectors and Q8_0 matrices in the other.
        auto const file = RegularFile::open(folder + "model.gguf");
        REQUIRE(file.has_value());
        auto const header = read_gguf(*RegularFile::open(folder + "model.gguf"));
        REQUIRE(header.has_value());
        std::int64_t in_file = 0;
        for (auto const& tensor : header->tensors) in_file += tensor.bytes.count();
        CHECK(stored_bytes(gguf->model.tree) == in_file);
        CHECK(stored_bytes(safetensors->model.tree) == *parameters * 2);
    }
}

TEST_SUITE("models") {
    TEST_CASE("the GGUF of SmolLM2-135M gives llama with the file's own bytes") {
        char const* const models = std::getenv("SHARDWISE_MODELS");
        if (models == nullptr) SHARDWISE_SKIP("SHARDWISE_MODELS names no folder with models");
        std::string path;
        for (auto const& entry : std::filesystem::recursive_directory_iterator(models)) {
            if (entry.path().filename() == "SmolLM2-135M-Instruct.Q4_1.gguf") path = entry.path().string();
        }
        if (path.empty()) SHARDWISE_SKIP("no SmolLM2-135M-Instruct.Q4_1.gguf under SHARDWISE_MODELS");
        auto const checkpoint = read(path);
        REQUIRE(checkpoint.has_value());
        CHECK(checkpoint->warnings.empty());
        auto const& config = checkpoint->model.config;
        CHECK(config.model_type.view() == "llama");
        CHECK(config.layers == 30);
        CHECK(config.head_dim == 64);
        CHECK(config.tie_word_embeddings);
        // HuggingFaceTB/SmolLM2-135M: 134.5M parameters; the data take the file less its header of 1785664 bytes.
        CHECK(count_parameters(checkpoint->model.tree) == 134'515'008);
        CHECK(stored_bytes(checkpoint->model.tree) == 98'362'432 - 1'785'664);
        // Q8_0: 34 bytes for 32 elements.
        CHECK(tensor_of(*checkpoint, "model.embed_tokens.weight").bytes().count() ==
              std::int64_t{49152} * 576 / 32 * 34);
        CHECK(tensor_of(*checkpoint, "model.norm.weight").dtype == Dtype::f32);
    }
}

TEST_CASE("equal layers stay one run, a layer that is stored differently makes three") {
    TemporaryFolder const folder;
    auto tensors = tiny_tensors();
    write_model(folder, tensors);
    auto checkpoint = read(folder.path());
    REQUIRE(checkpoint.has_value());
    CHECK(checkpoint->warnings.empty());
    CHECK(stored_bytes(checkpoint->model.tree) == total(tensors));
    auto const modules = checkpoint->model.tree.modules().size();

    auto& norm = named(tensors, "model.layers.1.input_layernorm.weight");
    norm.dtype = "F32";
    norm.bytes = 16;
    write_model(folder, tensors);
    checkpoint = read(folder.path());
    REQUIRE(checkpoint.has_value());
    CHECK(stored_bytes(checkpoint->model.tree) == total(tensors));
    CHECK(tensor_of(*checkpoint, "model.layers.1.input_layernorm.weight").dtype == Dtype::f32);
    CHECK(tensor_of(*checkpoint, "model.layers.2.input_layernorm.weight").dtype == Dtype::bf16);
    CHECK(tensor_of(*checkpoint, "model.layers.1.input_layernorm.weight").stored_bytes < 0);
    CHECK(checkpoint->model.tree.modules().size() == modules + 2);  // one norm and one layer more
}

TEST_CASE("a tensor that the checkpoint lacks is an error that names it and the closest one") {
    TemporaryFolder const folder;
    auto tensors = tiny_tensors();
    named(tensors, "model.layers.2.mlp.up_proj.weight").name = "model.layers.2.mlp.upp_proj.weight";
    write_model(folder, tensors);
    auto const checkpoint = read(folder.path());
    REQUIRE_FALSE(checkpoint.has_value());
    CHECK(checkpoint.error().code() == ErrorCode::malformed_file);
    CHECK(checkpoint.error().place() == "model.layers.2.mlp.up_proj.weight");
    CHECK(checkpoint.error().message().find("model.layers.2.mlp.upp_proj.weight") != std::string::npos);
}

TEST_CASE("a tensor that the model does not have is a warning that names it and the closest one") {
    TemporaryFolder const folder;
    auto tensors = tiny_tensors();
    tensors.push_back({"model.layers.0.mlp.upp_proj.weight", "BF16", {6, 4}, 48});
    tensors.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq", "F32", {1}, 4});
    tensors.push_back({"model.layers.3.eh_proj.weight", "BF16", {4, 8}, 64});
    write_model(folder, tensors);
    auto const checkpoint = read(folder.path());
    REQUIRE(checkpoint.has_value());
    REQUIRE(checkpoint->warnings.size() == 2);
    CHECK(checkpoint->warnings[0].find("layers beyond the model's 3") != std::string::npos);
    CHECK(checkpoint->warnings[1].find("model.layers.0.mlp.upp_proj.weight") != std::string::npos);
    CHECK(checkpoint->warnings[1].find("model.layers.0.mlp.up_proj.weight") != std::string::npos);
}

TEST_CASE("a shape that differs from the config's is an error with both shapes") {
    TemporaryFolder const folder;
    auto tensors = tiny_tensors();
    named(tensors, "model.layers.1.mlp.gate_proj.weight").shape = {4, 6};
    write_model(folder, tensors);
    auto const checkpoint = read(folder.path());
    REQUIRE_FALSE(checkpoint.has_value());
    CHECK(checkpoint.error().code() == ErrorCode::shape_mismatch);
    CHECK(checkpoint.error().place() == "model.layers.1.mlp.gate_proj.weight");
    CHECK(checkpoint.error().message().find("[4, 6]") != std::string::npos);
    CHECK(checkpoint.error().message().find("[6, 4]") != std::string::npos);
}

TEST_CASE("of tied weights the file may hold either") {
    std::string config = tiny_llama;
    config.replace(config.find("false"), 5, "true");
    for (auto const* absent : {"lm_head.weight", "model.embed_tokens.weight"}) {
        TemporaryFolder const folder;
        auto tensors = tiny_tensors();
        tensors.erase(tensors.begin() + (&named(tensors, absent) - tensors.data()));
        write_model(folder, tensors, config);
        auto const checkpoint = read(folder.path());
        REQUIRE(checkpoint.has_value());
        CHECK(stored_bytes(checkpoint->model.tree) == total(tensors));
    }
}

// transformers 5.23 ties no weights that a file has both (modeling_utils.py, tie_weights); the executor reads each by its name.
TEST_CASE(
    "a head that files hold beside the table that the config ties it to is a weight of its own, and a warning says "
    "so") {
    std::string config = tiny_llama;
    config.replace(config.find("false"), 5, "true");
    for (bool const is_prefixed : {false, true}) {
        TemporaryFolder const folder;
        auto tensors = tiny_tensors();
        for (auto& tensor : tensors) {
            if (is_prefixed) tensor.name = "language_model." + tensor.name;
        }
        write_model(folder, tensors, config);
        auto const checkpoint = read(folder.path());
        REQUIRE(checkpoint.has_value());
        CHECK_FALSE(checkpoint->model.config.tie_word_embeddings);
        CHECK(checkpoint->model.tree.ties().empty());
        CHECK(stored_bytes(checkpoint->model.tree) == total(tensors));
        REQUIRE(checkpoint->warnings.size() == 1);
        CHECK(checkpoint->warnings[0].find("has a head of its own, which is used") != std::string::npos);
        CHECK(checkpoint->warnings[0].find("model.embed_tokens.weight") != std::string::npos);
    }
}

TEST_CASE("a file without the base model's prefix, or with one more, is the same model") {
    for (bool const is_shorter : {true, false}) {
        TemporaryFolder const folder;
        auto tensors = tiny_tensors();
        for (auto& tensor : tensors) {
            if (is_shorter && tensor.name.rfind("model.", 0) == 0) tensor.name = tensor.name.substr(6);
            if (!is_shorter) tensor.name = "language_model." + tensor.name;
        }
        write_model(folder, tensors);
        auto const checkpoint = read(folder.path());
        REQUIRE_MESSAGE(checkpoint.has_value(), is_shorter);
        CHECK(checkpoint->warnings.empty());
        CHECK(stored_bytes(checkpoint->model.tree) == total(tensors));
    }
}

TEST_CASE("bitsandbytes' packed weights and their tables belong to the parameter") {
    TemporaryFolder const folder;
    auto tensors = tiny_tensors();
    auto& gate = named(tensors, "model.layers.0.mlp.gate_proj.weight");
    gate = {gate.name, "U8", {12, 1}, 12};
    auto const name = gate.name;
    tensors.push_back({name + ".absmax", "U8", {1}, 1});
    tensors.push_back({name + ".quant_map", "F32", {16}, 64});
    tensors.push_back({name + ".nested_absmax", "F32", {1}, 4});
    tensors.push_back({name + ".nested_quant_map", "F32", {256}, 1024});
    tensors.push_back({name + ".quant_state.bitsandbytes__nf4", "U8", {80}, 80});
    auto& up = named(tensors, "model.layers.0.mlp.up_proj.weight");
    up = {up.name, "I8", {6, 4}, 24};
    tensors.push_back({"model.layers.0.mlp.up_proj.SCB", "F32", {6}, 24});
    write_model(folder, tensors);
    auto const checkpoint = read(folder.path());
    REQUIRE(checkpoint.has_value());
    CHECK(checkpoint->warnings.empty());
    CHECK(stored_bytes(checkpoint->model.tree) == total(tensors));
    auto const packed = tensor_of(*checkpoint, name);
    CHECK(packed.stored_bytes == 12 + 1 + 64 + 4 + 1024 + 80);
    CHECK(packed.shape == Shape{6, 4});
    CHECK(packed.dtype == Dtype::bf16);
    CHECK(tensor_of(*checkpoint, "model.layers.0.mlp.up_proj.weight").stored_bytes == 24 + 24);
}

TEST_CASE("GPTQ, AWQ and fp8 store weights as several tensors of one parameter") {
    TemporaryFolder const folder;
    auto tensors = tiny_tensors();
    auto const packed_name = std::string("model.layers.0.self_attn.q_proj");
    named(tensors, packed_name + ".weight") = {packed_name + ".qweight", "I32", {1, 4}, 16};
    tensors.push_back({packed_name + ".qzeros", "I32", {1, 1}, 4});
    tensors.push_back({packed_name + ".scales", "F16", {1, 4}, 8});
    tensors.push_back({packed_name + ".g_idx", "I32", {4}, 16});
    auto& down = named(tensors, "model.layers.0.mlp.down_proj.weight");
    down = {down.name, "F8_E4M3", {4, 6}, 24};
    tensors.push_back({"model.layers.0.mlp.down_proj.weight_scale_inv", "F32", {1, 1}, 4});
    write_model(folder, tensors);
    auto const checkpoint = read(folder.path());
    REQUIRE(checkpoint.has_value());
    CHECK(checkpoint->warnings.empty());
    CHECK(stored_bytes(checkpoint->model.tree) == total(tensors));
    CHECK(tensor_of(*checkpoint, packed_name + ".weight").stored_bytes == 44);
    CHECK(tensor_of(*checkpoint, "model.layers.0.mlp.down_proj.weight").stored_bytes == 28);

    // Scales without the values are no parameter.
    tensors.erase(tensors.begin() + (&named(tensors, packed_name + ".qweight") - tensors.data()));
    write_model(folder, tensors);
    CHECK_FALSE(read(folder.path()).has_value());
}

TEST_CASE("gpt-oss' blocks and scales belong to the experts they encode") {
    auto const path = std::string(SHARDWISE_SOURCE_DIR) + "/tests/golden/configs/small-gpt_oss.json";
    auto const plain = read(path);
    REQUIRE(plain.has_value());
    TemporaryFolder const folder;
    std::vector<WrittenTensor> tensors;
    walk_tensors(plain->model.tree, [&](std::string_view name, Tensor const& tensor) {
        if (tensor.kind == TensorKind::transient_buffer) return;
        auto const& shape = tensor.shape;
        if (shape.rank() < 3) {
            tensors.push_back({std::string(name), "BF16", {shape.begin(), shape.end()}, shape.elements() * 2});
            return;
        }
        // 32 elements of the last axis but one in 16 bytes, and one scale of a byte.
        auto const blocks = (shape[1] + 31) / 32;
        auto const rows = shape[0] * shape[2];
        tensors.push_back({std::string(name) + "_blocks", "U8", {shape[0], shape[2], blocks, 16}, rows * blocks * 16});
        tensors.push_back({std::string(name) + "_scales", "U8", {shape[0], shape[2], blocks}, rows * blocks});
    });
    auto const config = read_text_file(path, 1 << 20);
    REQUIRE(config.has_value());
    write_model(folder, tensors, *config);
    auto const checkpoint = read(folder.path());
    REQUIRE(checkpoint.has_value());
    CHECK(checkpoint->warnings.empty());
    CHECK(stored_bytes(checkpoint->model.tree) == total(tensors));
    CHECK(entries(checkpoint->model.tree) == entries(plain->model.tree));
}

TEST_CASE("stacked experts of transformers 5 stand for the experts of version 4") {
    auto const root = std::string(SHARDWISE_SOURCE_DIR) + "/tests/golden/checkpoints/mixtral/";
    auto const config = read_text_file(root + "config.json", 1 << 20);
    auto const plain = read_safetensors(*RegularFile::open(root + "model.safetensors"));
    REQUIRE(config.has_value());
    REQUIRE(plain.has_value());
    TemporaryFolder const folder;
    std::vector<WrittenTensor> tensors;
    for (std::size_t i = 0; i < plain->size(); ++i) {
        auto const tensor = (*plain)[i];
        std::string name(tensor.name);
        if (name.find(".experts.") != std::string::npos) continue;
        auto const block = name.find("block_sparse_moe");
        if (block != std::string::npos) name.replace(block, 16, "mlp");
        tensors.push_back({name, "BF16", {tensor.shape.begin(), tensor.shape.end()}, tensor.bytes.count()});
    }
    for (std::string const layer : {"0", "1"}) {
        tensors.push_back(
            {"model.layers." + layer + ".mlp.experts.gate_up_proj", "BF16", {3, 96, 32}, 3 * 96 * 32 * 2});
        tensors.push_back({"model.layers." + layer + ".mlp.experts.down_proj", "BF16", {3, 32, 48}, 3 * 32 * 48 * 2});
    }
    write_model(folder, tensors, *config);
    auto const checkpoint = read(folder.path());
    REQUIRE(checkpoint.has_value());
    CHECK(checkpoint->warnings.empty());
    CHECK(entries(checkpoint->model.tree) == entries(read(root)->model.tree));
    CHECK(stored_bytes(checkpoint->model.tree) == total(tensors));
}
