// SPDX-License-Identifier: Apache-2.0
#include "model_facts.hpp"

#include "text.hpp"

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
    return text + ", cache " + std::string(traits(kv_dtype_of(request, config)).short_name);
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
