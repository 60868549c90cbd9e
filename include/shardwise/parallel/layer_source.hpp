// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host.hpp>
#include <shardwise/comm/all_gather.hpp>
#include <shardwise/comm/communicator.hpp>
#include <shardwise/core/bytes.hpp>
#include <shardwise/core/files/regular_file.hpp>
#include <shardwise/core/list.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/split.hpp>
#include <shardwise/core/tensor_view.hpp>
#include <shardwise/parallel/place.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Where the bytes of layers lie that are not resident: read(layer, begin, to) fills `to` from byte `begin` of the layer.
template <class S>
concept LayerSource = requires(S& source, std::span<std::byte> to) {
    { source.layers() } -> std::same_as<std::int64_t>;
    { source.bytes(std::int64_t{}) } -> std::same_as<Bytes>;
    { source.read(std::int64_t{}, std::int64_t{}, to) } -> std::same_as<Result<>>;
};

/// Layers in the host's memory, which outlives the source.
class MemoryLayers {
public:
    explicit MemoryLayers(List<std::span<std::byte const>> layers) : layers_(std::move(layers)) {}

    [[nodiscard]] std::int64_t layers() const { return static_cast<std::int64_t>(layers_.size()); }
    [[nodiscard]] Bytes bytes(std::int64_t layer) const {
        return Bytes{static_cast<std::int64_t>(layers_[static_cast<std::size_t>(layer)].size())};
    }
    [[nodiscard]] Result<> read(std::int64_t layer, std::int64_t begin, std::span<std::byte> to) const {
        if (to.empty()) return {};
        std::memcpy(to.data(), layers_[static_cast<std::size_t>(layer)].data() + begin, to.size());
        return {};
    }

private:
    List<std::span<std::byte const>> layers_;
};

/// Layers in the host's memory of which this rank holds its part alone (split_units over a layer's bytes): what
/// SharedLayers reads of each. The parts outlive the source.
class MemoryParts {
public:
    /// The size of a whole layer, and this rank's part of it.
    struct Part {
        std::int64_t bytes = 0;
        std::span<std::byte const> own;
    };

    /// Errors  invalid_argument for a rank that is none; shape_mismatch where a part is not as long as the rank's share
    [[nodiscard]] static Result<MemoryParts> create(List<Part> parts, std::int64_t ranks, std::int64_t rank) {
        if (auto const placed = detail::check_place("layer parts", {ranks, rank}); !placed) return placed.error();
        for (auto const& part : parts) {
            auto const share = split_units(part.bytes, ranks, rank).size();
            if (part.bytes >= 0 && static_cast<std::int64_t>(part.own.size()) == share) continue;
            return Error{ErrorCode::shape_mismatch}
                .in("layer parts")
                .because("hold another part of a layer than this rank's share of its bytes")
                .got(static_cast<std::int64_t>(part.own.size()))
                .expected(share);
        }
        return MemoryParts(std::move(parts), ranks, rank);
    }

    [[nodiscard]] std::int64_t layers() const { return static_cast<std::int64_t>(parts_.size()); }
    [[nodiscard]] Bytes bytes(std::int64_t layer) const { return Bytes{parts_[static_cast<std::size_t>(layer)].bytes}; }
    /// Errors  invalid_argument for bytes that another rank holds
    [[nodiscard]] Result<> read(std::int64_t layer, std::int64_t begin, std::span<std::byte> to) const {
        if (to.empty()) return {};
        auto const& part = parts_[static_cast<std::size_t>(layer)];
        auto const own = split_units(part.bytes, ranks_, rank_);
        auto const end = begin + static_cast<std::int64_t>(to.size());
        if (begin < own.begin || end > own.end) {
            return Error{ErrorCode::invalid_argument}
                .in("layer parts")
                .because("do not hold bytes of another rank")
                .got(begin < own.begin ? begin : end)
                .expected(begin < own.begin ? own.begin : own.end)
                .fix("read them through SharedLayers, over the group whose ranks hold them");
        }
        std::memcpy(to.data(), part.own.data() + (begin - own.begin), to.size());
        return {};
    }

private:
    MemoryParts(List<Part> parts, std::int64_t ranks, std::int64_t rank)
        : parts_(std::move(parts)), ranks_(ranks), rank_(rank) {}

    List<Part> parts_;
    std::int64_t ranks_ = 1;
    std::int64_t rank_ = 0;
};

/// Layers in a file, each in one piece.
class FileLayers {
public:
    /// Where a layer lies.
    struct Place {
        std::uint64_t offset = 0;
        std::int64_t bytes = 0;
    };

    /// Errors  those of RegularFile::open; invalid_argument for a layer of less than no bytes; malformed_file where a layer
    ///         reaches beyond the file's end
    [[nodiscard]] static Result<FileLayers> open(std::string const& path, List<Place> places) {
        auto file = RegularFile::open(path);
        if (!file) return file.error();
        for (auto const& place : places) {
            if (place.bytes < 0) {
                return Error{ErrorCode::invalid_argument}
                    .in(path)
                    .because("has a layer of less than no bytes")
                    .got(place.bytes);
            }
            auto const size = static_cast<std::uint64_t>(place.bytes);
            bool const fits = place.offset <= file->size() && size <= file->size() - place.offset;
            if (!fits) {
                // Up to where the layer reaches, as far as that can be said.
                constexpr auto most = static_cast<std::uint64_t>(INT64_MAX);
                auto const end = place.offset <= most - size ? place.offset + size : most;
                return Error{ErrorCode::malformed_file}
                    .in(path)
                    .because("ends before a layer that should be in it")
                    .needs(Bytes{static_cast<std::int64_t>(end)})
                    .has(Bytes{static_cast<std::int64_t>(file->size())});
            }
        }
        return FileLayers(std::move(*file), std::move(places));
    }

    [[nodiscard]] std::int64_t layers() const { return static_cast<std::int64_t>(places_.size()); }
    [[nodiscard]] Bytes bytes(std::int64_t layer) const {
        return Bytes{places_[static_cast<std::size_t>(layer)].bytes};
    }
    /// Errors  file_unreadable; malformed_file where the file was cut since it was opened
    [[nodiscard]] Result<> read(std::int64_t layer, std::int64_t begin, std::span<std::byte> to) const {
        auto const offset = places_[static_cast<std::size_t>(layer)].offset + static_cast<std::uint64_t>(begin);
        auto const got = file_.read(offset, reinterpret_cast<char*>(to.data()), to.size());
        if (!got) return got.error();
        if (*got == to.size()) return {};
        return Error{ErrorCode::malformed_file}
            .in(file_.path())
            .because("ends within a layer: it was cut while it was in use")
            .needs(Bytes{static_cast<std::int64_t>(to.size())})
            .has(Bytes{static_cast<std::int64_t>(*got)});
    }

private:
    FileLayers(RegularFile file, List<Place> places) : file_(std::move(file)), places_(std::move(places)) {}

    RegularFile file_;
    List<Place> places_;
};

/// Layers of which each rank of a group fetches its part (split_units over the bytes) and gets the others' by an all-gather:
/// the source is read once by the whole group. Ranks whose memory holds no more than their parts give MemoryParts.
///
/// Order   reads are collective; nothing else uses `comm` meanwhile: give the source a split of its own
/// Source  Aminabadi et al., DeepSpeed Inference (arXiv 2207.00032), ZeRO-Inference
template <LayerSource Source, Communicator Comm>
class SharedLayers {
public:
    SharedLayers(Source source, Comm& comm) : source_(std::move(source)), comm_(&comm) {}

    [[nodiscard]] std::int64_t layers() const { return source_.layers(); }
    [[nodiscard]] Bytes bytes(std::int64_t layer) const { return source_.bytes(layer); }
    /// Errors  those of the source, which end the group; collective_mismatch, rank_lost, deadline_exceeded
    [[nodiscard]] Result<> read(std::int64_t layer, std::int64_t begin, std::span<std::byte> to) {
        auto const total = static_cast<std::int64_t>(to.size());
        auto const own = split_units(total, comm_->size(), comm_->rank());
        auto const part = to.subspan(static_cast<std::size_t>(own.begin), static_cast<std::size_t>(own.size()));
        if (auto const done = source_.read(layer, begin + own.begin, part); !done) return comm_->fail(done.error());
        List<std::int64_t> counts(static_cast<std::size_t>(comm_->size()));
        for (std::int32_t rank = 0; rank < comm_->size(); ++rank)
            counts[static_cast<std::size_t>(rank)] = split_units(total, comm_->size(), rank).size();
        auto* const all = reinterpret_cast<std::uint8_t*>(to.data());
        return all_gather(*comm_, TensorView<std::uint8_t const, 1, Host>(all + own.begin, {own.size()}),
                          TensorView<std::uint8_t, 1, Host>(all, {total}), std::span<std::int64_t const>{counts});
    }

private:
    Source source_;
    Comm* comm_;
};

static_assert(LayerSource<MemoryLayers> && LayerSource<MemoryParts> && LayerSource<FileLayers>);

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
