// SPDX-License-Identifier: Apache-2.0
#include "runnable_model.hpp"

#include <shardwise/memory/check_model_request.hpp>
#include <shardwise/model/presets.hpp>

#include <string_view>
#include <utility>

namespace shardwise::cli {

namespace {

[[nodiscard]] Result<ModelSource> find_files(std::string const& name) {
    // Nothing is read from it, nor waited for.
    if (is_stream(name)) {
        return Error{ErrorCode::invalid_argument}
            .in(stream_name(name))
            .because("gives a config.json, which has no weights to run")
            .fix("name a folder with safetensors beside config.json, or a .gguf file");
    }
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

Result<> check_degrees(Model const& model, Parallelism const& degrees) {
    auto const checked = check_request(model, {.parallel = degrees});
    if (checked) return {};
    for (std::string_view const degree : {"tp", "pp", "ep"}) {
        if (checked.error().place() == degree) return Error{checked.error()}.in("--" + std::string(degree)).at({});
    }
    return {};
}

bool is_degree_flag(Error const& error) {
    for (std::string_view const flag : {"--tp", "--pp", "--ep"}) {
        if (error.subject().ends_with(flag)) return true;
    }
    return false;
}

}  // namespace shardwise::cli
