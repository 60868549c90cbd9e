// SPDX-License-Identifier: Apache-2.0
#include <shardwise/executor/compute_beside.hpp>
#include <shardwise/executor/training/held_base.hpp>

#include <doctest/doctest.h>

#include "adapter_files.hpp"
#include "staged_run.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace shardwise;
using namespace shardwise::testing;

/// A checkpoint of tests/golden with an adapter of a formula on all products of its layers, but for those of `left` in the first one.
struct PackedBase {
    ModelSource source;
    Checkpoint checkpoint;
    StoredParameters stored;
    TemporaryFolder folder;
    GoldenCase one;

    explicit PackedBase(std::string const& path, std::string const& left = {})
        : source(take(find_model(SHARDWISE_SOURCE_DIR "/tests/golden/" + path, {}, HubCache(HubEnvironment{})))),
          checkpoint(take(read_checkpoint(source))),
          stored(take(StoredParameters::open(source, checkpoint.model))) {
        std::vector<AdapterTensor> tensors;
        for (auto const& block : checkpoint.model.program.blocks()) {
            for (std::int32_t i = 0; block.is_numbered && i < block.count; ++i) {
                auto const prefix = std::string(block.module) + "." + std::to_string(block.first + i);
                for (auto const& op : checkpoint.model.program.body(block).operations()) {
                    if (op.kind != OpKind::linear) continue;
                    auto const weight = detail::parameter_name(prefix, op.parameters[0], 0);
                    auto const module = weight.substr(0, weight.rfind('.'));
                    if (block.first + i == 0 && !left.empty() && module.ends_with(left)) continue;
                    tensors.push_back({"base_model.model." + module + ".lora_A.weight", {3, op.in_features}});
                    tensors.push_back({"base_model.model." + module + ".lora_B.weight", {op.out_features, 3}});
                }
            }
        }
        write_adapter(
            folder, R"({"peft_type":"LORA","r":3,"lora_alpha":6,"target_modules":"all-linear","layers_pattern":null})",
            tensors);
        for (std::int32_t i = 0; i < 14; ++i) one.ids.push_back((7 * i + 3) % 31);
        one.logits = {{7, {}}, {14, {}}};
    }
    template <class T>
    static T take(Result<T> made) {
        REQUIRE_MESSAGE(made, (made ? "" : made.error().message()));
        return *std::move(made);
    }
    [[nodiscard]] Adapter adapter() const { return take(Adapter::open(folder.path(), checkpoint.model)); }
    /// The logits with the halves beside products.
    template <class Policy>
    [[nodiscard]] std::vector<std::vector<float>> beside(std::int32_t tp, std::int32_t pp = 1) const {
        auto own = take(read_checkpoint(source));
        auto of = take(Adapter::open(folder.path(), own.model));
        LoadOptions options;
        auto const done = compute_beside(of, own.model, stored, options);
        REQUIRE_MESSAGE(done, (done ? "" : done.error().message()));
        options.adapter = &of;
        return run_stages<Policy>(own.model, source, one, tp, pp, options);
    }
    /// The weights as a checkpoint of floats, each row where transformers has it.
    [[nodiscard]] ModelSource unpacked(TemporaryFolder const& to) const {
        auto const& model = checkpoint.model;
        HostContext context({.threads = 1});
        ParameterLoader<Host> loader(context, stored, {.dtype = Dtype::f32});
        auto const readers = detail::parameter_readers(model);
        std::vector<FileTensorData> out;
        walk_tensors(model.tree, [&](std::string_view name, Tensor const& tensor) {
            if (!tensor.is_parameter()) return;
            auto const found = stored.find(name);
            if (!found) return;  // a tied name
            auto const elements = tensor.shape.elements();
            std::vector<float> values(static_cast<std::size_t>(elements));
            auto const reader = readers.find(name);
            bool const is_linear = reader != readers.end() && reader->second.operation->kind == OpKind::linear;
            if (is_linear || tensor.shape.rank() == 2) {
                bool const is_vector = tensor.shape.rank() == 1;
                auto const outputs = tensor.shape[tensor.is_transposed ? 1 : 0];
                auto const inputs = is_vector ? 1 : tensor.shape[tensor.is_transposed ? 0 : 1];
                std::vector<UnitRange> from{{0, outputs}};
                std::vector<UnitRange> to_rows = from;
                if (is_linear) {
                    auto const& op = *reader->second.operation;
                    from = stored_rows(op, model, stored.is_gguf(), {{0, outputs}});
                    to_rows = stored_rows(op, model, false, {{0, outputs}});
                }
                std::vector<float> rows;
                if (is_vector) {
                    rows = take(loader.floats(*found, outputs, from));
                } else {
                    auto const matrix = take(loader.matrix(
                        *found,
                        {.outputs = outputs, .inputs = inputs, .is_turned = tensor.is_transposed, .rows = from}));
                    rows.resize(static_cast<std::size_t>(elements));
                    for (std::int64_t row = 0; row < outputs; ++row)
                        detail::decode_source(matrix.source(), row, 0, inputs, rows.data() + row * inputs);
                }
                std::int64_t next = 0;
                for (auto const& range : to_rows) {
                    for (auto row = range.begin; row < range.end; ++row, ++next) {
                        for (std::int64_t column = 0; column < inputs; ++column) {
                            auto const at = tensor.is_transposed ? column * outputs + row : row * inputs + column;
                            values[static_cast<std::size_t>(at)] =
                                rows[static_cast<std::size_t>(next * inputs + column)];
                        }
                    }
                }
            } else {
                values = take(loader.floats(*found, elements));
                bool const is_norm = reader != readers.end() && reader->second.operation->kind == OpKind::norm &&
                                     reader->second.operation->norm().kind == NormKind::rms_offset;
                if (is_norm && stored.is_gguf())
                    for (auto& value : values) value -= 1.0F;
            }
            std::vector<std::int64_t> shape;
            for (std::size_t d = 0; d < tensor.shape.rank(); ++d) shape.push_back(tensor.shape[d]);
            out.push_back({std::string(name), "F32", shape, bytes_of(values)});
        });
        write_tensors(to / "model.safetensors", out);
        (void)to.write("config.json", "{}");
        return take(find_model(to.path(), {}, HubCache(HubEnvironment{})));
    }
};

TEST_CASE(
    "compute_beside: an adapter of a base that stays packed gives the logits of the float base that it is merged into, "
    "the same bits over tp x pp ranks") {
    for (auto const* const name :
         {"packed/nf4", "packed/gptq", "packed/int8", "gguf/mistral-bf16.gguf", "gguf/gpt2-q8_0.gguf",
          "gguf/phi3-q8_0.gguf", "gguf/qwen2-q8_0.gguf", "gguf/gemma-f32.gguf", "gguf/falcon_groups-bf16.gguf",
          "gguf/gpt_neox-f32.gguf", "gguf/olmo2-q8_0.gguf"}) {
        CAPTURE(std::string(name));
        PackedBase const base(name);
        TemporaryFolder const folder;
        auto const floats = base.unpacked(folder);
        auto const merged = base.adapter();
        auto const expected = run_stages<Fast>(base.checkpoint.model, floats, base.one, 1, 1, {.adapter = &merged});
        auto const plain = run_stages<Fast>(base.checkpoint.model, base.source, base.one, 1);
        auto const alone = base.beside<Deterministic>(1);
        REQUIRE(alone.size() == 2);
        for (std::size_t i = 0; i < 2; ++i) {
            CHECK(worst(alone[i], expected[i]) < 2e-4);
            CHECK(worst(plain[i], expected[i]) > 1e-2);
        }
        CHECK(base.beside<Deterministic>(2, std::string(name).starts_with("gguf") ? 2 : 1) == alone);
        auto const fast = base.beside<Fast>(2);
        for (std::size_t i = 0; i < 2; ++i) CHECK(worst(fast[i], expected[i]) < 2e-4);
    }
    // Layers that compute otherwise than others.
    PackedBase const some("gguf/mistral-bf16.gguf", "q_proj");
    TemporaryFolder const folder;
    auto const floats = some.unpacked(folder);
    auto const merged = some.adapter();
    auto const expected = run_stages<Fast>(some.checkpoint.model, floats, some.one, 1, 1, {.adapter = &merged});
    CHECK(worst(some.beside<Fast>(1)[1], expected[1]) < 2e-4);
}

TEST_CASE("ParameterLoader: what an adapter changes of a GGUF file is never loaded as transformers has its rows") {
    PackedBase const base("gguf/qwen2-q8_0.gguf");
    TemporaryFolder const folder;
    std::string const module = "base_model.model.model.layers.0.self_attn.q_proj";
    auto const width = base.checkpoint.model.config.hidden_size;
    write_adapter(folder,
                  R"({"peft_type":"LORA","r":2,"lora_alpha":4,"target_modules":["q_proj"],"bias":"all",)"
                  R"("layers_to_transform":[0]})",
                  {{module + ".lora_A.weight", {2, width}},
                   {module + ".lora_B.weight", {width, 2}},
                   {module + ".base_layer.bias", {width}}});
    auto adapter = Adapter::open(folder.path(), base.checkpoint.model);
    REQUIRE_MESSAGE(adapter, (adapter ? "" : adapter.error().message()));
    HostContext context({.threads = 1});
    ParameterLoader<Host> loader(context, base.stored, {.adapter = &*adapter});
    auto const weight = base.stored.find("model.layers.0.self_attn.q_proj.weight");
    auto const bias = base.stored.find("model.layers.0.self_attn.q_proj.bias");
    auto const other = base.stored.find("model.layers.0.self_attn.o_proj.weight");
    REQUIRE((weight && bias && other));
    auto const refused = loader.matrix(*weight, {.outputs = width, .inputs = width});
    REQUIRE_FALSE(refused);
    CHECK(refused.error().message().find("is of a GGUF file") != std::string::npos);
    auto const vector = loader.floats(*bias, width);
    REQUIRE_FALSE(vector);
    CHECK(vector.error().message().find("is of a GGUF file") != std::string::npos);
    CHECK(loader.matrix(*other, {.outputs = width, .inputs = width}));
}

}  // namespace
