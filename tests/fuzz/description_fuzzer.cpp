// SPDX-License-Identifier: Apache-2.0
// A description file of any bytes is read or refused by name; what was read is written and read back as it was.
#include <shardwise/hardware/description.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    using namespace shardwise;
    auto const topology = read_topology({reinterpret_cast<char const*>(data), size}, "machine.json");
    if (!topology) {
        if (topology.error().subject() != "machine.json" || topology.error().reason().empty()) std::abort();
        return 0;
    }
    std::int64_t memory = 0;
    for (auto const& device : topology->devices) memory += device.memory.count();
    if (memory < 0) std::abort();
    // Sixteen thousand devices are read at once, but take seconds to write and read again under the sanitizers.
    if (topology->devices.size() > 512) return 0;
    auto const again = read_topology(topology_json(*topology), "again.json");
    if (!again || !(again->devices == topology->devices) || !(again->links == topology->links)) std::abort();
    if (topology->devices.size() > 1) (void)topology->between(0, topology->devices.size() - 1);
    return 0;
}
