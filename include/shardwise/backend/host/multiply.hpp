// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/buffer.hpp>
#include <shardwise/backend/host.hpp>
#include <shardwise/backend/host/product/cut.hpp>
#include <shardwise/backend/host/product/product_kernel.hpp>
#include <shardwise/backend/host/product/sum_products.hpp>
#include <shardwise/backend/host/product/task.hpp>
#include <shardwise/backend/host/thread_pool.hpp>
#include <shardwise/backend/host/weight.hpp>
#include <shardwise/core/check_views.hpp>
#include <shardwise/core/checked.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/tensor_view.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Rows that are prepared at a time at least, however wide they are: they share what is done once for a panel.
inline constexpr std::int64_t prepared_rows_at_least = 24;

/// Multiplies by all panels, on all threads.
inline void run_panels(ProductKernel const& kernel, ProductTask const& task, ThreadPool& pool) {
    auto const panels = ceil_divide(task.weight.outputs, panel_outputs);
    auto const pairs = ceil_divide(panels, 2);
    auto const inputs = task.inputs.size();
    auto const cut = cut_product(task.rows, panels, inputs, pool.size());
    if (task.rows <= streamed_rows && cut.row_parts == 1) {
        auto const at_once = cut.panel_parts == 1 ? pairs : streamed_pairs(task.rows, inputs);
        pool.run_in_order(pairs, at_once, [&](std::int64_t first, std::int64_t last) {
            auto part = task;
            part.first_panel = first * 2;
            part.last_panel = std::min(last * 2, panels);
            run_product(kernel, part);
        });
        return;
    }
    pool.run(cut.panel_parts * cut.row_parts, [&](std::int64_t index) {
        auto const panel_part = index / cut.row_parts;
        auto const row_part = index % cut.row_parts;
        auto const first_row = task.rows * row_part / cut.row_parts;
        auto part = task;
        part.rows = task.rows * (row_part + 1) / cut.row_parts - first_row;
        part.in = task.in + first_row * task.in_stride;
        part.prepared = task.prepared + first_row * task.prepared_stride;
        part.out = task.out + first_row * task.out_stride;
        part.first_panel = pairs * panel_part / cut.panel_parts * 2;
        part.last_panel = std::min(pairs * (panel_part + 1) / cut.panel_parts * 2, panels);
        run_product(kernel, part);
    });
}

/// `bytes` as an odd number of cache lines: where rows lie a power of two apart, what a kernel takes of each of them at a time falls
/// into the same set of a first-level cache (24 rows of 4,096 inputs: a tenth of their time).
[[nodiscard]] constexpr std::int64_t odd_lines(std::int64_t bytes) {
    return bytes == 0 ? 0 : (ceil_divide(bytes, panel_alignment) / 2 * 2 + 1) * panel_alignment;
}
/// Bytes of one row of activations as a kernel takes them, of all steps of sums one after another; 0 where it takes them as
/// they are.
[[nodiscard]] inline std::int64_t prepared_row_bytes(ProductKernel const& kernel, UnitRange inputs) {
    return odd_lines(prepared_range_bytes(kernel, inputs));
}
[[nodiscard]] inline std::int64_t prepared_row_bytes(ProductKernel const& kernel, ProductSums const& sums) {
    std::int64_t bytes = 0;
    for (auto const& step : sums.steps) bytes += step.is_product() ? prepared_range_bytes(kernel, step.inputs) : 0;
    return odd_lines(bytes);
}
/// Rows that are prepared at a time, of `rows`: whole tiles of every level's kernels.
[[nodiscard]] inline std::int64_t prepared_rows(ProductKernel const& kernel, std::int64_t row_bytes,
                                                std::int64_t rows) {
    constexpr std::int64_t tile = 4;
    auto const fitting = kernel.prepared_at_once / std::max<std::int64_t>(row_bytes, 1) / tile * tile;
    return std::clamp<std::int64_t>(std::max(fitting, prepared_rows_at_least), 1, std::max<std::int64_t>(rows, 1));
}
/// What a product by `rows` rows, whose prepared activations have so many bytes each, takes from the weight's context while it
/// runs.
[[nodiscard]] inline std::int64_t prepared_buffer_bytes(ProductKernel const& kernel, std::int64_t row_bytes,
                                                        std::int64_t rows) {
    return row_bytes == 0 ? 0 : prepared_rows(kernel, row_bytes, rows) * row_bytes;
}

/// Prepares a row of a task.
inline void prepare_row(ProductKernel const& kernel, ProductTask const& task, float const* row, std::byte* prepared) {
    if (task.sums == nullptr) return prepare_range(kernel, row, task.inputs, prepared);
    for (auto const& step : task.sums->steps) {
        if (!step.is_product()) continue;
        prepare_range(kernel, row + (step.inputs.begin - task.inputs.begin), step.inputs, prepared);
        prepared += prepared_range_bytes(kernel, step.inputs);
    }
}

/// Prepares some rows at a time and multiplies by them.
///
/// Memory  prepared_buffer_bytes(...) of `lent`, or else of the weight's context: at most the kernel's prepared_at_once or
///         prepared_rows_at_least rows
[[nodiscard]] inline Result<> run_prepared(ProductKernel const& kernel, ProductTask const& task, HostContext& context,
                                           ThreadPool& pool, std::span<std::byte> lent) {
    auto const row_bytes =
        task.sums == nullptr ? prepared_row_bytes(kernel, task.inputs) : prepared_row_bytes(kernel, *task.sums);
    auto const rows_at_once = prepared_rows(kernel, row_bytes, task.rows);
    auto const bytes = rows_at_once * row_bytes;
    bool const is_lent = bytes <= static_cast<std::int64_t>(lent.size());
    auto own = Buffer<std::byte, Host>::allocate(context, is_lent ? 0 : bytes);
    if (!own) return own.error();
    auto* const prepared = is_lent ? lent.data() : own->data();
    for (std::int64_t done = 0; done < task.rows; done += rows_at_once) {
        auto part = task;
        part.rows = std::min(rows_at_once, task.rows - done);
        part.in = task.in + done * task.in_stride;
        part.out = task.out + done * task.out_stride;
        part.prepared = prepared;
        part.prepared_stride = row_bytes;
        pool.run_in_order(part.rows, 1, [&](std::int64_t first, std::int64_t last) {
            for (auto row = first; row < last; ++row) {
                prepare_row(kernel, part, part.in + row * part.in_stride, prepared + row * row_bytes);
            }
        });
        run_panels(kernel, part, pool);
    }
    return {};
}

/// Checks the extents of a product by a range of a weight's inputs.
[[nodiscard]] inline Result<> check_product(HostWeight const& weight, UnitRange inputs, std::int64_t in_width,
                                            std::int64_t out_width) {
    auto const fail = [](std::string_view reason, std::int64_t got, std::int64_t expected) {
        return Error{ErrorCode::shape_mismatch}.in("multiply").because(reason).got(got).expected(expected);
    };
    if (inputs.begin < 0 || inputs.size() < 0 || inputs.end > weight.inputs())
        return fail("the range leaves the weight's inputs", inputs.end, weight.inputs());
    auto const block = traits(weight.format()).block_elements;
    if (inputs.begin % block != 0) return fail("the range begins within a block", inputs.begin, block);
    if (inputs.end % block != 0 && inputs.end != weight.inputs())
        return fail("the range ends within a block", inputs.end, block);
    if (in_width != inputs.size())
        return fail("the activations have another width than the weight has inputs", in_width, inputs.size());
    if (out_width != weight.outputs())
        return fail("the result has another width than the weight has outputs", out_width, weight.outputs());
    return {};
}

/// Checks sums of products by a weight.
[[nodiscard]] inline Result<> check_sums(HostWeight const& weight, ProductSums const& sums) {
    auto const fail = [](std::string_view reason, std::int64_t got, std::int64_t expected) {
        return Error{ErrorCode::shape_mismatch}.in("multiply").because(reason).got(got).expected(expected);
    };
    if (sums.scratch < 0 || sums.scratch > max_scratch_slots)
        return fail("the steps keep more slots than there is room for", sums.scratch, max_scratch_slots);
    auto const slots = sums.sums + sums.scratch;
    for (auto const& step : sums.steps) {
        if (step.to < 0 || step.to >= slots) return fail("a step has a slot that is none", step.to, slots);
        if (step.is_product()) {
            if (step.inputs.begin < sums.inputs.begin || step.inputs.end > sums.inputs.end)
                return fail("a step leaves the inputs of the sums", step.inputs.end, sums.inputs.end);
            auto const checked = check_product(weight, step.inputs, step.inputs.size(), weight.outputs());
            if (!checked) return checked;
        } else if (step.from < 0 || step.from >= slots) {
            return fail("a step has a slot that is none", step.from, slots);
        }
    }
    return {};
}

/// Puts a checked product into a stream.
[[nodiscard]] inline Result<> submit_product(ProductTask const& task, HostWeight const& weight, HostStream& stream) {
    if (!stream.isa()) return stream.isa().error();
    auto const kernel = weight.kernel(*stream.isa(), stream.product_activations());
    stream.submit([kernel, task, context = &weight.context(), pool = stream.pool(),
                   lent = stream.lent_to_products()]() -> Result<> {
        if (task.rows == 0 || task.weight.outputs == 0) return {};
        context->count_product();
        std::optional<ThreadPool> alone;
        auto& threads = pool != nullptr ? *pool : alone.emplace(1);
        if (kernel.prepared_bytes != nullptr) return run_prepared(kernel, task, *context, threads, lent);
        run_panels(kernel, task, threads);
        return {};
    });
    return {};
}

/// Host::multiply of what was checked: the weight's inputs and outputs, and as many rows.
[[nodiscard]] inline Result<> multiply_checked(TensorView<float const, 2, Host> in, HostWeight const& weight,
                                               UnitRange inputs, TensorView<float, 2, Host> out, HostStream& stream) {
    return submit_product({.weight = weight.packed(),
                           .inputs = inputs,
                           .in = in.data(),
                           .in_stride = in.stride(0),
                           .rows = in.extent(0),
                           .out = out.data(),
                           .out_stride = out.stride(0)},
                          weight, stream);
}
/// Host::multiply_sums of what was checked.
[[nodiscard]] inline Result<> multiply_sums_checked(TensorView<float const, 2, Host> in, HostWeight const& weight,
                                                    ProductSums const& sums, TensorView<float, 3, Host> out,
                                                    HostStream& stream) {
    return submit_product({.weight = weight.packed(),
                           .inputs = sums.inputs,
                           .in = in.data(),
                           .in_stride = in.stride(0),
                           .rows = in.extent(0),
                           .out = out.data(),
                           .out_stride = out.stride(1),
                           .sums = &sums,
                           .sum_stride = out.stride(0)},
                          weight, stream);
}

[[nodiscard]] inline Error another_number_of_rows(std::int64_t got, std::int64_t expected) {
    return Error{ErrorCode::shape_mismatch}
        .in("multiply")
        .because("the result has another number of rows than the activations")
        .got(got)
        .expected(expected);
}

}  // namespace detail

inline Result<> Host::multiply(TensorView<float const, 2, Host> in, HostWeight const& weight,
                               TensorView<float, 2, Host> out, Stream& stream) {
    return multiply(in, weight, {0, weight.inputs()}, out, stream);
}

inline Result<> Host::multiply(TensorView<float const, 2, Host> in, HostWeight const& weight, UnitRange inputs,
                               TensorView<float, 2, Host> out, Stream& stream) {
    if (auto const known = check_views("multiply", in, out); !known) return known;
    auto const checked = detail::check_product(weight, inputs, in.extent(1), out.extent(1));
    if (!checked) return checked;
    if (in.extent(0) != out.extent(0)) return detail::another_number_of_rows(out.extent(0), in.extent(0));
    return detail::multiply_checked(in, weight, inputs, out, stream);
}

inline Result<> Host::multiply_sums(TensorView<float const, 2, Host> in, HostWeight const& weight,
                                    ProductSums const& sums, TensorView<float, 3, Host> out, Stream& stream) {
    if (auto const known = check_views("multiply", in, out); !known) return known;
    auto const checked = detail::check_product(weight, sums.inputs, in.extent(1), out.extent(2));
    if (!checked) return checked;
    if (auto const steps = detail::check_sums(weight, sums); !steps) return steps;
    if (out.extent(0) != sums.sums) {
        return Error{ErrorCode::shape_mismatch}
            .in("multiply")
            .because("the result has another number of sums than the steps")
            .got(out.extent(0))
            .expected(sums.sums);
    }
    if (in.extent(0) != out.extent(1)) return detail::another_number_of_rows(out.extent(1), in.extent(0));
    return detail::multiply_sums_checked(in, weight, sums, out, stream);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
