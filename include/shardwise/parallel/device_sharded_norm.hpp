// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/device.hpp>
#include <shardwise/comm/communicator.hpp>
#include <shardwise/core/check_views.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/kernels/device/square_sums.hpp>
#include <shardwise/parallel/device_collectives.hpp>
#include <shardwise/parallel/sharded_norm.hpp>

#include <cstdint>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// out = in / rms(whole row) * (weight + offset) for this rank's columns of each row, on a device. With one number per unit each is 0 on
/// all ranks but one, so that the sum over the ranks is exact in any order, in float too.
///
/// Shapes  in, out [rows, this rank's columns], out may be in; weight [this rank's columns]; workspace
///         [share.device_workspace(rows)] or more; the same rows on all ranks
/// Memory  allocates nothing
/// Order   on `stream`, the collective too
/// Errors  shape_mismatch; a collective's error stops the stream
template <ActivationElement T, Communicator C, class Api>
[[nodiscard]] Result<> sharded_rms_norm(TensorView<T const, 2, DeviceBackend<Api>> in, NormShare const& share,
                                        TensorView<float const, 1, DeviceBackend<Api>> weight,
                                        TensorView<T, 2, DeviceBackend<Api>> out, float epsilon,
                                        TensorView<float, 1, DeviceBackend<Api>> workspace, C& comm,
                                        DeviceStream<Api>& stream, float offset = 0.0F) {
    using Backend = DeviceBackend<Api>;
    if (auto const known = check_views("sharded_rms_norm", in, weight, out, workspace); !known) return known;
    auto const rows = in.extent(0);
    auto const needed = share.device_workspace(rows);
    if (workspace.elements() < needed) {
        return Error{ErrorCode::shape_mismatch}
            .in("sharded_rms_norm")
            .because("the workspace is too small")
            .got(workspace.elements())
            .expected(needed);
    }
    TensorView<float, 2, Backend> const sums(workspace.data(), {rows, share.sums * detail::square_floats});
    if (auto const done = sum_squares<T>(in, share.cut, sums, stream); !done) return done;
    submit_all_reduce(comm, TensorView<float, 1, Backend>{sums.data(), {sums.elements()}}, ReduceOp::sum, stream);
    TensorView<float const, 2, Backend> const all = sums;
    return scale_by_squares<T>(in, all, share.width, weight, out, epsilon, stream, offset);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
