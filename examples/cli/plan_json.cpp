// SPDX-License-Identifier: Apache-2.0
#include <shardwise/json/writer.hpp>
#include <shardwise/model/tree_totals.hpp>
#include <shardwise/placement/max_memory.hpp>
#include <shardwise/plan/saved_plan.hpp>
#include <shardwise/plan/tp_plan.hpp>

#include "choices.hpp"
#include "json_parts.hpp"
#include "model_facts.hpp"
#include "plan_answer.hpp"

#include <array>
#include <cstddef>
#include <utility>

namespace shardwise::cli {

namespace {

/// The degrees of a plan or an alternative, and what training computes again.
template <class Plan>
void write_degrees(JsonWriter& json, PlanAnswer const& answer, Plan const& plan) {
    auto const& degrees = plan.degrees;
    json.member("tp", degrees.tp).member("pp", degrees.pp).member("dp", degrees.dp).member("ep", degrees.ep);
    json.member("zero", degrees.zero).member("micro_batches", degrees.micro_batches);
    if (answer.request.estimate.training)
        json.member("recompute", recompute_word(plan.recompute)).member("sequence_parallel", plan.is_sequence_parallel);
    json.member("batch", answer.request.estimate.batch).member("even", plan.is_even);
}

void write_terms(JsonWriter& json, CostTerms const& terms) {
    for (auto const& [name, term] : CostTerms::cost_term_names()) json.member(name, terms.*term);
    json.member("total", terms.total());
}

/// The step's terms by name, the prefill's below.
void write_cost(JsonWriter& json, PlanCost const& cost) {
    json.key("cost").begin_object();
    write_terms(json, cost.step);
    json.key("prefill");
    if (cost.prefill.total() <= 0.0) {
        json.value(nullptr);
    } else {
        json.begin_object();
        write_terms(json, cost.prefill);
        json.end_object();
    }
    json.member("tokens_per_second", cost.tokens_per_second).end_object();
}

/// The word with which a flag means this.
template <class Meaning, std::size_t count>
[[nodiscard]] std::string_view word_of(std::array<Choice<Meaning>, count> const& choices, Meaning meaning) {
    for (auto const& choice : choices) {
        if (choice.meaning == meaning) return choice.word;
    }
    return {};
}

void write_training(JsonWriter& json, PlanAnswer const& answer) {
    auto const& training = answer.request.estimate.training;
    json.key("training");
    if (!training) {
        json.value(nullptr);
        return;
    }
    json.begin_object().member("optimizer", word_of(optimizer_choices, training->optimizer));
    json.member("offload", word_of(offload_choices, training->offload));
    json.member("recompute", word_of(recompute_choices, training->recompute));
    json.member("attention", word_of(attention_choices, training->attention));
    json.member("convention", word_of(convention_choices, training->convention));
    if (answer.adapter) {
        json.key("adapter").begin_object().member("rank", answer.adapter->rank);
        json.member("parameters", answer.adapter->parameters).end_object();
    }
    json.end_object();
}

void write_request(JsonWriter& json, PlanAnswer const& answer) {
    auto const request = answer.asked();
    auto const& config = answer.loaded.model.config;
    json.key("request").begin_object().member("objective", shardwise::name_of(answer.request.objective));
    json.member("devices", describe_devices(answer.topology));
    json.member("context", context_of(request, config)).member("batch", request.batch);
    json.member("utilization", request.utilization);
    bool const is_stored = !request.dtype && answer.loaded.has_stored_sizes;
    write_text(json, "dtype",
               is_stored ? std::string_view{} : traits(request.dtype.value_or(config.dtype_or(Dtype::f32))).short_name);
    write_text(json, "quant", request.quant ? std::string(shardwise::name_of(*request.quant).view()) : std::string());
    json.member("kv_dtype", traits(kv_dtype_of(request, config)).short_name);
    write_prefill_chunk(json, prefill_chunk_of(answer.loaded, request));
    write_training(json, answer);
    auto const& pins = answer.request.pins;
    json.key("pins").begin_object();
    auto const pin = [&](std::string_view name, auto const& degree) {
        json.key(name);
        degree ? json.value(static_cast<std::int64_t>(*degree)) : json.value(nullptr);
    };
    pin("tp", pins.tp);
    pin("pp", pins.pp);
    pin("dp", pins.dp);
    pin("ep", pins.ep);
    pin("zero", pins.zero);
    pin("micro_batches", pins.micro_batches);
    json.end_object().member("even", answer.request.is_even).end_object();
}

void write_stages(JsonWriter& json, ParallelPlan const& plan) {
    json.key("stages").begin_array();
    for (auto const& stage : plan.stages) {
        json.begin_object().member("first_layer", stage.first_layer).member("layers", stage.layer_count);
        json.member("embedding", stage.has_embedding).member("head", stage.has_head).member("seconds", stage.seconds);
        json.end_object();
    }
    json.end_array();
}

void write_ranks(JsonWriter& json, PlanAnswer const& answer) {
    json.key("ranks").begin_array();
    std::int64_t number = 0;
    for (auto const& rank : answer.plan->ranks) {
        auto const& device = answer.device_of(rank);
        auto const& terms = rank.terms;
        json.begin_object().member("rank", number++).key("device");
        write_id(json, device.id);
        json.member("name", device.name.view()).member("kind", name_of(device.kind)).member("node", device.node);
        json.member("tp", rank.place.tp).member("pp", rank.place.pp);
        json.member("dp", rank.place.dp).member("ep", rank.place.ep);
        json.member("bytes", terms.total()).member("capacity", answer.capacity_of(rank));
        json.member("total", device.memory);
        json.member("weights", terms.weights).member("kv_cache", terms.kv_cache);
        json.member("activations", terms.activations).member("gradients", terms.gradients);
        json.member("optimizer", terms.optimizer).member("overhead", terms.overhead).end_object();
    }
    json.end_array();
}

void write_alternatives(JsonWriter& json, PlanAnswer const& answer) {
    json.key("alternatives").begin_array();
    for (auto const& other : answer.plan->alternatives) {
        json.begin_object();
        write_degrees(json, answer, other);
        write_cost(json, other.cost);
        json.member("largest_rank", other.largest_rank).member("loss", other.loss).member("reason", other.reason);
        json.end_object();
    }
    json.end_array();
}

/// What a plan consists of; everything is null or empty where there is none.
void write_plan(JsonWriter& json, PlanAnswer const& answer) {
    if (!answer.plan) {
        json.key("plan").value(nullptr).key("stages").begin_array().end_array().key("ranks").begin_array().end_array();
        json.key("cost").value(nullptr).key("tp_plan").value(nullptr);
        json.key("reasons").begin_array().end_array().key("alternatives").begin_array().end_array();
        json.key("search").value(nullptr);
        return;
    }
    auto const& plan = *answer.plan;
    json.key("plan").begin_object();
    write_degrees(json, answer, plan);
    json.end_object();
    write_stages(json, plan);
    write_ranks(json, answer);
    write_cost(json, plan.cost);
    json.key("tp_plan").begin_object();
    for (auto const& entry : tp_plan_of(answer.loaded.model)) json.member(entry.name, entry.style);
    json.end_object().key("reasons").begin_array();
    for (auto const& reason : plan.reasons) json.value(reason);
    json.end_array();
    write_alternatives(json, answer);
    json.key("search").begin_object().member("examined", plan.examined).member("too_large", plan.too_large);
    json.end_object();
}

void write_fixes(JsonWriter& json, PlanAnswer const& answer) {
    json.key("fix").begin_array();
    for (auto const& fix : answer.fixes) {
        json.begin_object().member("kind", fix.kind);
        if (fix.word.empty()) {
            json.member(fix.kind, fix.amount);
        } else {
            json.member(fix.kind, fix.word);
        }
        json.member("text", fix.text).end_object();
    }
    json.end_array();
}

}  // namespace

std::string plan_json(PlanAnswer const& answer) {
    JsonWriter json(2);
    json.begin_object().member("schema", plan_schema);
    json.key("model").begin_object().member("name", answer.loaded.name);
    write_text(json, "source", answer.loaded.source);
    write_text(json, "architecture", answer.loaded.architecture());
    json.member("parameters", count_parameters(answer.loaded.model.tree));
    json.member("partial", answer.loaded.model.config.is_text_part).end_object();
    write_request(json, answer);
    json.member("fits", answer.plan.has_value());
    write_plan(json, answer);
    write_text(json, "reason", answer.reason);
    write_fixes(json, answer);
    json.key("warnings").begin_array();
    for (auto const& warning : answer.warnings) json.value(warning);
    json.end_array().end_object();
    return std::move(json).text() + "\n";
}

}  // namespace shardwise::cli
