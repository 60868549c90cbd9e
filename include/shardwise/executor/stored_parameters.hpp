// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/dtype.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/text.hpp>
#include <shardwise/executor/assemble_packed.hpp>
#include <shardwise/executor/check_gguf_whole.hpp>
#include <shardwise/executor/kv_halves.hpp>
#include <shardwise/executor/stored_parameter.hpp>
#include <shardwise/model/architectures.hpp>
#include <shardwise/model/files/gguf_numbers.hpp>
#include <shardwise/model/files/mapped_file.hpp>
#include <shardwise/model/files/open_checkpoint.hpp>
#include <shardwise/model/files/quantization_config.hpp>
#include <shardwise/model/files/rope_divisors.hpp>
#include <shardwise/model/files/safetensors_reader.hpp>
#include <shardwise/model/files/tensor_names_map.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Where a model's parameters lie in the files of a checkpoint. The files are mapped: only what is looked at is read.
class StoredParameters {
public:
    /// Finds every parameter's place by the headers. `files` and `model` are what read_checkpoint took and gave, so that
    /// names and shapes agree; `model` outlives this.
    ///
    /// Errors  as the readers of headers, which refuse files that are shorter than their headers say
    [[nodiscard]] static Result<StoredParameters> open(OpenCheckpoint& files, Model const& model) {
        StoredParameters out(model);
        auto const done = files.source().kind == SourceKind::gguf ? out.open_gguf(files) : out.open_safetensors(files);
        if (auto const checked = out.check_files(); !checked) return checked.error();
        if (!done) return done.error();
        auto divisors = read_rope_divisors(files);
        if (!divisors) return divisors.error();
        out.rope_divisors_ = std::move(*divisors);
        return Result<StoredParameters>(std::move(out));
    }
    /// The same, for files that are opened for it alone.
    [[nodiscard]] static Result<StoredParameters> open(ModelSource const& source, Model const& model) {
        OpenCheckpoint files(source);
        return open(files, model);
    }

    /// A parameter by its full name in the model; of tied names either. Of a file's stacked or fused tensor it is the part.
    ///
    /// Errors  unknown_name; missing_field with the file's closest name; unsupported, malformed_file for a packed one
    [[nodiscard]] Result<StoredParameter> find(std::string_view name) const {
        auto const set = tensors_.find(name);
        if (!set) return Error{ErrorCode::unknown_name}.in(name).because("is no parameter of the model");
        auto place = places_[static_cast<std::size_t>(set->first)];
        for (auto const& tie : tensors_.tree().ties()) {
            auto const other = tie.other == name ? tie.first : tie.first == name ? tie.other : std::string_view{};
            if (other.empty() || place != absent) continue;
            if (auto const twin = tensors_.find(other)) place = places_[static_cast<std::size_t>(twin->first)];
        }
        if (place == absent) return missing(name);
        if (place < 0) return refusals_[static_cast<std::size_t>(-place - 1)];
        auto out = stored_[static_cast<std::size_t>(place - 1)];
        out.tensor = set->tensor;
        out.name = name;
        for (auto const& tie : tensors_.tree().ties()) {
            if (tie.other == name) out.name = tie.first;
        }
        return out;
    }

    /// What divides the frequencies of rotation, where the checkpoint lists it.
    [[nodiscard]] RopeDivisors const& rope_divisors() const { return rope_divisors_; }
    /// Asks the system to begin to read bytes of a file from `first` on, as far as the file goes.
    void expect(std::byte const* first, std::size_t count) const {
        for (auto const& file : files_) {
            auto const text = file.text();
            auto const* const begin = reinterpret_cast<std::byte const*>(text.data());
            if (std::less<>()(first, begin) || !std::less<>()(first, begin + text.size())) continue;
            auto const offset = static_cast<std::size_t>(first - begin);
            return file.expect(offset, std::min(count, text.size() - offset));
        }
    }

    /// Success where all bytes that were looked at so far were the files'. Where a file becomes shorter its bytes are zeros:
    /// whoever has copied weights asks before they count.
    ///
    /// Errors  file_unreadable with the file
    [[nodiscard]] Result<> check_files() const {
        for (auto const& file : files_) {
            if (auto const checked = file.check(); !checked) return checked;
        }
        return {};
    }

    [[nodiscard]] Model const& model() const { return *model_; }
    /// True where the files are GGUF, which keeps rows of queries and keys in another order for some families.
    [[nodiscard]] bool is_gguf() const { return is_gguf_; }

private:
    using Bytes = std::span<std::byte const>;
    /// Of a parameter: nothing is known; else one more than its number in stored_, or less than 0 and that in refusals_.
    static constexpr std::int32_t absent = 0;

    explicit StoredParameters(Model const& model)
        : model_(&model), tensors_(model.tree), places_(static_cast<std::size_t>(tensors_.size()), absent) {}

    [[nodiscard]] Error missing(std::string_view name) const {
        ClosestName closest(name);
        for (auto const& unused : unused_) closest.offer(unused);
        Error error{ErrorCode::missing_field};
        error.in(name).because("is in none of the checkpoint's files");
        if (!closest.best().empty()) error.fix("the closest that they have is " + std::string(closest.best()));
        return error;
    }

    /// Maps a whole file; its bytes.
    [[nodiscard]] Result<Bytes> map(RegularFile const& file) {
        auto mapped = MappedFile::map(file, 0, file.size());
        if (!mapped) return mapped.error();
        files_.push_back(std::move(*mapped));
        auto const text = files_.back().text();
        return Bytes(reinterpret_cast<std::byte const*>(text.data()), text.size());
    }
    /// The bytes of a tensor, which its header has said to lie within the file.
    [[nodiscard]] static Result<Bytes> cut(Bytes file, std::int64_t offset, std::int64_t size, std::string_view path,
                                           std::string_view name) {
        auto const end = checked_add(offset, size);
        if (offset >= 0 && size >= 0 && end && *end <= static_cast<std::int64_t>(file.size()))
            return file.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(size));
        return Error{ErrorCode::malformed_file}
            .in(path)
            .at(name)
            .because("its data reach past the end of the file")
            .got(static_cast<std::int64_t>(file.size()))
            .fix("download the file again");
    }

    [[nodiscard]] static std::size_t number_of(TensorSet const& set, std::int64_t k) {
        return static_cast<std::size_t>(set.first + k * set.stride);
    }
    void store(std::size_t number, StoredParameter parameter) {
        if (places_[number] > 0) {
            append_pair(number, std::move(parameter));
            return;
        }
        stored_.push_back(std::move(parameter));
        places_[number] = static_cast<std::int32_t>(stored_.size());
    }
    void refuse(std::size_t number, Error const& error) {
        refusals_.push_back(error);
        places_[number] = -static_cast<std::int32_t>(refusals_.size());
    }
    void refuse(NameMatch const& match, std::string_view reason) {
        for (std::size_t i = 0; i < match.set_count; ++i) {
            for (std::int64_t k = 0; k < match.sets[i].count; ++k) {
                auto const number = number_of(match.sets[i], k);
                refuse(number, Error{ErrorCode::unsupported}
                                   .in(tensors_.name_of(static_cast<std::int64_t>(number)))
                                   .because(reason));
            }
        }
    }
    /// A second tensor of one parameter: rows of gate and up that alternate in the model, which GGUF holds apart, or the last rows.
    void append_pair(std::size_t number, StoredParameter second) {
        auto& first = stored_[static_cast<std::size_t>(places_[number] - 1)];
        if (!is_gguf_ || model_->family == nullptr || !first.join(second, model_->family->gguf_form)) {
            refuse(number, Error{ErrorCode::unsupported}
                               .in(tensors_.name_of(static_cast<std::int64_t>(number)))
                               .because("is stored in several tensors, which are not put together"));
        }
    }

    /// Stores a tensor of the file under its parameters: one, every expert's, or the parts of a fused one.
    void put(NameMatch const& match, StoredParameter const& whole) {
        std::int64_t elements = 0;
        auto const count = match.sets[0].count;
        for (std::size_t i = 0; i < match.set_count; ++i) {
            elements += match.sets[i].tensor->shape.elements();
            if (match.sets[i].count != count)
                return refuse(match, "is stored in a tensor with others of another number");
        }
        for (std::int64_t k = 0; k < count; ++k) {
            auto const expert = whole.part(k, count);
            std::int64_t done = 0;
            for (std::size_t i = 0; i < match.set_count; ++i) {
                auto const& set = match.sets[i];
                auto const own = set.tensor->shape.elements();
                auto out = expert;
                if (match.set_count > 1) {
                    // Rows one after another: queries, keys, values; gate, up.
                    if (!expert.packed.empty()) return refuse(match, "is packed together with others");
                    auto const place = [&](std::int64_t at) {
                        return static_cast<std::size_t>(static_cast<std::int64_t>(expert.data.size()) / elements * at +
                                                        static_cast<std::int64_t>(expert.data.size()) % elements * at /
                                                            elements);
                    };
                    out.data = expert.data.subspan(place(done), place(done + own) - place(done));
                }
                out.tensor = set.tensor;
                store(number_of(set, k), std::move(out));
                done += own;
            }
        }
    }

    [[nodiscard]] Result<> open_safetensors(OpenCheckpoint& files) {
        TensorNameMap const names(tensors_, model_->family);
        auto const& source = files.source();
        auto const read = files.safetensors();
        if (!read) return read.error();
        auto const& checkpoint = **read;
        if (checkpoint.index && checkpoint.index->shards.size() > 0) {
            auto const first = source.open_named(checkpoint.index->shards[0]);
            if (!first) return first.error();
        }
        std::map<std::size_t, FileParts> packed;
        for (std::size_t shard = 0; shard < checkpoint.shards.size(); ++shard) {
            auto const& [name, stamp] = checkpoint.files[shard];
            auto const file = source.index.empty() ? source.open(name) : source.open_named(name);
            if (!file) return file.error();
            // Another file has come in the place of the one that was read: its own header counts.
            auto const other = file->stamp() == stamp ? std::nullopt : std::optional(read_safetensors(*file));
            if (other && !*other) return other->error();
            auto const& header = other ? **other : checkpoint.shards[shard];
            auto const bytes = map(*file);
            if (!bytes) return bytes.error();
            auto const begin = static_cast<std::int64_t>(bytes->size()) - header.data_size().count();
            for (std::size_t i = 0; i < header.size(); ++i) {
                auto const tensor = header[i];
                auto const data = cut(*bytes, begin + tensor.offset, tensor.bytes.count(), file->path(), tensor.name);
                if (!data) return data.error();
                take_safetensor(names, tensor, *data, packed);
            }
        }
        return packed.empty() ? Result<>{} : assemble(files, packed);
    }
    void take_safetensor(TensorNameMap const& names, SafetensorsTensor const& tensor, Bytes data,
                         std::map<std::size_t, FileParts>& packed) {
        auto const match = names.find(tensor.name);
        if (!match.is_found()) return keep_unused(tensor.name);
        auto const format = weight_format(tensor.dtype);
        auto const part = file_part(tensor.name);
        bool const is_plain = format && !match.is_encoded && part != FilePart::blocks && part != FilePart::block_scales;
        if (is_plain) {
            StoredParameter parameter;
            parameter.format = *format;
            parameter.data = data;
            return put(match, parameter);
        }
        if (match.set_count != 1 || match.sets[0].count != 1) return refuse(match, "is packed together with others");
        packed[static_cast<std::size_t>(match.sets[0].first)].put(part, {tensor.dtype, tensor.shape, data});
    }
    void keep_unused(std::string_view name) {
        constexpr std::size_t most = 256;
        if (unused_.size() < most) unused_.emplace_back(name);
    }
    /// Puts the parts of packed parameters together.
    [[nodiscard]] Result<> assemble(OpenCheckpoint& files, std::map<std::size_t, FileParts> const& packed) {
        auto const config = files.config();
        if (!config) return config.error();
        auto const* const file = *config;
        auto const read = file == nullptr ? Result(std::optional<CheckpointQuantization>{})
                                          : read_quantization(file->document, file->path, model_->config.is_text_part);
        if (!read) return read.error();
        auto const& quantization = *read;
        for (auto const& [number, parts] : packed) {
            // Scales of activations stand beside weights that are plain.
            if (places_[number] != absent) continue;
            auto const name = tensors_.name_of(static_cast<std::int64_t>(number));
            auto const set = tensors_.find(name);
            if (!set) continue;
            StoredParameter parameter;
            parameter.tensor = set->tensor;
            parameter.name = name;
            auto done = detail::PackedAssembler(parts, std::move(parameter), set->tensor->is_transposed, quantization)
                            .assemble();
            if (done) {
                store(number, std::move(*done));
            } else {
                refuse(number, done.error());
            }
        }
        return {};
    }

    [[nodiscard]] Result<> open_gguf(OpenCheckpoint& files) {
        is_gguf_ = true;
        TensorNameMap const names(tensors_, model_->family);
        auto const read = files.gguf();
        if (!read) return read.error();
        auto const& checkpoint = **read;
        auto const& metadata = checkpoint.header.metadata;
        auto const& name = files.source().weights.front();
        if (auto const stated = detail::check_stated_epsilon(metadata, name); !stated) return stated;
        auto done = take_gguf_part(names, checkpoint.header, checkpoint.first_tensors());
        for (std::size_t i = 0; done && i < checkpoint.others.size(); ++i)
            done = take_gguf_part(names, checkpoint.others[i], checkpoint.others[i].tensors);
        if (!done) return done;
        auto numbers = read_gguf_numbers(metadata, model_->family, model_->config.layers, name);
        if (!numbers) return numbers.error();
        take_gguf_numbers(names, *std::move(numbers));
        for (auto const& [number, halves] : kv_halves_) {
            auto joined = join_kv_halves(model_->config, tensors_.name_of(static_cast<std::int64_t>(number)), halves);
            if (joined) {
                store(number, std::move(*joined));
            } else {
                refuse(number, joined.error());
            }
        }
        return detail::check_unused_tensors(unused_, model_->program.layers(), name);
    }
    [[nodiscard]] Result<> take_gguf_part(TensorNameMap const& names, GgufHeader const& header,
                                          std::span<GgufTensor const> tensors) {
        auto const& file = *header.metadata.source().file();
        auto const bytes = map(file);
        if (!bytes) return bytes.error();
        for (auto const& tensor : tensors) {
            auto const data = cut(*bytes, tensor.offset, tensor.bytes.count(), file.path(), tensor.name);
            if (!data) return data.error();
            take_gguf_tensor(names, tensor, *data);
        }
        return {};
    }
    /// Stores what the metadata hold in the place of tensors.
    void take_gguf_numbers(TensorNameMap const& names, std::vector<GgufNumber> numbers) {
        gguf_numbers_ = std::move(numbers);
        for (auto const& number : gguf_numbers_) {
            StoredParameter parameter;
            parameter.data = std::as_bytes(std::span(&number.value, 1));
            if (auto const match = names.find(number.name); match.is_found()) put(match, parameter);
        }
    }
    void take_gguf_tensor(TensorNameMap const& names, GgufTensor const& tensor, Bytes data) {
        auto const match = names.find(tensor.name);
        if (!match.is_found()) return keep_unused(tensor.name);
        if (auto const half = kv_half(tensor.name)) {
            kv_halves_[static_cast<std::size_t>(match.sets[0].first)][*half] = {tensor.type, tensor.shape, data};
            return;
        }
        StoredParameter parameter;
        parameter.is_turned = match.sets[0].tensor->is_transposed;
        auto const format = weight_format(tensor.type);
        // Gate and up of gpt_oss are rows of one parameter that alternate; others follow each other.
        auto const last = model_->family == nullptr ? std::string_view{} : model_->family->gguf_form.last_rows;
        parameter.has_last_rows = !last.empty() && tensor.name.find(last) != std::string_view::npos;
        auto const whole =
            match.set_count == 1 && match.sets[0].count == 1 ? match.sets[0].tensor->shape.elements() : 0;
        bool const is_half = whole == 2 * tensor.shape.elements();
        bool const is_part = is_half || (!last.empty() && whole > tensor.shape.elements());
        if (format && !is_part) {
            parameter.format = *format;
            parameter.data = data;
            return put(match, parameter);
        }
        auto const rank = tensor.shape.rank();
        bool const has_halves_of_blocks = is_half && rank < 3 && traits(tensor.type).block_elements > 1;
        if (!can_decode(tensor.type) || has_halves_of_blocks)
            return refuse(match, "has a GGUF type that cannot be decoded yet");
        PackedWeight weight;
        weight.type = tensor.type;
        weight.data = data;
        // Halves of biases alternate element by element.
        weight.inputs = rank == 0 || (is_half && rank < 3) ? 1 : tensor.shape[rank - 1];
        weight.outputs = weight.inputs > 0 ? tensor.shape.elements() / weight.inputs : 0;
        parameter.format = format ? *format : reordered_format(tensor.type).value_or(WeightFormat::f32);
        parameter.packed.push_back(weight);
        put(match, parameter);
    }

    Model const* model_;
    TreeTensors tensors_;
    std::vector<std::int32_t> places_;
    std::vector<StoredParameter> stored_;
    std::vector<Error> refusals_;
    std::map<std::size_t, KvHalves> kv_halves_;
    std::vector<GgufNumber> gguf_numbers_;
    std::vector<MappedFile> files_;
    RopeDivisors rope_divisors_;
    /// Names in the files that are no part of the model, some of them.
    std::vector<std::string> unused_;
    bool is_gguf_ = false;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
