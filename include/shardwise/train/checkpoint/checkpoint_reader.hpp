// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/files/file_chunks.hpp>
#include <shardwise/core/files/text_file.hpp>
#include <shardwise/core/span.hpp>
#include <shardwise/executor/training/training_weights.hpp>
#include <shardwise/train/checkpoint/checkpoint_layout.hpp>
#include <shardwise/train/checkpoint/checkpoint_record.hpp>
#include <shardwise/train/checkpoint/tensor_sum.hpp>
#include <shardwise/train/sharded_optimizer.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Reads the trainer_state.json of a checkpoint's folder.
///
/// Errors  file_not_found, file_unreadable; as CheckpointRecord::parse
[[nodiscard]] inline Result<CheckpointRecord> read_checkpoint_record(std::string const& folder) {
    constexpr std::size_t max_bytes = std::size_t{64} << 20U;
    auto const path = folder + "/" + std::string(trainer_state_file);
    auto const text = read_text_file(path, max_bytes);
    if (!text) return text.error();
    return CheckpointRecord::parse(*text, path);
}

/// The SHA-256 of files, one after the other, as 64 digits: what names a checkpoint's weights in reports.
///
/// Errors  file_not_found, file_unreadable
[[nodiscard]] inline Result<std::string> sha256_of_files(std::span<std::string const> paths) {
    Sha256 hash;
    for (auto const& path : paths) {
        auto const file = RegularFile::open(path);
        if (!file) return file.error();
        auto const read = for_each_chunk(*file, [&](std::uint64_t, std::string_view bytes) { hash.add(bytes); });
        if (!read) return read.error();
    }
    return hash.hex();
}

/// The same of one file.
[[nodiscard]] inline Result<std::string> sha256_of_file(std::string const& path) {
    return sha256_of_files({&path, 1});
}

/// The open files of a checkpoint: gives any range of any tensor, to any rank.
class CheckpointReader {
public:
    /// `layout` outlives this.
    ///
    /// Errors  file_not_found, file_unreadable; malformed_file with the file whose size or list of tensors is another
    [[nodiscard]] static Result<CheckpointReader> open(std::string folder, CheckpointLayout const& layout) {
        CheckpointReader out(std::move(folder), layout);
        for (auto const& wanted : layout.files()) {
            auto file = RegularFile::open(out.folder_ + "/" + wanted.file());
            if (!file) return file.error();
            if (file->size() != static_cast<std::uint64_t>(wanted.bytes()))
                return Error{ErrorCode::malformed_file}
                    .in(file->path())
                    .because("is not as long as it was written")
                    .got(static_cast<std::int64_t>(file->size()))
                    .expected(wanted.bytes());
            std::string header(wanted.header().size(), '\0');
            if (auto const read = file->read_all(0, header.data(), header.size()); !read) return read.error();
            if (header != wanted.header())
                return Error{ErrorCode::malformed_file}
                    .in(file->path())
                    .because("has another list of tensors than was written");
            out.files_.push_back(std::move(*file));
        }
        return Result<CheckpointReader>(std::move(out));
    }

    [[nodiscard]] std::string const& folder() const { return folder_; }

    /// Reads elements of a tensor as they lie in the file, from `first` on.
    ///
    /// Errors  invalid_argument for what is not of the tensor; file_unreadable
    [[nodiscard]] Result<> read(CheckpointPlace place, std::int64_t first, Span<std::byte> out) const {
        auto const& tensor = layout_->tensor(place);
        auto const size = static_cast<std::int64_t>(out.size());
        auto const count = size / tensor.width();
        if (size % tensor.width() != 0 || first < 0 || first > tensor.elements() - count)
            return Error{ErrorCode::invalid_argument}
                .in(folder_)
                .at(tensor.name)
                .because("has not the elements that are asked for")
                .got(first + count)
                .at_most(tensor.elements());
        auto const offset = tensor.offset + first * tensor.width();
        return files_[place.file].read_all(static_cast<std::uint64_t>(offset), reinterpret_cast<char*>(out.data()),
                                           out.size());
    }

    /// Compares the checksum of every tensor, and the hash of every other file, with the record.
    ///
    /// Errors  malformed_file with the tensor or the file that has changed; file_not_found, file_unreadable
    [[nodiscard]] Result<> verify(CheckpointRecord const& record) const {
        auto const damaged = [](std::string_view where, std::string_view what, std::string_view reason) {
            return Error{ErrorCode::malformed_file}.in(where).at(what).because(reason);
        };
        for (auto const& file : record.files) {
            auto const path = folder_ + "/" + file.name;
            auto const hash = sha256_of_file(path);
            if (!hash) return hash.error();
            if (*hash != file.hash)
                return damaged(path, {}, "has changed since it was written: its checksum is another");
        }
        std::size_t number = 0;
        std::vector<std::byte> chunk(std::size_t{1} << 20U);
        for (std::size_t f = 0; f < layout_->files().size(); ++f) {
            auto const& file = layout_->files()[f];
            for (std::size_t t = 0; t < file.tensors().size(); ++t) {
                auto const& tensor = file.tensors()[t];
                bool const is_listed = number < record.tensors.size() && record.tensors[number].name == tensor.name &&
                                       record.tensors[number].file == file.file();
                if (!is_listed)
                    return damaged(folder_ + "/" + std::string(trainer_state_file), tensor.name,
                                   "is not in the list of checksums");
                std::uint64_t sum = 0;
                auto const step = static_cast<std::int64_t>(chunk.size()) / tensor.width();
                for (std::int64_t first = 0; first < tensor.elements(); first += step) {
                    auto const count = std::min(step, tensor.elements() - first);
                    Span<std::byte> const bytes(chunk.data(), static_cast<std::size_t>(count * tensor.width()));
                    if (auto const done = read({f, t}, first, bytes); !done) return done;
                    sum += tensor_sum(first, tensor.width(), bytes);
                }
                if (sum != record.tensors[number++].sum)
                    return damaged(folder_ + "/" + file.file(), tensor.name,
                                   "has changed since it was written: its checksum is another");
            }
        }
        return {};
    }

private:
    CheckpointReader(std::string folder, CheckpointLayout const& layout)
        : folder_(std::move(folder)), layout_(&layout) {}

    std::string folder_;
    CheckpointLayout const* layout_;
    std::vector<RegularFile> files_;
};

/// Looks at every byte of a checkpoint; returns its record where all are those that were written.
///
/// Errors  as read_checkpoint_record, CheckpointReader::open and verify
[[nodiscard]] inline Result<CheckpointRecord> verify_checkpoint(std::string const& folder,
                                                                CheckpointLayout const& layout) {
    auto record = read_checkpoint_record(folder);
    if (!record) return record;
    auto const reader = CheckpointReader::open(folder, layout);
    if (!reader) return reader.error();
    if (auto const whole = reader->verify(*record); !whole) return whole.error();
    return record;
}

namespace detail {

/// Reads what a rank has in `range` of those elements that it holds of a parameter; or of its blocks of elements, the number of each.
[[nodiscard]] inline Result<> read_runs(shardwise::CheckpointReader const& reader, CheckpointPlace place,
                                        TrainingParameter const& parameter, UnitRange range, std::byte* to,
                                        std::size_t width, std::int64_t block = 1) {
    Result<> done;
    auto const first = range.begin / block;
    parameter.for_each_block_run(range, block, [&](std::int64_t whole, std::int64_t own, std::int64_t count) {
        if (!done) return;
        auto* const at = to + static_cast<std::size_t>(own - first) * width;
        done = reader.read(place, whole, {at, static_cast<std::size_t>(count) * width});
    });
    return done;
}

}  // namespace detail

/// Takes what this rank has of the weights and its share of the optimizer's state from a checkpoint, whatever ranks wrote it. Every rank
/// calls it; of those that train one copy of the weights one alone `reads_weights` (Trainer::owns_weights). The checkpoint was verified
/// before: see find_resume_point. Tensor-parallel ranks renew what follows from their weights in Trainer::restore.
///
/// Errors  shape_mismatch where weights, optimizer and layout are not of one model; as CheckpointReader
template <OptimizerRule Rule>
[[nodiscard]] Result<> load_checkpoint(std::string const& folder, CheckpointLayout const& layout,
                                       TrainingWeights& weights, ShardedOptimizer<Rule>& optimizer,
                                       bool reads_weights = true) {
    auto const reader = CheckpointReader::open(folder, layout);
    if (!reader) return reader.error();
    auto const& parameters = weights.layout().parameters();
    auto const missing = [](std::string_view name) {
        return Error{ErrorCode::shape_mismatch}
            .in("checkpoint")
            .at(name)
            .because("is not in the layout, which is that of another optimizer or model");
    };
    for (std::size_t i = 0; i < parameters.size(); ++i) {
        auto const& name = parameters[i].name;
        // Of weights in two bytes float32 has more digits: those count.
        auto const master = layout.state("master." + name);
        auto const place = master ? *master : layout.weight(parameters[i].number);
        if ((!master && layout.has_masters()) || layout.tensor(layout.weight(parameters[i].number)).name != name ||
            layout.tensor(place).elements() != parameters[i].whole_elements)
            return missing(name);
        auto const width = weights.storage().width();
        if (layout.tensor(place).width() != width) return missing(name);
        if (!reads_weights) continue;
        auto const done = detail::read_runs(*reader, place, parameters[i], weights.shares()[i].own,
                                            weights.memory(i).begin(), static_cast<std::size_t>(width));
        if (!done) return done;
        weights.drop();
    }
    for (std::size_t i = 0; i < optimizer.parameters().size(); ++i) {
        auto const& parameter = optimizer.parameters()[i];
        auto const own = optimizer.share(i);
        std::size_t array = 0;
        for (auto const& mine : optimizer.state(i)) {
            auto const place = layout.state(std::string(mine.name) + "." + parameter.name);
            if (!place) return missing(std::string(mine.name) + "." + parameter.name);
            auto const memory = optimizer.state_memory(i, array++);
            auto const width = static_cast<std::size_t>(bits(mine.dtype) / 8);
            auto const done = detail::read_runs(*reader, *place, parameters[i], own, memory.data(), width, mine.block);
            if (!done) return done;
            optimizer.drop();
        }
    }
    return {};
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
