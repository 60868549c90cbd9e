// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/comm/communicator.hpp>
#include <shardwise/core/check_views.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/kernels/detail/square_sums_call.hpp>
#include <shardwise/kernels/square_cut.hpp>
#include <shardwise/kernels/square_sums.hpp>
#include <shardwise/parallel/collectives.hpp>

#include <cstdint>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// How a tensor-parallel rank shares an RMS norm of rows whose columns are sharded. Each number of a row is written by one rank
/// and is 0 on the others, so that their sum over the ranks is exact in any order.
///
/// With one number per row, each rank adds its squares to it: least bytes. With one per unit (head, leaf of a fixed tree),
/// added up in order afterwards, the bits do not depend on the ranks.
struct NormShare {
    /// The columns of a whole row.
    std::int64_t width = 0;
    /// Numbers per row.
    std::int64_t sums = 1;
    /// What this rank adds up, as columns of its own rows. Columns that several ranks hold are added up by the first.
    std::vector<SquareSum> parts;
    /// The same for a device: by the pieces of a whole row, one for each number.
    SquareCut cut{};

    /// Floats that `sharded_rms_norm` needs beside its tensors, on the host and on a device.
    [[nodiscard]] std::int64_t workspace(std::int64_t rows) const {
        return rows * sums * static_cast<std::int64_t>(sizeof(double) / sizeof(float));
    }
    [[nodiscard]] std::int64_t device_workspace(std::int64_t rows) const { return rows * sums * detail::square_floats; }
};

/// out = in / rms(whole row) * (weight + offset) for this rank's columns of each row.
///
/// Shapes  in, out [rows, this rank's columns], out may be in; weight [this rank's columns]; workspace [share.workspace(rows)]
///         or more, where a double may be stored; the same rows on all ranks
/// Memory  allocates nothing; `share` outlives what is in the stream
/// Order   on `stream`, the collective too
/// Errors  shape_mismatch; a collective's error stops the stream
template <Communicator C>
[[nodiscard]] Result<> sharded_rms_norm(TensorView<float const, 2, Host> in, NormShare const& share,
                                        TensorView<float const, 1, Host> weight, TensorView<float, 2, Host> out,
                                        float epsilon, TensorView<float, 1, Host> workspace, C& comm,
                                        HostStream& stream, float offset = 0.0F) {
    if (auto const known = check_views("sharded_rms_norm", in, weight, out, workspace); !known) return known;
    auto const rows = in.extent(0);
    auto const needed = share.workspace(rows);
    auto const address = reinterpret_cast<std::uintptr_t>(workspace.data());
    if (workspace.elements() < needed || address % alignof(double) != 0) {
        return Error{ErrorCode::shape_mismatch}
            .in("sharded_rms_norm")
            .because("the workspace is too small or cannot hold a double")
            .got(workspace.elements())
            .expected(needed);
    }
    TensorView<double, 2, Host> const sums(reinterpret_cast<double*>(workspace.data()), {rows, share.sums});
    if (auto const done = sum_squares<float>(in, share.parts, sums, stream); !done) return done;
    submit_all_reduce(comm, TensorView<double, 1, Host>{sums.data(), {sums.elements()}}, ReduceOp::sum, stream);
    return scale_by_squares<float>(in, sums, share.width, weight, out, epsilon, stream, offset);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
