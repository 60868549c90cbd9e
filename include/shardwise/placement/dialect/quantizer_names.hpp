// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/model/module_tree.hpp>
#include <shardwise/model/tensor_weight.hpp>
#include <shardwise/model/walk.hpp>
#include <shardwise/quant/quantized_bytes.hpp>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The full names of the weights that a quantiser of Python's libraries packs: those of nn.Linear but the head; by
/// bitsandbytes routers too, where they are nn.Linear.
///
/// Source  transformers 5.0 quantizers/quantizer_bnb_4bit.py (param_needs_quantization), quantizer_finegrained_fp8.py
[[nodiscard]] inline std::vector<std::string> packed_names(ModuleTree const& tree, QuantScheme const& scheme) {
    bool const takes_routers = traits(scheme.method).is_bitsandbytes;
    std::vector<std::string> names;
    std::string_view class_name;
    walk(
        tree, [&class_name](std::string_view, Module const& module, ModuleRole) { class_name = module.class_name; },
        [&](std::string_view name, Tensor const& tensor) {
            auto const weight = weight_of(tensor, class_name, false, 0);
            bool const is_router = tensor.use == TensorUse::router && takes_routers && weight.in_linear_module;
            if (tensor.is_matrix() && (is_product(tensor.use) || is_router)) names.emplace_back(name);
        });
    return names;
}

/// The full names of the tensors that accelerate's bitsandbytes loader leaves in the model's dtype: those of which a tied
/// parameter's or the last module's name is a part. Models without a head keep nothing.
///
/// Source  accelerate 1.15 utils/bnb.py get_keys_to_not_convert and get_quantized_model_device_map
[[nodiscard]] inline std::vector<std::string> unpacked_names(ModuleTree const& tree) {
    std::vector<std::string> parts;
    auto const add = [&parts](std::string_view name) {
        for (std::string_view const ending : {".weight", ".bias"}) {
            if (name.ends_with(ending)) name.remove_suffix(ending.size());
        }
        if (std::find(parts.begin(), parts.end(), name) == parts.end()) parts.emplace_back(name);
    };
    for (auto const& tie : tree.ties()) {
        add(tie.first);
        add(tie.other);
    }
    auto const& root = tree.module(tree.root());
    bool has_head = false;
    for (std::uint32_t i = 0; i < root.child_count; ++i) has_head |= tree.child(root, i).role == ModuleRole::head;
    if (root.child_count > 0 && (has_head || !parts.empty())) add(tree.child(root, root.child_count - 1).name);
    std::vector<std::string> names;
    walk_tensors(tree, [&](std::string_view name, Tensor const& tensor) {
        if (!tensor.is_parameter()) return;
        for (auto const& part : parts) {
            if (name.find(part) == std::string_view::npos) continue;
            names.emplace_back(name);
            return;
        }
    });
    return names;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
