// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/buffer.hpp>
#include <shardwise/backend/host.hpp>
#include <shardwise/calibrate/detail/read_lines.hpp>
#include <shardwise/calibrate/memory_rates.hpp>

#include "turns.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <utility>
#include <vector>

namespace bench {

/// Reads memory with all threads of a context and does nothing else: the time that nothing which streams the same bytes can beat.
/// Raced in turns with what it bounds (turns.hpp), because the rate of a shared machine's memory changes by a third from one tenth
/// of a second to the next: measured seconds apart, the two say nothing about each other.
class ReadProbe {
public:
    /// Reads memory of its own, several times any cache.
    explicit ReadProbe(HostContext& context, Bytes bytes = memory_probe_bytes) : context_(&context) {
        auto memory = shardwise::detail::touched_memory(context, bytes);
        if (!memory) {
            std::fprintf(stderr, "%s\n", memory.error().message().c_str());
            std::exit(1);
        }
        own_ = *std::move(memory);
        pieces_.emplace_back(own_.data(), static_cast<std::size_t>(own_.size()));
    }
    /// Reads the very memory of what it bounds, where pages are as large and lie as far: pieces of the same size, one in each run.
    /// Who reads them in turns with it begins at the first: the probe keeps half of them ahead, so that nobody finds in a cache what
    /// the other has just read.
    ReadProbe(HostContext& context, std::vector<std::span<std::byte const>> pieces)
        : context_(&context), pieces_(std::move(pieces)), next_(pieces_.size() / 2) {
        for (auto& piece : pieces_) piece = whole_lines_of(piece);
    }

    /// Bytes of one run.
    [[nodiscard]] double bytes() const { return static_cast<double>(pieces_[0].size()); }

    /// Reads the next piece once, as another number of streams side by side than the last run did.
    void run() {
        static constexpr int streams[] = {1, 2, 4};
        auto const piece = pieces_[next_ % pieces_.size()];
        auto const side_by_side = streams[next_++ % 3];
        auto const isa = detect_isa();
        // Small parts, so that a thread that is kept from running holds up nobody.
        constexpr std::size_t part = std::size_t{1} << 20U;
        std::atomic<std::uint64_t> sink{0};
        context_->pool().run(static_cast<std::int64_t>((piece.size() + part - 1) / part), [&](std::int64_t index) {
            auto const at = static_cast<std::size_t>(index) * part;
            auto const bytes = std::min(part, piece.size() - at);
            sink.store(
                shardwise::detail::read_lines(piece.data() + at, static_cast<std::int64_t>(bytes), side_by_side, isa),
                std::memory_order_relaxed);
        });
    }
    [[nodiscard]] Contender contender() {
        return {[this] { run(); }, waken(*context_)};
    }

    /// Bytes per second of a turn that took so long.
    [[nodiscard]] double rate(double seconds) const { return bytes() / seconds; }

private:
    /// The cache lines that lie wholly in a piece: read_lines loads from the beginning of one, and memory may begin anywhere where
    /// pages are small.
    [[nodiscard]] static std::span<std::byte const> whole_lines_of(std::span<std::byte const> piece) {
        constexpr std::size_t line = 64;
        auto const before = (line - reinterpret_cast<std::uintptr_t>(piece.data()) % line) % line;
        if (piece.size() < before + line) return {};
        return piece.subspan(before, (piece.size() - before) / line * line);
    }

    HostContext* context_;
    Buffer<std::byte, Host> own_;
    std::vector<std::span<std::byte const>> pieces_;
    std::size_t next_ = 0;
};

}  // namespace bench
