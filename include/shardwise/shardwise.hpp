#pragma once

/// The planning half: models, memory, devices and device maps, without a GPU SDK and without a third-party library.
/// Files are read by <shardwise/readers.hpp>, accelerate's and transformers' own maps by <shardwise/placement/dialect/...>.

#include <shardwise/core/version.hpp>
#include <shardwise/hardware/presets.hpp>
#include <shardwise/hardware/spec.hpp>
#include <shardwise/memory/estimator.hpp>
#include <shardwise/model/architectures.hpp>
#include <shardwise/model/presets.hpp>
#include <shardwise/model/tree_totals.hpp>
#include <shardwise/placement/balanced.hpp>
#include <shardwise/placement/custom.hpp>
#include <shardwise/placement/device_map.hpp>
#include <shardwise/placement/inverse.hpp>
#include <shardwise/placement/optimal.hpp>
#include <shardwise/placement/sequential.hpp>
