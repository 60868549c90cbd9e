// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

/// ggml's product of a quantised weight, from its shared libraries where they are installed.
namespace bench {

/// ggml's numbers for the types that are compared (ggml.h).
enum class GgmlTypeNumber : int { q4_0 = 2, q4_1 = 3, q5_0 = 6, q5_1 = 7, q8_0 = 8, q4_k = 12, q5_k = 13, q6_k = 14 };

/// out [rows, outputs] = in [rows, inputs] * each weight^T, weights in ggml's blocks.
struct GgmlProduct {
    GgmlTypeNumber type{};
    /// Bytes of one weight; each run multiplies by the next of `copies` of it, so that none stays in a cache.
    std::vector<std::byte> const* weight = nullptr;
    int copies = 1;
    float const* in = nullptr;
    std::int64_t rows = 0;
    std::int64_t outputs = 0;
    std::int64_t inputs = 0;
};

/// A product that is ready to be timed: a graph on ggml's CPU back end with a thread pool of its own.
class GgmlGraph {
public:
    virtual ~GgmlGraph() = default;
    /// Wakes its threads, which then spin until there is work: not timed.
    virtual void wake() = 0;
    /// The product by the next copy.
    virtual void run() = 0;
    /// Lets its threads sleep: they would spin for a tenth of a second on the cores of whoever is timed next.
    virtual void rest() = 0;
    /// The result by the last copy.
    virtual std::vector<float> out() = 0;
};

class Ggml {
public:
    virtual ~Ggml() = default;
    /// The ways in which ggml can hold the weight: as it is, and repacked where it knows how.
    virtual std::vector<std::unique_ptr<GgmlGraph>> prepare(GgmlProduct const& product, int threads) = 0;
};

/// SHARDWISE_GGML_SKIP=AMX leaves out the ways whose name contains AMX.
///
/// Opens the libraries that SHARDWISE_GGML (a folder) or the llama_cpp package of $SHARDWISE_PYTHON has; null where there are
/// none.
std::unique_ptr<Ggml> open_ggml();

}  // namespace bench
