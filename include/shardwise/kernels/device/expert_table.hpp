// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/buffer.hpp>
#include <shardwise/backend/device.hpp>
#include <shardwise/backend/device_weight.hpp>
#include <shardwise/core/check_views.hpp>
#include <shardwise/core/deadline.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/kernels/detail/multiply_experts_call.hpp>
#include <shardwise/kernels/expert_table.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Defined in kernels/multiply_experts_launch.cuh.
template <class Api>
Result<> launch_multiply_experts(MultiplyExpertsCall const& call, typename Api::Stream stream);

}  // namespace detail

/// Where a device finds the weights of experts, so that which of them has rows is read where it is known.
///
/// Memory  what it was made of outlives it, and does not move
template <class Api>
class ExpertTable<DeviceBackend<Api>> {
public:
    using Backend = DeviceBackend<Api>;

    ExpertTable() = default;

    /// Errors  out_of_memory; those of the device's calls
    [[nodiscard]] static Result<ExpertTable> create(DeviceContext<Api>& context,
                                                    std::vector<ExpertFactor<Backend>> const& experts) {
        ExpertTable table;
        std::vector<detail::DeviceExpert> entries;
        for (auto const& expert : experts) {
            auto const view = expert.weight->view();
            entries.push_back({view, expert.bias.empty() ? nullptr : expert.bias.data()});
            auto const& first = entries.front().weight;
            table.is_uniform_ = table.is_uniform_ && view.format == first.format && view.outputs == first.outputs &&
                                view.inputs == first.inputs;
        }
        auto const size = bytes_for(static_cast<std::int64_t>(entries.size())).count();
        auto memory = Buffer<std::byte, Backend>::allocate(context, size);
        if (!memory) return memory.error();
        table.memory_ = std::move(*memory);
        if (entries.empty()) return table;
        table.format_ = entries.front().weight.format;
        table.count_ = static_cast<std::int32_t>(entries.size());
        table.outputs_ = entries.front().weight.outputs;
        table.inputs_ = entries.front().weight.inputs;
        auto stream = context.make_stream();
        TensorView<std::byte const, 1, Host> const from(reinterpret_cast<std::byte const*>(entries.data()), {size});
        auto const copied = Backend::template copy<std::byte>(from, table.memory_.view(), stream);
        if (!copied) return copied.error();
        auto const done = stream.synchronize(Deadline::after(context.limit()));
        if (!done) return done.error();
        return table;
    }
    [[nodiscard]] static constexpr Bytes bytes_for(std::int64_t experts) {
        return Bytes{experts * static_cast<std::int64_t>(sizeof(detail::DeviceExpert))};
    }

    /// True where there are experts, all of one format and size.
    [[nodiscard]] bool multiplies() const { return count_ > 0 && is_uniform_; }

    /// out = each row times the weight of the expert that has it, + its bias: the bits of Backend::multiply by one row. Every row reads
    /// a weight: for few of them. Rows and results as there.
    ///
    /// Shapes  in [tokens, inputs]; tokens [rows] or empty: by row the row of `in`; first [experts + 1]: by expert its first row, and
    ///         the end of the last; out [rows, outputs]
    /// Order   on `stream`, which reads `tokens` and `first` when it comes to them
    /// Errors  shape_mismatch
    template <class T, class Out>
    [[nodiscard]] Result<> multiply(TensorView<T const, 2, Backend> in,
                                    TensorView<std::int32_t const, 1, Backend> tokens,
                                    TensorView<std::int32_t const, 1, Backend> first, TensorView<Out, 2, Backend> out,
                                    DeviceStream<Api>& stream) const {
        static_assert(std::same_as<Out, float> || std::same_as<Out, T>, "products are floats, or as their rows");
        if (auto const known = check_views("multiply_experts", in, tokens, first, out); !known) return known;
        auto const rows = out.extent(0);
        auto const check = [](std::string_view place, std::int64_t got, std::int64_t expected) -> Result<> {
            if (got == expected) return {};
            return Error{ErrorCode::shape_mismatch}
                .in("multiply_experts")
                .at(place)
                .because("does not have the size that the experts and the rows need")
                .got(got)
                .expected(expected);
        };
        if (auto const ok = check("in", in.extent(1), inputs_); !ok) return ok;
        if (auto const ok = check("out", out.extent(1), outputs_); !ok) return ok;
        if (auto const ok = check("first", first.elements(), count_ + 1); !ok) return ok;
        auto const given = tokens.empty() ? in.extent(0) : tokens.elements();
        if (auto const ok = check("tokens", given, rows); !ok) return ok;
        if (out.empty()) return {};
        detail::MultiplyExpertsCall const call{reinterpret_cast<detail::DeviceExpert const*>(memory_.data()),
                                               format_,
                                               count_,
                                               first.data(),
                                               tokens.empty() ? nullptr : tokens.data(),
                                               outputs_,
                                               in.data(),
                                               in.stride(0),
                                               out.data(),
                                               out.stride(0),
                                               rows,
                                               detail::row_element<T>,
                                               detail::row_element<Out>};
        stream.submit([&](typename Api::Stream native) { return detail::launch_multiply_experts<Api>(call, native); });
        return {};
    }

private:
    Buffer<std::byte, Backend> memory_;
    bool is_uniform_ = true;
    WeightFormat format_ = WeightFormat::f32;
    std::int32_t count_ = 0;
    std::int64_t outputs_ = 0;
    std::int64_t inputs_ = 0;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
