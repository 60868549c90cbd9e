// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/train/batches.hpp>

#include "../executor/training/training_cases.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace shardwise::testing {

inline constexpr std::int64_t curve_steps = 20;

/// The dataset of train_gradients.py's curve: 20 batches of 4 sequences; `counts` says by token whether its loss counts.
struct CurveData {
    TemporaryFolder folder;
    std::optional<TokenDataset> dataset;

    explicit CurveData(std::int64_t vocabulary = 97, std::vector<std::int32_t> ids = golden_tokens(size),
                       std::string const& counts = {}) {
        std::string bytes;
        for (auto const id : ids) bytes += {static_cast<char>(id), '\0'};
        std::vector<TokenFile> files;
        if (counts.empty()) {
            files.push_back(TrainedModel::take(TokenFile::open(folder.write("curve.u16", bytes))));
        } else {
            detail::TokenCacheHeader header{.tokens = ids.size(), .width = 2, .has_loss = true};
            header.hash = Sha256().add(bytes + counts).digest();
            files.push_back(TrainedModel::take(
                TokenFile::open_cache(folder.write("curve.tokens", header.text() + bytes + counts))));
        }
        dataset.emplace(TrainedModel::take(TokenDataset::create(std::move(files), vocabulary)));
    }
    [[nodiscard]] Batches batches(std::int64_t batch = 4) const {
        return TrainedModel::take(Batches::create(*dataset, {0, dataset->tokens()},
                                                  {.context = golden_context, .batch = batch, .shuffles = false}));
    }

    static constexpr std::int64_t size = curve_steps * 4 * golden_context + 1;
};

/// The configuration of one of train_gradients.py's models.
[[nodiscard]] inline std::string golden_config(std::string const& name) {
    for (auto const& one : golden_trainings()) {
        if (one.name == name) return one.config;
    }
    return {};
}

}  // namespace shardwise::testing
