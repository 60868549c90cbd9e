// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/check_views.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/kernels/detail/check_stored.hpp>
#include <shardwise/kernels/step_table.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// The rows of a step and the memory that they go into.
template <class Cache, class T, class Backend>
[[nodiscard]] Result<> check_store_step(TensorView<T const, 2, Backend> const& in,
                                        TensorView<Cache, 2, Backend> const& memory, StepTable<Backend> const& table,
                                        std::int64_t group, TensorView<float, 2, Backend> const& scales) {
    if (auto const known = check_views("store_rows", in, memory, scales); !known) return known;
    auto const& layout = table.layout();
    if (group < 0 || group >= layout.groups) {
        return Error{ErrorCode::invalid_argument}
            .in("store_rows")
            .at("group")
            .because("has no lists of pages")
            .got(group)
            .between(0, layout.groups - 1);
    }
    auto const refused = [] { return Error{ErrorCode::shape_mismatch}.in("store_rows"); };
    if (in.extent(0) < table.tokens() || in.extent(0) > layout.max_tokens) {
        return refused()
            .because("the rows are fewer than the step's, or more than the table has")
            .got(in.extent(0))
            .between(table.tokens(), layout.max_tokens);
    }
    auto const pages = memory.extent(0) >> layout.page_shift;
    if (pages < table.least_pages(group)) {
        return refused()
            .at("pages")
            .because("name one that the memory does not have")
            .got(table.least_pages(group) - 1)
            .at_most(pages - 1);
    }
    return check_stored("store_rows", in, memory, scales);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
