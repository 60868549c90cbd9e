// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/bytes.hpp>
#include <shardwise/core/optional.hpp>
#include <shardwise/hardware/device.hpp>
#include <shardwise/model/config.hpp>
#include <shardwise/quant/scheme.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Servers of models that run in containers.
enum class Engine : std::uint8_t { vllm, sglang, llama_server, tgi, tei };

[[nodiscard]] constexpr std::string_view name_of(Engine engine) {
    switch (engine) {
        case Engine::vllm: return "vllm";
        case Engine::sglang: return "sglang";
        case Engine::llama_server: return "llama-server";
        case Engine::tgi: return "tgi";
        case Engine::tei: return "tei";
    }
    return "unknown";
}

/// How an engine finds the model: by a name that it downloads, or on this machine.
enum class ModelPlace : std::uint8_t { hub, folder, file };

/// A device as containers are given it.
struct ContainerDevice {
    /// The driver's number on the host.
    std::int32_t index = 0;
    /// Asks for the device by this where it is not empty.
    std::string uuid;
    /// AMD: the number of its /dev/dri/renderD node.
    std::int32_t render_node = 128;
    /// The machine that it is in, of several.
    std::int32_t node = 0;
    DeviceKind kind = DeviceKind::cuda;
    std::string name;
    /// Compute capability ("sm_90") or gfx name; "" where unknown.
    std::string architecture;
};

/// A variable of the container; without a value it is passed on by its name.
struct EnvironmentEntry {
    std::string name;
    std::optional<std::string> value{};

    friend bool operator==(EnvironmentEntry const&, EnvironmentEntry const&) = default;
};

/// Memory of the fullest rank by the plan, and of the device that holds it.
///
/// Units  bytes
struct DeployMemory {
    Bytes weights{};
    Bytes kv_cache{};
    /// All terms together.
    Bytes total{};
    Bytes device{};
    /// Free now on this machine's device; negative where nobody looked.
    Bytes free{-1};
};

/// A server to be started: what a plan says, and what the user wants of the container.
struct DeployRequest {
    Engine engine = Engine::vllm;
    /// "org/name", or the absolute path of a folder or file.
    std::string model;
    ModelPlace place = ModelPlace::hub;
    ModelConfig config{};
    /// Asked for by --quant; nothing: as the checkpoint is.
    Optional<QuantScheme> quant{};
    /// The engine's own word where --quant was one of its own: "exl2", "eetq", "marlin".
    std::string engine_quant;
    /// Packed in the checkpoint.
    Optional<QuantScheme> stored_quant{};
    /// torch's name, where --dtype was given: "bfloat16".
    std::string dtype;
    /// Bits of an element of the key-value cache.
    std::int64_t kv_bits = 16;
    /// None: the processor.
    std::vector<ContainerDevice> devices;
    std::int64_t tp = 1;
    std::int64_t pp = 1;
    /// Layers of each stage.
    std::vector<std::int64_t> stage_layers;
    DeployMemory memory{};
    std::int64_t context = 4096;
    std::int64_t sequences = 1;
    /// "" takes the table's (images.hpp).
    std::string image;
    /// On the host; 0 takes the engine's usual one.
    std::int32_t port = 0;
    std::string host_address = "127.0.0.1";
    std::vector<EnvironmentEntry> environment;
    /// The host's folder of downloaded models (Hugging Face's hub cache).
    std::string hub_cache;
    /// Devices are given by the container device interface.
    bool has_cdi = false;
    /// The container shares the host's network (Apptainer): the engine itself listens on `host_address` and `port`.
    bool has_host_network = false;

    [[nodiscard]] DeviceKind kind() const { return devices.empty() ? DeviceKind::cpu : devices.front().kind; }
    [[nodiscard]] std::int64_t device_count() const { return static_cast<std::int64_t>(devices.size()); }
    /// Machines that the devices are in; at least one. Devices of one machine stand side by side.
    [[nodiscard]] std::int32_t node_count() const {
        std::int32_t count = 1;
        for (std::size_t i = 1; i < devices.size(); ++i) count += devices[i].node != devices[i - 1].node ? 1 : 0;
        return count;
    }
    [[nodiscard]] bool is_gguf() const {
        constexpr std::string_view suffix = ".gguf";
        return place == ModelPlace::file && model.size() > suffix.size() &&
               std::string_view{model}.substr(model.size() - suffix.size()) == suffix;
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
