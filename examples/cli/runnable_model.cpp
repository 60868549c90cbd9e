// SPDX-License-Identifier: Apache-2.0
#include "runnable_model.hpp"

#include <shardwise/model/presets.hpp>

#include <utility>

namespace shardwise::cli {

namespace {

[[nodiscard]] Result<ModelSource> find_files(std::string const& name) {
    auto source = find_model(name, {}, HubCache(HubEnvironment::current()));
    if (!source) {
        if (source.error().code() != ErrorCode::unknown_name || find_preset(name) == nullptr) return source.error();
        return Error{ErrorCode::invalid_argument}
            .in(name)
            .because("is a preset: there are no weights to run")
            .fix("name a folder, a .gguf file, or org/name in the Hugging Face cache");
    }
    if (source->kind == SourceKind::config || source->kind == SourceKind::preset) {
        return Error{ErrorCode::invalid_argument}
            .in(name)
            .because("has no weights to run")
            .fix("name a folder with safetensors beside config.json, or a .gguf file");
    }
    return source;
}

}  // namespace

Result<RunnableModel> find_runnable(std::string const& name) {
    auto source = find_files(name);
    if (!source) return source.error();
    auto checkpoint = read_checkpoint(*source);
    if (!checkpoint) return checkpoint.error();
    if (checkpoint->not_described)
        return checkpoint->not_described->fix("use shardwise map, which places any checkpoint");
    return RunnableModel{*std::move(source), *std::move(checkpoint)};
}

Result<> check_heads(ModelConfig const& config, std::int64_t tp) {
    if (config.heads < 1 || tp <= config.heads) return {};
    return Error{ErrorCode::invalid_argument}
        .in("--tp")
        .because("asks for more ranks than the model has query heads")
        .got(tp)
        .at_most(config.heads)
        .fix("use at most as many ranks as query heads; with --pp others compute other layers");
}

}  // namespace shardwise::cli
