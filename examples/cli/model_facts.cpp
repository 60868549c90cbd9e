// SPDX-License-Identifier: Apache-2.0
#include "model_facts.hpp"

#include <shardwise/memory/activations.hpp>

#include "text.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace shardwise::cli {

std::string_view part_note(ModelConfig const& config) {
    return config.is_text_part ? ", the text part only: vision or audio parts are not counted" : "";
}

std::string question_of(LoadedModel const& model, EstimateRequest const& request) {
    auto const& config = model.model.config;
    auto text = "context " + grouped(context_of(request, config)) + (request.context == 0 ? " (by default)" : "") +
                ", batch " + grouped(request.batch) + ", weights ";
    if (request.quant) {
        text += name_of(*request.quant).view();
    } else if (request.dtype) {
        text += traits(*request.dtype).short_name;
    } else {
        text += model.has_stored_sizes ? std::string("as stored")
                                       : std::string(traits(config.dtype_or(Dtype::f32)).short_name);
    }
    text += ", cache " + std::string(traits(kv_dtype_of(request, config)).short_name);
    auto const chunk = prefill_chunk_of(model, request);
    bool const is_limited = chunk > 0 && context_of(request, config) > chunk / request.batch;
    return is_limited ? text + ", prefill in chunks of " + grouped(chunk) : text;
}

std::int64_t prefill_chunk_of(LoadedModel const& model, EstimateRequest const& request) {
    return model.has_program() ? prefill_request(model.model, request).prefill_chunk : 0;
}

std::string utilization_text(std::span<Device const> devices, double utilization) {
    bool const is_scaled =
        std::any_of(devices.begin(), devices.end(), [](Device const& device) { return device.is_whole_memory; });
    if (!is_scaled) return {};
    std::array<char, 32> digits{};
    auto const written = std::to_chars(digits.data(), digits.data() + digits.size(), utilization);
    return "; utilization " + std::string(digits.data(), written.ptr);
}

std::string context_warning(ModelConfig const& config, std::int64_t context) {
    if (config.max_positions <= 0 || context <= config.max_positions) return {};
    return "a context of " + grouped(context) + " tokens is beyond the model's maximum of " +
           grouped(config.max_positions);
}

std::string quant_warning(LoadedModel const& model, EstimateRequest const& request) {
    auto const& config = model.model.config;
    if (!request.quant || request.quant->method != QuantMethod::mxfp4 || config.experts > 0) return {};
    return "mxfp4 packs the weights of experts only, and this model has none: it stays " +
           std::string(traits(config.dtype_or(Dtype::f32)).short_name);
}

}  // namespace shardwise::cli
