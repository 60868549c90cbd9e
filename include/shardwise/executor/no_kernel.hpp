// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/error.hpp>

#include <string>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// What a model needs and a back end has no kernel for: it is refused when the model is loaded there.
template <class Backend>
[[nodiscard]] Error no_kernel(std::string_view what) {
    return Error{ErrorCode::unsupported}
        .in(Backend::name)
        .because("has no kernel for " + std::string(what) + " yet")
        .fix("run this model on the host");
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
