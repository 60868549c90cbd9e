// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/core/tensor_view.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// What every entry point of the executing half asks of the views that it is given. A view of nothing needs no memory: a rank's
/// share of the columns may be none.
///
/// Errors  invalid_argument for a view that has elements and no memory
template <class... T, std::size_t... dimensions, class... Backend>
[[nodiscard]] constexpr Result<> check_views(std::string_view subject,
                                             TensorView<T, dimensions, Backend> const&... views) {
    std::int64_t missing = 0;
    [[maybe_unused]] auto const look_at = [&missing](auto const& view) {
        if (missing == 0 && view.data() == nullptr && view.elements() > 0) missing = view.elements();
    };
    (look_at(views), ...);
    if (missing == 0) return {};
    return Error{ErrorCode::invalid_argument}
        .in(subject)
        .at("a view")
        .because("has elements but no memory")
        .got(missing)
        .fix("give a pointer to the elements, or no elements");
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
