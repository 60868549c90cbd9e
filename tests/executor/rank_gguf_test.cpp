// SPDX-License-Identifier: Apache-2.0
#include <shardwise/executor/rank_executor.hpp>
#include <shardwise/memory/estimator.hpp>
#include <shardwise/model/architecture.hpp>
#include <shardwise/model/files/stored_sizes.hpp>

#include <doctest/doctest.h>

#include "formula.hpp"
#include "golden_models.hpp"
#include "loaded_model.hpp"
#include "temporary_folder.hpp"
#include "written_files.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using namespace shardwise;
using namespace shardwise::testing;

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
ModelSource as_gguf(FormulaModel const& model, TemporaryFolder const& folder, ValuesOf const& values_of) {
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
    for (auto const& one : golden_cases()) {
        if (one.name != "gpt_neox") continue;
        FormulaModel const model(one.config, one.seed);
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
    for (auto const& one : golden_cases()) {
        if (one.name != "deepseek_v2" && one.name != "deepseek_v3") continue;
        CAPTURE(one.name);
        FormulaModel const model(one.config, one.seed);
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
    FormulaModel const model(
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
    FormulaModel const model(even_llama);
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
                    auto const elements = shard_of(tensor, request.parallel, {.tp = rank}).elements();
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

TEST_CASE(
    "RankExecutor: a rank reads of a GGUF file as many bytes as its estimate has weights, where blocks cut ranks' "
    "shares") {
    // Of 160 in blocks of 32 two ranks have 96 and 64, three 64, 64 and 32; heads of 16 go in pairs.
    FormulaModel const model(
        R"({"model_type":"llama","architectures":["LlamaForCausalLM"],"vocab_size":96,"hidden_size":96,)"
        R"("intermediate_size":160,"num_hidden_layers":2,"num_attention_heads":6,"num_key_value_heads":6})");
    TemporaryFolder const folder;
    auto const gguf = as_gguf(model, folder, [](std::string_view, Shape const&) { return std::vector<float>{}; });
    auto const& described = model.checkpoint->model;
    auto stored_model = read_checkpoint(model.source);
    REQUIRE(stored_model);
    TreeTensors const tensors(described.tree);
    std::vector<StoredTensor> stored(static_cast<std::size_t>(tensors.size()));
    walk_tensors(described.tree, [&](std::string_view name, Tensor const& tensor) {
        auto const elements = tensor.shape.elements();
        bool const is_packed = tensor.shape.rank() == 2;
        stored[static_cast<std::size_t>(tensors.find(name)->first)] = {is_packed ? elements / 32 * 34 : elements * 4,
                                                                       Dtype::f32, is_packed, is_packed ? 32 : 1};
    });
    stored_model->model.tree = with_stored_sizes(tensors, stored);
    for (std::int32_t const ranks : {1, 2, 3}) {
        CAPTURE(ranks);
        auto const loaded = load_and_run<Fast>(gguf, described, {1, 2, 3}, ranks);
        auto const estimate = estimate_memory(stored_model->model, {.parallel = {.tp = ranks}});
        REQUIRE(estimate);
        for (std::int32_t rank = 0; rank < ranks; ++rank) {
            CAPTURE(rank);
            auto const own = static_cast<std::size_t>(rank);
            CHECK(loaded.read[own].count() == estimate->devices[own].terms.weights.count());
        }
    }
}

}  // namespace
