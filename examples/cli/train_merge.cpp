// SPDX-License-Identifier: Apache-2.0
#include "train_merge.hpp"

#include <shardwise/executor/adapter.hpp>
#include <shardwise/executor/stored_parameters.hpp>
#include <shardwise/train/checkpoint/checkpoint_folders.hpp>
#include <shardwise/train/checkpoint/merge_checkpoint.hpp>

#include <string>

namespace shardwise::cli {

Result<CheckpointFiles> copied_files(ModelSource const& source, std::optional<TrainTokenizer> const& tokenizer,
                                     bool is_adapter) {
    auto files = read_checkpoint_files(source, is_adapter);
    if (!files || !tokenizer) return files;
    for (auto const& [name, text] : tokenizer->files) files->put(name, text);
    return files;
}

Result<> check_merged(TrainRequest const& request, ModelSource const& source) {
    if (!request.is_merged) return {};
    Error refused{ErrorCode::unsupported};
    refused.in("--merge");
    std::string const fix = "leave it out: run --adapter computes the adapter beside the weights";
    if (source.kind == SourceKind::gguf)
        return refused.at(request.model).because("is GGUF, and an adapter is merged into safetensors").fix(fix);
    if (request.quant)
        return refused.at("--quant")
            .because("packs the weights, and an adapter is merged into float weights")
            .fix("leave one of them out");
    if (!request.low_rank.held.empty())
        return refused.at(request.low_rank.held.begin()->first)
            .because("is packed, and an adapter is merged into float weights")
            .fix(fix);
    auto const files = read_checkpoint_files(source);
    return files ? Result<>{} : Result<>{files.error()};
}

Result<> write_merged_model(LoadedModel& loaded, std::optional<TrainTokenizer> const& tokenizer, TrainAnswer& answer) {
    auto const& out = answer.request.out;
    auto const files = copied_files(loaded.files->source(), tokenizer, false);
    if (!files) return files.error();
    auto const adapter = Adapter::open(out + "/" + checkpoint_name(answer.steps), loaded.model);
    if (!adapter) return adapter.error();
    auto const stored = StoredParameters::open(*loaded.files, loaded.model);
    if (!stored) return stored.error();
    std::string const name = "merged";
    if (auto const written = write_merged(out, name, *stored, *adapter, *files); !written) return written;
    answer.merged = out + "/" + name;
    return {};
}

}  // namespace shardwise::cli
