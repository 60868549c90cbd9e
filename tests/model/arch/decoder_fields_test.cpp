// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/arch/detail/decoder_fields.hpp>
#include <shardwise/model/arch/detail/model_class.hpp>

#include <doctest/doctest.h>

#include <string>

using namespace shardwise;

namespace {

/// The keys of a table in its order, separated by blanks.
std::string keys_of(Span<Field const> fields) {
    std::string keys;
    for (auto const& field : fields) keys += std::string(field.key) + ' ';
    return keys;
}

Field const& row(Span<Field const> fields, std::string_view key) {
    for (auto const& field : fields) {
        if (field.key == key) return field;
    }
    FAIL("no row");
    return fields.front();
}

}  // namespace

TEST_CASE("decoder_fields: a family's own rows stand between the sizes and the rows that tables end with") {
    static constexpr auto fields = detail::decoder_fields({.layers = 3}, positive_field("turns", 4));
    CHECK(keys_of(fields) ==
          "vocab_size hidden_size intermediate_size num_hidden_layers num_attention_heads num_key_value_heads "
          "max_position_embeddings head_dim turns tie_word_embeddings rms_norm_eps rope_theta hidden_act ");
    static constexpr auto without = detail::decoder_fields_without_head_dim({}, positive_field("turns", 4));
    CHECK(keys_of(without).find("head_dim") == std::string::npos);
    CHECK(without.size() == fields.size() - 1);
    CHECK(row(fields, "num_hidden_layers").fallback == 3);
}

TEST_CASE("decoder_fields: null is derived unless the family says that its class does not") {
    static constexpr auto usual = detail::decoder_fields({});
    static constexpr auto strict =
        detail::decoder_fields({.has_nullable_kv_heads = false, .has_nullable_head_dim = false});
    for (auto const* key : {"num_key_value_heads", "head_dim"}) {
        CAPTURE(key);
        CHECK(row(usual, key).rule == FieldRule::optional);
        CHECK(row(strict, key).rule == FieldRule::positive);
    }
    static constexpr auto mixed = detail::decoder_fields({.has_nullable_kv_heads = false});
    CHECK(row(mixed, "head_dim").rule == FieldRule::optional);
}

TEST_CASE("decoder_fields: layer norms have another key, in config.json and in GGUF") {
    static constexpr auto rms = detail::decoder_fields({.norm_epsilon = 3e-6});
    CHECK(row(rms, "rms_norm_eps").gguf == "attention.layer_norm_rms_epsilon");
    CHECK(row(rms, "rms_norm_eps").real_fallback == 3e-6);
    static constexpr auto layer =
        detail::decoder_fields({.layer_norm_key = "norm_eps", .activation_key = "hidden_activation"});
    CHECK(row(layer, "norm_eps").gguf == "attention.layer_norm_epsilon");
    CHECK(row(layer, "hidden_activation").type == FieldType::activation);
}

TEST_CASE("check_class: the classes of a prefix are those of its kinds, and no others") {
    auto const check = [](std::string_view name) {
        ModelConfig config;
        config.model_class = name;
        auto const known = detail::check_class(config, "Qwen3", detail::label_classes);
        return known ? std::string(config.model_class.view()) + " " + std::to_string(config.labels)
                     : std::string(known.error().message());
    };
    CHECK(check("") == "Qwen3ForCausalLM 0");
    CHECK(check("Qwen3Model") == "Qwen3Model 0");
    CHECK(check("Qwen3ForTokenClassification") == "Qwen3ForTokenClassification 2");
    for (auto const* wrong : {"Qwen3", "Qwen3MoeForCausalLM", "Qwen2ForCausalLM", "ForCausalLM", "Qwen3ForMaskedLM"}) {
        CAPTURE(wrong);
        CHECK(check(wrong) == std::string(wrong) +
                                  ": architectures: is not a class of this family that can be counted; did you mean "
                                  "Qwen3ForCausalLM?");
    }
}
