// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/architectures.hpp>

#include <string>

namespace shardwise::testing {

/// The fields of the family's table in which two configurations differ, separated by blanks.
inline std::string differing_fields(ModelConfig const& a, ModelConfig const& b) {
    std::string names;
    Architectures::with(a.model_type.view(), [&]<class Arch>(Arch) {
        for (auto const& field : Arch::fields) {
            bool is_same = true;
            switch (field.type) {
                case FieldType::integer:
                case FieldType::choice:
                case FieldType::flag:
                    is_same = field.number_of(a) == field.number_of(b);
                    break;
                case FieldType::real:
                    is_same = field.real_of(a) == field.real_of(b);
                    break;
                case FieldType::activation:
                    is_same = a.*field.activation == b.*field.activation;
                    break;
                case FieldType::refused:
                case FieldType::version:  // Who wrote a config is no part of what it describes.
                    break;
            }
            if (!is_same) names += std::string(field.key) + ' ';
        }
    });
    if (a.rope.kind != b.rope.kind) names += "rope.kind ";
    if (a.rope.factor != b.rope.factor) names += "rope.factor ";
    if (a.rope.low_frequency_factor != b.rope.low_frequency_factor) names += "rope.low_frequency_factor ";
    if (a.rope.high_frequency_factor != b.rope.high_frequency_factor) names += "rope.high_frequency_factor ";
    if (a.rope.attention_factor != b.rope.attention_factor) names += "rope.attention_factor ";
    if (a.rope.beta_fast != b.rope.beta_fast) names += "rope.beta_fast ";
    if (a.rope.beta_slow != b.rope.beta_slow) names += "rope.beta_slow ";
    if (a.rope.mscale != b.rope.mscale) names += "rope.mscale ";
    if (a.rope.mscale_all_dim != b.rope.mscale_all_dim) names += "rope.mscale_all_dim ";
    if (a.rope.truncates != b.rope.truncates) names += "rope.truncates ";
    if (a.rope.original_max_positions != b.rope.original_max_positions) names += "rope.original_max_positions ";
    if (!(a.local_layers == b.local_layers)) names += "layer_types ";
    if (!(a.dense_layers == b.dense_layers)) names += "mlp_only_layers ";
    return names;
}

}  // namespace shardwise::testing
