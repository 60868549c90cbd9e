// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/product/source.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/executor/adapter.hpp>
#include <shardwise/executor/stored_parameters.hpp>
#include <shardwise/model/files/model_folder.hpp>
#include <shardwise/model/walk.hpp>
#include <shardwise/train/checkpoint/checkpoint_files.hpp>
#include <shardwise/train/checkpoint/checkpoint_folders.hpp>
#include <shardwise/train/checkpoint/file_calls.hpp>
#include <shardwise/train/checkpoint/round_weight.hpp>
#include <shardwise/train/checkpoint/safetensors_layout.hpp>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

namespace detail {

/// Of a weight that lies in a file as plain numbers; nothing for those that are packed.
[[nodiscard]] inline std::optional<Dtype> plain_dtype(StoredParameter const& stored) {
    if (!stored.packed.empty() || !stored.scales.empty() || stored.is_turned) return std::nullopt;
    for (auto const dtype : {Dtype::f32, Dtype::bf16, Dtype::f16}) {
        if (weight_format(dtype) == stored.format) return dtype;
    }
    return std::nullopt;
}

/// Writes one file of weights with what an adapter adds to them.
template <class Calls>
class MergedWriter {
public:
    MergedWriter(StoredParameters const& base, Adapter const& adapter) : base_(base), adapter_(adapter) {}

    /// Finds all weights.
    ///
    /// Errors  unsupported for a weight that is packed; as StoredParameters::find
    [[nodiscard]] Result<> find() {
        Result<> found;
        walk_tensors(base_.model().tree, [&](std::string_view name, Tensor const& tensor) {
            if (!found || !tensor.is_parameter()) return;
            for (auto const& tie : base_.model().tree.ties()) {
                if (tie.other == name) return;
            }
            found = add(name, tensor);
        });
        return found;
    }
    /// Errors  as SafetensorsLayout; file_unwritable; file_unreadable where the base or the adapter is no longer as it was
    [[nodiscard]] Result<> write(std::string const& path, std::string_view shown) {
        std::vector<LaidTensor> tensors;
        for (auto const& weight : weights_) tensors.push_back({weight.stored.name, weight.dtype, weight.shape});
        auto const layout = SafetensorsLayout::create("model.safetensors", std::move(tensors));
        if (!layout) return layout.error();
        auto const descriptor = Calls::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL);
        if (descriptor < 0) return unwritable(shown, errno);
        auto code = write_at<Calls>(descriptor, layout->header(), 0);
        for (std::size_t i = 0; code == 0 && i < weights_.size(); ++i)
            code = write(descriptor, weights_[i], layout->tensors()[i].offset);
        code = close_file<Calls>(descriptor, code, true);
        if (code != 0) return unwritable(shown, code);
        if (!overflown_.empty())
            return Error{ErrorCode::unsupported}
                .in(overflown_)
                .because("is no number in its dtype once the adapter is added")
                .fix("give the base in bf16 or fp32");
        if (auto const same = adapter_.check_file(); !same) return same;
        return base_.check_files();
    }

private:
    struct Weight {
        StoredParameter stored;
        Dtype dtype = Dtype::f32;
        Shape shape;
        std::optional<LowRankDelta> delta{};
    };
    /// Of a weight, some of which are merged at a time: little beside one matrix.
    static constexpr std::int64_t elements_at_once = std::int64_t{1} << 18U;

    [[nodiscard]] Result<> add(std::string_view name, Tensor const& tensor) {
        auto const found = base_.find(name);
        if (!found) return found.error();
        Weight made{adapter_.replaced(*found), Dtype::f32, tensor.shape};
        made.stored.name = name;
        auto const dtype = plain_dtype(made.stored);
        if (!dtype)
            return Error{ErrorCode::unsupported}
                .in(name)
                .at(name_of(made.stored.format))
                .because("is packed, and an adapter is merged into float weights")
                .fix("run it beside the base, or give the base in fp32, bf16 or fp16");
        made.dtype = *dtype;
        if (auto const* const delta = adapter_.delta(name)) {
            made.delta = *delta;
            // Of a weight [inputs, outputs] the halves have changed places, as those of a table have.
            if (tensor.is_transposed) {
                std::swap(made.delta->left, made.delta->right);
                made.delta->is_table = true;
            }
        }
        weights_.push_back(std::move(made));
        return {};
    }
    /// 0 or an errno.
    [[nodiscard]] int write(int descriptor, Weight const& weight, std::int64_t offset) {
        auto const& data = weight.stored.data;
        if (!weight.delta)
            return write_at<Calls>(descriptor, {reinterpret_cast<char const*>(data.data()), data.size()}, offset);
        auto const rows = weight.shape[0];
        auto const width = weight.shape[1];
        WeightSource const source{weight.stored.format, rows, width, data, {}};
        auto const right = weight.delta->scaled_right({0, width});
        auto const some = std::max<std::int64_t>(1, elements_at_once / std::max<std::int64_t>(width, 1));
        std::vector<float> values;
        std::string bytes;
        for (std::int64_t first = 0; first < rows; first += some) {
            UnitRange const part{first, std::min(first + some, rows)};
            values.resize(static_cast<std::size_t>(part.size() * width));
            for (auto row = part.begin; row < part.end; ++row) {
                for (std::int64_t at = 0; at < width; at += source_chunk)
                    decode_source(source, row, at, std::min(source_chunk, width - at),
                                  values.data() + (row - part.begin) * width + at);
            }
            weight.delta->add(part, width, right, values.data());
            if (!to_bytes(values, weight.dtype, bytes)) overflown_ = weight.stored.name;
            auto const at = offset + first * width * (bits(weight.dtype) / 8);
            if (auto const code = write_at<Calls>(descriptor, bytes, at); code != 0) return code;
        }
        return 0;
    }
    /// False where one is no number.
    [[nodiscard]] static bool to_bytes(std::vector<float> const& values, Dtype dtype, std::string& out) {
        auto const size = static_cast<std::size_t>(bits(dtype) / 8);
        out.resize(values.size() * size);
        bool are_numbers = true;
        for (std::size_t i = 0; i < values.size(); ++i) {
            std::uint16_t half = 0;
            bool const is_whole = dtype == Dtype::f32;
            are_numbers = round_weight(values[i], dtype, is_whole ? nullptr : &half) && are_numbers;
            auto const* const from = is_whole ? static_cast<void const*>(&values[i]) : &half;
            std::memcpy(out.data() + i * size, from, size);
        }
        return are_numbers;
    }

    StoredParameters const& base_;
    Adapter const& adapter_;
    std::vector<Weight> weights_;
    /// A weight of which an element is no number in its dtype.
    std::string overflown_;
};

}  // namespace detail

/// Writes a model into a folder `out`/`name`: the base with what an adapter adds to its weights, in the base's dtypes and names, each sum
/// in double and rounded once, and `files` (config.json and the tokenizer's) beside it. It is what PEFT's `merge_and_unload` and
/// `save_pretrained` give: a model that needs no adapter. The folder has its name once all is on the disk; an earlier one of that name is
/// replaced.
///
/// Memory  some rows of a weight, and its half A in double
/// Errors  unsupported for a weight that is packed, and for one that is no number once it is merged, by its name; file_unwritable,
///         file_unreadable; as StoredParameters::find
template <class Calls = FileCalls>
[[nodiscard]] Result<> write_merged(std::string const& out, std::string const& name, StoredParameters const& base,
                                    Adapter const& adapter, CheckpointFiles const& files) {
    auto const folder = out + "/" + std::string(detail::saving_prefix) + name;
    auto const target = out + "/" + name;
    detail::MergedWriter<Calls> writer(base, adapter);
    if (auto const found = writer.find(); !found) return found;
    int code = detail::make_empty<Calls>(out, folder);
    if (code != 0) return detail::unwritable(out, code);
    for (auto const& file : files.files) {
        if (auto const named = ModelFolder::check_name(file.name); !named) return named;
        code = detail::write_new<Calls>(folder + "/" + file.name, file.text);
        if (code != 0) return detail::unwritable(target + "/" + file.name, code);
    }
    auto const written = writer.write(folder + "/model.safetensors", target + "/model.safetensors");
    if (!written) {
        (void)detail::remove_all<Calls>(folder);
        return written;
    }
    return detail::publish_folder<Calls>(out, folder, target, [&]() -> Result<> {
        auto const why = detail::remove_all<Calls>(target);
        return why == 0 ? Result<>{} : detail::unwritable(target, why);
    });
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
