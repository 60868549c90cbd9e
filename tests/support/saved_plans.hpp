// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/json/writer.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace shardwise::tests {

/// A plan in the form of shardwise.plan/1 for tests of those who read it.
struct PlanText {
    std::string model = "small";
    /// "" is null.
    std::string source = "/models/small";
    std::string devices = "2x(2xH100-80GB)";
    std::string name = "H100-80GB";
    std::string kind = "cuda";
    std::int64_t tp = 2;
    std::int64_t pp = 2;
    std::int64_t dp = 1;
    std::int64_t ep = 1;
    /// Ranks of one node, next to each other.
    std::int64_t per_node = 2;
    std::string optimizer{};
    std::string kv_dtype = "bf16";
    std::string quant{};
    std::int64_t prefill_chunk = 8192;

    [[nodiscard]] std::string text() const {
        JsonWriter json;
        json.begin_object().member("schema", "shardwise.plan/1").key("model").begin_object();
        json.member("name", model).key("source");
        source.empty() ? json.value(nullptr) : json.value(std::string_view(source));
        json.member("architecture", "LlamaForCausalLM").member("parameters", 1000).member("partial", false).end_object();
        json.key("request").begin_object().member("objective", "latency").member("devices", devices);
        json.member("context", 4096).member("batch", 1).member("utilization", 0.92).key("dtype").value(nullptr);
        json.key("quant");
        quant.empty() ? json.value(nullptr) : json.value(std::string_view(quant));
        json.member("kv_dtype", kv_dtype).member("prefill_chunk", prefill_chunk).key("training");
        if (optimizer.empty())
            json.value(nullptr);
        else
            json.begin_object().member("optimizer", optimizer).end_object();
        json.end_object().member("fits", true).key("plan").begin_object();
        json.member("tp", tp).member("pp", pp).member("dp", dp).member("ep", ep).member("zero", 0);
        json.member("micro_batches", 1).member("batch", 1).member("even", true).end_object().key("stages").begin_array();
        for (std::int64_t stage = 0; stage < pp; ++stage) {
            json.begin_object().member("first_layer", 4 * stage).member("layers", 4).member("embedding", stage == 0);
            json.member("head", stage + 1 == pp).member("seconds", 0.001).end_object();
        }
        json.end_array().key("ranks").begin_array();
        for (std::int64_t rank = 0; rank < tp * pp * dp * ep; ++rank) {
            json.begin_object().member("rank", rank).member("device", rank).member("name", name).member("kind", kind);
            json.member("node", rank / per_node).member("tp", rank % tp).member("pp", rank / (tp * ep * dp));
            json.member("dp", rank / (tp * ep) % dp).member("ep", rank / tp % ep);
            json.member("bytes", 21).member("capacity", 70).member("total", 80).member("weights", 1);
            json.member("kv_cache", 2).member("activations", 3).member("gradients", 4).member("optimizer", 5);
            json.member("overhead", 6).end_object();
        }
        json.end_array().key("cost").begin_object().member("compute", 0.25).member("total", 0.5).end_object();
        json.end_object();
        return std::move(json).text();
    }
};

}  // namespace shardwise::tests
