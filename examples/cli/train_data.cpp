// SPDX-License-Identifier: Apache-2.0
#include "train_data.hpp"

#include <shardwise/core/files/text_file.hpp>
#include <shardwise/core/sha256.hpp>
#include <shardwise/model/files/end_tokens.hpp>
#include <shardwise/model/files/model_source.hpp>
#include <shardwise/train/checkpoint/checkpoint_reader.hpp>
#include <shardwise/train/tokenize_file.hpp>

#include <algorithm>
#include <string_view>
#include <sys/stat.h>

namespace shardwise::cli {

namespace {

constexpr std::string_view tokenizer_json = "tokenizer.json";

[[nodiscard]] std::string folder_of(std::string const& path) {
    auto const slash = path.rfind('/');
    return slash == std::string::npos ? std::string{} : path.substr(0, slash + 1);
}

/// Reads a tokenizer and keeps the texts of its files; `open(name)` opens one.
template <class Open>
[[nodiscard]] Result<TrainTokenizer> load_files(Open open) {
    auto loaded = detail::load_tokenizer_files(open);
    if (!loaded) return loaded.error();
    TrainTokenizer out{*std::move(loaded), {}, {}};
    for (std::string_view const name :
         {tokenizer_json, std::string_view{"tokenizer_config.json"}, std::string_view{"special_tokens_map.json"},
          std::string_view{"chat_template.jinja"}}) {
        auto const file = open(name);
        if (!file) continue;
        auto text = read_text_file(*file, tokenizer_json_limits.text);
        if (!text) return text.error();
        out.files.emplace_back(name, *std::move(text));
    }
    return out;
}

/// The tokenizer of --tokenizer, else that of the model's files.
[[nodiscard]] Result<TrainTokenizer> find_tokenizer(TrainRequest const& request, OpenCheckpoint& checkpoint) {
    auto const& source = checkpoint.source();
    if (request.tokenizer) {
        struct stat status {};
        auto const& path = *request.tokenizer;
        if (::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode))
            return load_files([&](std::string_view name) { return RegularFile::open(path + "/" + std::string(name)); });
        return load_files([&](std::string_view name) {
            return RegularFile::open(name == tokenizer_json ? path : folder_of(path) + std::string(name));
        });
    }
    if (source.kind == SourceKind::gguf) {
        auto loaded = load_tokenizer(checkpoint);
        if (!loaded) return loaded.error();
        auto hash = sha256_of_file(source.weights.front());
        if (!hash) return hash.error();
        return TrainTokenizer{*std::move(loaded), {}, *std::move(hash)};
    }
    auto const beside = source.config.empty() ? std::string{} : folder_of(source.config);
    auto found = load_files([&](std::string_view name) {
        return source.folder.empty() ? RegularFile::open(beside + std::string(name)) : source.open(name);
    });
    if (found || found.error().code() != ErrorCode::file_not_found) return found;
    return Error{found.error()}.fix("name one with --tokenizer, or give token ids: *.u16 or *.u32");
}

[[nodiscard]] Result<TokenFile> open_data(std::string const& path, std::optional<TrainTokenizer> const& tokenizer,
                                          TokenizeOptions const& options) {
    if (TokenFile::has_name_of_one(path)) return TokenFile::open(path);
    return tokenize_file(path, tokenizer->loaded.tokenizer, options);
}

}  // namespace

std::string TrainTokenizer::hash() const {
    Sha256 hash;
    for (auto const& [name, text] : files) hash.add(name + "\n" + sha256_hex(text) + "\n");
    if (!source_hash.empty()) hash.add(source_hash);
    return hash.hex();
}

Result<TrainData> read_train_data(TrainRequest const& request, OpenCheckpoint& files, std::int64_t vocabulary,
                                  std::string const& cache) {
    TrainData out;
    auto paths = request.data;
    if (request.valid) paths.push_back(*request.valid);
    bool const has_text =
        std::any_of(paths.begin(), paths.end(), [](auto const& path) { return !TokenFile::has_name_of_one(path); });
    // What a GGUF file says of tokens matters to texts alone.
    bool const is_needed = has_text || request.tokenizer || files.source().kind != SourceKind::gguf;
    auto tokenizer = is_needed ? find_tokenizer(request, files)
                               : Result<TrainTokenizer>(Error{ErrorCode::file_not_found}.in(files.source().name));
    if (!tokenizer && (has_text || request.tokenizer || tokenizer.error().code() != ErrorCode::file_not_found))
        return tokenizer.error();
    if (tokenizer) out.tokenizer = *std::move(tokenizer);
    TokenizeOptions options{.end = {}, .folder = cache, .tokenizer_hash = {}};
    if (has_text) {
        options.tokenizer_hash = out.tokenizer->hash();
        options.chat_template = out.tokenizer->loaded.chat_template;
        options.special_tokens = out.tokenizer->loaded.special_tokens;
        options.end = out.tokenizer->loaded.tokenizer.end_of_sequence();
        if (!options.end) {
            auto const ends = end_tokens(files);
            if (!ends) return ends.error();
            if (!ends->empty()) options.end = ends->front();
        }
    }
    std::vector<TokenFile> opened;
    Sha256 hash;
    Sha256 valid_hash;
    for (auto const& path : paths) {
        auto file = open_data(path, out.tokenizer, options);
        if (!file) return file.error();
        opened.push_back(*std::move(file));
        auto const contents = sha256_of_file(opened.back().path());
        if (!contents) return contents.error();
        auto& of = opened.size() > request.data.size() ? valid_hash : hash;
        of.add(*contents + (opened.back().path().ends_with(".u32") ? " 32\n" : "\n"));
    }
    out.hash = hash.hex();
    if (request.valid) {
        out.valid_hash = valid_hash.hex();
        std::vector<TokenFile> last;
        last.push_back(std::move(opened.back()));
        opened.pop_back();
        auto dataset = TokenDataset::create(std::move(last), vocabulary);
        if (!dataset) return dataset.error();
        out.validated = std::make_unique<TokenDataset>(*std::move(dataset));
        out.validated_tokens = {0, out.validated->tokens()};
    }
    auto dataset = TokenDataset::create(std::move(opened), vocabulary);
    if (!dataset) return dataset.error();
    out.learned = std::make_unique<TokenDataset>(*std::move(dataset));
    out.learned_tokens = {0, out.learned->tokens()};
    if (request.valid_part) {
        // How large a part is among the settings.
        out.valid_hash = out.hash;
        auto const parts = out.learned->split(*request.valid_part);
        if (!parts) return Error{parts.error()}.in("--valid-part").at({});
        out.learned_tokens = parts->first;
        out.validated_tokens = parts->second;
    }
    for (auto const* const checked : {out.learned.get(), out.validated.get()}) {
        if (checked == nullptr) continue;
        if (auto const known = checked->check(); !known) return known.error();
    }
    return out;
}

Result<std::optional<Batches>> validation_batches(TrainRequest const& request, TrainData const& data,
                                                  std::int64_t context) {
    if (!request.valid && !request.valid_part) return Result<std::optional<Batches>>(std::nullopt);
    auto const tokens = data.validated_tokens.size();
    if (tokens <= context) {
        return Error{ErrorCode::invalid_argument}
            .in(request.valid ? "--valid" : "--valid-part")
            .because("has too few tokens for a sequence of the context and the token after it")
            .got(tokens)
            .at_least(context + 1)
            .fix("validate with more data, or give a smaller --context");
    }
    auto batches = Batches::create(request.valid ? *data.validated : *data.learned, data.validated_tokens,
                                   {.context = context, .batch = 1, .shuffles = false});
    if (!batches) return batches.error();
    return Result<std::optional<Batches>>(*std::move(batches));
}

}  // namespace shardwise::cli
