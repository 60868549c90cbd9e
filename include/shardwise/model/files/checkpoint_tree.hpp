#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/model/files/checkpoint_match.hpp>
#include <shardwise/model/files/tensor_names.hpp>
#include <shardwise/model/files/tree_builder.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace shardwise::inline v0 {

namespace detail {

/// Makes modules out of dotted names.
class NameTree {
public:
    NameTree() { nodes_.push_back({}); }

    Result<ModuleTree> build(std::span<FileTensor const> tensors) {
        TensorNames names;
        for (auto const& tensor : tensors) (void)names.add(tensor.name);
        std::vector<std::int64_t> extra(tensors.size(), 0);
        std::vector<bool> is_part(tensors.size(), false);
        // Scales whose parameter is there belong to it ("x.weight.absmax" to "x.weight").
        for (std::size_t i = 0; i < tensors.size(); ++i) {
            auto const encoded = encoded_name(tensors[i].name);
            auto const owner = encoded ? names.find(encoded->parameter) : std::nullopt;
            if (!owner || *owner == i) continue;
            extra[*owner] += tensors[i].bytes;
            is_part[i] = true;
        }
        for (std::size_t i = 0; i < tensors.size(); ++i) {
            if (!is_part[i]) insert(tensors[i], i, extra[i]);
        }
        if (!emit(0, {}, 0, false)) return builder_.refusal();
        auto tree = std::move(builder_).take();
        tree.keep_whole("Block");
        return tree;
    }

private:
    /// Deeper names than any model has stay names of one tensor.
    static constexpr std::size_t max_depth = 32;

    struct Node {
        std::string_view name;
        std::vector<std::uint32_t> children;
        std::vector<std::pair<std::string_view, std::pair<std::uint32_t, std::int64_t>>> tensors;
    };

    void insert(FileTensor const& tensor, std::size_t index, std::int64_t extra) {
        inputs_.push_back(&tensor);
        auto const slot = std::pair{static_cast<std::uint32_t>(inputs_.size() - 1), extra};
        auto rest = tensor.name;
        auto const dots = static_cast<std::size_t>(std::count(rest.begin(), rest.end(), '.'));
        bool const is_plain = !rest.empty() && rest.front() != '.' && rest.back() != '.' &&
                              rest.find("..") == std::string_view::npos && dots < max_depth;
        if (!is_plain) {
            auto safe = std::string(rest);
            std::replace(safe.begin(), safe.end(), '.', '/');
            nodes_[0].tensors.push_back({builder_.keep(safe.empty() ? "tensor" + std::to_string(index) : safe), slot});
            return;
        }
        std::uint32_t at = 0;
        for (auto dot = rest.find('.'); dot != std::string_view::npos; dot = rest.find('.')) {
            at = child(at, rest.substr(0, dot));
            rest.remove_prefix(dot + 1);
        }
        nodes_[at].tensors.push_back({builder_.keep(rest), slot});
    }
    std::uint32_t child(std::uint32_t parent, std::string_view name) {
        // Files list neighbours together: the last child is the usual answer.
        auto const& siblings = nodes_[parent].children;
        if (!siblings.empty() && nodes_[siblings.back()].name == name) return siblings.back();
        auto const kept = builder_.keep(name);
        auto const [place, is_new] =
            places_.emplace(std::pair{parent, kept}, static_cast<std::uint32_t>(nodes_.size()));
        if (is_new) {
            nodes_.push_back({kept, {}, {}});
            nodes_[parent].children.push_back(place->second);
        }
        return place->second;
    }

    bool emit(std::uint32_t id, std::string_view name, std::size_t depth, bool is_in_block) {
        auto& node = nodes_[id];
        // Numbered children in their order, whatever the file's; the others as the file lists them.
        auto const number = [this](std::uint32_t child_id) { return parse_number(nodes_[child_id].name).value_or(-1); };
        std::stable_sort(node.children.begin(), node.children.end(),
                         [&](auto a, auto b) { return number(a) < number(b); });
        bool const is_list = !node.children.empty() && number(node.children.front()) >= 0;
        bool const is_block = !is_in_block && is_listed_;
        is_listed_ = false;
        builder_.begin();
        builder_.set_class(is_block ? "Block" : is_list ? "ModuleList" : "Module");
        if (depth > 0 && !builder_.set_name(name)) return false;
        for (auto const& [tensor_name, slot] : node.tensors) {
            if (!builder_.add_tensor(make(tensor_name, *inputs_[slot.first], slot.second))) return false;
        }
        for (std::size_t i = 0; i < nodes_[id].children.size(); ++i) {
            auto const next = nodes_[id].children[i];
            is_listed_ = is_list;
            if (!emit(next, nodes_[next].name, depth + 1, is_in_block || is_block)) return false;
        }
        is_listed_ = false;
        return builder_.end();
    }
    [[nodiscard]] static Tensor make(std::string_view name, FileTensor const& file, std::int64_t extra) {
        Tensor tensor{.name = name, .shape = file.shape.value_or(Shape{}), .dtype = file.dtype.value_or(Dtype::f16)};
        auto const contains = [&file](std::string_view word) { return file.name.find(word) != std::string_view::npos; };
        if (name == "bias")
            tensor.use = TensorUse::bias;
        else if (contains("norm") || contains("ln_"))
            tensor.use = TensorUse::norm;
        else if (contains("embed") || contains("embd"))
            tensor.use = TensorUse::embedding;
        else if (contains("lm_head") || file.name == "output.weight")
            tensor.use = TensorUse::head;
        else if (tensor.is_matrix())
            tensor.use = TensorUse::linear;
        auto const bytes = file.bytes + extra;
        if (tensor.bytes().count() != bytes) tensor.stored_bytes = bytes;
        return tensor;
    }

    struct PlaceHash {
        std::size_t operator()(std::pair<std::uint32_t, std::string_view> const& place) const {
            return reinterpret_cast<std::uintptr_t>(place.second.data()) * 0x9E3779B97F4A7C15ULL +
                   place.first * 0xD6E8FEB86659FD93ULL;
        }
    };

    TreeBuilder builder_;
    std::vector<Node> nodes_;
    std::unordered_map<std::pair<std::uint32_t, std::string_view>, std::uint32_t, PlaceHash> places_;
    std::vector<FileTensor const*> inputs_;
    bool is_listed_ = false;
};

}  // namespace detail

/// The modules that dotted names of tensors imply, for a checkpoint of an architecture that no family describes.
/// Numbered neighbours that are alike become runs; classes are unknown: the members of the outermost numbered lists are
/// "Block" and stay whole, all others may be split. All tensors have shapes.
///
/// Errors  malformed_file for a name that is a tensor and a module; capacity_exceeded
[[nodiscard]] inline Result<ModuleTree> tree_from_names(std::span<FileTensor const> tensors, std::string_view path) {
    auto tree = detail::NameTree().build(tensors);
    if (tree) return tree;
    auto error = tree.error();
    return error.in(path);
}

}  // namespace shardwise::inline v0
