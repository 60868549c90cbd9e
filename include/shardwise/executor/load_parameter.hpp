#pragma once

#include <shardwise/backend/buffer.hpp>
#include <shardwise/backend/compute_backend.hpp>
#include <shardwise/backend/host/product/source.hpp>
#include <shardwise/executor/stored_parameters.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace shardwise::inline v0_2_0 {

/// A weight as products take it: [outputs, inputs], in the file's own bytes or, where the file has it the other way round, in a
/// copy.
struct StoredMatrix {
    WeightSource source;
    std::vector<float> turned;
};

/// The matrix of a product with these extents; a parameter stored [inputs, outputs] (gpt2's Conv1D) is turned round.
///
/// Errors  shape_mismatch where the parameter has other extents; unsupported for a packed one that would have to be turned
[[nodiscard]] inline Result<StoredMatrix> matrix_of(StoredParameter const& parameter, std::int64_t outputs,
                                                    std::int64_t inputs, bool is_turned, std::string_view name) {
    if (parameter.tensor->shape.elements() != outputs * inputs) {
        return Error{ErrorCode::shape_mismatch}
            .in(name)
            .because("has another number of elements than its product")
            .got(parameter.tensor->shape.elements())
            .expected(outputs * inputs);
    }
    StoredMatrix out;
    out.source = {
        .format = parameter.format, .outputs = outputs, .inputs = inputs, .data = parameter.data, .scales = {}};
    if (!is_turned) {
        if (auto const checked = detail::check_source(out.source); !checked) {
            auto error = checked.error();
            return error.in(name);
        }
        return Result<StoredMatrix>(std::move(out));
    }
    WeightSource const stored{
        .format = parameter.format, .outputs = inputs, .inputs = outputs, .data = parameter.data, .scales = {}};
    if (auto const checked = detail::check_source(stored); !checked) {
        auto error = checked.error();
        return error.in(name);
    }
    out.turned.resize(static_cast<std::size_t>(outputs * inputs));
    std::vector<float> row(static_cast<std::size_t>(outputs));
    for (std::int64_t i = 0; i < inputs; ++i) {
        detail::decode_source(stored, i, 0, outputs, row.data());
        for (std::int64_t o = 0; o < outputs; ++o)
            out.turned[static_cast<std::size_t>(o * inputs + i)] = row[static_cast<std::size_t>(o)];
    }
    out.source.format = WeightFormat::f32;
    out.source.data = std::as_bytes(std::span<float const>(out.turned));
    return Result<StoredMatrix>(std::move(out));
}

/// A vector's elements in float.
///
/// Errors  shape_mismatch where it is not as long as expected
[[nodiscard]] inline Result<std::vector<float>> floats_of(StoredParameter const& parameter, std::int64_t expected,
                                                          std::string_view name) {
    auto const matrix = matrix_of(parameter, 1, expected, false, name);
    if (!matrix) return matrix.error();
    std::vector<float> out(static_cast<std::size_t>(expected));
    detail::decode_source(matrix->source, 0, 0, expected, out.data());
    return out;
}

/// A back end's copy of some values.
template <ComputeBackend Backend>
[[nodiscard]] Result<Buffer<float, Backend>> hold_floats(typename Backend::Context& context,
                                                         std::vector<float> const& values) {
    auto buffer = Buffer<float, Backend>::allocate(context, static_cast<std::int64_t>(values.size()));
    if (!buffer) return buffer.error();
    std::copy(values.begin(), values.end(), buffer->data());
    return buffer;
}

}  // namespace shardwise::inline v0_2_0
