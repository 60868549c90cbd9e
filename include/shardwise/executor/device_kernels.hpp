// SPDX-License-Identifier: Apache-2.0
#pragma once

// The kernels and collectives that a rank on a device calls. Who makes a RankExecutor of a DeviceBackend includes this first.

#include <shardwise/backend/device_weight.hpp>
#include <shardwise/kernels/device/activation.hpp>
#include <shardwise/kernels/device/add.hpp>
#include <shardwise/kernels/device/add_row.hpp>
#include <shardwise/kernels/device/arg_max.hpp>
#include <shardwise/kernels/device/attention_temperature.hpp>
#include <shardwise/kernels/device/combine_rows.hpp>
#include <shardwise/kernels/device/copy_rows.hpp>
#include <shardwise/kernels/device/embedding.hpp>
#include <shardwise/kernels/device/expert_table.hpp>
#include <shardwise/kernels/device/fill.hpp>
#include <shardwise/kernels/device/gated_delta.hpp>
#include <shardwise/kernels/device/layer_norm.hpp>
#include <shardwise/kernels/device/mean_rows.hpp>
#include <shardwise/kernels/device/order_experts.hpp>
#include <shardwise/kernels/device/residual_norm.hpp>
#include <shardwise/kernels/device/rms_norm.hpp>
#include <shardwise/kernels/device/rope.hpp>
#include <shardwise/kernels/device/rope_turns.hpp>
#include <shardwise/kernels/device/route.hpp>
#include <shardwise/kernels/device/sample.hpp>
#include <shardwise/kernels/device/scale.hpp>
#include <shardwise/kernels/device/scale_rows.hpp>
#include <shardwise/kernels/device/soft_cap.hpp>
#include <shardwise/kernels/device/step_attention.hpp>
#include <shardwise/kernels/device/step_table.hpp>
#include <shardwise/kernels/device/store_step.hpp>
#include <shardwise/kernels/device/take_rows.hpp>
#include <shardwise/kernels/device/weigh_rows.hpp>
#include <shardwise/kernels/device/xielu.hpp>
#include <shardwise/parallel/device_collectives.hpp>
#include <shardwise/parallel/device_sharded_norm.hpp>
