// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/hardware/device.hpp>
#include <shardwise/memory/request.hpp>

#include "load_model.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace shardwise::cli {

/// What follows the number of parameters where the model is a part of another: ", text part only (...)".
[[nodiscard]] std::string_view part_note(ModelConfig const& config);

/// What is asked, in words: "context 4096 (default), batch 1, weights bf16, cache bf16".
[[nodiscard]] std::string question_of(LoadedModel const& model, EstimateRequest const& request);

/// The tokens of a chunk of the prompts; 0 where they are computed whole, and for models that are only placed.
[[nodiscard]] std::int64_t prefill_chunk_of(LoadedModel const& model, EstimateRequest const& request);

/// "; utilization 0.92" where that limits one of the devices, else nothing.
[[nodiscard]] std::string utilization_text(std::span<Device const> devices, double utilization);

/// The warning about a context beyond the model's maximum; empty where there is none.
[[nodiscard]] std::string context_warning(ModelConfig const& config, std::int64_t context);

/// The warning about a quantisation that packs nothing of the model; empty where there is none.
[[nodiscard]] std::string quant_warning(LoadedModel const& model, EstimateRequest const& request);

}  // namespace shardwise::cli
