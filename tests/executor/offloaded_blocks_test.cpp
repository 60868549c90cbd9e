// SPDX-License-Identifier: Apache-2.0
#include <shardwise/executor/offloaded_blocks.hpp>
#include <shardwise/executor/placed_stages.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

namespace {

using namespace shardwise;

/// A value of TMPDIR while it lives.
class TemporaryFolder {
public:
    explicit TemporaryFolder(std::string const& path) {
        if (auto const* const old = std::getenv("TMPDIR")) old_ = old, had_ = true;
        setenv("TMPDIR", path.c_str(), 1);
    }
    ~TemporaryFolder() {
        if (had_)
            setenv("TMPDIR", old_.c_str(), 1);
        else
            unsetenv("TMPDIR");
    }
    TemporaryFolder(TemporaryFolder const&) = delete;
    TemporaryFolder& operator=(TemporaryFolder const&) = delete;

private:
    std::string old_;
    bool had_ = false;
};

std::vector<std::byte> bytes_of(std::size_t count, unsigned seed) {
    std::vector<std::byte> bytes(count);
    for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>((i * 7 + seed) % 251);
    return bytes;
}

}  // namespace

TEST_CASE("OffloadedWeights: layers on disk and in memory are read back, and the file has no name from the beginning") {
    auto const folder = std::filesystem::temp_directory_path() / ("offloaded_" + std::to_string(getpid()));
    std::filesystem::create_directory(folder);
    {
        TemporaryFolder const temporary(folder.string());
        HostContext context({.threads = 1});
        OffloadedWeights weights;
        std::vector<std::vector<std::byte>> const layers{bytes_of(1000, 1), bytes_of(0, 2), bytes_of(77, 3),
                                                         bytes_of(300, 4)};
        REQUIRE(weights.write(layers[0]));
        // A process that fails or is killed while it loads leaves nothing behind.
        CHECK(std::filesystem::is_empty(folder));
        REQUIRE(weights.write(layers[1]));
        auto memory = Buffer<std::byte, Host>::allocate(context, 77);
        REQUIRE(memory);
        std::copy(layers[2].begin(), layers[2].end(), memory->data());
        weights.keep(std::move(*memory));
        REQUIRE(weights.write(layers[3]));
        auto const moved = std::move(weights);
        REQUIRE(moved.layers() == 4);
        for (std::int64_t layer = 0; layer < 4; ++layer) {
            auto const& expected = layers[static_cast<std::size_t>(layer)];
            CHECK(moved.bytes(layer) == Bytes{static_cast<std::int64_t>(expected.size())});
            std::vector<std::byte> read(expected.size());
            REQUIRE(moved.read(layer, 0, read));
            CHECK(read == expected);
        }
        std::vector<std::byte> part(100);
        REQUIRE(moved.read(3, 200, part));
        CHECK(std::equal(part.begin(), part.end(), layers[3].begin() + 200));
        CHECK(std::filesystem::is_empty(folder));
    }
    std::filesystem::remove_all(folder);
}

TEST_CASE("OffloadedWeights: a folder for temporary files that is none is an error that names it") {
    for (std::string const folder : {"/nonexistent/folder", "/dev/null"}) {
        TemporaryFolder const temporary(folder);
        OffloadedWeights weights;
        auto const refused = weights.write(bytes_of(10, 1));
        REQUIRE_FALSE(refused);
        CHECK(refused.error().code() == ErrorCode::file_unwritable);
        CHECK(refused.error().message().find(folder) == 0);
        CHECK(refused.error().message().find("TMPDIR") != std::string::npos);
    }
}

TEST_CASE("stages_of_placement: layers on the cpu are fetched to the stage before, or are stages of the processor") {
    auto const gpu = DeviceId::gpu(2);
    Budgets budgets;
    for (auto const id : {gpu, DeviceId::cpu(), DeviceId{DeviceClass::disk, 0}}) budgets.push_back({id, Bytes{1}});
    ModuleSequence modules;
    Placement placement;
    auto const place = [&](std::vector<std::int32_t> const& layers) {
        modules.units.clear();
        placement.device_of.clear();
        for (std::size_t i = 0; i < layers.size(); ++i) {
            PlacementUnit unit;
            unit.path = "layer";
            unit.role = ModuleRole::layer;
            unit.layer = LayerId{static_cast<std::int32_t>(i)};
            modules.units.push_back(unit);
            placement.device_of.push_back(layers[i]);
        }
    };
    using enum LayerHome;
    place({1, 0, 0, 2, 1, 1});
    auto const fetched = stages_of_placement(modules, budgets, placement);
    REQUIRE(fetched);
    CHECK(fetched->devices == std::vector<DeviceId>{gpu});
    CHECK(fetched->begins == std::vector<std::int64_t>{0, 6});
    CHECK(fetched->homes == std::vector<LayerHome>{cpu, resident, resident, disk, cpu, cpu});
    auto const computed = stages_of_placement(modules, budgets, placement, CpuLayers::compute);
    REQUIRE(computed);
    CHECK(computed->devices == std::vector<DeviceId>{DeviceId::cpu(), gpu, DeviceId::cpu()});
    CHECK(computed->begins == std::vector<std::int64_t>{0, 1, 4, 6});
    CHECK(computed->homes == std::vector<LayerHome>{resident, resident, resident, disk, resident, resident});
    place({0, 1, 0});
    auto const between = stages_of_placement(modules, budgets, placement, CpuLayers::compute);
    REQUIRE(between);
    CHECK(between->devices == std::vector<DeviceId>{gpu, DeviceId::cpu(), gpu});
    CHECK(between->begins == std::vector<std::int64_t>{0, 1, 2, 3});
    // No device has a layer, but one has what stands before them.
    place({0, 1, 2});
    modules.units[0].role = ModuleRole::embedding;
    for (std::size_t i = 1; i < modules.units.size(); ++i)
        modules.units[i].layer = LayerId{static_cast<std::int32_t>(i) - 1};
    auto const away = stages_of_placement(modules, budgets, placement);
    REQUIRE(away);
    CHECK(away->devices == std::vector<DeviceId>{gpu});
    CHECK(away->begins == std::vector<std::int64_t>{0, 2});
    CHECK(away->homes == std::vector<LayerHome>{cpu, disk});
}

TEST_CASE("stages_of_placement: what stands between the layers of two stacks is computed with the layer before it") {
    Budgets budgets;
    for (std::int32_t i = 0; i < 2; ++i) budgets.push_back({DeviceId::gpu(i), Bytes{1}});
    ModuleSequence modules;
    Placement placement;
    auto const add = [&](ModuleRole role, std::int32_t layer, std::int32_t device) {
        PlacementUnit unit;
        unit.path = "unit";
        unit.role = role;
        unit.layer = LayerId{layer};
        modules.units.push_back(unit);
        placement.device_of.push_back(device);
    };
    add(ModuleRole::embedding, -1, 0);
    add(ModuleRole::layer, 0, 0);
    add(ModuleRole::norm, -1, 0);
    add(ModuleRole::layer, 1, 1);
    add(ModuleRole::head, -1, 1);
    auto const made = stages_of_placement(modules, budgets, placement);
    REQUIRE_MESSAGE(made, (made ? "" : made.error().message()));
    CHECK(made->devices == std::vector<DeviceId>{DeviceId::gpu(0), DeviceId::gpu(1)});
    CHECK(made->begins == std::vector<std::int64_t>{0, 1, 2});
    placement.device_of[2] = 1;
    auto const refused = stages_of_placement(modules, budgets, placement);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().message().find("map it to device 0") != std::string::npos);
}
