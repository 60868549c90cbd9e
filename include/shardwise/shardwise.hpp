// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The planning half: models, memory, devices and device maps, without a GPU SDK and without a third-party library.
///
/// What would cost every includer more to compile has headers of its own: parallel plans `shardwise/plan/plan_parallel.hpp`,
/// pictures `shardwise/plan/draw_picture.hpp`, files `shardwise/readers.hpp`, detection `shardwise/hardware/detect.hpp`,
/// accelerate's and transformers' own maps `shardwise/placement/dialect/`.

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
