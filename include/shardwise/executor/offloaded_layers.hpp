// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/bytes.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/executor/layer_file.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The packed weights of layers that lie in memory of their own or in a file, which goes with this process; each layer in one piece.
/// `Memory` owns bytes and tells `data` and `size`.
template <class Memory>
class OffloadedLayers {
public:
    [[nodiscard]] std::int64_t layers() const { return static_cast<std::int64_t>(layers_.size()); }
    [[nodiscard]] Bytes bytes(std::int64_t layer) const { return Bytes{at(layer).bytes}; }
    /// A layer's bytes; null for one in the file.
    [[nodiscard]] std::byte const* in_memory(std::int64_t layer) const { return at(layer).memory.data(); }
    /// Errors  file_unreadable; malformed_file where the file was cut
    [[nodiscard]] Result<> read(std::int64_t layer, std::int64_t begin, std::span<std::byte> to) const {
        auto const& from = at(layer);
        if (from.offset >= 0) return file_.read(from.offset + begin, to);
        if (!to.empty()) std::memcpy(to.data(), from.memory.data() + begin, to.size());
        return {};
    }

    /// Takes the next layer's bytes over.
    void keep(Memory memory) {
        auto const bytes = memory.size();
        layers_.push_back({std::move(memory), bytes, -1});
    }
    /// Writes the next layer's bytes out.
    ///
    /// Errors  file_unwritable with the system's words
    [[nodiscard]] Result<> write(std::span<std::byte const> bytes) {
        auto const offset = file_.write(bytes);
        if (!offset) return offset.error();
        layers_.push_back({{}, static_cast<std::int64_t>(bytes.size()), *offset});
        return {};
    }

private:
    struct Layer {
        Memory memory;
        std::int64_t bytes = 0;
        /// In the file; -1 in memory.
        std::int64_t offset = -1;
    };

    [[nodiscard]] Layer const& at(std::int64_t layer) const { return layers_[static_cast<std::size_t>(layer)]; }

    std::vector<Layer> layers_;
    LayerFile file_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
