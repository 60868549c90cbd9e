// SPDX-License-Identifier: Apache-2.0
#include <shardwise/memory/estimator.hpp>
#include <shardwise/model/architectures.hpp>
#include <shardwise/model/presets.hpp>
#include <shardwise/placement/model_sequence.hpp>

#include <doctest/doctest.h>

#include <string>

namespace {

using namespace shardwise;

TEST_CASE("build_sequence: units weigh what the estimator says, to the byte, for every preset and quantisation") {
    for (auto const& preset : model_presets) {
        auto const model = describe(*preset.config);
        REQUIRE(model.has_value());
        for (auto const* name : {"", "int8", "int4", "nf4-dq", "fp8", "q8_0", "q4_k_m", "gptq", "mxfp4"}) {
            CAPTURE(std::string(preset.name));
            CAPTURE(name);
            EstimateRequest request;
            if (*name != '\0') {
                auto const scheme = parse_quant_scheme(name);
                REQUIRE(scheme.has_value());
                request.quant = *scheme;
            }
            auto const estimate = estimate_memory(*model, request);
            REQUIRE(estimate.has_value());
            for (auto const granularity : {Granularity::modules, Granularity::tensors}) {
                Bytes weights{};
                Bytes cache{};
                for (auto const& unit : build_sequence(*model, request, model->tree.no_split_classes(), granularity).units) {
                    weights += unit.weights;
                    cache += unit.state;
                }
                CHECK(weights == estimate->terms.weights);
                CHECK(cache == estimate->terms.kv_cache);
            }
        }
    }
}

TEST_CASE("build_sequence: every layer of every preset is one unit with work, cache and activations of its own") {
    for (auto const& preset : model_presets) {
        auto const model = describe(*preset.config);
        REQUIRE(model.has_value());
        CAPTURE(std::string(preset.name));
        std::int64_t layers = 0;
        for (auto const& unit : build_sequence(*model, {}).units) {
            if (unit.role != ModuleRole::layer) continue;
            // A layer of which transformers keeps nothing whole (distilbert's) is several units; the first one has its work.
            if (model->tree.no_split_classes().empty() && unit.layer.value() == layers - 1) continue;
            CHECK(unit.layer.value() == layers++);
            CHECK(unit.flops > 0.0);
            CHECK(unit.traffic > 0.0);
            CHECK(unit.workspace > Bytes{});
            CHECK(unit.output > 0.0);
        }
        CHECK(layers == root_position(model->config, model->tree, model->family).layers);
    }
}

}  // namespace
