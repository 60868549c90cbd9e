// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/activation_names.hpp>
#include <shardwise/model/architectures.hpp>
#include <shardwise/model/presets.hpp>

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

using namespace shardwise;

namespace {

std::string name_of_activation(ActivationKind kind) {
    for (auto const& row : activation_names) {
        if (row.kind == kind) return std::string(row.name);
    }
    return "swiglu_clamped";
}

/// "self_attn.q_proj" for "self_attn.q_proj.weight", "lm_head" for the head's "weight".
std::string layer_of(std::string_view parameter) {
    auto const dot = parameter.rfind(".weight");
    return std::string(dot == std::string_view::npos ? parameter : parameter.substr(0, dot));
}

/// The last value of a body as a formula over its input.
std::string formula(BlockBody const& body) {
    std::vector<std::string> values(body.values().size());
    values[0] = "x";
    std::string last;
    for (auto const& op : body.operations()) {
        std::string arguments;
        for (auto const input : op.inputs) {
            if (input == no_value) continue;
            arguments += (arguments.empty() ? "" : ", ") + values[static_cast<std::size_t>(input)];
        }
        std::string function;
        switch (op.kind) {
            case OpKind::embedding:
                function = "rows";
                break;
            case OpKind::norm:
            case OpKind::linear:
            case OpKind::experts:
                function = layer_of(op.parameters[0]);
                break;
            case OpKind::rope:
                function = "rope";
                break;
            case OpKind::attention:
                function = op.parameters[0].empty() ? "attention" : "attention with " + std::string(op.parameters[0]);
                break;
            case OpKind::activation:
                function = name_of_activation(op.activation());
                break;
            case OpKind::add:
                function = "add";
                break;
            case OpKind::route:
                function = "route";
                break;
            case OpKind::combine:
                function = "combine";
                break;
            case OpKind::last_token:
                function = "last";
                break;
            case OpKind::scale:
                function = "scale";
                break;
            case OpKind::part:
                function = "part";
                break;
            case OpKind::gated_delta:
                function = "gated_delta";
                break;
        }
        last = function + "(" + arguments + ")";
        values[static_cast<std::size_t>(op.output)] = last;
    }
    return last;
}

/// The formula of a preset's last decoder layer.
std::string layer_formula(ModelConfig const& config) {
    auto const model = describe(config);
    REQUIRE_MESSAGE(model.has_value(), model.error().message());
    std::string found;
    for (auto const& block : model->program.blocks()) {
        if (block.role == ModuleRole::layer) found = formula(model->program.body(block));
    }
    return found;
}

std::string call(std::string const& function, std::string const& a) {
    return function + "(" + a + ")";
}
std::string call(std::string const& function, std::string const& a, std::string const& b) {
    return function + "(" + a + ", " + b + ")";
}

/// Grouped-query attention of `in` as llama's forward has it; `norm` adds norms of heads.
std::string attention(std::string const& in, bool has_head_norms = false, std::string const& kind = "attention") {
    auto q = call("self_attn.q_proj", in);
    auto k = call("self_attn.k_proj", in);
    if (has_head_norms) q = call("self_attn.q_norm", q), k = call("self_attn.k_norm", k);
    return call("self_attn.o_proj",
                kind + "(" + call("rope", q) + ", " + call("rope", k) + ", " + call("self_attn.v_proj", in) + ")");
}

std::string gated(std::string const& prefix, std::string const& activation, std::string const& in) {
    return call(prefix + "down_proj", call(activation, call(prefix + "gate_proj", in), call(prefix + "up_proj", in)));
}

}  // namespace

// The formulas are those of `forward` in transformers 4.57's decoder layers.

TEST_CASE("llama's layer adds attention and MLP of normed inputs to the residual") {
    auto const middle = call("add", "x", attention("input_layernorm(x)"));
    auto const wanted = call("add", middle, gated("mlp.", "silu", call("post_attention_layernorm", middle)));
    CHECK(layer_formula(presets::llama_3_8b) == wanted);
    CHECK(layer_formula(presets::mistral_7b) == wanted);
    CHECK(layer_formula(presets::qwen2_5_7b) == wanted);
}

TEST_CASE("qwen3's layer norms the heads of queries and keys before rope") {
    auto const middle = call("add", "x", attention("input_layernorm(x)", true));
    CHECK(layer_formula(presets::qwen3_8b) ==
          call("add", middle, gated("mlp.", "silu", call("post_attention_layernorm", middle))));
}

TEST_CASE("gemma2's and gemma3's layers norm what they add as well") {
    for (bool const is_third : {false, true}) {
        auto const attended = call("post_attention_layernorm", attention("input_layernorm(x)", is_third));
        auto const middle = call("add", "x", attended);
        auto const fed = gated("mlp.", "gelu_pytorch_tanh", call("pre_feedforward_layernorm", middle));
        CHECK(layer_formula(is_third ? presets::gemma_3_1b : presets::gemma_2_9b) ==
              call("add", middle, call("post_feedforward_layernorm", fed)));
    }
}

TEST_CASE("granite's layer scales what it adds to the residual, its embedding and its head scale as well") {
    auto const middle = call("add", "x", call("scale", attention("input_layernorm(x)")));
    auto const fed = gated("mlp.", "silu", call("post_attention_layernorm", middle));
    CHECK(layer_formula(presets::granite_3_3_2b) == call("add", middle, call("scale", fed)));
    auto const model = describe(presets::granite_3_3_2b);
    REQUIRE(model);
    auto const& bodies = model->program.bodies();
    CHECK(formula(bodies[0]) == "scale(rows(x))");
    CHECK(formula(bodies[bodies.size() - 1]) == "weight(scale(last(x)))");
}

TEST_CASE("mixtral's layer routes tokens to experts w1, w3 and w2") {
    auto const middle = call("add", "x", attention("input_layernorm(x)"));
    auto const in = call("post_attention_layernorm", middle);
    std::string const moe = "block_sparse_moe.";
    auto const routes = call("route", call(moe + "gate", in));
    auto const expert = [&](std::string const& name, std::string const& value) {
        return call(moe + "experts.*." + name, value, routes);
    };
    auto const experts = expert("w2", call("silu", expert("w1", in), expert("w3", in)));
    CHECK(layer_formula(presets::mixtral_8x7b) == call("add", middle, call("combine", experts, routes)));
}

TEST_CASE("qwen2_moe's layer adds the shared expert, scaled by its gate, to the routed ones") {
    auto const middle = call("add", "x", attention("input_layernorm(x)"));
    auto const in = call("post_attention_layernorm", middle);
    auto const routes = call("route", call("mlp.gate", in));
    auto const expert = [&](std::string const& name, std::string const& value) {
        return call("mlp.experts.*." + name, value, routes);
    };
    auto const experts = expert("down_proj", call("silu", expert("gate_proj", in), expert("up_proj", in)));
    auto const shared = call("sigmoid", call("mlp.shared_expert_gate", in), gated("mlp.shared_expert.", "silu", in));
    CHECK(layer_formula(presets::qwen1_5_moe_a2_7b) ==
          call("add", middle, call("add", call("combine", experts, routes), shared)));
}

TEST_CASE("phi3's layer splits packed projections") {
    auto const qkv = call("rope", "self_attn.qkv_proj(input_layernorm(x))");
    auto const middle = call("add", "x", call("self_attn.o_proj", "attention(" + qkv + ", " + qkv + ", " + qkv + ")"));
    auto const packed = call("mlp.gate_up_proj", call("post_attention_layernorm", middle));
    CHECK(layer_formula(presets::phi_4) == call("add", middle, call("mlp.down_proj", call("silu", packed, packed))));
}

TEST_CASE("gpt_oss's layer attends with sinks and has biased, clamped experts in stacks") {
    auto const middle = call("add", "x", attention("input_layernorm(x)", false, "attention with self_attn.sinks"));
    auto const in = call("post_attention_layernorm", middle);
    auto const routes = call("route", call("mlp.router", in));
    auto const packed = call("mlp.experts.gate_up_proj", in, routes);
    auto const experts = call("mlp.experts.down_proj", call("swiglu_clamped", packed, packed), routes);
    CHECK(layer_formula(presets::gpt_oss_20b) == call("add", middle, call("combine", experts, routes)));
}

TEST_CASE("A decoder's program begins with the embedding and ends with norm and head of the last tokens") {
    auto const model = describe(presets::llama_3_8b);
    REQUIRE(model.has_value());
    auto const& blocks = model->program.blocks();
    REQUIRE(blocks.size() == 4);
    CHECK(blocks[0].module == "model.embed_tokens");
    CHECK(formula(model->program.body(blocks[0])) == "rows(x)");
    CHECK(blocks[1].module == "model.layers");
    CHECK(blocks[1].count == 32);
    CHECK(blocks[2].module == "model.norm");
    CHECK(formula(model->program.body(blocks[2])) == "weight(x)");
    CHECK(blocks[3].module == "lm_head");
    CHECK(formula(model->program.body(blocks[3])) == "weight(last(x))");
}
