// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "adapter_files.hpp"
#include "staged_run.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace {

using namespace shardwise;
using namespace shardwise::testing;

GoldenAdapter const& golden(std::string const& name) {
    static auto const all = golden_adapters();
    for (auto const& one : all) {
        if (one.base.name == name) return one;
    }
    FAIL("there is no adapter " << name);
    return all.front();
}

template <class Policy>
std::vector<std::vector<float>> run_with(FormulaModel const& model, GoldenCase const& one, Adapter const& adapter,
                                         std::int32_t tp, std::int32_t pp = 1, LoadOptions options = {}) {
    options.adapter = &adapter;
    return run_stages<Policy>(model.checkpoint->model, model.source, one, tp, pp, options);
}

// scripts/golden/executor_adapters.py: names, expressions, patterns, tables, saved modules and biases; products in parts, turned round,
// of heads that lie together, of experts, of latent keys and values.
TEST_CASE("RankExecutor: with an adapter models give PEFT's logits within 1e-4, and the same bits over tp x pp ranks") {
    for (auto const& one : golden_adapters()) {
        CAPTURE(one.base.name);
        FormulaModel const model(one.base.config);
        TemporaryFolder const folder;
        write_adapter(folder, one.settings, one.tensors);
        auto const adapter = Adapter::open(folder.path(), model.checkpoint->model);
        REQUIRE_MESSAGE(adapter, (adapter ? "" : adapter.error().message()));
        auto const alone = run_with<Deterministic>(model, one.base, *adapter, 1);
        REQUIRE(alone.size() == one.base.logits.size());
        for (std::size_t i = 0; i < alone.size(); ++i) CHECK(worst(alone[i], one.base.logits[i].second) < 1e-4);
        CHECK(run_with<Deterministic>(model, one.base, *adapter, 2, 2) == alone);
        auto const fast = run_with<Fast>(model, one.base, *adapter, 3);
        for (std::size_t i = 0; i < fast.size(); ++i) CHECK(worst(fast[i], one.base.logits[i].second) < 1e-4);
    }
}

TEST_CASE("Adapter: the folder that PEFT wrote is read as it is") {
    auto const& one = golden("llama");
    FormulaModel const model(one.base.config);
    auto const adapter =
        Adapter::open(SHARDWISE_SOURCE_DIR "/tests/golden/executor/adapter_peft", model.checkpoint->model);
    REQUIRE_MESSAGE(adapter, (adapter ? "" : adapter.error().message()));
    CHECK(adapter->size() == 4);
    CHECK(adapter->config().scale_of("model.layers.1.self_attn.q_proj") == 2.0);
    auto const logits = run_with<Fast>(model, one.base, *adapter, 1);
    for (std::size_t i = 0; i < logits.size(); ++i) CHECK(worst(logits[i], one.base.logits[i].second) < 1e-4);
}

/// The base with the adapter's products added to its weights, as a file of its own.
void write_merged(GoldenAdapter const& one, Model const& model, std::string const& path) {
    std::vector<FileTensorData> out;
    walk_tensors(model.tree, [&](std::string_view name, Tensor const& tensor) {
        if (!tensor.is_parameter()) return;
        auto values = formula(name, tensor.shape);
        auto const module = "base_model.model." + std::string(name.substr(0, name.rfind('.')));
        for (auto const& half : one.tensors) {
            if (half.name != module + ".lora_A.weight") continue;
            auto const a = formula(half.name, tensor.shape.rank() == 2 ? Shape{half.shape[0], half.shape[1]} : Shape{});
            auto const b = formula(module + ".lora_B.weight", Shape{tensor.shape[0], half.shape[0]});
            for (std::int64_t i = 0; i < tensor.shape[0]; ++i) {
                for (std::int64_t j = 0; j < tensor.shape[1]; ++j) {
                    double sum = 0.0;
                    for (std::int64_t k = 0; k < half.shape[0]; ++k)
                        sum += static_cast<double>(b[static_cast<std::size_t>(i * half.shape[0] + k)]) *
                               static_cast<double>(2.0F * a[static_cast<std::size_t>(k * half.shape[1] + j)]);
                    auto& to = values[static_cast<std::size_t>(i * tensor.shape[1] + j)];
                    to = static_cast<float>(static_cast<double>(to) + sum);
                }
            }
        }
        std::vector<std::int64_t> shape;
        for (std::size_t d = 0; d < tensor.shape.rank(); ++d) shape.push_back(tensor.shape[d]);
        out.push_back({std::string(name), "F32", shape, bytes_of(values)});
    });
    write_tensors(path, out);
}

TEST_CASE("RankExecutor: an adapter is merged in float, and rounded or packed after it as the options say") {
    auto const& one = golden("llama");
    FormulaModel const model(one.base.config);
    FormulaModel const merged(one.base.config);
    write_merged(one, merged.checkpoint->model, merged.folder / "model.safetensors");
    TemporaryFolder const folder;
    write_adapter(folder, one.settings, one.tensors);
    auto const adapter = Adapter::open(folder.path(), model.checkpoint->model);
    REQUIRE(adapter);
    std::vector<LoadOptions> all(4);
    all[1].dtype = Dtype::bf16;
    all[2].quant = QuantScheme::int8();
    all[3].quant = QuantScheme::int4(12);
    for (auto const& options : all) {
        auto const expected =
            run_stages<Deterministic>(merged.checkpoint->model, merged.source, one.base, 2, 1, options);
        CHECK(run_with<Deterministic>(model, one.base, *adapter, 2, 1, options) == expected);
    }
}

TEST_CASE(
    "ParameterLoader: an adapter of a packed weight is merged where it is held as floats, and refused where it stays "
    "packed") {
    TemporaryFolder const folder;
    std::string const module = "base_model.model.model.layers.0.self_attn.q_proj";
    write_adapter(folder, R"({"peft_type":"LORA","r":2,"lora_alpha":4,"target_modules":["q_proj"]})",
                  {{module + ".lora_A.weight", {2, 64}}, {module + ".lora_B.weight", {64, 2}}});
    auto const a = formula(module + ".lora_A.weight", Shape{2, 64});
    auto const b = formula(module + ".lora_B.weight", Shape{64, 2});
    auto const weight = module.substr(Adapter::prefix.size()) + ".weight";
    for (auto const* const name : {"nf4", "gptq", "awq", "int8"}) {
        CAPTURE(std::string(name));
        auto const source = find_model(std::string(SHARDWISE_SOURCE_DIR "/tests/golden/packed/") + name, {},
                                       HubCache(HubEnvironment{}));
        REQUIRE(source);
        auto const checkpoint = read_checkpoint(*source);
        REQUIRE(checkpoint);
        auto const parameters = StoredParameters::open(*source, checkpoint->model);
        REQUIRE(parameters);
        auto const stored = parameters->find(weight);
        REQUIRE(stored);
        auto const adapter = Adapter::open(folder.path(), checkpoint->model);
        REQUIRE_MESSAGE(adapter, (adapter ? "" : adapter.error().message()));
        HostContext context({.threads = 1});
        LoadOptions plain;
        plain.dtype = Dtype::f32;
        auto merged = plain;
        merged.adapter = &*adapter;
        auto const before =
            ParameterLoader<Host>(context, *parameters, plain).matrix(*stored, {.outputs = 64, .inputs = 64});
        auto const after =
            ParameterLoader<Host>(context, *parameters, merged).matrix(*stored, {.outputs = 64, .inputs = 64});
        REQUIRE(before);
        REQUIRE_MESSAGE(after, (after ? "" : after.error().message()));
        std::vector<float> own(64), with(64);
        for (std::size_t row = 0; row < 64; ++row) {
            detail::decode_source(before->source(), static_cast<std::int64_t>(row), 0, 64, own.data());
            detail::decode_source(after->source(), static_cast<std::int64_t>(row), 0, 64, with.data());
            for (std::size_t i = 0; i < 64; ++i) {
                auto const added = 2.0 * (static_cast<double>(b[2 * row]) * static_cast<double>(a[i]) +
                                          static_cast<double>(b[2 * row + 1]) * static_cast<double>(a[64 + i]));
                CHECK(with[i] == static_cast<float>(static_cast<double>(own[i]) + added));
            }
        }
        merged.dtype.reset();
        auto const refused =
            ParameterLoader<Host>(context, *parameters, merged).matrix(*stored, {.outputs = 64, .inputs = 64});
        REQUIRE_FALSE(refused);
        CHECK(refused.error().message().find("stays packed as in its file") != std::string::npos);
        merged.quant = QuantScheme::int8();
        CHECK(ParameterLoader<Host>(context, *parameters, merged).matrix(*stored, {.outputs = 64, .inputs = 64}));
    }
}

TEST_CASE("Adapter: what does not fit its model or is not computed is refused by name") {
    auto const& good = golden("llama");
    FormulaModel const model(good.base.config);
    auto const& described = model.checkpoint->model;
    auto const open = [&](std::string const& settings, std::vector<AdapterTensor> const& tensors) {
        TemporaryFolder const folder;
        write_adapter(folder, settings, tensors);
        auto const adapter = Adapter::open(folder.path(), described);
        return adapter ? std::string("opened") : adapter.error().message();
    };
    auto const with = [&](std::string const& from, std::string const& to) {
        auto settings = good.settings;
        auto const at = settings.find(from);
        REQUIRE(at != std::string::npos);
        return settings.replace(at, from.size(), to);
    };
    auto const tensors = [&](std::function<void(std::vector<AdapterTensor>&)> const& change) {
        auto changed = good.tensors;
        change(changed);
        return open(good.settings, changed);
    };
    auto const says = [](std::string const& message, std::string_view what) {
        CHECK_MESSAGE(message.find(what) != std::string::npos, message);
    };
    CHECK(open(good.settings, good.tensors) == "opened");
    says(tensors([](auto& all) { all.pop_back(); }), "has no lora_");
    says(tensors([](auto& all) { all.resize(2); }), "is one of target_modules");
    says(tensors([](auto& all) { all.clear(); }), "lora_A");
    says(tensors([](auto& all) { all[0].shape[0] += 1; }), "is not [4, 36]");
    says(tensors([](auto& all) { all[0].shape = {4, 40}; }), "is not [4, 36]");
    says(tensors([](auto& all) { all[0].name = "q_proj.lora_A.weight"; }), "base_model.model.");
    says(tensors([](auto& all) { all[0].name = "base_model.model.model.layers.7.self_attn.q_proj.lora_A.weight"; }),
         "does not have");
    says(tensors([](auto& all) { all.push_back({"base_model.model.model.norm.weight", {36}}); }), "modules_to_save");
    says(tensors([](auto& all) {
             all.push_back({"base_model.model.model.norm.lora_A.weight", {4, 36}});
         }),
         "is no product");
    says(tensors([](auto& all) {
             all.push_back({"base_model.model.model.layers.0.self_attn.k_proj.lora_A.weight", {4, 36}});
         }),
         "target_modules does not name");
    says(tensors([](auto& all) {
             all.push_back({"base_model.model.model.layers.0.self_attn.q_proj.lora_magnitude_vector", {36}});
         }),
         "no half");
    says(tensors([](auto& all) { all[0].dtype = "I32"; }), "dtype");
    says(tensors([](auto& all) {
             all.push_back({"base_model.model.layers.0.self_attn.q_proj.lora_A.weight", {4, 36}});
         }),
         "is there twice");
    for (auto const& [from, to, what] :
         {std::tuple{R"("peft_type": "LORA")", R"("peft_type": "IA3")", "IA3"},
          {R"("use_dora": false)", R"("use_dora": true)", "use_dora"},
          {R"("lora_bias": false)", R"("lora_bias": true)", "lora_bias"},
          {R"("r": 4)", R"("r": 0)", "r"},
          {R"("r": 4)", R"("r": 3)", "is not [3, 36]"},
          {R"("bias": "none")", R"("bias": "some")", "lora_only"},
          {R"("target_parameters": null)", R"("target_parameters": ["w"])", "target_parameters"},
          {R"("layer_replication": null)", R"("layer_replication": [[0, 1]])", "layer_replication"},
          {R"("init_lora_weights": true)", R"("init_lora_weights": "pissa")", "pissa"},
          {R"("rank_pattern": {})", R"("rank_pattern": {"q.*": 2})", "rank_pattern"},
          {R"("lora_alpha": 8)", R"("lora_alpha": "8")", "lora_alpha"},
          {R"("use_qalora": false)", R"("new_key": {"a": 1})", "new_key"}})
        says(open(with(from, to), good.tensors), what);
    says(open("[]", good.tensors), "settings");
    says(open("{}", good.tensors), "peft_type");
    FormulaModel const tied(R"({"model_type":"llama","vocab_size":97,"hidden_size":36,"intermediate_size":52,)"
                            R"("num_hidden_layers":2,"num_attention_heads":6,"tie_word_embeddings":true})");
    auto const& tables = golden("llama_tables");
    TemporaryFolder const folder;
    write_adapter(folder, tables.settings, tables.tensors);
    auto const refused = Adapter::open(folder.path(), tied.checkpoint->model);
    REQUIRE(!refused);
    says(refused.error().message(), "share their weight");
}

}  // namespace
