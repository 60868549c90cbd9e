// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/executor/training/trained_adapter.hpp>
#include <shardwise/memory/request.hpp>
#include <shardwise/train/checkpoint/checkpoint_files.hpp>

#include "arguments.hpp"
#include "load_model.hpp"

#include <cstdint>
#include <string>

namespace shardwise::cli {

/// The adapter that --lora and the flags beside it ask for; of rank 0 where none is.
///
/// Errors  invalid_argument with the range, and for flags that exclude each other
[[nodiscard]] Result<LowRankOptions> read_low_rank(Arguments const& arguments);

/// Whether a request is one of training in the trainer's own accounting, where it asks for an adapter.
///
/// Errors  invalid_argument
[[nodiscard]] Result<> check_adapter(LowRankOptions const& low_rank, EstimateRequest const& request);

/// Finds out how the products of an adapter's base are held: as its files say or, of a preset or a config, as its dtype does. With no
/// adapter nothing.
///
/// Errors  as StoredParameters and held_products
[[nodiscard]] Result<> hold_base(LoadedModel& base, Optional<QuantScheme> const& quant, LowRankOptions& low_rank);

/// What checkpoints of an adapter have beside it: PEFT's adapter_config.json in the place of the base's config.json, whose tokenizer
/// stays; with no adapter nothing changes. `base` is the model's name.
void put_adapter_config(CheckpointFiles& files, TrainedAdapter const& adapter, std::string const& base);

}  // namespace shardwise::cli
