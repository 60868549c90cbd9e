// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/json/reader.hpp>
#include <shardwise/model/files/mapped_file.hpp>
#include <shardwise/model/files/tree_builder.hpp>
#include <shardwise/model/files/tree_limits.hpp>
#include <shardwise/model/module_tree.hpp>
#include <shardwise/model/walk.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// The largest tree file that is read; a model of 173,000 modules and parameters takes 14 MB.
///
/// Units  bytes
inline constexpr std::size_t max_tree_file = std::size_t{48} << 20U;

/// A tree of modules as somebody wrote it down.
struct TreeFile {
    ModuleTree tree;
    /// What the user should know of, one sentence each.
    std::vector<std::string> warnings;
};

namespace detail {

/// The deepest nesting of modules; the deepest published models have about ten levels.
inline constexpr std::size_t max_module_depth = 256;

/// The handler that makes a tree of the JSON form of the program's interface.
class TreeReader : public JsonRefusals {
public:
    /// `size`: the bytes of the text; `mapped`: where it lies, if it is mapped.
    explicit TreeReader(std::size_t size, MappedFile const* mapped = nullptr) : pages_(mapped) {
        constexpr std::size_t shortest_tensor = 34;  // {"name":"a","dtype":"u8","shape":[]} within its list
        builder_.expect_tensors(size / shortest_tensor);
    }

    /// Hands pages of a mapped file back while it is read.
    void consumed(std::size_t bytes) { pages_.release_before(bytes); }

    bool begin_object() {
        if (skipped_ > 0) return ++skipped_, true;
        switch (place_) {
            case Place::start:
            case Place::children:
                if (builder_.depth() == max_module_depth) {
                    return refuse(Error{ErrorCode::capacity_exceeded}
                                      .because("modules are nested too deep")
                                      .at_most(static_cast<std::int64_t>(max_module_depth)));
                }
                builder_.begin();
                return enter(Place::module);
            case Place::parameters:
            case Place::buffers:
                tensor_ = {};
                is_shape_known_ = is_dtype_known_ = false;
                tensor_.kind = place_ == Place::buffers ? TensorKind::buffer : TensorKind::parameter;
                return enter(Place::tensor);
            case Place::module: case Place::tensor: case Place::shape: case Place::ties: case Place::tie: break;
        }
        return wrong("an object");
    }
    bool end_object() {
        if (skipped_ > 0) return end_skipped();
        if (place_ == Place::tensor) return end_tensor();
        if (!builder_.end()) return refuse(builder_.refusal());
        return leave();
    }
    bool begin_array() {
        if (skipped_ > 0) return ++skipped_, true;
        if (place_ == Place::module && key_ == "params") return enter(Place::parameters);
        if (place_ == Place::module && key_ == "buffers") return enter(Place::buffers);
        if (place_ == Place::module && key_ == "children") return enter(Place::children);
        if (place_ == Place::module && key_ == "tied" && builder_.depth() == 1) return enter(Place::ties);
        if (place_ == Place::ties) return builder_.begin_tie(), enter(Place::tie);
        if (place_ == Place::tensor && key_ == "shape") {
            tensor_.shape = {};
            is_shape_known_ = true;
            return enter(Place::shape);
        }
        return wrong("a list");
    }
    bool end_array() {
        if (skipped_ > 0) return end_skipped();
        return leave();
    }
    bool key(std::string_view text) {
        if (skipped_ > 0) return true;
        key_ = {};
        std::uint32_t bit = 1;
        for (auto const known : known_keys) {
            if (text == known) key_ = known;
            if (key_.empty()) bit <<= 1U;
        }
        if (key_.empty()) {
            if (unknown_key_.empty()) unknown_key_ = text;
            skips_next_ = true;
            return true;
        }
        if ((keys_.back() & bit) != 0) {
            return refuse(Error{ErrorCode::malformed_file}
                              .in(builder_.path(tensor_name()))
                              .at(key_)
                              .because("occurs twice in one object"));
        }
        keys_.back() |= bit;
        return true;
    }
    bool string(std::string_view text) {
        if (is_skipped()) return true;
        if (place_ == Place::tie) return builder_.add_tied(text) || refuse(builder_.refusal());
        if (place_ == Place::module && key_ == "class") return builder_.set_class(text), true;
        if (place_ == Place::module && key_ == "name") return builder_.set_name(text) || refuse(builder_.refusal());
        if (place_ == Place::tensor && key_ == "name") {
            tensor_.name = builder_.keep(text);
            return tensor_.name.size() == text.size() || refuse(builder_.why_full());
        }
        if (place_ == Place::tensor && key_ == "dtype") {
            auto const dtype = parse_dtype(text);
            if (!dtype) return invalid("\"" + std::string(text) + "\" is not a known dtype");
            tensor_.dtype = *dtype;
            return is_dtype_known_ = true;
        }
        return wrong("a string");
    }
    bool integer(std::int64_t value) {
        if (is_skipped()) return true;
        if (place_ != Place::shape) return wrong("a number");
        if (value < 0) return invalid("a size must be at least 0, but is " + std::to_string(value));
        if (tensor_.shape.rank() == Shape::max_rank)
            return invalid("has more than " + std::to_string(Shape::max_rank) + " dimensions");
        tensor_.shape.push_back(value);
        return true;
    }
    bool unsigned_integer(std::uint64_t) { return is_skipped() || invalid("has a number too large for a size"); }
    bool real(double) { return is_skipped() || wrong("a fraction"); }
    bool boolean(bool value) {
        if (is_skipped()) return true;
        bool const is_persistent =
            place_ == Place::tensor && key_ == "persistent" && tensor_.kind != TensorKind::parameter;
        if (!is_persistent) return wrong("true or false");
        tensor_.kind = value ? TensorKind::buffer : TensorKind::transient_buffer;
        return true;
    }
    bool null() { return is_skipped() || wrong("null"); }

    [[nodiscard]] std::string const& unknown_key() const { return unknown_key_; }
    [[nodiscard]] std::vector<TreeBuilder::Tied> const& tied() const { return builder_.tied(); }
    [[nodiscard]] ModuleTree take() && { return std::move(builder_).take(); }

private:
    enum class Place : std::uint8_t { start, module, parameters, buffers, children, tensor, shape, ties, tie };

    static constexpr std::array<std::string_view, 9> known_keys{"class", "name",  "params", "buffers",   "children",
                                                                "tied",  "dtype", "shape",  "persistent"};

    bool enter(Place place) {
        outer_.push_back(place_);
        keys_.push_back(0);
        place_ = place;
        return true;
    }
    bool leave() {
        place_ = outer_.back();
        outer_.pop_back();
        keys_.pop_back();
        return true;
    }
    /// True for a scalar that belongs to an unknown key.
    bool is_skipped() {
        if (skipped_ > 0) return true;
        return std::exchange(skips_next_, false);
    }
    bool end_skipped() { return --skipped_, true; }
    bool invalid(std::string_view reason) {
        return refuse(Error{ErrorCode::invalid_field}.in(builder_.path(tensor_name())).at(key_).because(reason));
    }
    bool wrong(std::string_view found) {
        if (std::exchange(skips_next_, false)) return skipped_ = 1, true;
        return invalid(std::string(found) + " cannot stand here");
    }
    [[nodiscard]] std::string_view tensor_name() const {
        return place_ == Place::tensor || place_ == Place::shape ? tensor_.name : std::string_view{};
    }
    bool end_tensor() {
        for (auto const& [is_known, name] :
             {std::pair{!tensor_.name.empty(), "name"}, std::pair{is_dtype_known_, "dtype"},
              std::pair{is_shape_known_, "shape"}}) {
            if (is_known) continue;
            return refuse(
                Error{ErrorCode::missing_field}.in(builder_.path(tensor_.name)).at(name).because("a tensor needs it"));
        }
        if (!builder_.add_tensor(tensor_)) return refuse(builder_.refusal());
        return leave();
    }

    TreeBuilder builder_;
    ReadPages pages_;
    std::vector<Place> outer_;
    std::vector<std::uint32_t> keys_;  // of each open bracket: the known keys that it had
    Place place_ = Place::start;
    Tensor tensor_{};
    bool is_shape_known_ = false;
    bool is_dtype_known_ = false;
    std::string_view key_;
    std::string unknown_key_;
    bool skips_next_ = false;
    std::size_t skipped_ = 0;  // open brackets of a value under an unknown key
};

/// Declares the ties, once every tied name is known to be a parameter, and each in one group only.
[[nodiscard]] inline Result<> tie_names(ModuleTree& tree, std::vector<TreeBuilder::Tied> const& tied) {
    if (tied.empty()) return {};
    std::unordered_map<std::string_view, bool> is_found;
    for (auto const& tie : tied) {
        if (is_found.insert({tie.name, false}).second) continue;
        return Error{ErrorCode::malformed_file}.in(tie.name).at("tied").because("occurs twice");
    }
    walk_tensors(tree, [&is_found](std::string_view name, Tensor const&) {
        if (auto const found = is_found.find(name); found != is_found.end()) found->second = true;
    });
    for (auto const& tie : tied) {
        if (!is_found[tie.name]) {
            return Error{ErrorCode::unknown_name}.in(tie.name).at("tied").because("is not a parameter of this tree");
        }
        if (tie.name != tie.first) tree.tie(tie.first, tie.name);
    }
    return {};
}

}  // namespace detail

/// Reads a tree as `--tree` takes it: {"class", "params": [{"name", "dtype", "shape"}], "buffers": [...], "children":
/// [{"name", ...}], "tied": [["a.weight", "b.weight"]]}. Of tied names the first counts. Equal modules share one body.
/// `mapped`: where the text lies, if it is mapped: what has been read is then given back.
///
/// Errors  malformed_file, missing_field, invalid_field, size_overflow, capacity_exceeded, which name the module;
///         unknown_name for a tied name that the tree lacks
[[nodiscard]] inline Result<TreeFile> read_tree(std::string_view text, std::string_view file,
                                                MappedFile const* mapped = nullptr) {
    detail::TreeReader reader(text.size(), mapped);
    // Each module takes an object and a list of children; a tensor within takes four more levels.
    auto const name_file = [file](Error error) {
        if (error.subject().empty()) error.in(file);
        return error;
    };
    auto const read = read_json(text, reader, 2 * detail::max_module_depth + 8);
    if (!read) return name_file(read.error());
    TreeFile out;
    if (!reader.unknown_key().empty()) {
        out.warnings.push_back(escaped(file) + ": the key \"" + escaped(reader.unknown_key()) +
                               "\" means nothing here");
    }
    auto const tied = reader.tied();
    out.tree = std::move(reader).take();
    if (auto const limits = check_tree_limits(out.tree); !limits) return name_file(limits.error());
    if (auto const set = detail::tie_names(out.tree, tied); !set) return name_file(set.error());
    return out;
}

/// Reads a tree file.
///
/// Errors  as read_tree; file_not_found, file_unreadable; capacity_exceeded beyond max_tree_file
[[nodiscard]] inline Result<TreeFile> read_tree_file(std::string const& path) {
    auto const file = RegularFile::open(path);
    if (!file) return file.error();
    if (file->size() > max_tree_file) {
        return Error{ErrorCode::capacity_exceeded}
            .in(path)
            .because("is larger than a tree file may be, in bytes")
            .got(static_cast<std::int64_t>(file->size()))
            .at_most(static_cast<std::int64_t>(max_tree_file));
    }
    auto const mapped = MappedFile::map(*file, 0, file->size());
    if (!mapped) return mapped.error();
    auto tree = read_tree(mapped->text(), path, &*mapped);
    if (auto const checked = mapped->check(); !checked) return checked.error();
    return tree;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
