// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/model/architecture.hpp>
#include <shardwise/model/files/config_fields.hpp>
#include <shardwise/model/files/open_checkpoint.hpp>

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What a classifying model calls its labels, in the order of its scores: `id2label` of its config.json, as transformers names them
/// LABEL_0, LABEL_1, ... where it does not say; of answers begin and end. Empty for a model without labels.
///
/// Errors  invalid_field for an id2label whose keys are not the numbers of the labels; those of reading config.json
[[nodiscard]] inline Result<std::vector<std::string>> label_names(OpenCheckpoint& files, Model const& model) {
    std::vector<std::string> names;
    auto const count = model.config.labels;
    if (count == 0) return names;
    if (model.config.model_class.view().ends_with("ForQuestionAnswering"))
        return std::vector<std::string>{"start", "end"};
    for (std::int64_t i = 0; i < count; ++i) names.push_back("LABEL_" + std::to_string(i));
    auto const config = files.config();
    if (!config) return config.error();
    if (*config == nullptr) return names;
    detail::ConfigObject const object((*config)->document.root(), (*config)->path, "");
    auto const given = object.find_set("id2label");
    if (!given || model.config.model_class.view().ends_with("ForMultipleChoice")) return names;
    if (!given->is_object()) return object.wrong_type("id2label", *given, "an object");
    for (auto const entry : *given) {
        auto const key = entry.key();
        std::int64_t label = -1;
        auto const read = std::from_chars(key.data(), key.data() + key.size(), label);
        if (read.ec != std::errc{} || read.ptr != key.data() + key.size() || label < 0 || label >= count) {
            return object.error(ErrorCode::invalid_field, "id2label",
                                "\"" + std::string(key.substr(0, 64)) + "\" is not the number of a label");
        }
        auto const name = object.string("id2label", entry);
        if (!name) return name.error();
        names[static_cast<std::size_t>(label)] = *name;
    }
    return names;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
