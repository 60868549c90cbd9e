// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/bytes.hpp>
#include <shardwise/hardware/device.hpp>
#include <shardwise/memory/estimate.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A part of the model that lies together: a pipeline stage, or the neighbours that a device map puts on one device. Has a
/// colour of its own.
struct PictureSegment {
    /// "embedding, layers 0-18"
    std::string text;
    /// The same where room is short: "0-18".
    std::string brief;
    /// Who holds it: "stage 2", "device 0".
    std::string holder;
    /// How wide it is drawn, relative to the others: its layers.
    std::int64_t size = 1;
};

/// Which ranks of a group, first to last: {2, 2} is one rank.
struct PictureRange {
    std::int64_t first = 0;
    std::int64_t last = 0;

    friend bool operator==(PictureRange const&, PictureRange const&) = default;
};

/// The ranks that a device runs; of merged devices those of all. Groups of one are left out of the picture.
struct PictureRanks {
    PictureRange tp{};
    PictureRange pp{};
    PictureRange dp{};
    PictureRange ep{};
};

/// One device, or several that hold the same.
struct PictureDevice {
    /// As device maps name it: "0", "cpu"; of merged ones "0-7".
    std::string label;
    std::string name;
    bool is_accelerator = true;
    std::int32_t node = 0;
    /// How many devices this stands for.
    std::int64_t count = 1;
    /// Nothing: without a limit.
    std::optional<Bytes> capacity;
    MemoryTerms terms{};
    /// What it lacks to make the model fit.
    Bytes missing{};
    Link link{};
    Link network{};
    std::optional<PictureRanks> ranks;
    /// Positions in the picture's segments.
    std::vector<std::size_t> segments;
};

/// A way between two devices of one node that differs from what they say themselves.
struct PictureLink {
    std::string first;
    std::string second;
    std::int32_t node = 0;
    Link link{};
};

/// What a picture shows, as plain values: draw_picture makes it SVG.
struct Picture {
    std::string title;
    std::string subtitle;
    bool is_fitting = false;
    /// The answer in one line.
    std::string verdict;
    std::vector<PictureSegment> segments;
    /// Devices of one node are neighbours.
    std::vector<PictureDevice> devices;
    std::vector<PictureLink> links;
    /// Sentences under the picture.
    std::vector<std::string> notes;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
