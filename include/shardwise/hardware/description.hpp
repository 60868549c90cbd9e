// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/files/text_file.hpp>
#include <shardwise/core/files/write_file.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/hardware/detail/description_reader.hpp>
#include <shardwise/hardware/detail/description_writer.hpp>
#include <shardwise/hardware/topology.hpp>
#include <shardwise/json/value.hpp>
#include <shardwise/json/writer.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A description file at its largest: 16384 devices with every field.
///
/// Units  bytes
inline constexpr std::size_t max_description_size = std::size_t{32} << 20U;

/// Reads a description of devices and their links, "shardwise.hardware/1" (docs/reference/description-file.md); `file`
/// is its name in errors.
///
/// Order   accelerators as written, then cpu, then disk
/// Errors  malformed_file, missing_field, invalid_field, capacity_exceeded; unknown_name for a field that is none,
///         no_such_device for a preset, unsupported for another schema. They name the file and the field.
[[nodiscard]] inline Result<Topology> read_topology(std::string_view text, std::string_view file) {
    auto const document = parse_json(text, {.depth = 8, .values = 1'000'000, .text = std::size_t{16} << 20U});
    if (!document) return Error{document.error()}.in(file);
    return detail::DescriptionReader(file).read(document->root());
}

/// Reads a description file.
///
/// Errors  as read_topology; file_not_found, file_unreadable
[[nodiscard]] inline Result<Topology> read_topology_file(std::string const& path) {
    auto const text = read_text_file(path, max_description_size);
    if (!text) return text.error();
    return read_topology(*text, path);
}

/// A topology as the text of a description file: read_topology gives the same again, every double included.
[[nodiscard]] inline std::string topology_json(Topology const& topology) {
    JsonWriter json(2);
    detail::DescriptionWriter(json).write(topology, detail::hardware_schema);
    return std::move(json).text() + "\n";
}

/// Writes a description file, whole or not at all.
///
/// Errors  file_unwritable
[[nodiscard]] inline Result<> write_topology_file(std::string const& path, Topology const& topology) {
    return write_file(path, topology_json(topology));
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
