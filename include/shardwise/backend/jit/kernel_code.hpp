// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/backend/jit/device_source.hpp>

#include <span>
#include <string>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A kernel as a driver loads it.
struct KernelCode {
    /// The kernel's name in the image.
    std::string symbol;
    /// A cubin, PTX with the zero behind it, or a code object of AMD's.
    std::string image;
};

/// What a kernel is compiled for.
struct KernelRequest {
    /// A unit that includes it, and the headers that the unit reaches.
    std::string unit;
    std::span<detail::DeviceSource const> sources;
    /// The kernel as the unit may name it: a template with its arguments.
    std::string kernel;
    /// sm_80 for a cubin, compute_80 for PTX; gfx90a, or with its features, gfx90a:sramecc+:xnack-.
    std::string architecture;
    std::vector<std::string> options;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
