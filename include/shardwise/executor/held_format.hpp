// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/dtype.hpp>
#include <shardwise/core/optional.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/executor/load_options.hpp>
#include <shardwise/executor/parameter_position.hpp>
#include <shardwise/executor/stored_parameter.hpp>
#include <shardwise/kernels/quantize.hpp>
#include <shardwise/memory/weights.hpp>
#include <shardwise/quant/scheme.hpp>

#include <cstdint>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A format of products and tables.
struct HeldFormat {
    WeightFormat format = WeightFormat::f32;
    /// int4 only.
    std::int64_t group = 0;

    friend constexpr bool operator==(HeldFormat const&, HeldFormat const&) = default;
};

namespace detail {

/// The format that a scheme packs a weight into; nothing for schemes that are only read from checkpoints.
[[nodiscard]] constexpr Optional<HeldFormat> packed_format(QuantScheme const& scheme, GgmlType type) {
    // Double quantisation is only read.
    if (scheme.double_quant) return std::nullopt;
    auto const format = scheme.is_ggml() ? weight_format(type) : weight_format(scheme.method);
    if (!format || !can_quantize(*format)) return std::nullopt;
    return HeldFormat{*format, traits(*format).scales == ScalePlace::group ? scheme.group : 0};
}

[[nodiscard]] inline Error not_quantized_here(ErrorCode code, std::string_view subject, std::string_view scheme) {
    return Error{code}
        .in(subject)
        .at(scheme)
        .because("weights are not packed this way while they are loaded")
        .fix("use int8, int4, int4-g64, nf4, mxfp4, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, or a checkpoint that is packed");
}

}  // namespace detail

/// Refuses what no loading can make.
///
/// Errors  invalid_argument, which names the flag
[[nodiscard]] inline Result<> check_load_options(LoadOptions const& options) {
    if (options.dtype && !weight_format(*options.dtype)) {
        return Error{ErrorCode::invalid_argument}
            .in("--dtype")
            .at(traits(*options.dtype).short_name)
            .because("is no dtype that weights are held in")
            .fix("use fp32, bf16 or fp16, or pack them with --quant");
    }
    if (!options.quant) return {};
    auto const& scheme = *options.quant;
    // Of a mixture the usual type stands for all; a weight of another is refused when its turn comes.
    Weight weight;
    weight.shape = {256, 256};
    weight.use = TensorUse::linear;
    auto const type = scheme.method == QuantMethod::ggml_file   ? stored_type(scheme.file_type, weight, {})
                      : scheme.method == QuantMethod::ggml_pure ? stored_type(scheme.type, weight)
                                                                : GgmlType::f32;
    auto const name = name_of(scheme);
    if (!detail::packed_format(scheme, type))
        return detail::not_quantized_here(ErrorCode::invalid_argument, "--quant", name.view());
    return {};
}

/// The format in which a parameter is held: the estimator's rule for these options, so that what it counts is what is held.
///
/// Errors  unsupported for a scheme that cannot be made here, or rows that its blocks do not fill; both name the parameter
[[nodiscard]] inline Result<HeldFormat> held_format(StoredParameter const& parameter, Model const& model,
                                                    LoadOptions const& options) {
    HeldFormat const own{parameter.format, parameter.group};
    if (!options.dtype && !options.quant) return own;
    HeldFormat plain = own;
    if (options.dtype) {
        auto const format = weight_format(*options.dtype);
        if (!format) return Error{ErrorCode::unsupported}.in("dtype").because("is no dtype that weights are held in");
        plain = {*format, 0};
    }
    auto const position = parameter_position(model, parameter.name);
    if (!options.quant || !position) return plain;
    auto const& scheme = *options.quant;
    EstimateRequest const request{.dtype = options.dtype, .quant = options.quant};
    auto const weight = detail::weight_of(*parameter.tensor, *position, request);
    auto const mixture = detail::mixture_model(*position);
    auto type = GgmlType::f32;
    if (scheme.is_ggml()) {
        if (!traits(weight.dtype).is_floating) return plain;
        type = scheme.method == QuantMethod::ggml_file ? stored_type(scheme.file_type, weight, mixture)
                                                       : stored_type(scheme.type, weight);
    } else if (!packs(scheme, weight, mixture)) {
        return plain;
    }
    auto const packed = detail::packed_format(scheme, type);
    if (!packed && scheme.method == QuantMethod::ggml_file) {
        return Error{ErrorCode::unsupported}
            .in(parameter.name)
            .at(name_of(type))
            .because("is what " + std::string(name_of(scheme).view()) +
                     " gives this weight, which is not packed this way while it is loaded")
            .fix("use Q4_0-pure, Q8_0-pure or the like, which pack all weights alike, or a checkpoint that is packed");
    }
    if (!packed) {
        return detail::not_quantized_here(ErrorCode::unsupported, parameter.name, name_of(scheme).view());
    }
    auto const block = row_multiple(packed->format);
    if (weight.inputs() % block != 0) {
        return Error{ErrorCode::unsupported}
            .in(parameter.name)
            .at(name_of(packed->format))
            .because("packs whole blocks of a row, which this weight's rows are not")
            .got(weight.inputs())
            .multiple_of(block)
            .fix("use int8 or int4");
    }
    return *packed;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
