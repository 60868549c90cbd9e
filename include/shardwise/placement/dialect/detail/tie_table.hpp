// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/placement/dialect/detail/module_queue.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// The groups of tied parameters by their names, as accelerate asks about them: whether an entry's name occurs anywhere
/// within a tied name, not only at its start.
class TieTable {
public:
    using Index = ExpandedTree::Index;

    explicit TieTable(ExpandedTree const& tree) : tree_(tree) {
        for (auto const& members : tree.tie_groups()) {
            std::vector<Member> group;
            for (auto const tensor : members) {
                if (tree.tensor(tensor).is_parameter()) group.push_back({tensor, tree.tensor_path(tensor) + "."});
            }
            // find_tied_parameters sorts the names of a group.
            std::sort(group.begin(), group.end(), [](auto const& a, auto const& b) {
                return std::string_view{a.name}.substr(0, a.name.size() - 1) <
                       std::string_view{b.name}.substr(0, b.name.size() - 1);
            });
            if (group.size() > 1) groups_.push_back(std::move(group));
        }
    }

    [[nodiscard]] bool empty() const { return groups_.empty(); }

    /// The parameters tied to one within the entry that are not within it themselves.
    void find_outside(TreeEntry entry, std::vector<Index>& outside) {
        outside.clear();
        if (groups_.empty()) return;
        name_ = entry.is_tensor() ? tree_.tensor_path(entry.index()) : tree_.path(entry.index());
        name_ += '.';
        for (auto const& group : groups_) {
            auto const before = outside.size();
            for (auto const& member : group) {
                if (member.name.find(name_) == std::string::npos) outside.push_back(member.tensor);
            }
            if (outside.size() - before == group.size()) outside.resize(before);
        }
    }

private:
    struct Member {
        Index tensor;
        std::string name;
    };

    ExpandedTree const& tree_;
    std::vector<std::vector<Member>> groups_;
    std::string name_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
