// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/dtype.hpp>
#include <shardwise/core/observer.hpp>
#include <shardwise/core/optional.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/quant/quant_scheme.hpp>

#include <functional>
#include <span>

namespace shardwise::inline SHARDWISE_NAMESPACE {

class Adapter;

/// How parameters are held, whatever form their file has.
struct LoadOptions {
    /// Of products and tables: fp32, bf16 or fp16; unset: as the file has them. Vectors (norms, biases) are held in fp32.
    Optional<Dtype> dtype{};
    /// Packs the weights that the estimator counts as packed for this scheme; what it leaves alone follows `dtype`.
    Optional<QuantScheme> quant{};
    /// Replaces each value by the largest that any tensor-parallel rank has: with it, packing into rows that have one scale
    /// reads a rank's own slices only. All ranks of the group have it, and load together. Unset: such rows are read whole.
    std::function<Result<>(std::span<float>)> share_largest{};
    /// Changes the weights before they are held; outlives the loading. Null: there is none.
    Adapter const* adapter = nullptr;
    /// Hears of each block; what it refers to outlives the loading.
    Observer observer{};
    /// Whoever loads has asked check_device_code and check_linked_kernels already, which are asked otherwise.
    bool has_checked_kernels = false;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
