// SPDX-License-Identifier: Apache-2.0
#include "train_settings.hpp"

#include <shardwise/quant/scheme.hpp>

#include "train_plan.hpp"

#include <string>

namespace shardwise::cli {

RunSettings settings_of(TrainRequest const& request, TrainPlan const& plan, TrainData const& data) {
    RunSettings out;
    out.add("data", data.hash).add("tokens", data.learned_tokens.size());
    out.add("from_scratch", request.is_from_scratch);
    if (!request.is_from_scratch) out.add("model", data.model_hash);
    add_settings(out, batch_options_of(request, plan));
    with_rule(request, [&](auto const& rule) { add_settings(out, rule); });
    add_settings(out, plan.schedule);
    out.add("clip", request.clip);
    if (request.low_rank.rank > 0) {
        std::string targets;
        for (auto const& target : request.low_rank.targets) targets += (targets.empty() ? "" : ",") + target;
        out.add("lora", request.low_rank.rank).add("lora_alpha", request.low_rank.alpha);
        out.add("lora_targets", targets);
        if (request.low_rank.dropout > 0.0) out.add("lora_dropout", request.low_rank.dropout);
        if (request.quant) out.add("quant", name_of(*request.quant).view());
    }
    if (request.precision != Dtype::f32) out.add("precision", traits(request.precision).short_name);
    if (request.is_fast) out.add("fast", true);
    if (request.dropout > 0.0) out.add("dropout", request.dropout);
    return out;
}

}  // namespace shardwise::cli
