// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/executor/file_parts.hpp>
#include <shardwise/executor/stored_parameter.hpp>
#include <shardwise/json/value.hpp>
#include <shardwise/model/files/quantization_config.hpp>
#include <shardwise/quant/nf4_values.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Puts together what the tensors of a quantised checkpoint hold of one parameter, and finds the format in which products take
/// it, or the nearest that loses nothing.
class PackedAssembler {
public:
    /// `out` says which parameter; extents are those of the product.
    PackedAssembler(FileParts const& parts, StoredParameter out, bool is_transposed,
                    std::optional<CheckpointQuantization> const& quantization)
        : parts_(parts), out_(std::move(out)), quantization_(quantization) {
        auto const& shape = out_.tensor->shape;
        auto const rank = shape.rank();
        weight_.inputs = rank < 2 ? 0 : is_transposed ? shape[rank - 2] : shape[rank - 1];
        weight_.outputs = weight_.inputs > 0 ? shape.elements() / weight_.inputs : 0;
        is_matrix_ = rank == 2;
        out_.is_turned = is_transposed;
    }

    /// Errors  unsupported; malformed_file, shape_mismatch with the part at fault
    [[nodiscard]] Result<StoredParameter> assemble() {
        auto const done = parts_.find(FilePart::blocks) != nullptr      ? take_mxfp4()
                          : !is_matrix_                                 ? unsupported("stacked or spread over tensors")
                          : parts_.find(FilePart::qweight) != nullptr   ? take_grouped()
                          : parts_.find(FilePart::absmax) != nullptr    ? take_bnb_4bit()
                          : parts_.find(FilePart::scb) != nullptr       ? take_bnb_int8()
                          : has_dtype(FilePart::weight, Dtype::f8_e4m3) ? take_fp8()
                          : is_compressed()                             ? take_integers()
                                                                        : unsupported("of a kind that is not known");
        if (!done) return done.error();
        return Result<StoredParameter>(std::move(out_));
    }

private:
    [[nodiscard]] Error fail(ErrorCode code, std::string_view part, std::string_view reason) const {
        return Error{code}.in(out_.name).at(part).because(reason);
    }
    [[nodiscard]] Result<> unsupported(std::string_view what) const {
        return Error{ErrorCode::unsupported}
            .in(out_.name)
            .because("is packed in a way that is not loaded: " + std::string(what))
            .fix("known are bitsandbytes nf4, fp4 and int8, gptq, awq, fp8, mxfp4, and integers of compressed-tensors");
    }
    [[nodiscard]] bool has_dtype(FilePart part, Dtype dtype) const {
        auto const* const found = parts_.find(part);
        return found != nullptr && found->dtype == dtype;
    }
    [[nodiscard]] bool is_compressed() const {
        return parts_.find(FilePart::weight_packed) != nullptr || has_dtype(FilePart::weight, Dtype::i8);
    }
    /// A part of so many bytes.
    [[nodiscard]] Result<std::span<std::byte const>> take(FilePart part, std::string_view name,
                                                          std::int64_t bytes) const {
        auto const* const found = parts_.find(part);
        if (found == nullptr) return fail(ErrorCode::missing_field, name, "is in none of the checkpoint's files");
        if (static_cast<std::int64_t>(found->data.size()) != bytes) {
            return fail(ErrorCode::shape_mismatch, name, "has another number of bytes than the weight needs")
                .got(static_cast<std::int64_t>(found->data.size()))
                .expected(bytes);
        }
        return found->data;
    }

    [[nodiscard]] Result<> take_mxfp4() {
        auto const elements = weight_.outputs * weight_.inputs;
        if (weight_.inputs % 32 != 0) return unsupported("rows that are not whole blocks of 32");
        auto const data = take(FilePart::blocks, "blocks", elements / 2);
        if (!data) return data.error();
        auto const scales = take(FilePart::block_scales, "scales", elements / 32);
        if (!scales) return scales.error();
        out_.format = WeightFormat::mxfp4;
        out_.data = *data;
        out_.scales = *scales;
        return {};
    }

    [[nodiscard]] Result<> take_bnb_int8() {
        weight_.form = PackedForm::bnb_int8;
        auto const data = take(FilePart::weight, "weight", weight_.outputs * weight_.inputs);
        if (!data) return data.error();
        auto const scales = take(FilePart::scb, "SCB", weight_.outputs * 4);
        if (!scales) return scales.error();
        return finish(*data, *scales, WeightFormat::int8);
    }

    [[nodiscard]] Result<> take_fp8() {
        weight_.form = PackedForm::fp8;
        auto const data = take(FilePart::weight, "weight", weight_.outputs * weight_.inputs);
        if (!data) return data.error();
        auto const found = find_scales();
        if (!found) return found.error();
        auto const* const scales = *found;
        auto const count = scales->shape.elements();
        weight_.block_rows = weight_.outputs;
        weight_.block_columns = weight_.inputs;
        bool const has_blocks = quantization_ && quantization_->scheme.block_rows > 0;
        if (has_blocks) {
            weight_.block_rows = quantization_->scheme.block_rows;
            weight_.block_columns = quantization_->scheme.block_columns;
        } else if (count == weight_.outputs) {
            weight_.block_rows = 1;
        }
        auto const expected =
            ceil_divide(weight_.outputs, weight_.block_rows) * ceil_divide(weight_.inputs, weight_.block_columns);
        if (count != expected) {
            return fail(ErrorCode::shape_mismatch, "weight_scale", "has another number of scales than blocks")
                .got(count)
                .expected(expected);
        }
        return finish(*data, scales->data, WeightFormat::f32);
    }

    [[nodiscard]] Result<> take_bnb_4bit() {
        weight_.form = PackedForm::bnb_4bit;
        auto const elements = weight_.outputs * weight_.inputs;
        auto const data = take(FilePart::weight, "weight", ceil_divide(elements, 2));
        if (!data) return data.error();
        auto const* const state = parts_.find(FilePart::quant_state);
        if (state == nullptr) return fail(ErrorCode::missing_field, "quant_state", "is in none of the files");
        auto const text = parse_json({reinterpret_cast<char const*>(state->data.data()), state->data.size()});
        if (!text || !text->root().is_object())
            return fail(ErrorCode::malformed_file, "quant_state", "is no JSON object");
        auto const block = text->root().find("blocksize");
        auto const block_size = block ? block->integer() : std::nullopt;
        if (!block_size || *block_size != 64) return unsupported("blocks of another size than 64");
        auto const code = take(FilePart::quant_map, "quant_map", 16 * 4);
        if (!code) return code.error();
        std::memcpy(weight_.code.data(), code->data(), sizeof weight_.code);
        bool const is_nf4 = weight_.code == nf4_values;
        auto const blocks = ceil_divide(elements, 64);
        bool const is_nested = parts_.find(FilePart::nested_absmax) != nullptr;
        auto const scales = take(FilePart::absmax, "absmax", is_nested ? blocks : blocks * 4);
        if (!scales) return scales.error();
        bool const is_native = is_nf4 && weight_.inputs % 64 == 0;
        if (is_nested) {
            auto const absmax = take(FilePart::nested_absmax, "nested_absmax", ceil_divide(blocks, 256) * 4);
            if (!absmax) return absmax.error();
            auto const nested = take(FilePart::nested_quant_map, "nested_quant_map", 256 * 4);
            if (!nested) return nested.error();
            auto const offset = text->root().find("nested_offset");
            auto const number = offset ? offset->real() : std::nullopt;
            if (!number) return fail(ErrorCode::missing_field, "quant_state", "has no nested_offset");
            weight_.nested_absmax = *absmax;
            weight_.nested_code = *nested;
            weight_.nested_offset = static_cast<float>(*number);
        } else if (is_native) {
            out_.format = WeightFormat::nf4;
            out_.data = *data;
            out_.scales = *scales;
            return {};
        }
        return finish(*data, *scales, is_native ? WeightFormat::nf4 : WeightFormat::f32);
    }

    /// GPTQ packs inputs down the rows of qweight, AWQ outputs along them.
    [[nodiscard]] Result<> take_grouped() {
        auto const& shape = parts_.find(FilePart::qweight)->shape;
        auto const* const scales = parts_.find(FilePart::scales);
        if (scales == nullptr) return fail(ErrorCode::missing_field, "scales", "is in none of the files");
        auto const outputs = weight_.outputs;
        auto const inputs = weight_.inputs;
        bool const has_shapes = shape.rank() == 2 && (shape[1] == outputs || shape[1] == outputs / 8) &&
                                scales->shape.rank() == 2 && scales->shape[0] > 0 && scales->shape[1] == outputs;
        if (!has_shapes || inputs < 1 || outputs < 8)
            return fail(ErrorCode::shape_mismatch, "qweight", "is no matrix with scales for groups");
        weight_.form = shape[0] == inputs ? PackedForm::awq : PackedForm::gptq;
        weight_.bits = weight_.form == PackedForm::awq ? 4 : shape[0] * 32 / inputs;
        bool const has_bits = weight_.bits == 2 || weight_.bits == 3 || weight_.bits == 4 || weight_.bits == 8;
        if (!has_bits || outputs * weight_.bits % 32 != 0 || inputs * weight_.bits % 32 != 0)
            return unsupported("words that are not filled with 2, 3, 4 or 8 bits");
        auto const data = take(FilePart::qweight, "qweight", outputs * inputs * weight_.bits / 8);
        if (!data) return data.error();
        auto const groups = scales->shape[0];
        weight_.group = ceil_divide(inputs, groups);
        weight_.scale_dtype = scales->dtype;
        if (!weight_format(scales->dtype)) return unsupported("scales of another dtype than fp32, bf16 and fp16");
        auto const found = take(FilePart::scales, "scales", groups * outputs * bits(scales->dtype) / 8);
        if (!found) return found.error();
        auto const zeros = take(FilePart::qzeros, "qzeros", groups * outputs * weight_.bits / 8);
        if (!zeros) return zeros.error();
        weight_.zeros = *zeros;
        bool const is_gptq = weight_.form == PackedForm::gptq;
        if (is_gptq) {
            if (quantization_) weight_.zero_offset = quantization_->scheme.zero_offset;
            if (auto const done = take_order(groups); !done) return done;
        }
        return finish_groups(*data, *found, grouped_format(scales->dtype));
    }
    /// compressed-tensors' integers: `weight_packed` has words, `weight` bytes.
    [[nodiscard]] Result<> take_integers() {
        weight_.form = PackedForm::integers;
        auto const outputs = weight_.outputs;
        auto const inputs = weight_.inputs;
        if (inputs < 1 || outputs < 1) return unsupported("an empty matrix");
        bool const has_words = parts_.find(FilePart::weight_packed) != nullptr;
        weight_.bits = 0;
        if (has_words) {
            if (auto const done = find_bits(); !done) return done;
        }
        auto const data = has_words ? take(FilePart::weight_packed, "weight_packed", outputs * words_of(inputs) * 4)
                                    : take(FilePart::weight, "weight", outputs * inputs);
        if (!data) return data.error();
        auto const found = find_scales();
        if (!found) return found.error();
        auto const* const scales = *found;
        auto const count = scales->shape.elements();
        bool const has_rows = scales->shape.rank() == 2 && scales->shape[0] == outputs && scales->shape[1] > 0;
        if (count != 1 && !has_rows) {
            return fail(ErrorCode::shape_mismatch, "weight_scale", "is neither one scale nor some for each row")
                .got(count)
                .expected(outputs);
        }
        weight_.row_scales = has_rows ? scales->shape[1] : 0;
        auto const groups = has_rows ? weight_.row_scales : 1;
        weight_.group = group_of(groups);
        if (auto const done = take_integer_zeros(groups); !done) return done;
        if (auto const done = take_order(groups); !done) return done;
        return finish_groups(*data, scales->data, integer_format(groups));
    }
    [[nodiscard]] std::int64_t words_of(std::int64_t count) const { return ceil_divide(count * weight_.bits, 32); }
    /// The tensor of fp8's or integers' scales, whose dtype the weight then has.
    [[nodiscard]] Result<FileView const*> find_scales() {
        auto const* const scales = parts_.find(FilePart::weight_scale);
        if (scales == nullptr) return fail(ErrorCode::missing_field, "weight_scale", "is in none of the files");
        weight_.scale_dtype = scales->dtype;
        if (!weight_format(scales->dtype))
            return unsupported("scales of another dtype than fp32, bf16 and fp16").error();
        return scales;
    }
    /// The bits of the config's groups that make so many words of a row.
    [[nodiscard]] Result<> find_bits() {
        auto const& shape = parts_.find(FilePart::weight_packed)->shape;
        if (!quantization_ || !quantization_->is_compressed || shape.rank() != 2)
            return unsupported("words of which no config.json says how many bits an integer has");
        for (auto const& group : quantization_->groups) {
            auto const bits = group.scheme.bits;
            if (group.scheme.format != CompressedFormat::pack_quantized || shape[0] != weight_.outputs ||
                shape[1] != ceil_divide(weight_.inputs * bits, 32) || bits == weight_.bits)
                continue;
            if (weight_.bits > 0) return unsupported("in words that could have integers of two widths");
            weight_.bits = bits;
        }
        if (weight_.bits > 0) return {};
        return fail(ErrorCode::shape_mismatch, "weight_packed",
                    "has other words than the config's bits make of the weight");
    }
    /// Inputs that share one of a row's scales: as the config says, where that makes so many.
    [[nodiscard]] std::int64_t group_of(std::int64_t groups) const {
        if (quantization_) {
            for (auto const& group : quantization_->groups) {
                auto const size = group.scheme.group;
                if (size > 0 && ceil_divide(weight_.inputs, size) == groups) return size;
            }
        }
        return ceil_divide(weight_.inputs, groups);
    }
    [[nodiscard]] Result<> take_integer_zeros(std::int64_t groups) {
        if (parts_.find(FilePart::weight_zero_point) == nullptr) return {};
        auto const rows = weight_.row_scales > 0 ? weight_.outputs : 1;
        auto const bytes = weight_.bits > 0 ? words_of(rows) * groups * 4 : rows * groups;
        auto const zeros = take(FilePart::weight_zero_point, "weight_zero_point", bytes);
        if (!zeros) return zeros.error();
        weight_.zeros = *zeros;
        return {};
    }
    /// True where blocks of 32 inputs lie within groups.
    [[nodiscard]] bool has_blocks() const {
        return weight_.inputs % 32 == 0 && (weight_.group % 32 == 0 || weight_.group >= weight_.inputs);
    }
    /// What expresses scale * (q - zero): as grouped_format, and int8 where each row has one scale.
    [[nodiscard]] WeightFormat integer_format(std::int64_t groups) const {
        if (!weight_.index.empty()) return WeightFormat::f32;
        bool const has_bytes = weight_.bits == 0 || weight_.bits > 4;
        bool const is_symmetric = weight_.zeros.empty();
        if (is_symmetric && groups == 1 && has_bytes) return WeightFormat::int8;
        if (weight_.scale_dtype == Dtype::f32) return WeightFormat::f32;
        if (is_symmetric && !has_bytes && weight_.group % 2 == 0) return WeightFormat::int4;
        if (!has_blocks()) return WeightFormat::f32;
        if (!has_bytes) return WeightFormat::q5_0;
        return is_symmetric ? WeightFormat::q8_0 : WeightFormat::f32;
    }
    /// What expresses scale * (q - zero) without loss: int4 where all q - zero are in [-8, 8), Q5_0's blocks of 32 where they are in
    /// [-16, 16), Q8_0's where they are in [-128, 128).
    [[nodiscard]] WeightFormat grouped_format(Dtype scale_dtype) const {
        if (!weight_.index.empty() || scale_dtype == Dtype::f32) return WeightFormat::f32;
        bool const is_gptq = weight_.form == PackedForm::gptq;
        bool const is_symmetric = is_gptq && quantization_ && quantization_->scheme.symmetric;
        bool const is_int4 = is_gptq && (weight_.bits < 4 || (weight_.bits == 4 && is_symmetric));
        if (is_int4 && weight_.group % 2 == 0) return WeightFormat::int4;
        if (!has_blocks()) return WeightFormat::f32;
        if (weight_.bits <= 4) return WeightFormat::q5_0;
        return is_symmetric ? WeightFormat::q8_0 : WeightFormat::f32;
    }
    /// The groups of the inputs, where they are not those of their order (desc_act).
    [[nodiscard]] Result<> take_order(std::int64_t groups) {
        if (parts_.find(FilePart::g_idx) == nullptr) return {};
        auto const index = take(FilePart::g_idx, "g_idx", weight_.inputs * 4);
        if (!index) return index.error();
        bool is_in_order = true;
        for (std::int64_t i = 0; i < weight_.inputs; ++i) {
            auto const group = std::int64_t{load_at<std::int32_t>(*index, i * 4)};
            if (group < 0 || group >= groups)
                return fail(ErrorCode::malformed_file, "g_idx", "names a group that does not exist").got(group);
            is_in_order = is_in_order && group == i / weight_.group;
        }
        if (!is_in_order) weight_.index = *index;
        return {};
    }

    [[nodiscard]] Result<> finish_groups(std::span<std::byte const> data, std::span<std::byte const> scales,
                                         WeightFormat format) {
        out_.group = format == WeightFormat::int4 ? weight_.group : 0;
        // A row's one scale, repeated, leaves places to part the row at.
        if (out_.group > 128 && out_.group % 128 == 0) out_.group = 128;
        return finish(data, scales, format);
    }
    [[nodiscard]] Result<> finish(std::span<std::byte const> data, std::span<std::byte const> scales,
                                  WeightFormat format) {
        weight_.data = data;
        weight_.scales = scales;
        out_.format = format;
        out_.packed.push_back(weight_);
        return {};
    }

    FileParts const& parts_;
    StoredParameter out_;
    std::optional<CheckpointQuantization> const& quantization_;
    PackedWeight weight_;
    bool is_matrix_ = false;
};

}  // namespace detail

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
