// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/optional.hpp>
#include <shardwise/core/version.hpp>

#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A setting that changes what a run computes, with its value as text.
struct RunSetting {
    std::string name;
    std::string value;

    friend bool operator==(RunSetting const&, RunSetting const&) = default;
};

/// The settings that change what a run computes: a run goes on from a checkpoint only with the same ones. What only says how it is
/// computed is none of them: degrees, ranks, threads, micro-batches, buckets, ZeRO, recomputation, offload, paths.
class RunSettings {
public:
    /// Names are unique; a name that is added again replaces the first.
    RunSettings& add(std::string_view name, std::string_view value) {
        for (auto& one : settings_) {
            if (one.name == name) return one.value = value, *this;
        }
        settings_.push_back({std::string(name), std::string(value)});
        return *this;
    }
    RunSettings& add(std::string_view name, char const* value) { return add(name, std::string_view(value)); }
    RunSettings& add(std::string_view name, bool value) { return add(name, std::string_view(value ? "yes" : "no")); }
    template <std::integral Integer>
    RunSettings& add(std::string_view name, Integer value) {
        return add(name, std::string_view(std::to_string(value)));
    }
    /// The shortest digits that read back as the same number.
    RunSettings& add(std::string_view name, double value) {
        char digits[40];
        auto const end = std::to_chars(digits, digits + sizeof digits, value).ptr;
        return add(name, std::string_view(digits, static_cast<std::size_t>(end - digits)));
    }
    template <class T>
    RunSettings& add(std::string_view name, std::optional<T> const& value) {
        return value ? add(name, *value) : add(name, std::string_view("none"));
    }

    [[nodiscard]] std::vector<RunSetting> const& all() const { return settings_; }
    [[nodiscard]] std::string const* find(std::string_view name) const {
        for (auto const& one : settings_) {
            if (one.name == name) return &one.value;
        }
        return nullptr;
    }

    friend bool operator==(RunSettings const&, RunSettings const&) = default;

private:
    std::vector<RunSetting> settings_;
};

/// Where a run is after a step, beside weights and the optimizer's arrays. It has no rank, no degree, no path and no time, so that its
/// bytes are the same on any ranks.
struct TrainerState {
    /// The loss scaler's two numbers (LossScaler::resume).
    struct Scaler {
        double scale = 0.0;
        std::int64_t good_steps = 0;

        friend bool operator==(Scaler const&, Scaler const&) = default;
    };

    /// Steps that are finished, skipped ones included.
    std::int64_t step = 0;
    /// Steps that changed the weights: the next OptimizerStep::number is one more.
    std::int64_t updates = 0;
    /// Tokens that were predicted and whose loss counted, of all ranks.
    std::int64_t tokens = 0;
    /// Samples that were taken of the data (Batches::samples_at): nothing is replayed.
    std::int64_t position = 0;
    std::uint64_t seed = 0;
    Optional<Scaler> scaler;
    /// Steps that were skipped, and how many of them are the last ones.
    std::vector<std::int64_t> skipped;
    std::int64_t skipped_in_row = 0;
    /// Losses for reports: of the first step, the last one, the last validation and the best.
    Optional<double> first_loss;
    Optional<double> last_loss;
    Optional<double> valid_loss;
    Optional<double> best_valid_loss;
    /// Whether the run was ended before the validation after this step: the run that goes on does it first.
    bool owes_validation = false;
    /// What tells the data of these validations from all others; empty where nothing was validated.
    std::string valid_data;
    RunSettings settings;

    friend bool operator==(TrainerState const&, TrainerState const&) = default;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
