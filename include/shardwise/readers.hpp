// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Everything that reads files: JSON, config.json, module trees, the places where models lie, their tensors, measured profiles, plans.
#include <shardwise/cost/profile_json.hpp>
#include <shardwise/hardware/description.hpp>
#include <shardwise/json/reader.hpp>
#include <shardwise/json/value.hpp>
#include <shardwise/json/writer.hpp>
#include <shardwise/model/files/checkpoint.hpp>
#include <shardwise/model/files/checkpoint_index.hpp>
#include <shardwise/model/files/config_json.hpp>
#include <shardwise/model/files/gguf.hpp>
#include <shardwise/model/files/hub_cache.hpp>
#include <shardwise/model/files/model_source.hpp>
#include <shardwise/model/files/safetensors.hpp>
#include <shardwise/model/files/safetensors_reader.hpp>
#include <shardwise/model/files/tree_json.hpp>
#include <shardwise/placement/measured_times.hpp>
#include <shardwise/plan/read_plan.hpp>
