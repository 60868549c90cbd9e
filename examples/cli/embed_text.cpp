// SPDX-License-Identifier: Apache-2.0
#include <shardwise/json/writer.hpp>

#include "choices.hpp"
#include "embed_answer.hpp"

#include <charconv>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

namespace shardwise::cli {

namespace {

[[nodiscard]] std::string_view word_of(Pooling pooling) {
    for (auto const& choice : pooling_choices) {
        if (choice.meaning == pooling) return choice.word;
    }
    return {};
}

}  // namespace

std::string embed_json(EmbedAnswer const& answer) {
    JsonWriter json;
    json.begin_object().member("schema", "shardwise.embed/1").member("model", answer.model);
    bool const has_scores = answer.options.has_scores;
    if (!has_scores)
        json.member("pooling", word_of(answer.options.pooling)).member("normalized", answer.options.is_normalized);
    json.member("dimensions", answer.embeddings.front().width);
    if (has_scores) {
        json.key("labels").begin_array();
        for (auto const& label : answer.labels) json.value(label);
        json.end_array();
    }
    json.key("token_ids").begin_array();
    for (auto const& ids : answer.ids) {
        json.begin_array();
        for (auto const id : ids) json.value(id);
        json.end_array();
    }
    json.end_array();
    if (has_scores) json.key("embeddings").begin_array().end_array();
    json.key(has_scores ? "scores" : "embeddings").begin_array();
    bool const is_per_token = has_scores ? answer.is_per_token : answer.options.pooling == Pooling::none;
    for (auto const& embedding : answer.embeddings) {
        if (is_per_token) json.begin_array();
        for (std::int64_t row = 0; row < embedding.rows; ++row) {
            json.begin_array();
            for (auto const number : embedding.row(row)) json.value(static_cast<double>(number));
            json.end_array();
        }
        if (is_per_token) json.end_array();
    }
    json.end_array().key("warnings").begin_array();
    for (auto const& warning : answer.warnings) json.value(warning);
    json.end_array().end_object();
    return std::move(json).text() + "\n";
}

std::string embed_lines(EmbedAnswer const& answer) {
    std::string out;
    for (auto const& embedding : answer.embeddings) {
        for (std::int64_t row = 0; row < embedding.rows; ++row) {
            for (std::int64_t i = 0; i < embedding.width; ++i) {
                char number[32];
                auto const value = embedding.row(row)[static_cast<std::size_t>(i)];
                auto const end = std::to_chars(number, number + sizeof number, value).ptr;
                if (i > 0) out += ' ';
                if (answer.options.has_scores) out += escaped(answer.labels[static_cast<std::size_t>(i)]) + " ";
                out.append(number, end);
            }
            out += '\n';
        }
    }
    return out;
}

}  // namespace shardwise::cli
