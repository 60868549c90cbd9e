// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/executor/adapter.hpp>

#include <doctest/doctest.h>

#include "golden_json.hpp"
#include "golden_models.hpp"
#include "written_files.hpp"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

/// Adapters on disk whose tensors are a formula: scripts/golden/executor_adapters.py.
namespace shardwise::testing {

struct AdapterTensor {
    std::string name;
    std::vector<std::int64_t> shape;
    std::string dtype = "F32";
};

/// A small model with an adapter, and what PEFT computes with both.
struct GoldenAdapter {
    GoldenCase base;
    std::string settings;
    std::vector<AdapterTensor> tensors;
};

[[nodiscard]] inline std::vector<GoldenAdapter> golden_adapters() {
    std::vector<GoldenCase> cases;
    read_golden_cases("adapters", cases);
    auto const document = golden_json("executor/adapters.json");
    std::vector<GoldenAdapter> out;
    for (auto const entry : document.root()) {
        GoldenAdapter one{cases[out.size()], std::string(*entry.find("adapter")->string()), {}};
        auto const tensors = entry.find("tensors");
        for (auto const tensor : *tensors) {
            one.tensors.push_back({std::string(tensor.key()), {}});
            for (auto const extent : tensor) one.tensors.back().shape.push_back(*extent.integer());
        }
        out.push_back(std::move(one));
    }
    return out;
}

/// Of the base's own copies of tables the formula goes by the base's names.
[[nodiscard]] inline std::string formula_name(std::string name) {
    auto const at = name.find(".base_layer.");
    if (at == std::string::npos) return name;
    name.replace(at, 12, ".");
    return name.substr(Adapter::prefix.size());
}

inline void write_adapter(TemporaryFolder const& folder, std::string const& settings,
                          std::vector<AdapterTensor> const& tensors) {
    (void)folder.write("adapter_config.json", settings);
    std::vector<FileTensorData> data;
    for (auto const& tensor : tensors) {
        Shape shape;
        for (auto const extent : tensor.shape) shape.push_back(extent);
        data.push_back({tensor.name, tensor.dtype, tensor.shape, bytes_of(formula(formula_name(tensor.name), shape))});
    }
    write_tensors(folder / "adapter_model.safetensors", data);
}

}  // namespace shardwise::testing
