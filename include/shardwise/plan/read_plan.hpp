// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/files/text_file.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/hardware/presets.hpp>
#include <shardwise/json/value.hpp>
#include <shardwise/plan/detail/plan_fields.hpp>
#include <shardwise/plan/saved_plan.hpp>

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What a saved plan may hold at most: 16,384 ranks, which no SPEC goes beyond, each with its memory.
struct PlanLimits {
    std::size_t text = std::size_t{64} << 20U;
    std::size_t values = 2'000'000;
    std::int64_t ranks = 16384;
};

namespace detail {

/// Makes a plan of the values of its file.
class PlanReader {
public:
    explicit PlanReader(std::string_view file) : fields_(file) {}

    [[nodiscard]] Result<SavedPlan> read(JsonValue root) {
        if (auto const checked = check_schema(root); !checked) return checked.error();
        SavedPlan plan;
        if (auto const model = fields_.object(root, "", "model")) read_model(*model, plan);
        if (auto const request = fields_.object(root, "", "request")) read_request(*request, plan);
        if (auto const checked = check_fits(root); !checked) return checked.error();
        if (auto const degrees = fields_.object(root, "", "plan")) read_degrees(*degrees, plan);
        if (auto const stages = fields_.array(root, "", "stages")) read_stages(*stages, plan);
        if (auto const ranks = fields_.array(root, "", "ranks")) read_ranks(*ranks, plan);
        if (auto const cost = fields_.object(root, "", "cost")) plan.step = fields_.real(*cost, "cost", "total");
        if (fields_.error()) return *fields_.error();
        if (auto const checked = check_groups(plan); !checked) return checked.error();
        return plan;
    }

private:
    [[nodiscard]] Result<> check_schema(JsonValue root) const {
        if (!root.is_object()) return fields_.refuse("", "a plan is a JSON object");
        auto const schema = root.find("schema");
        if (!schema) return fields_.lacks("schema");
        auto const word = schema->string();
        if (!word) return fields_.refuse("schema", "is no string");
        if (*word == plan_schema) return {};
        return Error{ErrorCode::unsupported}
            .in(fields_.file())
            .at("schema")
            .because("is \"" + std::string(word->substr(0, 64)) + "\", which is not that of a plan that can be read")
            .fix("write one of shardwise.plan/1: shardwise plan MODEL --devices SPEC --json");
    }

    /// A plan that does not fit says why itself.
    [[nodiscard]] Result<> check_fits(JsonValue root) {
        bool const fits = fields_.boolean(root, "", "fits");
        if (fields_.error()) return *fields_.error();
        if (fits) return {};
        auto const reason = fields_.optional_text(root, "", "reason");
        if (fields_.error()) return *fields_.error();
        return Error{ErrorCode::out_of_memory}
            .in(fields_.file())
            .because("holds no plan: " + (reason.empty() ? "the model does not fit" : reason))
            .fix("plan again with what its \"fix\" lists");
    }

    void read_model(JsonValue model, SavedPlan& plan) {
        plan.model = fields_.text(model, "model", "name");
        plan.source = fields_.optional_text(model, "model", "source");
        plan.architecture = fields_.optional_text(model, "model", "architecture");
        plan.parameters = fields_.whole(model, "model", "parameters", 0, INT64_MAX);
    }

    void read_request(JsonValue request, SavedPlan& plan) {
        plan.objective = fields_.text(request, "request", "objective");
        plan.devices = fields_.text(request, "request", "devices");
        plan.context = fields_.whole(request, "request", "context", 0, max_count);
        plan.dtype = fields_.optional_text(request, "request", "dtype");
        plan.quant = fields_.optional_text(request, "request", "quant");
        plan.kv_dtype = fields_.optional_text(request, "request", "kv_dtype");
        auto const chunk = request.find("prefill_chunk");
        if (chunk && !chunk->is_null())
            plan.prefill_chunk = fields_.whole(request, "request", "prefill_chunk", 1, max_count);
        auto const training = request.find("training");
        if (!training || training->is_null()) return;
        plan.optimizer = fields_.text(*training, "request.training", "optimizer");
        if (plan.optimizer.empty()) fields_.note(fields_.refuse("request.training.optimizer", "is empty"));
    }

    void read_degrees(JsonValue degrees, SavedPlan& plan) {
        auto const degree = [&](std::string_view name) {
            return fields_.whole(degrees, "plan", name, 1, limits_.ranks);
        };
        auto& to = plan.degrees;
        to.tp = degree("tp");
        to.pp = degree("pp");
        to.dp = degree("dp");
        to.ep = degree("ep");
        to.zero = static_cast<std::int32_t>(fields_.whole(degrees, "plan", "zero", 0, 3));
        to.micro_batches = fields_.whole(degrees, "plan", "micro_batches", 1, max_count);
        plan.batch = fields_.whole(degrees, "plan", "batch", 1, max_count);
        plan.is_even = fields_.boolean(degrees, "plan", "even");
    }

    void read_stages(JsonValue stages, SavedPlan& plan) {
        std::int64_t layers = 0;
        for (auto const each : stages) {
            auto const place = "stages." + std::to_string(plan.stages.size());
            if (!fields_.is_object(each, place)) return;
            PlanStage stage;
            stage.first_layer = fields_.whole(each, place, "first_layer", layers, layers);
            stage.layer_count = fields_.whole(each, place, "layers", 0, max_layers);
            stage.has_embedding = fields_.boolean(each, place, "embedding");
            stage.has_head = fields_.boolean(each, place, "head");
            stage.seconds = fields_.real(each, place, "seconds");
            if (fields_.error()) return;
            layers += stage.layer_count;
            plan.stages.push_back(stage);
        }
    }

    void read_ranks(JsonValue ranks, SavedPlan& plan) {
        for (auto const each : ranks) {
            auto const number = static_cast<std::int64_t>(plan.ranks.size());
            auto const place = "ranks." + std::to_string(number);
            if (number == limits_.ranks) return fields_.note(fields_.refuse("ranks", "are more than any SPEC has"));
            if (!fields_.is_object(each, place)) return;
            (void)fields_.whole(each, place, "rank", number, number);
            SavedRank rank;
            read_device(each, place, rank);
            rank.node = static_cast<std::int32_t>(fields_.whole(each, place, "node", 0, limits_.ranks - 1));
            auto const place_in = [&](std::string_view group, std::int64_t degree) {
                return fields_.whole(each, place, group, 0, degree - 1);
            };
            rank.place.tp = place_in("tp", plan.degrees.tp);
            rank.place.pp = place_in("pp", plan.degrees.pp);
            rank.place.dp = place_in("dp", plan.degrees.dp);
            rank.place.ep = place_in("ep", plan.degrees.ep);
            read_memory(each, place, rank);
            if (fields_.error()) return;
            plan.ranks.push_back(std::move(rank));
        }
    }

    void read_device(JsonValue each, std::string const& place, SavedRank& rank) {
        rank.device_name = fields_.text(each, place, "name");
        auto const device = each.find("device");
        auto const word = device ? device->string() : std::nullopt;
        if (word == "mps") {
            rank.device = DeviceId::mps();
        } else if (word == "cpu") {
            rank.device = DeviceId::cpu();
        } else {
            rank.device = DeviceId::gpu(static_cast<std::int32_t>(fields_.whole(each, place, "device", 0, INT32_MAX)));
        }
        rank.kind = kind_of(rank);
        // Plans of older versions do not say it.
        if (!each.find("kind")) return;
        auto const kind = fields_.text(each, place, "kind");
        bool is_known = false;
        for (auto const known : {DeviceKind::cpu, DeviceKind::cuda, DeviceKind::hip, DeviceKind::metal}) {
            if (kind != name_of(known)) continue;
            rank.kind = known;
            is_known = true;
        }
        if (!is_known) fields_.note(fields_.refuse(place + ".kind", "is none of cpu, cuda, hip, metal"));
    }

    [[nodiscard]] static DeviceKind kind_of(SavedRank const& rank) {
        switch (rank.device.kind) {
            case DeviceClass::mps:
                return DeviceKind::metal;
            case DeviceClass::cpu:
                return DeviceKind::cpu;
            case DeviceClass::disk:
            case DeviceClass::gpu:
                break;
        }
        auto const* const preset = find_device_preset(rank.device_name);
        return preset != nullptr ? preset->kind : DeviceKind::cuda;
    }

    void read_memory(JsonValue each, std::string const& place, SavedRank& rank) {
        auto const bytes = [&](std::string_view term) { return Bytes{fields_.whole(each, place, term, 0, max_bytes)}; };
        rank.terms.weights = bytes("weights");
        rank.terms.kv_cache = bytes("kv_cache");
        rank.terms.activations = bytes("activations");
        rank.terms.gradients = bytes("gradients");
        rank.terms.optimizer = bytes("optimizer");
        rank.terms.overhead = bytes("overhead");
        rank.capacity = bytes("capacity");
        rank.total = bytes("total");
        auto const sum = rank.terms.total().count();
        if (!fields_.error()) (void)fields_.whole(each, place, "bytes", sum, sum);
    }

    /// Every place in the groups has one rank, and every rank a device of its own.
    [[nodiscard]] Result<> check_groups(SavedPlan const& plan) const {
        auto const& degrees = plan.degrees;
        // Each is at most 16,384: the product stays below 2^56.
        auto const count = static_cast<std::int64_t>(plan.ranks.size());
        if (degrees.ranks() != count)
            return fields_.refuse("ranks", "are not tp * pp * dp * ep").got(count).expected(degrees.ranks());
        auto const stages = static_cast<std::int64_t>(plan.stages.size());
        if (stages != degrees.pp) return fields_.refuse("stages", "are not pp").got(stages).expected(degrees.pp);
        std::set<std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t>> places;
        std::set<DeviceId> devices;
        for (std::size_t i = 0; i < plan.ranks.size(); ++i) {
            auto const& rank = plan.ranks[i];
            auto const place = "ranks." + std::to_string(i);
            if (!places.emplace(rank.place.tp, rank.place.pp, rank.place.dp, rank.place.ep).second)
                return fields_.refuse(place, "has the place of a rank before it");
            if (!devices.insert(rank.device).second)
                return fields_.refuse(place + ".device", "is that of a rank before it: a device runs one rank");
        }
        return {};
    }

    static constexpr std::int64_t max_count = std::int64_t{1} << 40U;
    static constexpr std::int64_t max_layers = std::int64_t{1} << 20U;
    /// Eight of them do not overflow.
    static constexpr std::int64_t max_bytes = std::int64_t{1} << 58U;
    PlanFields fields_;
    PlanLimits limits_{};
};

}  // namespace detail

/// Reads the text of a plan, as `shardwise plan --json` writes it; `file` is what errors call it.
///
/// Errors  malformed_file where it is no JSON; unsupported for another schema, which is named; missing_field and
///         invalid_field with the key, also where ranks, groups and devices contradict each other; out_of_memory for a
///         plan that says that nothing fits, with its reason; capacity_exceeded
[[nodiscard]] inline Result<SavedPlan> parse_plan(std::string_view text, std::string_view file) {
    PlanLimits const limits;
    auto const document = parse_json(text, {.values = limits.values, .text = limits.text});
    if (!document) {
        auto error = document.error();
        return error.in(file).fix("write it again: shardwise plan MODEL --devices SPEC --json > FILE");
    }
    return detail::PlanReader(file).read(document->root());
}

/// Reads a plan from a file.
///
/// Errors  those of parse_plan; file_not_found, file_unreadable, capacity_exceeded
[[nodiscard]] inline Result<SavedPlan> read_plan(std::string const& path) {
    auto const text = read_text_file(path, PlanLimits{}.text);
    if (!text) return text.error();
    return parse_plan(*text, path);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
