#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/kernels/detail/check_rows.hpp>
#include <shardwise/kernels/detail/element.hpp>
#include <shardwise/kernels/detail/lanes.hpp>

#include <cstdint>

namespace shardwise::inline v0_2_0 {

/// out = exp(in - max) / sum, row by row. A row of only minus infinity (everything masked) becomes zeros.
///
/// Shapes  in, out [rows, width], out may be in
/// Order   on `stream`
/// Errors  shape_mismatch; what the stream says of its instruction set
template <ActivationElement T>
[[nodiscard]] Result<> softmax(TensorView<T const, 2, Host> in, TensorView<T, 2, Host> out, HostStream& stream) {
    auto const width = in.extent(1);
    if (auto const checked = detail::check_rows("softmax", in, width, out); !checked) return checked;
    if (!stream.isa()) return stream.isa().error();
    auto const kernel = detail::choose_kernel<void (*)(T const*, T*, std::int64_t)>(
        *stream.isa(), SHARDWISE_KERNEL_LEVELS(softmax_row<T>));
    auto const normalise = [=](std::int64_t begin, std::int64_t end) {
        for (auto row = begin; row < end; ++row) kernel(in.row(row), out.row(row), width);
    };
    Host::launch(in.extent(0), normalise, stream, detail::row_grain(width));
    return {};
}

}  // namespace shardwise::inline v0_2_0
