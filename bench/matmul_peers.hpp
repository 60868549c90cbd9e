// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

/// Somebody else's product of the same matrices, each in a translation unit of its own with its own flags.
namespace bench {

/// What weight and activations are held in; the result is in fp32. Of int8 without scales.
enum class PeerElements : std::uint8_t { f32, bf16, int8 };

/// out [rows, outputs] = in [rows, inputs] * weight [outputs, inputs]^T, all dense.
struct PeerProduct {
    float const* weight = nullptr;
    float const* in = nullptr;
    float* out = nullptr;
    std::int64_t rows = 0;
    std::int64_t outputs = 0;
    std::int64_t inputs = 0;
    int threads = 1;
    PeerElements elements = PeerElements::f32;
};

/// The ways in which a library may compute it, ready to be timed; empty where the library is not there.
using PeerWays = std::vector<std::function<void()>>;

/// Eigen with OpenMP, -O3 -march=native: row-major and transposed. fp32 only: its bfloat16 is not vectorised.
PeerWays eigen_ways(PeerProduct const& product);
/// oneDNN with OpenMP: matmul and inner product, each with the weight in the order that it asks for.
PeerWays onednn_ways(PeerProduct const& product);

/// Keeps OpenMP's threads, the caller too, on cores of their own, as ours are: the peers' best setting where the system packs
/// threads onto few cores.
void pin_openmp(int threads);

/// Brings OpenMP's threads out of their sleep, before a turn is timed.
void wake_openmp(int threads);
/// Waits until they sleep again: idle ones turn in a loop for some milliseconds, on the cores that the next contender needs.
void rest_openmp();

/// What they are, for people.
std::string_view eigen_configuration();
std::string_view onednn_configuration();

}  // namespace bench
