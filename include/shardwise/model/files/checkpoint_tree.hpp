#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/model/files/checkpoint_match.hpp>
#include <shardwise/model/files/tensor_names.hpp>
#include <shardwise/model/files/tree_builder.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace shardwise::inline v0_2_0 {

namespace detail {

/// Makes modules out of dotted names. Lists are chains through flat arrays: files may have hundreds of thousands of
/// names.
template <class TensorAt>
class NameTree {
public:
    /// `at(i)`: the i-th FileTensor, made when it is asked for.
    explicit NameTree(TensorAt at) : at_(at) { nodes_.push_back({}); }

    Result<ModuleTree> build(std::uint32_t count) {
        leaves_.resize(count);
        fold_parts();
        for (std::uint32_t i = 0; i < count; ++i) {
            if (leaves_[i].extra >= 0) insert(i);
        }
        places_ = {};
        builder_.expect_tensors(count);
        if (!emit(0, {}, 0, false)) return builder_.refusal();
        auto tree = std::move(builder_).take();
        tree.keep_whole("Block");
        return tree;
    }

private:
    /// Deeper names than any model has stay names of one tensor.
    static constexpr std::size_t max_depth = 32;
    static constexpr std::uint32_t none = UINT32_MAX;

    struct Chain {
        std::uint32_t first = none;
        std::uint32_t last = none;
    };
    struct Node {
        std::string_view name;
        Chain children;
        Chain tensors;
        std::uint32_t next = none;
    };
    struct Leaf {
        std::string_view name;
        /// Bytes of scales that belong to it; negative for a tensor that belongs to another.
        std::int64_t extra = 0;
        std::uint32_t next = none;
    };

    /// Scales whose parameter is there belong to it ("x.weight.absmax" to "x.weight").
    void fold_parts() {
        auto const count = static_cast<std::uint32_t>(leaves_.size());
        std::vector<std::uint32_t> parts;
        for (std::uint32_t i = 0; i < count; ++i) {
            if (encoded_name(at_(i).name)) parts.push_back(i);
        }
        if (parts.empty()) return;
        TensorNames names;
        for (std::uint32_t i = 0; i < count; ++i) (void)names.add(at_(i).name);
        for (auto const part : parts) {
            auto const tensor = at_(part);
            auto const owner = names.find(encoded_name(tensor.name)->parameter);
            if (!owner || *owner == part || leaves_[*owner].extra < 0) continue;
            leaves_[*owner].extra += tensor.bytes;
            leaves_[part].extra = -1;
        }
    }

    template <class Entries>
    static void append(Chain& chain, Entries& entries, std::uint32_t entry) {
        if (chain.first == none)
            chain.first = entry;
        else
            entries[chain.last].next = entry;
        chain.last = entry;
    }
    void insert(std::uint32_t index) {
        auto rest = at_(index).name;
        auto const dots = static_cast<std::size_t>(std::count(rest.begin(), rest.end(), '.'));
        bool const is_plain = !rest.empty() && rest.front() != '.' && rest.back() != '.' &&
                              rest.find("..") == std::string_view::npos && dots < max_depth;
        std::uint32_t node = 0;
        if (is_plain) {
            for (auto dot = rest.find('.'); dot != std::string_view::npos; dot = rest.find('.')) {
                node = child(node, rest.substr(0, dot));
                rest.remove_prefix(dot + 1);
            }
            leaves_[index].name = builder_.keep(rest);
        } else {
            auto safe = rest.empty() ? "tensor" + std::to_string(index) : std::string(rest);
            std::replace(safe.begin(), safe.end(), '.', '/');
            leaves_[index].name = builder_.keep(safe);
        }
        append(nodes_[node].tensors, leaves_, index);
    }
    std::uint32_t child(std::uint32_t parent, std::string_view name) {
        // Files list neighbours together: the last child is the usual answer.
        auto const last = nodes_[parent].children.last;
        if (last != none && nodes_[last].name == name) return last;
        auto const kept = builder_.keep(name);
        auto const [place, is_new] =
            places_.emplace(std::pair{parent, kept}, static_cast<std::uint32_t>(nodes_.size()));
        if (is_new) {
            nodes_.push_back({});
            nodes_.back().name = kept;
            append(nodes_[parent].children, nodes_, place->second);
        }
        return place->second;
    }

    bool emit(std::uint32_t id, std::string_view name, std::size_t depth, bool is_in_block) {
        // Numbered children in their order, whatever the file's; the others as the file lists them.
        std::vector<std::pair<std::int64_t, std::uint32_t>> children;
        for (auto next = nodes_[id].children.first; next != none; next = nodes_[next].next) {
            children.emplace_back(parse_number(nodes_[next].name).value_or(-1), next);
        }
        std::stable_sort(children.begin(), children.end(),
                         [](auto const& a, auto const& b) { return a.first < b.first; });
        bool const is_list = !children.empty() && children.front().first >= 0;
        bool const is_block = !is_in_block && is_listed_;
        builder_.begin();
        builder_.set_class(is_block ? "Block" : is_list ? "ModuleList" : "Module");
        if (depth > 0 && !builder_.set_name(name)) return false;
        for (auto leaf = nodes_[id].tensors.first; leaf != none; leaf = leaves_[leaf].next) {
            if (!builder_.add_tensor(make(leaves_[leaf].name, at_(leaf), leaves_[leaf].extra))) return false;
        }
        for (auto const& [number, next] : children) {
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

    TensorAt at_;
    TreeBuilder builder_;
    std::vector<Node> nodes_;
    std::vector<Leaf> leaves_;  // by tensor
    std::unordered_map<std::pair<std::uint32_t, std::string_view>, std::uint32_t, PlaceHash> places_;
    bool is_listed_ = false;
};

}  // namespace detail

/// The modules that dotted names of tensors imply, for a checkpoint of an architecture that no family describes.
/// Numbered neighbours that are alike become runs; classes are unknown: the members of the outermost numbered lists are
/// "Block" and stay whole, all others may be split.
///
/// `at(i)` gives the i-th FileTensor, with its shape; names outlive the call.
///
/// Memory  about 100 bytes per name while it runs
/// Errors  malformed_file for a name that is a tensor and a module; capacity_exceeded
template <class TensorAt>
[[nodiscard]] Result<ModuleTree> tree_from_names(std::size_t count, TensorAt at, std::string_view path) {
    auto tree = detail::NameTree<TensorAt>(at).build(static_cast<std::uint32_t>(count));
    if (tree) return tree;
    auto error = tree.error();
    return error.in(path);
}

}  // namespace shardwise::inline v0_2_0
