// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/observer.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/model/architectures.hpp>
#include <shardwise/model/files/checkpoint_match.hpp>
#include <shardwise/model/files/checkpoint_tree.hpp>
#include <shardwise/model/files/config_json.hpp>
#include <shardwise/model/files/described_sizes.hpp>
#include <shardwise/model/files/end_tokens.hpp>
#include <shardwise/model/files/file_family.hpp>
#include <shardwise/model/files/gguf_config.hpp>
#include <shardwise/model/files/gguf_numbers.hpp>
#include <shardwise/model/files/open_checkpoint.hpp>
#include <shardwise/model/files/tree_limits.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A model as its files describe it.
struct Checkpoint {
    Model model;
    /// How config.json says that the weights are packed.
    std::optional<CheckpointQuantization> quantization;
    /// True where the tree holds the bytes that files store for each tensor, or would by a config that packs some modules
    /// and keeps others; else sizes follow from `model.config`, its dtype and packing.
    bool has_stored_sizes = false;
    /// Why no family describes the architecture: the tree is then made of the tensors' names, and there is no program.
    std::optional<Error> not_described;
    /// What the user should know of, one sentence each.
    std::vector<std::string> warnings;
};

namespace detail {

/// Puts a model together from its files. A template, so that programs which never ask do not pay for it.
template <int = 0>
class ModelAssembler {
public:
    ModelAssembler(FileFamilies families, OpenCheckpoint& open, Observer const& observer)
        : families_(families),
          open_(open),
          source_(open.source()),
          observer_(observer),
          files_(name_of_files(source_)) {
        out_.warnings = source_.warnings;
    }

    Result<Checkpoint> read() {
        auto const done = read_source();
        if (!done) return done.error();
        if (out_.model.config.name.empty()) out_.model.config.name.assign(source_.name);
        return std::move(out_);
    }

private:
    Result<> read_source() {
        switch (source_.kind) {
            case SourceKind::config:
                return read_config_only();
            case SourceKind::gguf:
                return read_gguf_model();
            case SourceKind::safetensors:
                return read_safetensors_model();
            case SourceKind::preset:
                break;
        }
        return Error{ErrorCode::invalid_argument}.in(source_.name).because("is a preset: there is no file to read");
    }

    /// Reads config.json and describes its model.
    Result<> read_config_model() {
        auto const file = open_.config();
        if (!file) return file.error();
        auto config = read_described_config(families_, (*file)->document, (*file)->path);
        if (!config) return config.error();
        out_.quantization = std::move(config->file.quantization);
        for (auto& warning : config->file.warnings) out_.warnings.push_back(std::move(warning));
        out_.model = std::move(config->model);
        return out_.model.program.has_encoder() ? read_decoder_start() : Result<>{};
    }
    /// What a decoder begins with: `decoder_start_token_id`, else `bos_token_id`, each of generation_config.json, else of
    /// config.json; -1 where the files name none, which only generating minds.
    ///
    /// Source  transformers generation/utils.py, _prepare_special_tokens
    Result<> read_decoder_start() {
        auto& config = out_.model.config;
        config.decoder_start = -1;
        for (std::string_view const key : {"decoder_start_token_id", "bos_token_id"}) {
            for (bool const is_generation : {true, false}) {
                std::vector<std::int32_t> ids;
                auto const file = is_generation ? open_.generation_config() : open_.config();
                if (auto const done = add_token_ids(file, key, ids); !done) return done;
                if (ids.empty()) continue;
                Error refused{ErrorCode::invalid_field};
                refused.in(is_generation ? "generation_config.json" : "config.json").at(key);
                if (ids.size() > 1) return refused.because("is a list: one token begins all texts");
                if (ids[0] >= config.vocab_size)
                    return refused.because("is not in the vocabulary").got(ids[0]).between(0, config.vocab_size - 1);
                config.decoder_start = ids[0];
                return {};
            }
        }
        return {};
    }
    Result<> describe_again(FileFamily const& family, ModelConfig const& config) {
        auto model = family.describe(config);
        if (!model) {
            auto error = model.error();
            return error.subject().empty() ? error.in(files_) : error;
        }
        if (auto const limits = check_tree_limits(model->tree); !limits) {
            auto error = limits.error();
            return error.in(files_);
        }
        out_.model = *std::move(model);
        return {};
    }
    Result<> read_config_only() {
        if (auto const done = read_config_model(); !done) return done;
        return describe_packing();
    }
    /// Takes over the sizes that the config's packing means, module by module, where one scheme for all does not do.
    Result<> describe_packing() {
        if (!out_.quantization) return {};
        auto& model = out_.model;
        if (!out_.quantization->is_compressed && !out_.quantization->lists_kept) {
            model.config.quant = out_.quantization->scheme;
            return {};
        }
        TreeTensors const tensors(model.tree);
        auto const sizes = described_sizes(tensors, model.config, *out_.quantization);
        if (!sizes) {
            auto error = sizes.error();
            return error.in(source_.config.empty() ? source_.name : source_.config);
        }
        auto tree = with_stored_sizes(tensors, *sizes);
        model.tree = std::move(tree);
        out_.has_stored_sizes = true;
        return {};
    }

    Result<> read_safetensors_model() {
        std::optional<Error> unknown;
        if (source_.config.empty()) {
            unknown = Error{ErrorCode::file_not_found}
                          .in(files_)
                          .at("config.json")
                          .because("there is none beside the tensors");
        } else if (auto const done = read_config_model(); !done) {
            if (!is_undescribed(done.error())) return done;
            unknown = done.error();
        }
        auto const checkpoint = open_.safetensors(observer_);
        if (!checkpoint) return checkpoint.error();
        out_.warnings.insert(out_.warnings.end(), open_.warnings().begin(), open_.warnings().end());
        bool const has_shapes = !(*checkpoint)->shards.empty();
        if (!has_shapes)
            out_.warnings.push_back(escaped(files_) + ": its shards are not there; sizes come from config.json");
        if (unknown) {
            // Names alone have no sizes.
            if (!has_shapes) return *unknown;
            return take_names(**checkpoint, *unknown);
        }
        return match(**checkpoint, CheckpointMatcher::Layout::torch, has_shapes);
    }
    Result<> read_gguf_model() {
        auto const read = open_.gguf(observer_);
        if (!read) return read.error();
        auto const& checkpoint = **read;
        GgufConfigReader<> reader(families_, checkpoint.header, files_);
        auto const config = reader.read();
        // What could not be read looks absent.
        if (auto const whole = checkpoint.header.metadata.source().check(files_); !whole) return whole;
        if (!config) {
            if (!is_undescribed(config.error())) return config.error();
            return take_names(checkpoint, config.error());
        }
        if (auto const done = describe_again(*reader.family(), *config); !done) return done;
        auto const& model = out_.model;
        auto const numbers = read_gguf_numbers(checkpoint.header.metadata, model.family, model.config.layers, files_);
        if (!numbers) return numbers.error();
        return match(checkpoint, CheckpointMatcher::Layout::gguf, true, *numbers);
    }
    /// True where the files are sound, but no family describes their model: its tensors still say what there is.
    [[nodiscard]] static bool is_undescribed(Error const& error) {
        return error.code() == ErrorCode::unknown_name || error.code() == ErrorCode::unsupported;
    }
    /// What errors and warnings call the files of tensors.
    [[nodiscard]] static std::string name_of_files(ModelSource const& source) {
        auto const name = !source.index.empty()    ? source.index
                          : source.weights.empty() ? source.name
                                                   : source.weights.front();
        if (source.folder.empty()) return name;
        return source.folder + (source.folder.back() == '/' ? "" : "/") + name;
    }

    /// Compares the file's tensors, and what it has in their place, with the model's and takes over their sizes.
    template <class Files>
    Result<> match(Files const& checkpoint, CheckpointMatcher::Layout layout, bool has_shapes,
                   std::span<GgufNumber const> numbers = {}) {
        auto& model = out_.model;
        TreeTensors const tensors(model.tree);
        CheckpointMatcher matcher(tensors, *model.family, files_, layout, model.program.layers(),
                                  model.config.is_text_part);
        for (std::size_t i = 0; i < checkpoint.size(); ++i) matcher.add(checkpoint[i]);
        for (auto const& number : numbers) matcher.add({number.name, Shape{1}, sizeof(float), Dtype::f32});
        if (auto const table = matcher.table_of_stored_head(); !table.empty() && model.config.tie_word_embeddings) {
            out_.warnings.push_back(escaped(files_) +
                                    ": has a head of its own, which is used, though the config ties it to " +
                                    std::string(table) + " (tie_word_embeddings)");
            auto config = model.config;
            config.tie_word_embeddings = false;
            if (auto const done = describe_again(*find_family(families_, model.family->name), config); !done)
                return done;
            return match(checkpoint, layout, has_shapes, numbers);
        }
        auto stored = matcher.finish(out_.warnings);
        if (!stored) return stored.error();
        if (!has_shapes) return describe_packing();
        // Which inputs stay together is the scheme's to say.
        if (out_.quantization && layout == CheckpointMatcher::Layout::torch) {
            auto const described = described_sizes(tensors, model.config, *out_.quantization);
            for (std::size_t i = 0; described && i < stored->size(); ++i) {
                auto& tensor = (*stored)[i];
                tensor.block = tensor.has_order ? 1 : (*described)[i].block;
            }
        }
        auto tree = with_stored_sizes(tensors, *stored);
        model.tree = std::move(tree);
        out_.has_stored_sizes = true;
        return {};
    }

    /// Makes the tree from names, for an architecture that no family describes.
    template <class Files>
    Result<> take_names(Files const& checkpoint, Error const& reason) {
        if (checkpoint.size() == 0) return reason;
        auto tree = tree_from_names(
            checkpoint.size(), [&checkpoint](std::uint32_t i) { return checkpoint[i]; }, files_, checkpoint.memory());
        if (!tree) return tree.error();
        if (auto const limits = check_tree_limits(*tree); !limits) {
            auto error = limits.error();
            return error.in(files_);
        }
        out_.warnings.push_back(reason.message());
        out_.warnings.push_back(escaped(files_) +
                                ": the modules are those that the tensors' names imply; there is no KV cache, "
                                "and no activations, for this architecture");
        out_.model.tree = *std::move(tree);
        out_.has_stored_sizes = true;
        out_.not_described = reason;
        return {};
    }

    FileFamilies families_;
    OpenCheckpoint& open_;
    ModelSource const& source_;
    Observer observer_;
    std::string files_;
    Checkpoint out_;
};

}  // namespace detail

/// Reads the model that files describe: a config.json alone, safetensors with their config.json, or GGUF.
/// Names, shapes and counts are those of transformers 4.57's model; bytes are the files' own where tensors are there.
///
/// Only configs, indexes and headers are read, never tensors' data. `observer` hears of each file.
///
/// Errors  what the readers of the files refuse; malformed_file for a missing tensor, shape_mismatch, which name the
///         tensor
/// Example  auto const source = find_model("./Llama-3.1-8B", {}, HubCache(HubEnvironment::current()));
///          auto const checkpoint = read_checkpoint(*source);
template <int = 0>
[[nodiscard]] Result<Checkpoint> read_checkpoint(FileFamilies families, OpenCheckpoint& files,
                                                 Observer const& observer = {}) {
    return detail::ModelAssembler<>(families, files, observer).read();
}

/// The same for the families of a list.
template <class List = Architectures>
[[nodiscard]] Result<Checkpoint> read_checkpoint(OpenCheckpoint& files, Observer const& observer = {}) {
    return read_checkpoint(file_families<List>(), files, observer);
}

/// The same, for files that are opened for it alone.
template <class List = Architectures>
[[nodiscard]] Result<Checkpoint> read_checkpoint(ModelSource const& source, Observer const& observer = {}) {
    OpenCheckpoint files(source);
    return read_checkpoint<List>(files, observer);
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
