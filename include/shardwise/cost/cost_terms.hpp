// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/version.hpp>

#include <array>
#include <cstddef>
#include <string_view>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The time of a step by what it is spent on. Each term counts only what adds to the step: of arithmetic and memory the one
/// that binds, of a message what is not hidden.
///
/// Units  seconds
struct CostTerms {
    /// Arithmetic, where it binds.
    double compute = 0.0;
    /// Weights, cache and activations from device memory, where they bind.
    double memory = 0.0;
    /// All-reduces (or gathers and scatters) of tensor parallelism.
    double tensor_parallel = 0.0;
    /// All-to-alls of expert parallelism.
    double expert_parallel = 0.0;
    /// Messages between stages.
    double pipeline = 0.0;
    /// Gradients and ZeRO's gathers.
    double data_parallel = 0.0;
    /// Stages that wait while the pipeline fills and drains.
    double bubble = 0.0;
    /// The optimizer's update.
    double optimizer = 0.0;
    /// Kernel launches and the engine's own work.
    double overhead = 0.0;

    [[nodiscard]] constexpr double total() const {
        return compute + memory + tensor_parallel + expert_parallel + pipeline + data_parallel + bubble + optimizer +
               overhead;
    }
    constexpr CostTerms& operator+=(CostTerms const& other) {
        // One by one: pointers to members cost a search for plans a tenth of its time.
        compute += other.compute;
        memory += other.memory;
        tensor_parallel += other.tensor_parallel;
        expert_parallel += other.expert_parallel;
        pipeline += other.pipeline;
        data_parallel += other.data_parallel;
        bubble += other.bubble;
        optimizer += other.optimizer;
        overhead += other.overhead;
        return *this;
    }
    [[nodiscard]] friend constexpr CostTerms operator*(double factor, CostTerms const& terms) {
        return {factor * terms.compute,         factor * terms.memory,    factor * terms.tensor_parallel,
                factor * terms.expert_parallel, factor * terms.pipeline,  factor * terms.data_parallel,
                factor * terms.bubble,          factor * terms.optimizer, factor * terms.overhead};
    }

    struct Name {
        std::string_view name;
        double CostTerms::*term;
    };
    /// Every term with its name in reports and JSON, in the order in which they are shown.
    [[nodiscard]] static constexpr std::array<Name, 9> cost_term_names() {
        return {{{"compute", &CostTerms::compute},
                 {"memory", &CostTerms::memory},
                 {"tensor_parallel", &CostTerms::tensor_parallel},
                 {"expert_parallel", &CostTerms::expert_parallel},
                 {"pipeline", &CostTerms::pipeline},
                 {"data_parallel", &CostTerms::data_parallel},
                 {"bubble", &CostTerms::bubble},
                 {"optimizer", &CostTerms::optimizer},
                 {"overhead", &CostTerms::overhead}}};
    }
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
