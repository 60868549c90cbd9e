#pragma once

#include <shardwise/core/checked.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/model/module_tree.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace shardwise::inline v0_2_0 {

/// The most modules and tensors, every repetition counted, that a tree from a file may have: ten times the largest
/// published model.
inline constexpr std::int64_t max_tree_entries = 2'000'000;

/// Success where sizes of all tensors add up within 63 bits, even as 16-byte elements, and the expanded tree is of a
/// sane length. Trees that come from files pass here before anything multiplies their numbers.
///
/// Errors  size_overflow, capacity_exceeded
[[nodiscard]] inline Result<> check_tree_limits(ModuleTree const& tree) {
    constexpr std::int64_t widest_element = 16;
    std::vector<std::int64_t> instances(tree.modules().size(), 0);
    if (instances.empty()) return {};
    auto const too_many = [] {
        return Error{ErrorCode::capacity_exceeded}
            .because("the model has more modules and tensors than this library plans for")
            .expected(max_tree_entries);
    };
    instances[tree.root()] = 1;
    std::int64_t entries = 0;
    std::int64_t total = 0;
    for (std::size_t id = instances.size(); id-- > 0;) {
        if (instances[id] == 0) continue;
        auto const& module = tree.module(static_cast<ModuleId>(id));
        // Every count so far is below the limit, and so are tensor counts: the products stay within 63 bits.
        entries += instances[id] * (1 + static_cast<std::int64_t>(module.tensor_count));
        if (entries > max_tree_entries) return too_many();
        for (std::uint32_t i = 0; i < module.tensor_count; ++i) {
            auto const& tensor = tree.tensor(module, i);
            auto const elements = tensor.shape.checked_elements();
            auto const all = elements ? checked_multiply(*elements, instances[id]) : std::nullopt;
            auto const bytes = all ? checked_multiply(*all, widest_element) : std::nullopt;
            auto const sum = bytes ? checked_add(total, *bytes) : std::nullopt;
            if (!sum) {
                return Error{ErrorCode::size_overflow}
                    .at(tensor.name)
                    .because("the sizes of the tensors of this model leave 63 bits");
            }
            total = *sum;
        }
        for (std::uint32_t i = 0; i < module.child_count; ++i) {
            auto const& child = tree.child(module, i);
            instances[child.module] += instances[id] * child.count;
            if (instances[child.module] > max_tree_entries) return too_many();
        }
    }
    return {};
}

}  // namespace shardwise::inline v0_2_0
