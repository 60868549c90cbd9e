// SPDX-License-Identifier: Apache-2.0
#include <shardwise/memory/estimator.hpp>
#include <shardwise/model/files/checkpoint.hpp>
#include <shardwise/model/presets.hpp>

#include <doctest/doctest.h>

#include <fstream>
#include <map>
#include <sstream>
#include <string>

using namespace shardwise;

namespace {

struct PublishedRow {
    std::string kind;
    std::string config;
    std::string source;
};

std::string const golden_folder = std::string(SHARDWISE_SOURCE_DIR) + "/tests/golden/";

/// published/sources.tsv: where each preset comes from. `file`: a public repository carries the publisher's config.json,
/// and we hold it to that; `document`: the publisher's page, from which the hyper-parameters were taken.
std::map<std::string, PublishedRow> published_rows() {
    std::map<std::string, PublishedRow> rows;
    std::ifstream file(golden_folder + "published/sources.tsv");
    std::string line;
    std::getline(file, line);
    while (std::getline(file, line)) {
        std::istringstream columns(line);
        std::string name;
        PublishedRow row;
        std::getline(columns, name, '\t');
        std::getline(columns, row.kind, '\t');
        std::getline(columns, row.config, '\t');
        std::getline(columns, row.source, '\t');
        rows[name] = row;
    }
    return rows;
}

Checkpoint read_published(std::string const& path) {
    ModelSource source;
    source.kind = SourceKind::config;
    source.config = golden_folder + path;
    auto checkpoint = read_checkpoint(source);
    REQUIRE_MESSAGE(checkpoint.has_value(), path << ": " << checkpoint.error().message());
    return *std::move(checkpoint);
}

Bytes weights_of(ModelConfig const& config, EstimateRequest const& request = {}) {
    auto const model = describe(config);
    REQUIRE(model);
    auto const estimate = estimate_memory(*model, request);
    REQUIRE_MESSAGE(estimate.has_value(), estimate.error().message());
    return estimate->terms.weights;
}

}  // namespace

TEST_CASE("Presets: each says where it was published") {
    auto const rows = published_rows();
    int files = 0;
    for (auto const& preset : model_presets) {
        CAPTURE(preset.name);
        auto const row = rows.find(std::string(preset.name));
        REQUIRE(row != rows.end());
        bool const is_file = row->second.kind == "file";
        CHECK((is_file || row->second.kind == "document"));
        CHECK(row->second.source.find(is_file ? "github.com/" : "https://") == 0);
        if (is_file) CHECK(row->second.config != "-");
        files += is_file ? 1 : 0;
    }
    CHECK(rows.size() == model_presets.size());
    CHECK(files >= 17);
}

TEST_CASE("Presets: an estimate of one is the estimate of its published config.json") {
    EstimateRequest const requests[] = {{},
                                        {.batch = 3, .context = 1000},
                                        {.context = 512, .parallel = {.tp = 2}},
                                        {.dtype = Dtype::f16, .context = 100},
                                        {.quant = QuantScheme::int4(), .context = 100}};
    for (auto const& [name, row] : published_rows()) {
        if (row.config == "-") continue;
        std::string const model(name);  // clang 14 captures no structured binding
        CAPTURE(model);
        auto const published = read_published(row.config);
        auto const ours = describe(*find_preset(name)->config);
        REQUIRE(ours);
        // A published BertForMaskedLM and our BertModel differ in their head alone.
        if (published.model.config.model_class != ours->config.model_class) continue;
        for (auto const& request : requests) {
            auto const theirs = estimate_memory(published.model, request);
            auto const mine = estimate_memory(*ours, request);
            REQUIRE(theirs);
            REQUIRE(mine);
            CHECK(mine->terms.weights == theirs->terms.weights);
            CHECK(mine->terms.kv_cache == theirs->terms.kv_cache);
            CHECK(mine->terms.activations == theirs->terms.activations);
            CHECK(mine->total == theirs->total);
            CHECK(mine->parameters == theirs->parameters);
            CHECK(mine->active_parameters == theirs->active_parameters);
        }
    }
}

// The sizes of the files: model.safetensors.index.json of each repository (metadata.total_size), those of DeepSeek-V3
// without its extra prediction layer.
TEST_CASE("Presets: weights are as published, or all of them as --dtype says") {
    CHECK(weights_of(presets::gpt_oss_20b) == Bytes{13761264768});
    CHECK(weights_of(presets::gpt_oss_20b, {.dtype = Dtype::bf16}) == Bytes{2 * 20914757184});
    auto const deepseek = weights_of(presets::deepseek_v3);
    CHECK(deepseek > 620_GiB);
    CHECK(deepseek < 640_GiB);
    CHECK(weights_of(presets::deepseek_v3, {.dtype = Dtype::bf16}) > 1249_GiB);
    CHECK(weights_of(presets::gemma_2_9b) == Bytes{2 * 9241705984});
}

TEST_CASE("Presets: training keeps plain numbers of what is published packed") {
    auto const training = EstimateRequest{.context = 128, .training = TrainingPlan{}};
    CHECK(weights_of(presets::gpt_oss_20b, training) == Bytes{2 * 20914757184});
}
