// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/checked.hpp>
#include <shardwise/core/dtype.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/shape.hpp>
#include <shardwise/json/writer.hpp>
#include <shardwise/model/files/safetensors.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A tensor of a file that is to be written.
struct LaidTensor {
    std::string name;
    Dtype dtype = Dtype::f32;
    Shape shape;
    /// Of its first byte in the file.
    std::int64_t offset = 0;

    /// Of an element.
    ///
    /// Units  bytes
    [[nodiscard]] std::int64_t width() const { return bits(dtype) / 8; }
    [[nodiscard]] std::int64_t elements() const { return shape.elements(); }
    [[nodiscard]] std::int64_t bytes() const { return elements() * width(); }
};

/// A safetensors file whose every byte has its place before one is written, so that ranges of it can be written in any order and by
/// many ranks.
class SafetensorsLayout {
public:
    /// The tensors one after another as they are given; their offsets are set here.
    ///
    /// Errors  size_overflow; invalid_argument for a dtype without whole bytes; capacity_exceeded for more tensors than a reader takes
    [[nodiscard]] static Result<SafetensorsLayout> create(std::string file, std::vector<LaidTensor> tensors) {
        if (tensors.size() > max_file_tensors)
            return Error{ErrorCode::capacity_exceeded}
                .in(file)
                .because("would have more tensors than a file may hold")
                .got(static_cast<std::int64_t>(tensors.size()))
                .at_most(static_cast<std::int64_t>(max_file_tensors));
        std::int64_t end = 0;
        JsonWriter json;
        json.begin_object();
        // transformers asks for it.
        json.key("__metadata__").begin_object().member("format", "pt").end_object();
        for (auto& tensor : tensors) {
            if (bits(tensor.dtype) % 8 != 0 || !traits(tensor.dtype).is_in_safetensors)
                return Error{ErrorCode::invalid_argument}
                    .in(file)
                    .at(tensor.name)
                    .because("has a dtype that its file cannot hold");
            auto const elements = tensor.shape.checked_elements();
            auto const size = elements ? checked_multiply(*elements, tensor.width()) : std::nullopt;
            auto const next = size ? checked_add(end, *size) : std::nullopt;
            if (!next || *next > max_bytes) return Error{ErrorCode::size_overflow}.in(file).at(tensor.name);
            json.key(tensor.name).begin_object();
            json.member("dtype", traits(tensor.dtype).safetensors_name);
            json.key("shape").begin_array();
            for (auto const extent : tensor.shape) json.value(extent);
            json.end_array().key("data_offsets").begin_array().value(end).value(*next).end_array().end_object();
            tensor.offset = end;
            end = *next;
        }
        json.end_object();
        auto text = std::move(json).text();
        // Data begin where eight-byte elements may lie.
        text.resize((text.size() + 7) / 8 * 8, ' ');
        SafetensorsLayout out;
        for (std::size_t i = 0; i < 8; ++i)
            out.header_ += static_cast<char>((static_cast<std::uint64_t>(text.size()) >> (8U * i)) & 0xFFU);
        out.header_ += text;
        auto const begin = static_cast<std::int64_t>(out.header_.size());
        for (auto& tensor : tensors) tensor.offset += begin;
        out.file_ = std::move(file);
        out.tensors_ = std::move(tensors);
        out.bytes_ = begin + end;
        return Result<SafetensorsLayout>(std::move(out));
    }

    /// Its name in the folder.
    [[nodiscard]] std::string const& file() const { return file_; }
    /// What stands before the data: the length of the list and the list.
    [[nodiscard]] std::string const& header() const { return header_; }
    [[nodiscard]] std::vector<LaidTensor> const& tensors() const { return tensors_; }
    /// Of the whole file.
    ///
    /// Units  bytes
    [[nodiscard]] std::int64_t bytes() const { return bytes_; }

private:
    static constexpr std::int64_t max_bytes = std::int64_t{1} << 60U;

    std::string file_;
    std::string header_;
    std::vector<LaidTensor> tensors_;
    std::int64_t bytes_ = 0;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
