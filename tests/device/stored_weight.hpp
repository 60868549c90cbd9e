// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/product/source.hpp>
#include <shardwise/core/split.hpp>
#include <shardwise/quant/half_bits.hpp>
#include <shardwise/quant/weight_format.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

namespace {

using namespace shardwise;

/// A weight as a checkpoint holds it: random codes, and numbers of a common size.
class StoredWeight {
public:
    StoredWeight(WeightFormat format, std::int64_t outputs, std::int64_t inputs, std::int64_t group = 64) {
        source_.format = format;
        source_.outputs = outputs;
        source_.inputs = inputs;
        auto const& unit = traits(format);
        if (unit.scales == ScalePlace::group) source_.group = group;
        auto const sizes = detail::source_bytes(source_);
        REQUIRE(sizes);
        data_.resize(static_cast<std::size_t>(sizes->data));
        scales_.resize(static_cast<std::size_t>(sizes->scales));
        std::mt19937 random(41);
        if (unit.scales == ScalePlace::none) {
            for (std::size_t i = 0; i < data_.size(); i += static_cast<std::size_t>(unit.block_bytes)) {
                auto const value = static_cast<float>(static_cast<double>(random()) / 2147483648.0 - 1.0);
                if (format == WeightFormat::f32) put(data_, i, value);
                if (format == WeightFormat::bf16) put(data_, i, Bfloat16(value).bits);
                if (format == WeightFormat::f16) put(data_, i, Float16(value).bits);
            }
            return;
        }
        for (auto& byte : data_) byte = static_cast<std::byte>(random());
        std::int32_t count = 0;
        auto const scale = [&count] {
            ++count;
            return 0.001F * static_cast<float>(1 + count % 50) * (count % 3 == 0 ? -1.0F : 1.0F);
        };
        for (std::size_t i = 0; i < scales_.size(); i += static_cast<std::size_t>(unit.scale_bytes)) {
            if (unit.scale_bytes == 4) put(scales_, i, scale());
            if (unit.scale_bytes == 2) put(scales_, i, Float16(scale()).bits);
            if (unit.scale_bytes == 1) put(scales_, i, static_cast<std::uint8_t>(118 + count++ % 5));
        }
        auto const block = static_cast<std::size_t>(unit.block_bytes);
        for (std::size_t i = 0; block > 0 && i < data_.size(); i += block) {
            put(data_, i + (format == WeightFormat::q6_k ? 208 : 0), Float16(scale()).bits);
            if (head_bytes() > 0) put(data_, i + 2, Float16(scale()).bits);
        }
    }

    [[nodiscard]] WeightSource source() const {
        auto source = source_;
        source.data = data_;
        source.scales = scales_;
        return source;
    }
    [[nodiscard]] std::vector<std::byte>& data() { return data_; }
    [[nodiscard]] std::vector<std::byte>& scales() { return scales_; }
    [[nodiscard]] std::vector<float> row(std::int64_t output) const {
        std::vector<float> values(static_cast<std::size_t>(source_.inputs));
        for (std::int64_t first = 0; first < source_.inputs; first += detail::source_chunk) {
            detail::decode_source(source(), output, first, std::min(detail::source_chunk, source_.inputs - first),
                                  values.data() + first);
        }
        return values;
    }
    /// What elements are when their codes are zeros, of formats that add a number to the product with the scale.
    [[nodiscard]] std::vector<float> offsets(std::int64_t output) const {
        if (head_bytes() == 0) return std::vector<float>(static_cast<std::size_t>(source_.inputs));
        auto copy = *this;
        auto const block = static_cast<std::size_t>(traits(source_.format).block_bytes);
        for (std::size_t i = 0; i < copy.data_.size(); ++i) {
            if (i % block >= head_bytes()) copy.data_[i] = std::byte{0};
        }
        return copy.row(output);
    }
    /// The columns of a range, as a weight of their own.
    [[nodiscard]] StoredWeight columns(UnitRange inputs) const {
        auto part = *this;
        auto const cut = [&](std::vector<std::byte> const& bytes, std::vector<std::byte>& to) {
            if (bytes.empty()) return;
            auto const row = static_cast<std::int64_t>(bytes.size()) / source_.outputs;
            to.clear();
            for (std::int64_t output = 0; output < source_.outputs; ++output) {
                auto const at = bytes.begin() + output * row;
                to.insert(to.end(), at + row * inputs.begin / source_.inputs, at + row * inputs.end / source_.inputs);
            }
        };
        part.source_.inputs = inputs.size();
        cut(data_, part.data_);
        if (traits(source_.format).scales != ScalePlace::row) cut(scales_, part.scales_);
        return part;
    }

private:
    /// Bytes of a block before its codes, of formats that have an offset.
    [[nodiscard]] std::size_t head_bytes() const {
        auto const format = source_.format;
        if (format == WeightFormat::q4_1 || format == WeightFormat::q5_1) return 4;
        return format == WeightFormat::q4_k || format == WeightFormat::q5_k ? 16 : 0;
    }
    template <class T>
    static void put(std::vector<std::byte>& bytes, std::size_t at, T const& value) {
        std::memcpy(bytes.data() + at, &value, sizeof(T));
    }

    WeightSource source_;
    std::vector<std::byte> data_;
    std::vector<std::byte> scales_;
};

}  // namespace
