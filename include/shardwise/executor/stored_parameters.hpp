#pragma once

#include <shardwise/backend/weight_source.hpp>
#include <shardwise/core/dtype.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/text.hpp>
#include <shardwise/model/architectures.hpp>
#include <shardwise/model/files/checkpoint_tensors.hpp>
#include <shardwise/model/files/mapped_file.hpp>
#include <shardwise/model/files/model_source.hpp>
#include <shardwise/model/files/rope_divisors.hpp>
#include <shardwise/model/files/tensor_names_map.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline v0_2_0 {

/// One parameter of a model as its file stores it.
///
/// Shapes  the model's, outermost extent first
struct StoredParameter {
    Tensor const* tensor = nullptr;
    WeightFormat format = WeightFormat::f32;
    std::span<std::byte const> data;
};

/// The formats in which safetensors store whole tensors.
[[nodiscard]] constexpr std::optional<WeightFormat> weight_format(Dtype dtype) {
    switch (dtype) {
        case Dtype::f32:
            return WeightFormat::f32;
        case Dtype::bf16:
            return WeightFormat::bf16;
        case Dtype::f16:
            return WeightFormat::f16;
        default:
            return std::nullopt;
    }
}

/// Where a model's parameters lie in the files of a checkpoint. The files are mapped: only what is looked at is read.
class StoredParameters {
public:
    /// Reads the headers and finds every parameter's place. `source` and `model` are what read_checkpoint took and gave, so
    /// that names and shapes agree; `model` outlives this.
    ///
    /// Errors  as the readers of headers; unsupported for a parameter whose values are spread over several tensors or packed in
    ///         a way that no product takes
    [[nodiscard]] static Result<StoredParameters> open(ModelSource const& source, Model const& model) {
        StoredParameters out(model);
        auto const done = source.kind == SourceKind::gguf ? out.open_gguf(source) : out.open_safetensors(source);
        if (!done) return done.error();
        auto divisors = read_rope_divisors(source);
        if (!divisors) return divisors.error();
        out.rope_divisors_ = std::move(*divisors);
        return Result<StoredParameters>(std::move(out));
    }

    /// A parameter by its full name in the model; of tied names either.
    ///
    /// Errors  unknown_name; unsupported
    [[nodiscard]] Result<StoredParameter> find(std::string_view name) const {
        auto const set = tensors_.find(name);
        if (!set) return Error{ErrorCode::unknown_name}.in(name).because("is no parameter of the model");
        auto const* place = &places_[static_cast<std::size_t>(set->first)];
        if (place->data.empty()) {
            for (auto const& tie : tensors_.tree().ties()) {
                auto const other = tie.other == name ? tie.first : tie.first == name ? tie.other : std::string_view{};
                if (other.empty()) continue;
                if (auto const twin = tensors_.find(other)) place = &places_[static_cast<std::size_t>(twin->first)];
            }
        }
        if (place->data.empty()) {
            Error error{place->is_unsupported ? ErrorCode::unsupported : ErrorCode::missing_field};
            return error.in(name).because(
                place->is_unsupported ? "is stored in a way that cannot be loaded yet: packed, stacked or in parts"
                                      : "is in none of the checkpoint's files");
        }
        return StoredParameter{set->tensor, place->format, place->data};
    }

    /// What divides the frequencies of rotation, where the checkpoint lists it.
    [[nodiscard]] RopeDivisors const& rope_divisors() const { return rope_divisors_; }
    /// True where the files are GGUF, which keeps rows of queries and keys in another order for some families.
    [[nodiscard]] bool is_gguf() const { return is_gguf_; }

private:
    struct Place {
        WeightFormat format = WeightFormat::f32;
        std::span<std::byte const> data;
        bool is_unsupported = false;
    };

    explicit StoredParameters(Model const& model)
        : model_(&model), tensors_(model.tree), places_(static_cast<std::size_t>(tensors_.size())) {}

    [[nodiscard]] std::span<NameAlias const> aliases() const {
        std::span<NameAlias const> out;
        Architectures::with(model_->config.model_type.view(), [&]<class Arch>(Arch) { out = Arch::aliases; });
        return out;
    }

    /// Maps a whole file; its bytes.
    [[nodiscard]] Result<std::span<std::byte const>> map(RegularFile const& file) {
        auto mapped = MappedFile::map(file, 0, file.size());
        if (!mapped) return mapped.error();
        files_.push_back(std::move(*mapped));
        auto const text = files_.back().text();
        return std::span<std::byte const>(reinterpret_cast<std::byte const*>(text.data()), text.size());
    }

    void put(TensorNameMap const& names, std::string_view name, std::optional<WeightFormat> format,
             std::span<std::byte const> data) {
        auto const match = names.find(name);
        if (!match.is_found()) return;
        bool const is_whole = match.set_count == 1 && match.sets[0].count == 1 && !match.is_encoded && format;
        for (std::size_t i = 0; i < match.set_count; ++i) {
            auto const& set = match.sets[i];
            for (std::int64_t k = 0; k < set.count; ++k) {
                auto& place = places_[static_cast<std::size_t>(set.first + k * set.stride)];
                if (is_whole)
                    place = {*format, data, false};
                else
                    place.is_unsupported = true;
            }
        }
    }

    [[nodiscard]] Result<> open_safetensors(ModelSource const& source) {
        TensorNameMap const names(tensors_, aliases());
        std::vector<std::string> files = source.weights;
        if (!source.index.empty()) {
            auto const file = source.open(source.index);
            if (!file) return file.error();
            auto const text = read_text_file(*file, max_index_file);
            if (!text) return text.error();
            auto const index = parse_checkpoint_index(*text, file->path());
            if (!index) return index.error();
            files.clear();
            for (std::uint32_t i = 0; i < index->shards.size(); ++i) files.push_back(std::string(index->shards[i]));
        }
        for (auto const& name : files) {
            auto const file = source.open(name);
            if (!file) return file.error();
            auto const header = read_safetensors(*file);
            if (!header) return header.error();
            auto const bytes = map(*file);
            if (!bytes) return bytes.error();
            auto const begin = bytes->size() - static_cast<std::size_t>(header->data_size().count());
            for (std::size_t i = 0; i < header->size(); ++i) {
                auto const tensor = (*header)[i];
                put(names, tensor.name, weight_format(tensor.dtype),
                    bytes->subspan(begin + static_cast<std::size_t>(tensor.offset),
                                   static_cast<std::size_t>(tensor.bytes.count())));
            }
        }
        return {};
    }

    [[nodiscard]] Result<> open_gguf(ModelSource const& source) {
        is_gguf_ = true;
        TensorNameMap const names(tensors_, aliases());
        if (source.weights.size() != 1) {
            return Error{ErrorCode::unsupported}
                .in(source.name)
                .because("is split into several GGUF files")
                .fix("merge them (llama-gguf-split --merge)");
        }
        auto file = source.open(source.weights.front());
        if (!file) return file.error();
        auto const bytes = map(*file);
        if (!bytes) return bytes.error();
        auto const header = read_gguf(*std::move(file));
        if (!header) return header.error();
        for (auto const& tensor : header->tensors) {
            put(names, tensor.name, weight_format(tensor.type),
                bytes->subspan(static_cast<std::size_t>(tensor.offset),
                               static_cast<std::size_t>(tensor.bytes.count())));
        }
        return {};
    }

    Model const* model_;
    TreeTensors tensors_;
    std::vector<Place> places_;
    std::vector<MappedFile> files_;
    RopeDivisors rope_divisors_;
    bool is_gguf_ = false;
};

}  // namespace shardwise::inline v0_2_0
