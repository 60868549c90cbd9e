// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/bytes.hpp>
#include <shardwise/core/files/write_file.hpp>
#include <shardwise/core/span.hpp>
#include <shardwise/model/files/model_folder.hpp>
#include <shardwise/train/checkpoint/checkpoint_files.hpp>
#include <shardwise/train/checkpoint/checkpoint_folders.hpp>
#include <shardwise/train/checkpoint/checkpoint_layout.hpp>
#include <shardwise/train/checkpoint/checkpoint_record.hpp>
#include <shardwise/train/checkpoint/file_calls.hpp>
#include <shardwise/train/checkpoint/range_files.hpp>
#include <shardwise/train/checkpoint/round_weight.hpp>
#include <shardwise/train/checkpoint/tensor_sum.hpp>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Checksums of what ranks have written, one for each tensor of a layout, and how many elements they were: these add up over ranks.
struct CheckpointSums {
    std::vector<std::uint64_t> tensors;
    std::uint64_t elements = 0;
};

/// The record of a checkpoint whose tensors have these sums.
[[nodiscard]] inline CheckpointRecord make_record(CheckpointLayout const& layout, CheckpointFiles const& files,
                                                  TrainerState const& state, CheckpointSums const& sums) {
    CheckpointRecord out;
    out.state = state;
    auto const add = [&out](std::string const& name, std::string const& text) {
        out.files.push_back({name, static_cast<std::int64_t>(text.size()), sha256_hex(text)});
    };
    for (auto const& file : files.files) add(file.name, file.text);
    if (auto const index = layout.index(); !index.empty()) add("model.safetensors.index.json", index);
    std::size_t number = 0;
    for (auto const& file : layout.files()) {
        for (auto const& tensor : file.tensors())
            out.tensors.push_back({file.file(), tensor.name, sums.tensors[number++]});
    }
    return out;
}

/// Writes a checkpoint, by one rank or by many at once:
///
/// 1. `prepare` on one rank makes a folder with all files, as long as they will be, whose name is no checkpoint's;
/// 2. `open` on every rank that has something to write, `write` for its ranges, `finish`;
/// 3. `commit` on one rank, when all have finished, with the sums of all: writes trainer_state.json, syncs, renames the folder to
///    `step-000004`, and removes what is no longer kept.
///
/// Until the folder is renamed it counts for nothing; whoever is killed leaves the older checkpoints as they were. The bytes are the
/// same whoever writes which range. `save_checkpoint` does all of this for ranks that share parameters as ShardedOptimizer does.
template <class Calls = FileCalls>
class CheckpointWriter {
public:
    /// Makes the folder that is written to, and OUT where it is missing.
    ///
    /// Errors  file_unwritable, also where the disk has not the room; unsafe_path for a copied file that would lie elsewhere; then
    ///         nothing is left
    [[nodiscard]] static Result<> prepare(std::string const& out, CheckpointLayout const& layout,
                                          CheckpointFiles const& files, std::int64_t step) {
        auto const done = make(out, layout, files, step);
        if (!done) discard(out, step);
        return done;
    }
    /// Removes a folder that will not be finished. What is left where that fails is removed by remove_leftovers.
    static void discard(std::string const& out, std::int64_t step) {
        (void)detail::remove_all<Calls>(saving_folder(out, step));
    }

    /// Memory with which long ranges go around the page cache, for a rank that writes so many bytes; none where they are few.
    [[nodiscard]] static Bytes memory_bytes(Bytes written) {
        return Bytes{detail::RangeFiles<Calls>::memory_bytes(written.count())};
    }

    /// Opens the files that `prepare` has made. `layout`, and `memory` of memory_bytes, outlive this; there may be none.
    ///
    /// Errors  file_unwritable
    [[nodiscard]] static Result<CheckpointWriter> open(std::string const& out, CheckpointLayout const& layout,
                                                       std::int64_t step, Span<std::byte> memory = {}) {
        CheckpointWriter writer(layout, out + "/" + checkpoint_name(step), memory);
        for (auto const& file : layout.files()) {
            auto const path = saving_folder(out, step) + "/" + file.file();
            auto const opened = writer.files_.open(path, writer.folder_ + "/" + file.file());
            if (!opened) return opened.error();
        }
        return Result<CheckpointWriter>(std::move(writer));
    }

    /// Writes elements of a tensor as they lie in the file, from `first` on. Each element is written once, by one rank.
    ///
    /// Errors  invalid_argument for what is not of the tensor; file_unwritable
    [[nodiscard]] Result<> write(CheckpointPlace place, std::int64_t first, Span<std::byte const> bytes) {
        auto const width = layout_->tensor(place).width();
        auto const size = static_cast<std::int64_t>(bytes.size());
        if (auto const known = check(place, first, size / width, size % width == 0); !known) return known;
        // The sum is of what the write has brought into the cache.
        for (std::size_t done = 0; done < bytes.size();) {
            auto const some = std::min(chunk * static_cast<std::size_t>(width), bytes.size() - done);
            auto const at = first + static_cast<std::int64_t>(done) / width;
            if (auto const written = put(place, at, {bytes.data() + done, some}); !written) return written;
            done += some;
        }
        return {};
    }

    /// Writes elements of a floating tensor, rounded to its dtype.
    ///
    /// Errors  invalid_argument for what is not of the tensor, and for a number that is none, or none in its dtype; file_unwritable
    [[nodiscard]] Result<> write_floats(CheckpointPlace place, std::int64_t first, Span<float const> values) {
        auto const& tensor = layout_->tensor(place);
        auto const count = static_cast<std::int64_t>(values.size());
        bool const is_float = tensor.dtype == Dtype::f32 || tensor.dtype == Dtype::f16 || tensor.dtype == Dtype::bf16;
        if (auto const known = check(place, first, count, is_float); !known) return known;
        std::vector<std::uint16_t> narrow(tensor.dtype == Dtype::f32 ? 0 : std::min(values.size(), chunk));
        for (std::size_t done = 0; done < values.size();) {
            auto const some = std::min(chunk, values.size() - done);
            auto const* const from = values.data() + done;
            auto const at = first + static_cast<std::int64_t>(done);
            for (std::size_t i = 0; i < some; ++i) {
                if (!detail::round_weight(from[i], tensor.dtype, narrow.empty() ? nullptr : &narrow[i]))
                    return unfit(tensor, at + static_cast<std::int64_t>(i));
            }
            auto const* const bytes = narrow.empty() ? reinterpret_cast<std::byte const*>(from)
                                                     : reinterpret_cast<std::byte const*>(narrow.data());
            auto const written = put(place, at, {bytes, some * static_cast<std::size_t>(tensor.width())});
            if (!written) return written;
            done += some;
        }
        return {};
    }

    /// What was written so far, that which waits in memory included.
    [[nodiscard]] CheckpointSums const& sums() const { return sums_; }

    /// Waits until what was written is on the disk, and closes the files.
    ///
    /// Errors  file_unwritable
    [[nodiscard]] Result<> finish() { return files_.finish(); }

    /// Makes the folder the checkpoint of `state.step`, in place of one that is there. `sums` are those of all ranks together; at
    /// least one checkpoint is kept.
    ///
    /// Errors  invalid_argument where elements were not written, or twice; file_unwritable
    [[nodiscard]] static Result<> commit(std::string const& out, CheckpointLayout const& layout,
                                         CheckpointFiles const& files, TrainerState const& state,
                                         CheckpointSums const& sums, std::int64_t keep) {
        std::uint64_t elements = 0;
        for (auto const& file : layout.files()) {
            for (auto const& tensor : file.tensors()) elements += static_cast<std::uint64_t>(tensor.elements());
        }
        if (sums.tensors.size() != layout.tensors() || sums.elements != elements)
            return Error{ErrorCode::invalid_argument}
                .in(checkpoint_name(state.step))
                .because("has elements that no rank has written, or that several have")
                .got(static_cast<std::int64_t>(sums.elements))
                .expected(static_cast<std::int64_t>(elements));
        auto const folder = saving_folder(out, state.step);
        auto const target = out + "/" + checkpoint_name(state.step);
        auto const text = make_record(layout, files, state, sums).text();
        auto const state_path = folder + "/" + std::string(trainer_state_file);
        if (auto const code = detail::write_new<Calls>(state_path, text); code != 0)
            return detail::unwritable(state_path, code);
        auto const remove_old = [&] { return remove_checkpoint<Calls>(out, state.step); };
        if (auto const named = detail::publish_folder<Calls>(out, folder, target, remove_old); !named) return named;
        return prune_checkpoints<Calls>(out, state.step, std::max<std::int64_t>(keep, 1));
    }

private:
    /// Elements that are rounded, or written, at a time.
    static constexpr std::size_t chunk = std::size_t{1} << 15U;

    CheckpointWriter(CheckpointLayout const& layout, std::string folder, Span<std::byte> memory)
        : layout_(&layout),
          folder_(std::move(folder)),
          files_(memory),
          sums_{std::vector<std::uint64_t>(layout.tensors()), 0} {}

    [[nodiscard]] static std::string saving_folder(std::string const& out, std::int64_t step) {
        return out + "/" + std::string(detail::saving_prefix) + checkpoint_name(step);
    }

    [[nodiscard]] static Result<> make(std::string const& out, CheckpointLayout const& layout,
                                       CheckpointFiles const& files, std::int64_t step) {
        auto const folder = saving_folder(out, step);
        int code = detail::make_empty<Calls>(out, folder);
        if (code != 0) return detail::unwritable(out, code);
        auto const shown = [&](std::string const& name, int why) {
            return detail::unwritable(out + "/" + checkpoint_name(step) + "/" + name, why);
        };
        for (auto const& file : files.files) {
            if (auto const named = ModelFolder::check_name(file.name); !named) return named;
            code = detail::write_new<Calls>(folder + "/" + file.name, file.text);
            if (code != 0) return shown(file.name, code);
        }
        if (auto const index = layout.index(); !index.empty()) {
            std::string const name = "model.safetensors.index.json";
            code = detail::write_new<Calls>(folder + "/" + name, index);
            if (code != 0) return shown(name, code);
        }
        for (auto const& file : layout.files()) {
            // Synced with the ranges that ranks write: see finish.
            code = detail::write_new<Calls>(folder + "/" + file.file(), file.header(), file.bytes(), false);
            if (code != 0) return shown(file.file(), code);
        }
        return {};
    }

    [[nodiscard]] Result<> check(CheckpointPlace place, std::int64_t first, std::int64_t count,
                                 bool is_of_dtype) const {
        auto const& tensor = layout_->tensor(place);
        Error bad{ErrorCode::invalid_argument};
        bad.in(folder_).at(tensor.name);
        if (!is_of_dtype) return bad.because("is given elements of another dtype");
        if (!files_.is_open()) return bad.because("is written after the checkpoint was finished");
        if (first < 0 || first > tensor.elements() - count)
            return bad.because("is given elements beyond its own").got(first + count).at_most(tensor.elements());
        return {};
    }
    [[nodiscard]] Error unfit(LaidTensor const& tensor, std::int64_t element) const {
        return Error{ErrorCode::invalid_argument}
            .in(folder_)
            .at(tensor.name)
            .because("is no number in " + std::string(traits(tensor.dtype).torch_name) + " at element " +
                     std::to_string(element))
            .fix("state bfloat16 or float32 in config.json, or lower the learning rate");
    }
    [[nodiscard]] Result<> put(CheckpointPlace place, std::int64_t first, Span<std::byte const> bytes) {
        auto const& tensor = layout_->tensor(place);
        std::string_view const text(reinterpret_cast<char const*>(bytes.data()), bytes.size());
        auto const written = files_.write(place.file, text, tensor.offset + first * tensor.width());
        if (!written) return written;
        sums_.tensors[layout_->number(place)] += tensor_sum(first, tensor.width(), bytes);
        sums_.elements += bytes.size() / static_cast<std::size_t>(tensor.width());
        return {};
    }

    CheckpointLayout const* layout_;
    /// The checkpoint's, for errors.
    std::string folder_;
    detail::RangeFiles<Calls> files_;
    CheckpointSums sums_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
