// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/core/text.hpp>
#include <shardwise/model/config.hpp>

#include <initializer_list>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// True where the counted class is the family's for this task ("ForTokenClassification").
[[nodiscard]] constexpr bool is_for(ModelConfig const& config, std::string_view task) {
    auto const name = config.model_class.view();
    return name.size() > task.size() && name.substr(name.size() - task.size()) == task;
}

/// How many scores the counted class gives each text or token; 0 for a class that does not classify.
///
/// Source  transformers 4.57 configuration_utils.py: two labels where the config names none
[[nodiscard]] constexpr std::int64_t label_count(ModelConfig const& config) {
    if (is_for(config, "ForMultipleChoice")) return 1;
    bool const classifies = is_for(config, "ForSequenceClassification") || is_for(config, "ForTokenClassification") ||
                            is_for(config, "ForQuestionAnswering");
    if (!classifies) return 0;
    return config.labels > 0 ? config.labels : 2;
}

/// Takes the first of a family's classes for a config that names none, and refuses a class that the family does not
/// count.
///
/// Errors  unsupported, which names the class
[[nodiscard]] constexpr Result<> check_class(ModelConfig& config, std::initializer_list<std::string_view> classes) {
    if (config.model_class.empty()) config.model_class.assign(*classes.begin());
    for (auto const known : classes) {
        if (config.model_class.view() != known) continue;
        config.labels = label_count(config);
        return {};
    }
    return Error{ErrorCode::unsupported}
        .in(config.model_class.view())
        .at("architectures")
        .because("is not a class of this family that can be counted")
        .fix(did_you_mean(*classes.begin()).view());
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
