// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/span.hpp>
#include <shardwise/placement/device_map.hpp>

#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What is to be placed, so that requests and devices may vary: a model with its cache, activations and the runtime's
/// overhead, or a bare tree, which has none of these. The model or tree and the names must outlive it.
class PlacementTask {
public:
    /// A model; `no_split` are the classes whose instances stay whole.
    constexpr PlacementTask(Model const& model, Span<std::string_view const> no_split)
        : model_(&model), tree_(&model.tree), no_split_(no_split) {}
    /// A model with its architecture's own no-split classes.
    constexpr explicit PlacementTask(Model const& model) : PlacementTask(model, model.tree.no_split_classes()) {}
    /// A bare tree.
    constexpr PlacementTask(ModuleTree const& tree, Span<std::string_view const> no_split)
        : tree_(&tree), no_split_(no_split) {}

    /// Null for a bare tree.
    [[nodiscard]] constexpr Model const* model() const { return model_; }
    [[nodiscard]] constexpr ModuleTree const& tree() const { return *tree_; }

    [[nodiscard]] constexpr ModuleSequence sequence(EstimateRequest const& request,
                                                    Granularity granularity = Granularity::modules) const {
        if (model_ == nullptr) return build_tree_sequence(*tree_, request.dtype, no_split_, granularity);
        return build_sequence(*model_, request, no_split_, granularity);
    }
    [[nodiscard]] constexpr Budgets budgets(Span<Device const> devices, EstimateRequest const& request) const {
        return model_ == nullptr ? budgets_of(devices, request.dtype.value_or(Dtype::bf16), {}, request.utilization)
                                 : budgets_for(devices, *model_, request);
    }
    /// Refuses a request that no run of the model could serve, of a bare tree one that none could.
    ///
    /// Errors  as check_request
    [[nodiscard]] constexpr Result<> check(EstimateRequest const& request) const {
        return model_ == nullptr ? check_request(request, ModelConfig{}, 1) : check_request(*model_, request);
    }
    /// True where a contiguous placement exists in memory: disks are left out, since everything fits there.
    ///
    /// Errors  as check
    [[nodiscard]] constexpr Result<bool> fits(Span<Device const> devices, EstimateRequest const& request) const {
        if (auto const checked = check(request); !checked) return checked.error();
        auto in_memory = budgets(devices, request);
        while (!in_memory.empty() && in_memory.back().id.kind == DeviceClass::disk) in_memory.pop_back();
        return fits_in_order(sequence(request), in_memory);
    }

private:
    Model const* model_ = nullptr;
    ModuleTree const* tree_;
    Span<std::string_view const> no_split_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
