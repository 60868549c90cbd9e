// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/files/text_file.hpp>
#include <shardwise/core/text.hpp>
#include <shardwise/executor/low_rank_delta.hpp>
#include <shardwise/executor/parameter_name.hpp>
#include <shardwise/executor/stored_parameter.hpp>
#include <shardwise/model/architecture.hpp>
#include <shardwise/model/architectures.hpp>
#include <shardwise/model/block_path.hpp>
#include <shardwise/model/files/adapter_config.hpp>
#include <shardwise/model/files/mapped_file.hpp>
#include <shardwise/model/files/model_folder.hpp>
#include <shardwise/model/files/safetensors_reader.hpp>
#include <shardwise/model/files/tensor_names_map.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A low-rank adapter of a model, as PEFT saves it: adapter_config.json and adapter_model.safetensors in a folder. The weights of the
/// model are changed by it while they are loaded (`LoadOptions::adapter`).
///
/// Memory  the file is mapped
class Adapter {
public:
    /// Finds each tensor's place in the model, of whose checkpoint the adapter is.
    ///
    /// Errors  as the readers of files and read_adapter_config; unknown_name for a module that the model lacks or that is neither
    ///         product nor table; missing_field for a half, or a target without both; shape_mismatch; unsupported for tied weights
    [[nodiscard]] static Result<Adapter> open(std::string const& folder, Model const& model) {
        auto const root = ModelFolder::open(folder);
        if (!root) return root.error();
        auto const settings = root->listed_file(config_file);
        if (!settings) return settings.error();
        auto const text = read_text_file(*settings, max_config);
        if (!text) return text.error();
        auto const document = parse_json(*text);
        if (!document) {
            auto error = document.error();
            return error.in(settings->path());
        }
        auto config = read_adapter_config(*document, settings->path());
        if (!config) return config.error();
        auto const file = root->listed_file(weights_file);
        if (!file) return file.error();
        auto const header = read_safetensors(*file);
        if (!header) return header.error();
        auto mapped = MappedFile::map(*file, file->size() - static_cast<std::uint64_t>(header->data_size().count()),
                                      static_cast<std::uint64_t>(header->data_size().count()));
        if (!mapped) return mapped.error();
        Adapter out(*std::move(config), *std::move(mapped), file->path());
        Finder finder(out, model);
        for (std::size_t i = 0; i < header->size(); ++i) {
            if (auto const taken = finder.take((*header)[i]); !taken) return taken.error();
        }
        if (auto const whole = finder.finish(); !whole) return whole.error();
        if (auto const whole = out.file_.check(); !whole) return whole.error();
        return Result<Adapter>(std::move(out));
    }

    static constexpr std::string_view config_file = "adapter_config.json";
    static constexpr std::string_view weights_file = "adapter_model.safetensors";
    /// Before the names of a model's modules.
    static constexpr std::string_view prefix = "base_model.model.";

    [[nodiscard]] AdapterConfig const& config() const { return config_; }
    [[nodiscard]] std::size_t size() const { return deltas_.size() + halves_.size() / 2; }
    /// What it adds to a parameter as that is loaded; null where it leaves it.
    [[nodiscard]] LowRankDelta const* delta(std::string_view parameter) const {
        auto const found = deltas_.find(parameter);
        return found == deltas_.end() ? nullptr : &found->second;
    }
    /// A half that is computed beside its product, by its name in the model; null for all others.
    [[nodiscard]] StoredParameter const* half(std::string_view name) const {
        auto const found = halves_.find(name);
        return found == halves_.end() ? nullptr : &found->second.stored;
    }
    /// A product whose halves are computed beside it, without the end of its name; empty where there is none.
    [[nodiscard]] std::string beside() const {
        return halves_.empty() ? std::string{}
                               : halves_.begin()->first.substr(0, halves_.begin()->first.find(".lora_"));
    }
    /// From now on the halves of this product are parameters of their own, and nothing is added to its weight.
    void keep_beside(std::string const& weight, Model const& model) {
        auto const found = deltas_.find(weight);
        if (found == deltas_.end()) return;
        auto const base = TreeTensors(model.tree).find(weight);
        auto const module = weight.substr(0, weight.rfind('.'));
        auto const put = [&](std::string const& end, WeightSource const& source) {
            auto& half = halves_[module + end];
            half.tensor = *base->tensor;
            half.tensor.is_transposed = false;
            half.tensor.stored_bytes = -1;
            half.tensor.shape = Shape{source.outputs, source.inputs};
            half.stored.tensor = &half.tensor;
            half.stored.name = module + end;
            half.stored.format = source.format;
            half.stored.data = source.data;
        };
        put(".lora_A.weight", found->second.right);
        put(".lora_B.weight", found->second.left);
        deltas_.erase(found);
    }
    /// The parameter as the adapter holds it in the place of the checkpoint's, or the checkpoint's.
    [[nodiscard]] StoredParameter replaced(StoredParameter const& stored) const {
        auto const found = replaced_.find(stored.name);
        if (found == replaced_.end()) return stored;
        auto out = stored;
        out.format = found->second.format;
        out.data = found->second.data;
        out.scales = {};
        out.group = 0;
        out.is_turned = false;
        out.packed.clear();
        return out;
    }
    /// Success where all bytes that were looked at so far were the file's.
    ///
    /// Errors  file_unreadable
    [[nodiscard]] Result<> check_file() const { return file_.check(); }

private:
    using Bytes = std::span<std::byte const>;
    static constexpr std::size_t max_config = std::size_t{4} << 20U;

    /// A half in a map, whose elements stay where they are.
    struct Half {
        Tensor tensor;
        StoredParameter stored;
    };
    struct Replaced {
        WeightFormat format = WeightFormat::f32;
        Bytes data;
    };

    Adapter(AdapterConfig config, MappedFile file, std::string path)
        : config_(std::move(config)), file_(std::move(file)), path_(std::move(path)) {}

    /// Sorts the tensors of the file by the parameters that they change.
    class Finder {
    public:
        Finder(Adapter& adapter, Model const& model)
            : adapter_(adapter), model_(model), tensors_(model.tree), names_(tensors_, model.family) {
            for (auto const& block : model.program.blocks()) {
                for (std::int32_t i = 0; i < block.count; ++i) {
                    auto const module = block_path(block, i);
                    for (auto const& op : model.program.body(block).operations()) note(module, op);
                }
            }
        }

        [[nodiscard]] Result<> take(SafetensorsTensor const& tensor) {
            auto name = tensor.name;
            if (!name.starts_with(prefix))
                return refused(ErrorCode::unsupported, name, "does not begin with base_model.model.");
            name.remove_prefix(prefix.size());
            for (auto const& half : halves) {
                if (!name.ends_with(half.end)) continue;
                return take_half(tensor, name.substr(0, name.size() - half.end.size()), half.is_left, half.is_table);
            }
            if (name.find(".lora_") != std::string_view::npos)
                return refused(ErrorCode::unsupported, tensor.name, "is no half of a low-rank product");
            return take_whole(tensor, name);
        }

        /// Checks that both halves of each are there, and all targets.
        [[nodiscard]] Result<> finish() {
            for (auto const& [parameter, found] : found_) {
                if (!found.left || !found.right) {
                    return refused(ErrorCode::missing_field, found.module,
                                   found.left
                                       ? "has no " + std::string(found.is_table ? "lora_embedding_B" : "lora_A") +
                                             " beside its other half"
                                       : "has no " + std::string(found.is_table ? "lora_embedding_A" : "lora_B") +
                                             " beside its other half");
                }
                adapter_.deltas_.emplace(parameter, LowRankDelta{.left = found.is_table ? *found.right : *found.left,
                                                                 .right = found.is_table ? *found.left : *found.right,
                                                                 .is_table = found.is_table,
                                                                 .scale = adapter_.config_.scale_of(found.module)});
            }
            if (found_.empty() && adapter_.replaced_.empty())
                return refused(ErrorCode::missing_field, "lora_A", "is in none of its tensors");
            auto const& config = adapter_.config_;
            if (config.is_partial) return {};
            for (auto const& [parameter, is_table] : weights_) {
                auto const module = std::string_view(parameter).substr(0, parameter.rfind('.'));
                if (!config.is_target(module) || config.is_saved(module) || found_.count(parameter) > 0) continue;
                return refused(ErrorCode::missing_field, module,
                               "is one of target_modules, and none of the file's tensors is for it");
            }
            return {};
        }

    private:
        struct Half {
            std::string_view end;
            /// The half that has the outputs: of tables, the columns.
            bool is_left;
            bool is_table;
        };
        static constexpr Half halves[] = {{".lora_A.weight", false, false},
                                          {".lora_B.weight", true, false},
                                          {".lora_embedding_A", false, true},
                                          {".lora_embedding_B", true, true}};
        struct Found {
            std::string module;
            bool is_table = false;
            std::optional<WeightSource> left;
            std::optional<WeightSource> right;
        };

        [[nodiscard]] Error refused(ErrorCode code, std::string_view name, std::string_view reason) const {
            return Error{code}.in(adapter_.path_).at(name).because(reason);
        }
        void note(std::string const& module, Operation const& op) {
            bool const is_table = op.kind == OpKind::embedding;
            bool const is_product = op.kind == OpKind::linear || op.kind == OpKind::experts;
            if (!is_table && !is_product) return;
            auto const count = op.parameters[0].find('*') == std::string_view::npos ? 1 : op.routing().experts;
            for (std::int64_t expert = 0; expert < count; ++expert)
                weights_.emplace(detail::parameter_name(module, op.parameters[0], expert), is_table);
        }
        /// The one parameter that a name of the base's checkpoint means.
        [[nodiscard]] Result<std::pair<std::string, Tensor const*>> parameter_of(SafetensorsTensor const& tensor,
                                                                                 std::string const& name) const {
            auto const match = names_.find(name);
            if (!match.is_found() || match.is_encoded) {
                return refused(ErrorCode::unknown_name, tensor.name, "is for a module that the model does not have")
                    .fix(
                        "give the model that the adapter was trained on: base_model_name_or_path in its config says "
                        "which");
            }
            if (match.set_count != 1 || match.sets[0].count != 1)
                return refused(ErrorCode::unsupported, tensor.name, "is for a weight that the model holds in parts");
            auto parameter = tensors_.name_of(match.sets[0].first);
            for (auto const& tie : model_.tree.ties()) {
                if (tie.first != parameter && tie.other != parameter) continue;
                return refused(ErrorCode::unsupported, tensor.name,
                               "is for one of two modules that share their weight (tie_word_embeddings)");
            }
            return std::pair{std::move(parameter), match.sets[0].tensor};
        }
        [[nodiscard]] Result<WeightSource> source_of(SafetensorsTensor const& tensor, std::int64_t rows,
                                                     std::int64_t columns) const {
            auto const format = weight_format(tensor.dtype);
            if (!format || traits(*format).block_elements != 1 || !traits(tensor.dtype).is_floating)
                return refused(ErrorCode::unsupported, tensor.name, "has a dtype that is not fp32, bf16 or fp16");
            auto const text = adapter_.file_.text();
            auto const end = checked_add(tensor.offset, tensor.bytes.count());
            if (!end || tensor.offset < 0 || *end > static_cast<std::int64_t>(text.size()))
                return refused(ErrorCode::malformed_file, tensor.name, "reaches past the end of the file");
            Bytes const data(reinterpret_cast<std::byte const*>(text.data()) + tensor.offset,
                             static_cast<std::size_t>(tensor.bytes.count()));
            WeightSource const source{*format, rows, columns, data, {}};
            if (auto const checked = detail::check_source(source); !checked) {
                auto error = checked.error();
                return error.in(tensor.name);
            }
            return source;
        }

        [[nodiscard]] Result<> take_half(SafetensorsTensor const& tensor, std::string_view module, bool is_left,
                                         bool is_table) {
            auto const found = parameter_of(tensor, std::string(module) + ".weight");
            if (!found) return found.error();
            auto const& [parameter, of] = *found;
            auto const kind = weights_.find(parameter);
            if (kind == weights_.end() || kind->second != is_table || of->shape.rank() != 2) {
                return refused(ErrorCode::unsupported, tensor.name,
                               is_table ? "is for a module that is no table" : "is for a module that is no product");
            }
            auto const& config = adapter_.config_;
            if (!config.targets.empty() && !config.is_target(module))
                return refused(ErrorCode::invalid_field, tensor.name,
                               "is for a module that target_modules does not name");
            // Of a table [rows, columns], the left half is the columns'.
            bool const is_turned = of->is_transposed || is_table;
            auto const extent = of->shape[is_left == is_turned ? 1 : 0];
            auto const rank = config.rank_of(module);
            auto const& shape = tensor.shape;
            auto const wanted = [&](std::size_t axis) { return (axis == 0) == is_left ? extent : rank; };
            if (shape.rank() != 2 || shape[0] != wanted(0) || shape[1] != wanted(1)) {
                auto error = refused(ErrorCode::shape_mismatch, tensor.name,
                                     "is not [" + std::to_string(wanted(0)) + ", " + std::to_string(wanted(1)) +
                                         "], which the model's weight and the rank ask for");
                if (shape.rank() == 2) error.got(shape[0] != wanted(0) ? shape[0] : shape[1]);
                return error.fix("give the model that the adapter was trained on");
            }
            auto const source = source_of(tensor, shape[0], shape[1]);
            if (!source) return source.error();
            auto& to = found_[parameter];
            to.module = module;
            to.is_table = is_table;
            auto& half = is_left ? to.left : to.right;
            if (half) return refused(ErrorCode::malformed_file, tensor.name, "is there twice, under another name");
            half = *source;
            return {};
        }

        /// A weight or a bias that the adapter holds in the place of the checkpoint's.
        [[nodiscard]] Result<> take_whole(SafetensorsTensor const& tensor, std::string_view name) {
            std::string own(name);
            auto const& config = adapter_.config_;
            constexpr std::string_view base = ".base_layer.";
            auto const at = own.rfind(base);
            if (at != std::string::npos) own.replace(at, base.size(), ".");
            auto const module = std::string_view(own).substr(0, own.rfind('.'));
            bool const is_bias = config.has_biases && own.ends_with(".bias");
            if (at == std::string::npos && !is_bias && !config.is_saved(module)) {
                return refused(ErrorCode::unsupported, tensor.name,
                               "is neither a half of a low-rank product, nor in modules_to_save, nor a bias");
            }
            auto const found = parameter_of(tensor, own);
            if (!found) return found.error();
            auto const& shape = found->second->shape;
            if (!(tensor.shape == shape))
                return refused(ErrorCode::shape_mismatch, tensor.name, "has another shape than the model's")
                    .got(tensor.shape.elements())
                    .expected(shape.elements());
            auto const columns = shape.rank() == 0 ? 1 : shape[shape.rank() - 1];
            auto const source = source_of(tensor, columns > 0 ? shape.elements() / columns : 0, columns);
            if (!source) return source.error();
            bool const is_first =
                adapter_.replaced_.emplace(found->first, Replaced{source->format, source->data}).second;
            if (!is_first) return refused(ErrorCode::malformed_file, tensor.name, "is there twice, under another name");
            return {};
        }

        Adapter& adapter_;
        Model const& model_;
        TreeTensors tensors_;
        TensorNameMap names_;
        /// The weights of products and tables (true).
        std::map<std::string, bool, std::less<>> weights_;
        std::map<std::string, Found> found_;
    };

    AdapterConfig config_;
    MappedFile file_;
    std::string path_;
    std::map<std::string, LowRankDelta, std::less<>> deltas_;
    std::map<std::string, Replaced, std::less<>> replaced_;
    std::map<std::string, Half, std::less<>> halves_;
};

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
