// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/activation_names.hpp>
#include <shardwise/model/architectures.hpp>
#include <shardwise/model/field.hpp>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <array>
#include <fstream>
#include <set>
#include <string>

using namespace shardwise;

TEST_CASE("Field: stores reals in the config or its rope") {
    ModelConfig config;
    rope_field("rope_theta", &RopeParameters::theta, 5.0).store(config, 7.0);
    real_field("eps", &ModelConfig::norm_epsilon, 1.0).store_default(config);
    natural_field("window", &ModelConfig::sliding_window, 3).store_default(config);
    flag_field("tie", &ModelConfig::tie_word_embeddings, true).store_default(config);
    activation_field("act", ActivationKind::relu).store_default(config);
    CHECK(config.rope.theta == 7.0);
    CHECK(config.norm_epsilon == 1.0);
    CHECK(config.sliding_window == 3);
    CHECK(config.tie_word_embeddings);
    CHECK(config.activation == ActivationKind::relu);
}

TEST_CASE("derive_absent: fills what is 0 from its row's source, and nothing else") {
    static constexpr std::array fields{
        positive_field("hidden_size", &ModelConfig::hidden_size, 8),
        optional_field("ffn", &ModelConfig::intermediate_size, 0).derived_from(&ModelConfig::hidden_size, 4),
        optional_field("decoder_layers", 0).derived_from(&ModelConfig::layers),
        optional_field("kv_heads", &ModelConfig::kv_heads, 0)};
    ModelConfig config;
    config.hidden_size = 16;
    config.layers = 3;
    config.own.set("decoder_layers", 5);
    derive_absent(fields, config);
    CHECK(config.intermediate_size == 64);
    CHECK(config.own["decoder_layers"] == 5);
    CHECK(config.kv_heads == 0);
}

TEST_CASE("Field: a row without a member is the family's own number, under its key") {
    static constexpr std::array fields{positive_field("turns", 4), flag_field("mirrored", true),
                                       natural_field("hidden_size", &ModelConfig::hidden_size, 8),
                                       natural_field("wide", 0).derived_from(&ModelConfig::hidden_size, 2)};
    ModelConfig config;
    CHECK(count_own(fields) == 3);
    CHECK(fields[0].number_of(config) == 4);
    fields[0].store_number(config, 6);
    config.hidden_size = 5;
    set_own_defaults(fields, config);
    CHECK(config.own["turns"] == 6);
    CHECK(config.own["mirrored"] == 1);
    CHECK_FALSE(config.own.has("hidden_size"));
    derive_absent(fields, config);
    CHECK(config.own["wide"] == 10);
    CHECK(config.hidden_size == 5);
    auto const rate = real_field("rate", 0.1);
    CHECK(rate.is_own());
    CHECK(rate.real_of(config) == 0.1);
    rate.store(config, -0.3);
    CHECK(config.own.real("rate") == -0.3);
}

TEST_CASE("Field tables have one row per key, and no key that another row reads") {
    Architectures::for_each([&]<class Arch>(Arch) {
        std::set<std::string_view> keys;
        for (auto const& field : Arch::fields) {
            CAPTURE(field.key);
            CHECK(keys.insert(field.key).second);
            for (auto const alias : field.aliases) CHECK((alias.empty() || keys.insert(alias).second));
        }
    });
}

TEST_CASE("Defaults are those of transformers' configuration classes") {
    std::ifstream file(std::string(SHARDWISE_SOURCE_DIR) + "/tests/golden/config_defaults.json");
    auto const golden = nlohmann::json::parse(file);
    // Of what begins in transformers 5, the keys of its classes.
    std::ifstream newer_file(std::string(SHARDWISE_SOURCE_DIR) + "/tests/golden/versions/keys-5.23.0.json");
    auto const newer = nlohmann::json::parse(newer_file);
    int compared = 0;
    Architectures::for_each([&]<class Arch>(Arch) {
        CAPTURE(Arch::name);
        auto const& types = golden.at("types");
        std::string const family(Arch::name);
        nlohmann::json const type =
            types.contains(family) ? types.at(family) : nlohmann::json{{"fields", newer.at(family)}};
        for (auto const& field : Arch::fields) {
            CAPTURE(field.key);
            // A key that is no parameter of the class has its default in `base` or nowhere.
            std::string const key(field.key);
            auto const& fields = type.at("fields");
            auto const& base = golden.at("base");
            if (!fields.contains(key) && !base.contains(key)) continue;
            auto const& wanted = fields.contains(key) ? fields.at(key) : base.at(key);
            ++compared;
            switch (field.type) {
                case FieldType::integer:
                    CHECK(field.fallback == (wanted.is_null() ? 0 : wanted.get<std::int64_t>()));
                    break;
                case FieldType::choice:
                    CHECK(field.choices[0] == wanted.get<std::string>());
                    break;
                case FieldType::flag:
                    CHECK((field.fallback != 0) == (!wanted.is_null() && wanted.get<bool>()));
                    break;
                case FieldType::real:
                    CHECK(field.real_fallback == (wanted.is_null() ? 0.0 : wanted.get<double>()));
                    break;
                case FieldType::activation: {
                    // As configuration_mt5.py of transformers 4.57 splits feed_forward_proj.
                    auto const written = wanted.get<std::string>();
                    auto const name = written == "gated-gelu" ? std::string("gelu_new") : written;
                    CHECK(static_cast<ActivationKind>(field.fallback) == parse_activation(name));
                    break;
                }
                case FieldType::refused:
                    CHECK_FALSE(wanted.get<bool>());
                    break;
                case FieldType::version:
                    CHECK(field.fallback == 0);
                    break;
            }
        }
    });
    CHECK(compared > 200);
}

TEST_CASE("Activations: configurations' names, and the classes of their modules") {
    CHECK(parse_activation("gelu_pytorch_tanh") == ActivationKind::gelu_tanh);
    CHECK(parse_activation("swish") == ActivationKind::silu);
    CHECK(!parse_activation("GELU"));
    CHECK(!parse_activation(""));
    CHECK(activation_class(ActivationKind::gelu_new) == "NewGELUActivation");
    CHECK(activation_class(ActivationKind::gelu_tanh) == "GELUTanh");
    CHECK(activation_class(ActivationKind::swiglu_clamped).empty());
}
