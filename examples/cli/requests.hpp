// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/cost/profile.hpp>
#include <shardwise/hardware/device.hpp>
#include <shardwise/hardware/topology.hpp>
#include <shardwise/memory/request.hpp>
#include <shardwise/placement/max_memory.hpp>
#include <shardwise/placement/placement.hpp>

#include "arguments.hpp"
#include "console.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardwise::cli {

enum class MapStrategy : std::uint8_t { optimal, balanced, balanced_low_0, sequential, custom };
enum class MapDialect : std::uint8_t { shardwise, accelerate, transformers, transformers_5_0 };
/// What --max asks for.
enum class Inverse : std::uint8_t { none, context, batch, devices, quant };

[[nodiscard]] std::string_view name_of(MapStrategy strategy);
[[nodiscard]] std::string_view name_of(MapDialect dialect);

/// What `map` was asked for, checked.
struct MapRequest {
    EstimateRequest estimate{};
    MapStrategy strategy = MapStrategy::optimal;
    MapDialect dialect = MapDialect::shardwise;
    Objective objective = Objective::load;
    Inverse inverse = Inverse::none;
    /// As the user wrote it ("auto").
    std::string strategy_word;
    /// From --devices, or from --max-memory with names and rates unknown.
    List<Device> devices;
    /// Between those of this machine: what detection found.
    List<DeviceLink> links;
    /// The same as limits, for the dialects.
    MaxMemory max_memory;
    /// Classes given by --no-split; nothing: the architecture's.
    std::optional<std::vector<std::string>> no_split;
    bool has_fallback = false;
    bool offloads_buffers = false;
    /// From --profile: measured times.
    std::optional<Profile> profile;
    std::vector<std::string> warnings;
};

/// Reads the flags that say what is run.
///
/// Errors  unknown_name with the nearest right word, invalid_argument with the range; both name the flag
[[nodiscard]] Result<EstimateRequest> read_estimate_request(Arguments const& arguments);

/// Reads --quant into `target`, where it was given.
///
/// Errors  unknown_name with the nearest right word
[[nodiscard]] Result<> read_quant(std::optional<std::string> const& word, Optional<QuantScheme>& target);

/// Reads --prefill-chunk into `target`; `none` makes it `whole`.
///
/// Errors  invalid_argument that names the flag and the range
[[nodiscard]] Result<> read_prefill_chunk(std::optional<std::string> const& word, std::int64_t whole,
                                          std::int64_t& target);

/// Reads the flags of `map`.
///
/// Errors  the same; no_such_device; flags that exclude each other are named
[[nodiscard]] Result<MapRequest> read_map_request(Arguments const& arguments);

/// Checks that a command which cannot do without MODEL has it; `example` names one: "shardwise estimate llama-3-8b".
///
/// Errors  invalid_argument
[[nodiscard]] Result<> check_model_given(Arguments const& arguments, std::string_view example);

/// The library's error about a member of its request, in the words of the program: the member's flag.
[[nodiscard]] Error in_flags(Error error);

/// Reads --max-memory; nothing where it is not given.
///
/// Errors  invalid_argument, unknown_name, those of reading a file; all name the flag
[[nodiscard]] Result<MaxMemory> read_max_memory(Arguments const& arguments);

/// The words of a list: "a, b" is two.
[[nodiscard]] std::vector<std::string> split_at_commas(std::string_view text);

/// Reads --color.
[[nodiscard]] Result<ColorMode> read_color(Arguments const& arguments);

}  // namespace shardwise::cli
