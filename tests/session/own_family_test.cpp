// SPDX-License-Identifier: Apache-2.0
// A program of its own adds a family of models to a list of its own, and loads and runs checkpoints of it.
#include <shardwise/memory/estimator.hpp>
#include <shardwise/model/arch/detail/classic_decoder.hpp>
#include <shardwise/model/check_model.hpp>
#include <shardwise/model/files/checkpoint.hpp>
#include <shardwise/session/run_on_threads.hpp>

#include <doctest/doctest.h>

#include "../executor/formula.hpp"
#include "../executor/written_files.hpp"
#include "temporary_folder.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace shardwise;
using namespace shardwise::testing;

/// A family that no header of the library knows: llama's operations under other names, rows of queries and keys in the order
/// of the model in GGUF, too, and a key that changes the model and is not read.
struct Tiny {
    static constexpr std::string_view name = "tiny";
    static constexpr std::string_view gguf_name = "tiny-gguf";
    static constexpr auto fields = Llama::fields;
    static constexpr auto aliases = Llama::aliases;
    static constexpr std::array unread_keys{UnreadKey{"tiny_twist", "false"}};

    static constexpr Result<> complete(ModelConfig& config) { return Llama::complete(config); }
    static constexpr ModuleTree tree(auto const& config) { return Llama::tree(config); }
    static constexpr BlockProgram program(auto const& config, ModuleTree const& tree) {
        return Llama::program(config, tree);
    }
};
static_assert(ModelArchitecture<Tiny>);

/// Llama's layers under names that mean something else in other families.
struct Odd {
    static constexpr std::string_view name = "odd";
    static constexpr std::string_view gguf_name{};
    static constexpr auto fields = Llama::fields;
    static constexpr std::array<NameAlias, 0> aliases{};

    static constexpr Result<> complete(ModelConfig& config) { return detail::complete_heads(config); }
    static constexpr ModuleTree tree(auto const& config) {
        ModuleTree tree;
        detail::PartMaker part(tree, config.dtype_or(Dtype::f32));
        auto const hidden = config.hidden_size;
        auto const width = config.intermediate_size;
        auto const kv_width = config.kv_heads * config.head_dim;
        auto const heads = ShardRule::units(0, config.heads);
        auto const kv = ShardRule::kv(0, config.kv_heads, config.heads);
        auto const across = ShardRule::units(1, config.heads);
        auto const norm = part.norm("Norm", hidden);
        auto const in = part.linear(width, hidden, false, ShardRule::units(0, width), TensorUse::ffn_up);
        auto const out = part.linear(hidden, width, false, ShardRule::units(1, width), TensorUse::ffn_down);
        auto const layer =
            tree.add("Layer", {},
                     {{"down_proj", part.linear(hidden, hidden, false, heads, TensorUse::attention_q)},
                      {"gate", part.linear(kv_width, hidden, false, kv, TensorUse::attention_k)},
                      {"w1", part.linear(kv_width, hidden, false, kv, TensorUse::attention_v)},
                      {"q_proj", part.linear(hidden, hidden, false, across, TensorUse::attention_output)},
                      {"v_proj", in},
                      {"k_proj", in},
                      {"wte", out},
                      {"lm_head", norm},
                      {"o_proj", norm}});
        auto const list = tree.add("ModuleList", {}, {numbered(0, config.layers, layer, ModuleRole::layer)});
        auto const head =
            part.linear(config.vocab_size, hidden, false, ShardRule::units(0, config.vocab_size), TensorUse::head);
        tree.set_root(
            tree.add("Odd", {},
                     {{"position_embeddings", part.vocabulary(config.vocab_size, hidden), ModuleRole::embedding},
                      {"h", list},
                      {"router", norm, ModuleRole::norm},
                      {"embed_tokens", head, ModuleRole::head}}));
        return tree;
    }
    static constexpr BlockProgram program(auto const& config, ModuleTree const& tree) {
        ProgramBuilder model(tree);
        model.tokens("position_embeddings");
        model.layers("h", [&](BlockBuilder& body) {
            auto const shape = detail::plain_attention(config);
            auto const in = body.norm(body.input(), NormKind::rms, "lm_head");
            auto const q = body.rope(body.linear(in, "q", "down_proj"), shape);
            auto const k = body.rope(body.linear(in, "k", "gate"), shape);
            auto const context = body.attention(q, k, body.linear(in, "v", "w1"), shape);
            auto const middle = body.add(body.input(), body.linear(context, "out", "q_proj"));
            auto const normed = body.norm(middle, NormKind::rms, "o_proj");
            auto const gate = body.linear(normed, "gate", "v_proj");
            auto const up = body.gated(gate, body.linear(normed, "up", "k_proj"), config.activation);
            (void)body.add(middle, body.linear(up, "mlp_out", "wte"));
        });
        model.norm("router", NormKind::rms);
        model.head("embed_tokens");
        return std::move(model).finish();
    }
};
static_assert(ModelArchitecture<Odd>);
using Families = ArchitectureList<Tiny, Gpt2>;

constexpr auto sizes =
    R"("vocab_size":61,"hidden_size":24,"intermediate_size":40,"num_hidden_layers":2,"num_attention_heads":4,)"
    R"("num_key_value_heads":2,"max_position_embeddings":64})";

std::string config_of(std::string const& model_type) { return "{\"model_type\":\"" + model_type + "\"," + sizes; }

template <class List>
std::vector<std::int32_t> generate(std::string const& model, std::int32_t tp) {
    auto const source = find_model(model, {}, HubCache(HubEnvironment{}));
    REQUIRE(source);
    auto const checkpoint = read_checkpoint<List>(*source);
    REQUIRE_MESSAGE(checkpoint, (checkpoint ? "" : checkpoint.error().message()));
    GenerationRequest request;
    request.prompt = {5, 9, 2};
    request.max_new_tokens = 8;
    auto const report = run_on_threads(*source, checkpoint->model, {request}, {.tp = tp});
    REQUIRE_MESSAGE(report, (report ? "" : report.error().message()));
    auto const& tokens = report->generations.front().tokens;
    return {tokens.begin(), tokens.end()};
}

}  // namespace

TEST_CASE("own family: a list of a program's own reads its config, safetensors and GGUF, and generates over ranks") {
    TemporaryFolder const own, usual, files;
    (void)own.write("config.json", config_of("tiny"));
    (void)usual.write("config.json", config_of("llama"));
    auto const only = find_model(own / "config.json", {}, HubCache(HubEnvironment{}));
    REQUIRE(only);
    auto const described = read_checkpoint<Families>(*only);
    REQUIRE(described);
    auto const& model = described->model;
    REQUIRE(model.family != nullptr);
    CHECK(model.family->name == "tiny");
    write_formula_model(model, own / "model.safetensors", 0);
    write_formula_model(model, usual / "model.safetensors", 0);

    std::vector<FileTensorData> tensors;
    walk_tensors(model.tree, [&](std::string_view name, Tensor const& tensor) {
        if (!tensor.is_parameter()) return;
        // The names of GGUF, by hand.
        std::string file(name);
        auto const replace = [&file](std::string_view from, std::string_view to) {
            if (auto const at = file.find(from); at != std::string::npos) file.replace(at, from.size(), to);
        };
        replace("model.layers.", "blk.");
        for (auto const& [from, to] : std::vector<std::pair<std::string_view, std::string_view>>{
                 {"self_attn.q_proj", "attn_q"}, {"self_attn.k_proj", "attn_k"}, {"self_attn.v_proj", "attn_v"},
                 {"self_attn.o_proj", "attn_output"}, {"mlp.gate_proj", "ffn_gate"}, {"mlp.up_proj", "ffn_up"},
                 {"mlp.down_proj", "ffn_down"}, {"input_layernorm", "attn_norm"}, {"post_attention_layernorm", "ffn_norm"},
                 {"model.embed_tokens", "token_embd"}, {"model.norm", "output_norm"}, {"lm_head", "output"}})
            replace(from, to);
        std::vector<std::int64_t> shape(tensor.shape.begin(), tensor.shape.end());
        tensors.push_back({file, "", shape, bytes_of(formula(name, tensor.shape, 0)), 0});
    });
    std::vector<std::pair<std::string, std::uint16_t>> const keys{
        {"tiny-gguf.embedding_length", 24},     {"tiny-gguf.feed_forward_length", 40}, {"tiny-gguf.block_count", 2},
        {"tiny-gguf.attention.head_count", 4}, {"tiny-gguf.attention.head_count_kv", 2}, {"tiny-gguf.vocab_size", 61},
        {"tiny-gguf.context_length", 64}};
    std::vector<std::pair<std::string, std::string>> const names{{"general.architecture", "tiny-gguf"}};
    write_gguf(files / "model.gguf", tensors, keys, names, {{"tiny-gguf.attention.layer_norm_rms_epsilon", 1e-6F}});

    // What changes results and is not in the file, or is and nothing reads it, is refused where the file is run.
    auto const refusal = [&](std::string const& file) {
        auto const source = find_model(files / file, {}, HubCache(HubEnvironment{}));
        REQUIRE(source);
        auto const checkpoint = read_checkpoint<Families>(*source);
        REQUIRE(checkpoint);
        auto const report = run_on_threads(*source, checkpoint->model, {GenerationRequest{.prompt = {5}}});
        REQUIRE_FALSE(report);
        return std::string(report.error().place());
    };
    write_gguf(files / "vague.gguf", tensors, keys, names);
    CHECK(refusal("vague.gguf") == "tiny-gguf.attention.layer_norm_rms_epsilon");
    auto more = tensors;
    more.push_back({"blk.1.attn_q_norm.weight", "", {6}, bytes_of(std::vector<float>(6, 2.0F)), 0});
    write_gguf(files / "more.gguf", more, keys, names, {{"tiny-gguf.attention.layer_norm_rms_epsilon", 1e-6F}});
    CHECK(refusal("more.gguf") == "blk.1.attn_q_norm.weight");

    auto const expected = generate<Architectures>(usual.path(), 1);
    CHECK(expected.size() == 8);
    for (std::int32_t const tp : {1, 2}) {
        CHECK(generate<Families>(own.path(), tp) == expected);
        CHECK(generate<Families>(files / "model.gguf", tp) == expected);
    }
}

TEST_CASE("own family: what a weight is for is what the family says, whatever its name") {
    ModelConfig config;
    for (auto const& field : Llama::fields) field.store_default(config);
    config.vocab_size = config.hidden_size = 256;
    config.intermediate_size = 512;
    config.layers = 16;
    config.heads = 8;
    config.kv_heads = 2;
    config.dtype = Dtype::bf16;
    auto const odd = describe<Odd>(config);
    auto const usual = describe<Llama>(config);
    REQUIRE(odd);
    REQUIRE(usual);
    CHECK(check_model(*odd));
    for (auto const scheme : {"Q4_K_M", "Q3_K_L", "Q2_K", "IQ2_XS", "MXFP4_MOE", "fp8", "gptq"}) {
        CAPTURE(scheme);
        for (std::int64_t const tp : {1, 2, 3}) {
            EstimateRequest request{.quant = parse_quant_scheme(scheme).value(), .context = 16};
            request.parallel.tp = tp;
            auto const ours = estimate_memory(*odd, request);
            auto const theirs = estimate_memory(*usual, request);
            REQUIRE(ours);
            REQUIRE(theirs);
            CHECK(ours->terms == theirs->terms);
        }
    }
}

TEST_CASE("own family: what is not in the list is refused by name, and its own unread keys are warned of") {
    CHECK(read_config<Families>(config_of("llama"), "config.json").error().code() == ErrorCode::unknown_name);
    CHECK(read_config(config_of("tiny"), "config.json").error().code() == ErrorCode::unknown_name);
    auto const twisted = read_config<Families>(R"({"model_type":"tiny","tiny_twist":true,)" + std::string(sizes), "c.json");
    REQUIRE(twisted);
    REQUIRE(twisted->warnings.size() == 1);
    CHECK(twisted->warnings[0] == "c.json: tiny_twist is not read: the model is described with false");
}
