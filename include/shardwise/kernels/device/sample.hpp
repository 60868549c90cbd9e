// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/device.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/kernels/detail/check_sampling.hpp>
#include <shardwise/kernels/detail/sample_call.hpp>
#include <shardwise/kernels/device/sampling_table.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Defined in kernels/sample_launch.cuh.
template <class Api>
Result<> launch_sample(SampleCall const& call, typename Api::Stream stream);

}  // namespace detail

/// Chooses a token for each row of logits, as the table's last write says: the host's token of the same logits and options
/// (kernels/sample.hpp). A row with a NaN or plus infinity, or without a finite logit, has the token -1; no error tells of it here.
///
/// Shapes  logits [rows, vocabulary], as many as the table has; out [rows]
/// Memory  the table stays alive, and takes one call at a time
/// Order   on `stream`
/// Errors  shape_mismatch
template <class Api>
[[nodiscard]] Result<> sample(TensorView<float const, 2, DeviceBackend<Api>> logits,
                              SamplingTable<DeviceBackend<Api>>& table,
                              TensorView<std::int32_t, 1, DeviceBackend<Api>> out, DeviceStream<Api>& stream) {
    if (auto const checked = detail::check_sampled(logits, table.rows(), out); !checked) return checked;
    if (logits.extent(1) != table.vocabulary()) {
        return Error{ErrorCode::shape_mismatch}
            .in("sample")
            .because("the table was made for another vocabulary")
            .got(logits.extent(1))
            .expected(table.vocabulary());
    }
    if (logits.extent(0) == 0) return {};
    detail::SampleCall const call{logits.data(),
                                  logits.stride(0),
                                  static_cast<std::int32_t>(logits.extent(0)),
                                  static_cast<std::int32_t>(logits.extent(1)),
                                  table.options(),
                                  table.histories(),
                                  table.marks(),
                                  out.data()};
    stream.submit([&](typename Api::Stream native) { return detail::launch_sample<Api>(call, native); });
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
