// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/device_id.hpp>
#include <shardwise/placement/fixes.hpp>
#include <shardwise/placement/measured_times.hpp>
#include <shardwise/placement/placement.hpp>
#include <shardwise/placement/shortfall.hpp>

#include "console.hpp"
#include "requests.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardwise::cli {

/// A prefix and where it lives.
struct AnswerEntry {
    std::string prefix;
    DeviceId device{};
};

/// What a device holds; terms are zero where a dialect counts weights only.
struct AnswerDevice {
    DeviceId id{};
    std::string name;
    /// Nothing for a disk without a limit.
    std::optional<Bytes> capacity;
    /// What it has, of which `capacity` may be used.
    std::optional<Bytes> total;
    Bytes used{};
    Bytes weights{};
    Bytes kv_cache{};
    Bytes activations{};
    Bytes overhead{};
    /// What a balancing dialect was allowed to put there: at most the capacity.
    std::optional<Bytes> budget{};
};

/// What `map` found, ready to be printed.
struct MapAnswer {
    std::string model;
    std::string architecture;
    std::optional<std::int64_t> parameters;
    /// What follows it where the model is a part of another.
    std::string_view part_note;
    /// One line that says what was asked: context, batch, types.
    std::string question;
    std::int64_t context = 0;
    std::int64_t batch = 0;
    std::string dtype;
    std::string quant;
    std::string kv_dtype;
    /// Tokens of a chunk of the prompts; 0: whole prompts.
    std::int64_t prefill_chunk = 0;
    bool fits = false;
    std::vector<AnswerEntry> device_map;
    std::vector<AnswerDevice> devices;
    std::optional<Certificate> certificate;
    std::optional<Shortfall> shortfall;
    std::string reason;
    std::vector<Fix> fixes;
    /// Answers to --max: a number, or the name of a quantisation.
    std::optional<std::int64_t> number;
    std::string word;
    /// Where the times come from, with --profile.
    std::optional<MeasuredTimes> times;
    std::string profile;
    std::vector<std::string> warnings;
};

[[nodiscard]] std::string map_json(MapRequest const& request, MapAnswer const& answer);
[[nodiscard]] std::string map_text(MapRequest const& request, MapAnswer const& answer, Style const& style);

/// How good the map is and what proves it: "load 0.894: ...; proven optimal among contiguous maps".
[[nodiscard]] std::string certificate_text(Certificate const& certificate);

/// The shortest word with which --quant means this scheme: "int4" for groups of 128.
[[nodiscard]] std::string quant_word(QuantScheme const& scheme);

/// The sentence that says what to change and what that does.
[[nodiscard]] std::string sentence(Fix const& fix, MapAnswer const& answer);

}  // namespace shardwise::cli
