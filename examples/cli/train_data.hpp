// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/core/split.hpp>
#include <shardwise/model/files/open_checkpoint.hpp>
#include <shardwise/tokenizer/files/load_tokenizer.hpp>
#include <shardwise/train/batches.hpp>
#include <shardwise/train/token_dataset.hpp>

#include "train_request.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace shardwise::cli {

/// A tokenizer, and the files that it was read from, by their names in a model's folder.
struct TrainTokenizer {
    LoadedTokenizer loaded;
    std::vector<std::pair<std::string, std::string>> files;
    /// Of the GGUF file that it was read from, its hash.
    std::string source_hash{};

    /// What tells it from all others.
    [[nodiscard]] std::string hash() const;
};

/// What a run learns, and what it validates with.
struct TrainData {
    /// Where they lie does not change.
    std::unique_ptr<TokenDataset> learned, validated;
    UnitRange learned_tokens, validated_tokens;
    /// Nothing where the data are ids and the model has none.
    std::optional<TrainTokenizer> tokenizer;
    /// What tells the data that are learnt from all others: of their contents, not their paths.
    std::string hash;
    /// What tells the data that are validated with from all others, in the same way; empty where nothing is.
    std::string valid_hash;
    /// What tells the model that a run begins with, or an adapter's base, from all others; empty from scratch.
    std::string model_hash;
};

/// Opens the data; what is text is tokenised into `cache`, a folder that exists. All ids are looked at.
///
/// Errors  those of load_tokenizer, tokenize_file, TokenFile and TokenDataset
[[nodiscard]] Result<TrainData> read_train_data(TrainRequest const& request, OpenCheckpoint& files,
                                                std::int64_t vocabulary, std::string const& cache);

/// What a run validates with, in sequences of `context` tokens, which `data` outlives; nothing where it does not validate.
///
/// Errors  invalid_argument, named by the flag, where there is no whole sequence
[[nodiscard]] Result<std::optional<Batches>> validation_batches(TrainRequest const& request, TrainData const& data,
                                                                std::int64_t context);

}  // namespace shardwise::cli
