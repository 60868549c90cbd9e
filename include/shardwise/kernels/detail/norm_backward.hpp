// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/core/check_views.hpp>
#include <shardwise/kernels/detail/check_gradients.hpp>
#include <shardwise/kernels/detail/element.hpp>
#include <shardwise/kernels/detail/lanes_backward.hpp>

#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE::detail {

/// The backward pass of a norm: rows for the input, then columns for the parameters.
struct NormBackward {
    TensorView<float const, 2, Host> in;
    TensorView<float const, 1, Host> weight;
    TensorView<float const, 2, Host> out_gradient;
    TensorView<float, 2, Host> in_gradient;
    TensorView<float, 1, Host> weight_gradient;
    TensorView<float, 1, Host> bias_gradient;
    TensorView<double, 1, Host> workspace;
    float epsilon;
    float offset;
    bool is_centred;
    bool is_input_added;
    bool is_weight_added;

    [[nodiscard]] Result<> run(std::string_view kernel, HostStream& stream) const {
        if (auto const known =
                check_views(kernel, in, weight, out_gradient, in_gradient, weight_gradient, bias_gradient, workspace);
            !known)
            return known;
        auto const rows = in.extent(0);
        auto const width = in.extent(1);
        if (auto const checked = check_columns(kernel, "weight", weight, width, false); !checked) return checked;
        if (auto const checked = check_shape(kernel, "out_gradient", out_gradient, rows, width); !checked)
            return checked;
        if (auto const checked = check_optional(kernel, "in_gradient", in_gradient, rows, width); !checked)
            return checked;
        if (auto const checked = check_columns(kernel, "weight_gradient", weight_gradient, width, true); !checked)
            return checked;
        if (auto const checked = check_columns(kernel, "bias_gradient", bias_gradient, width, true); !checked)
            return checked;
        if (workspace.elements() < 2 * rows) return small_workspace(kernel, workspace.elements(), 2 * rows);
        if (!stream.isa()) return stream.isa().error();
        using Rows =
            void (*)(float const*, float const*, float const*, float*, double*, std::int64_t, float, float, bool, bool);
        using Columns = void (*)(float const*, std::int64_t, float const*, std::int64_t, double const*, std::int64_t,
                                 std::int64_t, std::int64_t, float*, float*, bool);
        auto const row_kernel = choose_kernel<Rows>(*stream.isa(), SHARDWISE_KERNEL_LEVELS(norm_backward_row));
        auto const column_kernel = choose_kernel<Columns>(*stream.isa(), SHARDWISE_KERNEL_LEVELS(norm_weight_columns));
        auto const make_rows = [own = *this, row_kernel](std::int64_t begin, std::int64_t end) {
            for (auto row = begin; row < end; ++row) {
                row_kernel(own.in.row(row), own.weight.data(), own.out_gradient.row(row),
                           own.in_gradient.empty() ? nullptr : own.in_gradient.row(row), own.workspace.data() + 2 * row,
                           own.in.extent(1), own.epsilon, own.offset, own.is_centred, own.is_input_added);
            }
        };
        if (width > 0) Host::launch(rows, make_rows, stream, row_grain(width));
        if (weight_gradient.empty() && bias_gradient.empty()) return {};
        auto const make_columns = [own = *this, column_kernel](std::int64_t begin, std::int64_t end) {
            column_kernel(own.in.data(), own.in.stride(0), own.out_gradient.data(), own.out_gradient.stride(0),
                          own.workspace.data(), own.in.extent(0), begin, end,
                          own.weight_gradient.empty() ? nullptr : own.weight_gradient.data(),
                          own.bias_gradient.empty() ? nullptr : own.bias_gradient.data(), own.is_weight_added);
        };
        Host::launch(width, make_columns, stream, row_grain(rows));
        return {};
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail
