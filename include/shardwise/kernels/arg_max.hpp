// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/kernels/detail/check_arg_max.hpp>
#include <shardwise/kernels/detail/element.hpp>
#include <shardwise/kernels/detail/logit_key.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// The key of a row's largest logit.
[[nodiscard]] inline std::int64_t largest_key(float const* logits, std::int64_t width, std::int64_t first_id) {
    auto best = no_logit_key;
    for (std::int64_t i = 0; i < width; ++i) {
        auto const key = logit_key(logits[i], first_id + i);
        best = key > best ? key : best;
    }
    return best;
}

}  // namespace detail

/// The key of each row's largest logit, whose ids begin with `first_id`: the largest of the keys of a vocabulary's parts is that of
/// the whole. `ids_of_keys` says which they are.
///
/// Shapes  logits [rows, columns], keys [rows]
/// Order   on `stream`
/// Errors  shape_mismatch; invalid_argument for ids beyond 31 bits
[[nodiscard]] inline Result<> largest_logits(TensorView<float const, 2, Host> logits, std::int64_t first_id,
                                             TensorView<std::int64_t, 1, Host> keys, HostStream& stream) {
    if (auto const checked = detail::check_arg_max("largest_logits", logits, first_id, keys); !checked) return checked;
    auto const find = [=](std::int64_t begin, std::int64_t end) {
        for (auto row = begin; row < end; ++row)
            keys.data()[row] = detail::largest_key(logits.row(row), logits.extent(1), first_id);
    };
    Host::launch(logits.extent(0), find, stream, detail::row_grain(logits.extent(1)));
    return {};
}

/// The ids of keys of logits; -1 for that of no number.
///
/// Shapes  keys, ids [rows]
/// Order   on `stream`
/// Errors  shape_mismatch
[[nodiscard]] inline Result<> ids_of_keys(TensorView<std::int64_t const, 1, Host> keys,
                                          TensorView<std::int32_t, 1, Host> ids, HostStream& stream) {
    if (auto const known = check_views("ids_of_keys", keys); !known) return known;
    if (auto const checked = detail::check_found("ids_of_keys", keys.elements(), ids); !checked) return checked;
    auto const find = [=](std::int64_t begin, std::int64_t end) {
        for (auto row = begin; row < end; ++row) ids.data()[row] = detail::id_of_key(keys.data()[row]);
    };
    Host::launch(keys.elements(), find, stream, detail::row_grain(1));
    return {};
}

/// The id of each row's largest logit: of equal ones the lowest (-0 is +0), -1 where none is a number.
///
/// Shapes  logits [rows, vocabulary], ids [rows]
/// Order   on `stream`
/// Errors  shape_mismatch; invalid_argument for ids beyond 31 bits
[[nodiscard]] inline Result<> arg_max(TensorView<float const, 2, Host> logits, TensorView<std::int32_t, 1, Host> ids,
                                      HostStream& stream) {
    if (auto const checked = detail::check_arg_max("arg_max", logits, 0, ids); !checked) return checked;
    auto const find = [=](std::int64_t begin, std::int64_t end) {
        for (auto row = begin; row < end; ++row)
            ids.data()[row] = detail::id_of_key(detail::largest_key(logits.row(row), logits.extent(1), 0));
    };
    Host::launch(logits.extent(0), find, stream, detail::row_grain(logits.extent(1)));
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
