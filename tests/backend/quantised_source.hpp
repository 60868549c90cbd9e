// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/isa.hpp>
#include <shardwise/backend/host/product/source.hpp>
#include <shardwise/backend/weight_source.hpp>
#include <shardwise/quant/decode_k.hpp>
#include <shardwise/quant/float_bits.hpp>
#include <shardwise/quant/weight_format.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <type_traits>
#include <vector>

/// Checkpoint bytes of quantised weights for tests, and what their numbers are.
namespace test {

using namespace shardwise;

inline std::vector<WeightFormat> const quantised_formats{WeightFormat::int8,  WeightFormat::int4, WeightFormat::nf4,
                                                         WeightFormat::mxfp4, WeightFormat::q4_0, WeightFormat::q4_1,
                                                         WeightFormat::q5_0,  WeightFormat::q5_1, WeightFormat::q8_0,
                                                         WeightFormat::q4_k,  WeightFormat::q5_k, WeightFormat::q6_k};

/// Inputs that are `blocks` whole blocks of a format.
[[nodiscard]] inline std::int64_t inputs_of(WeightFormat format, std::int64_t blocks) {
    return std::max<std::int64_t>(32, traits(format).block_elements) * blocks;
}

[[nodiscard]] inline std::vector<IsaLevel> isa_levels() {
    std::vector<IsaLevel> found;
    for (auto const level : isa_level_list) {
        if (has_isa(level)) found.push_back(level);
    }
    return found;
}

/// What a weight is made of.
struct Recipe {
    WeightFormat format;
    std::int64_t outputs;
    std::int64_t inputs;
    std::int64_t group = 64;
};

class QuantisedWeight {
public:
    /// Random codes; each scale and minimum is what `scale` gives.
    template <class Scale>
    QuantisedWeight(Recipe const& recipe, std::mt19937& random, Scale&& scale)
        : QuantisedWeight(
              recipe, [&] { return static_cast<std::byte>(random()); }, scale) {}
    /// Every byte of the codes is what `code` gives.
    template <class Code, class Scale>
    requires std::is_invocable_v<Code> QuantisedWeight(Recipe const& recipe, Code&& code, Scale&& scale)
        : recipe_(recipe) {
        auto const bytes = detail::source_bytes(source());
        REQUIRE(bytes);
        data_.resize(static_cast<std::size_t>(bytes->data));
        scales_.resize(static_cast<std::size_t>(bytes->scales));
        for (auto& byte : data_) byte = code();
        if (recipe.format == WeightFormat::mxfp4) {
            for (auto& byte : scales_) byte = std::byte{exponent_of(scale())};
        } else if (recipe.format == WeightFormat::int4) {
            for (std::size_t i = 0; i < scales_.size(); i += 2) put_half(scales_, i, scale());
        } else {
            for (std::size_t i = 0; i < scales_.size(); i += 4) put(scales_, i, scale());
        }
        auto const block = static_cast<std::size_t>(traits(recipe.format).block_bytes);
        for (std::size_t i = 0; block > 0 && i < data_.size(); i += block) {
            put_half(data_, i + (recipe.format == WeightFormat::q6_k ? 208 : 0), scale());
            if (minimum_of_block() > 0) put_half(data_, i + 2, scale());
        }
    }

    [[nodiscard]] WeightSource source() const {
        return {.format = recipe_.format,
                .outputs = recipe_.outputs,
                .inputs = recipe_.inputs,
                .data = data_,
                .scales = scales_,
                .group = recipe_.format == WeightFormat::int4 ? recipe_.group : 0};
    }
    /// Outputs [begin, end) alone.
    [[nodiscard]] WeightSource rows(std::int64_t begin, std::int64_t end) const {
        auto part = source();
        part.outputs = end - begin;
        auto const cut = [&](std::vector<std::byte> const& bytes) {
            auto const row = bytes.size() / static_cast<std::size_t>(recipe_.outputs);
            return std::span<std::byte const>(bytes).subspan(static_cast<std::size_t>(begin) * row,
                                                             static_cast<std::size_t>(end - begin) * row);
        };
        part.data = cut(data_);
        part.scales = cut(scales_);
        return part;
    }
    [[nodiscard]] std::vector<std::byte>& data() { return data_; }
    [[nodiscard]] std::vector<std::byte>& scales() { return scales_; }

    /// The numbers of a row, as the references decode them.
    [[nodiscard]] std::vector<float> decoded(std::int64_t row) const {
        std::vector<float> values(static_cast<std::size_t>(recipe_.inputs));
        for (std::int64_t first = 0; first < recipe_.inputs; first += detail::source_chunk) {
            detail::decode_source(source(), row, first, std::min(detail::source_chunk, recipe_.inputs - first),
                                  values.data() + first);
        }
        return values;
    }

    /// The minimum that an element's number contains; 0 for formats without.
    [[nodiscard]] double minimum(std::int64_t row, std::int64_t input) const {
        auto const unit = traits(recipe_.format);
        if (minimum_of_block() == 0) return 0.0;
        auto const index = (row * recipe_.inputs + input) / unit.block_elements;
        auto const block = std::span<std::uint8_t const>(
            reinterpret_cast<std::uint8_t const*>(data_.data()) + index * unit.block_bytes,
            static_cast<std::size_t>(unit.block_bytes));
        auto const factor = static_cast<double>(detail::load_f16(block, 2));
        if (unit.block_elements == 32) return factor;
        return -factor * detail::unpack_scale(block.subspan(4, 12), static_cast<std::size_t>(input % 256 / 32)).minimum;
    }

private:
    [[nodiscard]] int minimum_of_block() const {
        bool const has_minimum = recipe_.format == WeightFormat::q4_1 || recipe_.format == WeightFormat::q5_1 ||
                                 recipe_.format == WeightFormat::q4_k || recipe_.format == WeightFormat::q5_k;
        return has_minimum ? 2 : 0;
    }
    static std::uint8_t exponent_of(float value) {
        auto const exponent = value == 0.0F ? -127 : std::ilogb(value);
        return static_cast<std::uint8_t>(std::clamp(exponent + 127, 0, 254));
    }
    template <class T>
    static void put(std::vector<std::byte>& bytes, std::size_t at, T value) {
        std::memcpy(bytes.data() + at, &value, sizeof value);
    }
    static void put_half(std::vector<std::byte>& bytes, std::size_t at, float value) { put(bytes, at, to_f16(value)); }

    Recipe recipe_;
    std::vector<std::byte> data_;
    std::vector<std::byte> scales_;
};

}  // namespace test
