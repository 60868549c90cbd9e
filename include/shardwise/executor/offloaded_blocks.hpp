// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/host/weight.hpp>
#include <shardwise/core/files/regular_file.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/executor/layer_home.hpp>
#include <shardwise/executor/walk_block.hpp>
#include <shardwise/parallel/layer_source.hpp>
#include <shardwise/parallel/weight_stream.hpp>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <unistd.h>
#include <utility>
#include <variant>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The packed weights of layers that lie in memory of their own or in a file; each layer in one piece.
class OffloadedWeights {
public:
    OffloadedWeights() = default;
    OffloadedWeights(OffloadedWeights&& other) noexcept = default;
    OffloadedWeights& operator=(OffloadedWeights&& other) noexcept = default;

    [[nodiscard]] std::int64_t layers() const { return static_cast<std::int64_t>(pieces_.size()); }
    [[nodiscard]] Bytes bytes(std::int64_t layer) const { return Bytes{piece(layer).bytes}; }
    /// Errors  file_unreadable; malformed_file where the file was cut
    [[nodiscard]] Result<> read(std::int64_t layer, std::int64_t begin, std::span<std::byte> to) const {
        auto const& from = piece(layer);
        if (from.offset < 0) {
            if (!to.empty()) std::memcpy(to.data(), from.memory.data() + begin, to.size());
            return {};
        }
        auto const got =
            RegularFile::read_from(descriptor_.number, path_, static_cast<std::uint64_t>(from.offset + begin),
                                   reinterpret_cast<char*>(to.data()), to.size());
        if (!got) return got.error();
        if (*got < to.size()) return Error{ErrorCode::malformed_file}.in(path_).because("ends within a layer");
        return {};
    }

    /// Takes the next layer's bytes over.
    void keep(Buffer<std::byte, Host> memory) {
        auto const bytes = memory.size();
        pieces_.push_back({std::move(memory), bytes, -1});
    }
    /// Writes the next layer's bytes out, into a file of the folder for temporary files. The file has no name from the
    /// beginning: it goes with this process, however that ends.
    ///
    /// Errors  file_unwritable with the system's words
    [[nodiscard]] Result<> write(std::span<std::byte const> bytes) {
        if (descriptor_.number < 0) {
            std::error_code problem;
            auto const folder = std::filesystem::temp_directory_path(problem);
            if (problem) return unwritable(named_folder(), problem.message());
            path_ = (folder / "shardwise-layers-XXXXXX").string();
            descriptor_.number = mkostemp(path_.data(), O_CLOEXEC);
            if (descriptor_.number < 0) return unwritable(path_, std::strerror(errno));
            (void)unlink(path_.c_str());
        }
        for (std::size_t done = 0; done < bytes.size();) {
            auto const written = ::pwrite(descriptor_.number, bytes.data() + done, bytes.size() - done,
                                          static_cast<off_t>(written_) + static_cast<off_t>(done));
            if (written < 0 && errno == EINTR) continue;
            if (written <= 0) return unwritable(path_, std::strerror(errno));
            done += static_cast<std::size_t>(written);
        }
        auto const size = static_cast<std::int64_t>(bytes.size());
        pieces_.push_back({{}, size, written_});
        written_ += size;
        return {};
    }

private:
    struct Piece {
        Buffer<std::byte, Host> memory;
        std::int64_t bytes = 0;
        /// In the file; -1 in memory.
        std::int64_t offset = -1;
    };
    struct Descriptor {
        int number = -1;

        Descriptor() = default;
        Descriptor(Descriptor&& other) noexcept : number(std::exchange(other.number, -1)) {}
        Descriptor& operator=(Descriptor&& other) noexcept {
            std::swap(number, other.number);
            return *this;
        }
        ~Descriptor() {
            if (number >= 0) close(number);
        }
    };

    [[nodiscard]] Piece const& piece(std::int64_t layer) const { return pieces_[static_cast<std::size_t>(layer)]; }
    /// What temp_directory_path looks at, in its order.
    [[nodiscard]] static std::string_view named_folder() {
        for (auto const* const variable : {"TMPDIR", "TMP", "TEMP", "TEMPDIR"}) {
            if (auto const* const folder = std::getenv(variable)) return folder;
        }
        return "/tmp";
    }
    [[nodiscard]] static Error unwritable(std::string_view path, std::string_view problem) {
        return Error{ErrorCode::file_unwritable}.in(path).because(problem).fix(
            "set TMPDIR to a folder with room for the layers on disk");
    }

    std::vector<Piece> pieces_;
    Descriptor descriptor_;
    std::string path_;
    std::int64_t written_ = 0;
};

static_assert(LayerSource<OffloadedWeights>);

/// The blocks of a rank whose packed weights are not resident: while one is computed the weights of the next are
/// fetched. Norms, biases and tables stay.
///
/// Memory  two buffers of the largest such block, and what is kept on the cpu
template <ReductionPolicy Policy>
class OffloadedBlocks {
    using Block = HeldBlock<Host, Policy>;

public:
    /// Moves the weights of a loaded block out, unless it is resident; `number` counts the rank's blocks.
    ///
    /// Errors  out_of_memory; file_unwritable
    [[nodiscard]] Result<> add(HostContext& context, std::size_t number, Block& block, LayerHome home) {
        if (home == LayerHome::resident) return {};
        std::int64_t total = 0;
        for_each_weight(block, [&](HostWeight& weight) { total += rounded(weight.bytes().count()); });
        auto image = Buffer<std::byte, Host>::allocate(context, total);
        if (!image) return image.error();
        std::int64_t at = 0;
        for_each_weight(block, [&](HostWeight& weight) {
            auto memory = weight.take_memory();
            auto const bytes = memory.bytes().count();
            if (bytes > 0) std::memcpy(image->data() + at, memory.data(), static_cast<std::size_t>(bytes));
            offsets_.push_back(at);
            at += rounded(bytes);
        });
        firsts_.push_back(offsets_.size());
        numbers_.push_back(number);
        if (home == LayerHome::cpu) {
            weights_.keep(std::move(*image));
            return {};
        }
        return weights_.write({image->data(), static_cast<std::size_t>(total)});
    }
    /// All blocks are loaded: begins to fetch.
    ///
    /// Errors  out_of_memory
    [[nodiscard]] Result<> finish(HostContext& context) {
        if (numbers_.empty()) return {};
        auto stream = WeightStream<OffloadedWeights>::create(context, std::move(weights_));
        if (!stream) return stream.error();
        stream_.emplace(std::move(*stream));
        return {};
    }

    /// True where some block's weights are fetched.
    [[nodiscard]] bool has_any() const { return stream_.has_value(); }

    /// Calls walk(end) so that blocks before each offloaded one are walked, then it, then the rest of `blocks`.
    ///
    /// Errors  those of the walk and of reading; deadline_exceeded
    template <class Walk>
    [[nodiscard]] Result<> run(std::vector<Block>& blocks, Walk const& walk, HostStream& stream, Deadline deadline) {
        if (stream_) {
            auto const work = [&](std::int64_t layer, std::span<std::byte const> bytes, HostStream&) -> Result<> {
                auto const i = static_cast<std::size_t>(layer);
                if (auto const done = walk(numbers_[i]); !done) return done;
                auto next = i == 0 ? std::size_t{0} : firsts_[i - 1];
                for_each_weight(blocks[numbers_[i]],
                                [&](HostWeight& weight) { weight.rest_on(bytes.data() + offsets_[next++]); });
                return walk(numbers_[i] + 1);
            };
            if (auto const done = stream_->run(work, stream, deadline); !done) return done;
        }
        return walk(blocks.size());
    }

private:
    [[nodiscard]] static std::int64_t rounded(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }

    template <class Visit>
    static void for_each_weight(Block& block, Visit const& visit) {
        for (auto& operation : block.operations) {
            std::visit(
                [&](auto& held) {
                    if constexpr (requires { held.for_each_weight(visit); }) held.for_each_weight(visit);
                },
                operation.held);
        }
    }

    /// By offloaded block: its number, and where its weights' offsets end.
    std::vector<std::size_t> numbers_;
    std::vector<std::size_t> firsts_;
    std::vector<std::int64_t> offsets_;
    OffloadedWeights weights_;
    std::optional<WeightStream<OffloadedWeights>> stream_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
