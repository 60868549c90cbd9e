// SPDX-License-Identifier: Apache-2.0
#include <shardwise/json/writer.hpp>

#include "estimate_answer.hpp"
#include "json_parts.hpp"
#include "model_facts.hpp"
#include "requests.hpp"

namespace shardwise::cli {

namespace {

void write_terms(JsonWriter& json, MemoryTerms const& terms) {
    json.member("weights", terms.weights).member("kv_cache", terms.kv_cache).member("activations", terms.activations);
    json.member("gradients", terms.gradients).member("optimizer", terms.optimizer).member("overhead", terms.overhead);
    json.member("total", terms.total());
}

void write_request(JsonWriter& json, EstimateAnswer const& answer) {
    auto const& request = answer.request;
    auto const& config = answer.loaded.model.config;
    json.key("request").begin_object().member("context", answer.estimate.context).member("batch", request.batch);
    bool const is_stored = !request.dtype && answer.loaded.has_stored_sizes;
    write_text(json, "dtype",
               is_stored ? std::string_view{} : traits(request.dtype.value_or(config.dtype_or(Dtype::f32))).short_name);
    auto const quant = request.quant ? std::string(shardwise::name_of(*request.quant).view()) : std::string();
    write_text(json, "quant", quant);
    json.member("kv_dtype", traits(kv_dtype_of(request, config)).short_name);
    write_prefill_chunk(json, prefill_chunk_of(answer.loaded, request));
    json.member("tp", request.parallel.tp)
        .member("pp", request.parallel.pp)
        .member("ep", request.parallel.ep)
        .member("dp", request.parallel.dp);
    json.end_object();
}

void write_devices(JsonWriter& json, MemoryEstimate const& estimate) {
    json.key("devices").begin_array();
    for (std::size_t i = 0; i < estimate.devices.size(); ++i) {
        auto const& device = estimate.devices[i];
        json.begin_object().member("id", i);
        json.key("rank").begin_object().member("tp", device.place.tp).member("pp", device.place.pp);
        json.member("ep", device.place.ep).member("dp", device.place.dp).end_object();
        write_terms(json, device.terms);
        json.member("communication", device.communication).member("host", device.host);
        json.member("activations_prefill", device.phases.prefill).member("activations_decode", device.phases.decode);
        json.member("parameters", device.parameters)
            .member("first_layer", device.first_layer)
            .member("layers", device.layer_count);
        json.end_object();
    }
    json.end_array();
}

/// Of our convention what `shardwise train` allocates.
void write_trained(JsonWriter& json, EstimateAnswer const& answer) {
    json.key("train");
    if (!answer.trained) return json.value(nullptr), void();
    auto const& trained = *answer.trained;
    json.begin_object().member("runs", trained.refusal.empty());
    write_text(json, "reason", trained.refusal);
    if (answer.low_rank.rank > 0) {
        json.key("adapter").begin_object().member("rank", answer.low_rank.rank);
        json.member("parameters", trained.parameters).end_object();
    }
    json.key("ranks").begin_array();
    for (auto const& rank : trained.ranks) {
        auto const& parts = rank.trainer;
        json.begin_object().member("weights", rank.weights).member("gradients", parts.gradients);
        json.member("optimizer", parts.optimizer).member("activations", parts.activations);
        json.member("batch", parts.batch)
            .member("gathered", parts.gathered)
            .member("stages", parts.stages)
            .member("staging", rank.staging)
            .member("total", rank.total())
            .end_object();
    }
    json.end_array().end_object();
}

void write_modules(JsonWriter& json, MemoryEstimate const& estimate) {
    json.key("modules").begin_array();
    for (auto const& module : estimate.modules) {
        json.begin_object()
            .member("name", name_of(module))
            .member("path", module.path.view())
            .member("count", module.count);
        json.key("first");
        module.is_numbered ? json.value(module.first) : json.value(nullptr);
        json.member("weights", module.weights)
            .member("kv_cache", module.kv_cache)
            .member("activations", module.activations);
        json.end_object();
    }
    json.end_array();
}

}  // namespace

std::string estimate_json(EstimateAnswer const& answer) {
    auto const& estimate = answer.estimate;
    JsonWriter json(2);
    json.begin_object().member("schema", "shardwise.estimate/1");
    json.key("model")
        .begin_object()
        .member("name", answer.loaded.name)
        .member("architecture", answer.loaded.architecture());
    json.member("parameters", estimate.parameters).member("active_parameters", estimate.active_parameters);
    auto const& config = answer.loaded.model.config;
    json.member("active_embedding", config.active_embedding).member("partial", config.is_text_part).end_object();
    write_request(json, answer);
    json.member("kv_bytes_per_token", estimate.kv_bytes_per_token);
    json.key("bytes").begin_object();
    write_terms(json, estimate.terms);
    json.end_object().member("host_bytes", estimate.host).member("transient_buffers", estimate.transient_buffers);
    write_devices(json, estimate);
    write_trained(json, answer);
    write_modules(json, estimate);
    json.key("assumptions").begin_array();
    for (auto const assumption : estimate.assumptions) json.value(sentence_of(assumption, answer.request));
    json.end_array().key("warnings").begin_array();
    for (auto const& warning : answer.warnings) json.value(warning);
    json.end_array().end_object();
    return json.text() + "\n";
}

}  // namespace shardwise::cli
