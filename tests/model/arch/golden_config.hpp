#pragma once

#include <shardwise/model/activation_names.hpp>
#include <shardwise/model/architectures.hpp>

#include <nlohmann/json.hpp>

#include <fstream>
#include <stdexcept>
#include <string>

/// A config.json read through a family's field table, with no more than the golden configurations need.
namespace golden {

inline nlohmann::ordered_json read_json(std::string const& path) {
    std::ifstream file(path);
    if (!file) throw std::runtime_error("cannot read " + path);
    return nlohmann::ordered_json::parse(file);
}

inline void store(shardwise::ModelConfig& config, shardwise::Field const& field, nlohmann::ordered_json const& value) {
    using shardwise::FieldType;
    switch (field.type) {
        case FieldType::integer:
            if (value.is_null() && field.rule == shardwise::FieldRule::positive) {
                throw std::runtime_error(std::string(field.key) + " is null");
            }
            config.*field.integer = value.is_null() ? 0 : value.get<std::int64_t>();
            return;
        case FieldType::flag: config.*field.flag = !value.is_null() && value.get<bool>(); return;
        case FieldType::real: field.store(config, value.is_null() ? 0.0 : value.get<double>()); return;
        case FieldType::activation:
            if (!value.is_null()) config.*field.activation = shardwise::parse_activation(value.get<std::string>()).value();
            return;
        case FieldType::choice:
            for (std::size_t i = 0; i < field.choices.size(); ++i) {
                if (!value.is_null() && field.choices[i] == value.get<std::string>()) {
                    config.*field.integer = static_cast<std::int64_t>(i);
                }
            }
            return;
    }
}

/// The config of a golden case; `part` names the key that describes the text model, or is empty.
inline shardwise::ModelConfig read_config(std::string const& path, std::string const& part) {
    auto const whole = read_json(path);
    auto const& fields = part.empty() ? whole : whole.at(part);
    shardwise::ModelConfig config;
    config.model_type.assign(fields.at("model_type").get<std::string>());
    config.model_class.assign(whole.at("architectures").at(0).get<std::string>());
    for (auto const* const source : {&whole, &fields}) {
        for (auto const* const key : {"torch_dtype", "dtype"}) {
            if (source->contains(key) && !source->at(key).is_null()) {
                config.dtype = shardwise::parse_dtype(source->at(key).get<std::string>());
            }
        }
    }
    bool const is_known = shardwise::Architectures::with(config.model_type.view(), [&]<class Arch>(Arch) {
        for (auto const& field : Arch::fields) {
            field.store_default(config);
            if (fields.contains(field.key)) store(config, field, fields.at(std::string(field.key)));
            for (auto const alias : field.aliases) {
                if (!alias.empty() && fields.contains(alias)) store(config, field, fields.at(std::string(alias)));
            }
            auto const rope = fields.find("rope_parameters");
            if (rope != fields.end() && rope->contains(field.key)) store(config, field, rope->at(std::string(field.key)));
        }
    });
    if (!is_known) throw std::runtime_error("no architecture has the model_type " + std::string(config.model_type.view()));
    for (auto const& type : fields.value("layer_types", nlohmann::ordered_json::array())) {
        if (type == "sliding_attention") config.sliding_layers.insert(config.layer_types_count);
        ++config.layer_types_count;
    }
    for (auto const& layer : fields.value("mlp_only_layers", nlohmann::ordered_json::array())) {
        config.dense_layers.insert(layer.get<std::int64_t>());
    }
    return config;
}

}  // namespace golden
