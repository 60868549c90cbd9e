// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/arch/bert.hpp>

#include <doctest/doctest.h>

#include "family.hpp"

using namespace shardwise;

namespace {

constexpr auto headless = [](ModelConfig& config) { config.model_class = "BertModel"; };
constexpr auto large = [](ModelConfig& config) {
    headless(config);
    config.hidden_size = 1024;
    config.intermediate_size = 4096;
    config.layers = 24;
    config.heads = 16;
};

}  // namespace

// Counts: base and large with pooler facts/memory.md; the masked language model tests/golden/families/bert-base-
// uncased.json.
static_assert(family::parameters<Bert>(headless) == 109'482'240);
static_assert(family::parameters<Bert>(large) == 335'141'888);
static_assert(family::parameters<Bert>(family::unchanged) == 109'514'298);

// Counts: transformers 4.57.6 on meta, from the published config.json and two labels.
constexpr auto classifier = [](std::string_view name) {
    return [name](ModelConfig& config) { config.model_class.assign(name); };
};
static_assert(family::parameters<Bert>(classifier("BertForSequenceClassification")) == 109'483'778);
static_assert(family::parameters<Bert>(classifier("BertForTokenClassification")) == 108'893'186);
static_assert(family::parameters<Bert>(classifier("BertForQuestionAnswering")) == 108'893'186);
static_assert(family::parameters<Bert>(classifier("BertForMultipleChoice")) == 109'483'009);

TEST_CASE("bert: the class decides between pooler and head") {
    auto const encoder = family::made<Bert>(headless);
    CHECK(find_tensor(encoder.tree, "pooler.dense.weight") != nullptr);
    auto const masked = family::made<Bert>(family::unchanged);
    CHECK(find_tensor(masked.tree, "bert.pooler.dense.weight") == nullptr);
    CHECK(find_tensor(masked.tree, "cls.predictions.decoder.weight") != nullptr);
}

TEST_CASE("bert: an unknown class is an error that names it") {
    auto const model = describe<Bert>(
        family::config_of<Bert>([](ModelConfig& config) { config.model_class = "BertForNextSentencePrediction"; }));
    REQUIRE_FALSE(model.has_value());
    CHECK(model.error().code() == ErrorCode::unsupported);
    CHECK(model.error().message().find("BertForNextSentencePrediction") != std::string::npos);
}

TEST_CASE("bert: the head's two biases are one tensor, tied weights or not") {
    auto const ties = [](bool is_tied) {
        return family::made<Bert>([=](ModelConfig& config) { config.tie_word_embeddings = is_tied; })
            .tree.ties()
            .size();
    };
    CHECK(ties(true) == 2);
    CHECK(ties(false) == 1);
}

TEST_CASE("bert: every token sees every other, and nothing is cached") {
    auto const model = family::made<Bert>(family::unchanged);
    auto const* attention = family::find_operation(model, OpKind::attention);
    REQUIRE(attention != nullptr);
    CHECK_FALSE(attention->attention().is_causal);
    CHECK(family::cached_per_token(model) == 0);
}

TEST_CASE("bert: every token is scored by the masked head, the first of each sequence pooled without it") {
    auto const masked = family::made<Bert>(family::unchanged);
    CHECK(family::find_operation(masked, OpKind::last_token) == nullptr);
    auto const encoder = family::made<Bert>(headless);
    auto const* first = family::find_operation(encoder, OpKind::last_token);
    REQUIRE(first != nullptr);
    CHECK(first->taken_row() == TakenRow::first);
}

TEST_CASE("bert: impossible configs are refused by name") {
    CHECK(family::refusal<Bert>([](ModelConfig& config) { config.own.set("type_vocab_size", 0); }) ==
          "invalid_field type_vocab_size");
    CHECK(family::refusal<Bert>([](ModelConfig& config) { config.heads = 7; }) == "invalid_field hidden_size");
}
