// SPDX-License-Identifier: Apache-2.0
#include <shardwise/model/arch/roberta.hpp>

#include <doctest/doctest.h>

#include "family.hpp"

using namespace shardwise;

namespace {

constexpr auto base = [](ModelConfig& config) {
    config.max_positions = 514;
    config.own.set("type_vocab_size", 1);
};
constexpr auto headless = [](ModelConfig& config) {
    base(config);
    config.model_class = "RobertaModel";
};

}  // namespace

// Counts: tests/golden/families/roberta-base.json and roberta-base-model.json, from the published config.json.
static_assert(family::parameters<Roberta>(base) == 124'697'433);
static_assert(family::parameters<Roberta>(headless) == 124'645'632);

constexpr auto of_texts = [](ModelConfig& config) {
    base(config);
    config.model_class = "RobertaForSequenceClassification";
};
constexpr auto of_tokens = [](ModelConfig& config) {
    base(config);
    config.model_class = "RobertaForTokenClassification";
};
// Counts: transformers 4.57.6 on meta, from the published config.json and two labels.
static_assert(family::parameters<Roberta>(of_texts) == 124'647'170);
static_assert(family::parameters<Roberta>(of_tokens) == 124'056'578);

TEST_CASE("roberta: positions begin after the padding id") {
    auto const model = family::made<Roberta>(base);
    bool found = false;
    for (auto const& op : model.program.bodies().front().operations()) {
        if (op.kind != OpKind::embedding || op.table().index != TableIndex::position) continue;
        found = true;
        CHECK(op.table().first_row == 2);
    }
    CHECK(found);
}

TEST_CASE("roberta: the classes that are kept whole depend on the class that is counted") {
    CHECK(family::made<Roberta>(headless).tree.no_split_classes().size() == 2);
    CHECK(family::made<Roberta>(base).tree.no_split_classes().size() == 4);
}

TEST_CASE("roberta: impossible configs are refused by name") {
    CHECK(family::refusal<Roberta>([](ModelConfig& config) { config.max_positions = 0; }) ==
          "invalid_field max_position_embeddings");
    CHECK(family::refusal<Roberta>([](ModelConfig& config) { config.model_class = "BertModel"; }) ==
          "unsupported architectures");
}
