// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/kernels/add.cuh>
#include <shardwise/kernels/detail/portions_launch.cuh>

#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

template <class Api, class T, class Other>
Result<> launch_add(std::string_view name, AddCall<T, Other> const& call, typename Api::Stream stream) {
    constexpr unsigned pack = pack_elements<T>;
    bool const is_packed = (call.a == nullptr || has_packs(call.a, call.rows, call.a_row, call.width)) &&
                           (call.b == nullptr || has_packs(call.b, call.rows, call.b_row, call.width)) &&
                           has_packs(call.out, call.rows, call.out_row, call.width);
    return launch_portions<Api, AddCall<T, Other>>(name, SHARDWISE_KERNEL(add_portions<T, Other, 1>),
                                                   SHARDWISE_KERNEL(add_portions<T, Other, pack>), pack, is_packed,
                                                   call.rows, call.width, stream, call);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
