// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>
#include <shardwise/core/sha256.hpp>
#include <shardwise/json/value.hpp>
#include <shardwise/json/writer.hpp>
#include <shardwise/model/files/safetensors.hpp>
#include <shardwise/train/checkpoint/trainer_state.hpp>

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// A file of a checkpoint that is there as a whole text: config.json and the like.
struct RecordedFile {
    std::string name;
    std::int64_t bytes = 0;
    /// SHA-256, hex.
    std::string hash;

    friend bool operator==(RecordedFile const&, RecordedFile const&) = default;
};

/// A tensor's checksum (tensor_sum).
struct RecordedTensor {
    std::string file;
    std::string name;
    std::uint64_t sum = 0;

    friend bool operator==(RecordedTensor const&, RecordedTensor const&) = default;
};

/// What `trainer_state.json` says: where the run is, and the checksums of all other files, so that damage is seen and named.
struct CheckpointRecord {
    TrainerState state;
    std::vector<RecordedFile> files;
    std::vector<RecordedTensor> tensors;

    /// The text of trainer_state.json. Its own hash stands in it, over all that follows the hash.
    [[nodiscard]] std::string text() const;

    /// Reads such a text; `path` is for errors.
    ///
    /// Errors  malformed_file; unsupported for a later version
    [[nodiscard]] static Result<CheckpointRecord> parse(std::string_view text, std::string_view path);

    friend bool operator==(CheckpointRecord const&, CheckpointRecord const&) = default;
};

inline constexpr std::string_view trainer_state_file = "trainer_state.json";
inline constexpr std::string_view trainer_state_schema = "shardwise.trainer_state/1";

namespace detail {

[[nodiscard]] inline std::string record_start() {
    return "{\n  \"schema\": \"" + std::string(trainer_state_schema) + "\",\n  \"sha256\": \"";
}

[[nodiscard]] inline std::string hex_of(std::uint64_t number) {
    constexpr std::string_view digits = "0123456789abcdef";
    std::string out;
    for (unsigned shift = 64; shift > 0; shift -= 4) out += digits[number >> (shift - 4U) & 15U];
    return out;
}

/// All of a text as a number; nothing where it is none.
[[nodiscard]] inline std::optional<std::uint64_t> whole_number(std::string_view text, int base) {
    std::uint64_t number = 0;
    auto const read = std::from_chars(text.data(), text.data() + text.size(), number, base);
    if (read.ec != std::errc() || read.ptr != text.data() + text.size()) return std::nullopt;
    return number;
}

/// Takes a record's members; the first that is missing or of another type is kept as the error.
class RecordReader {
public:
    RecordReader(JsonValue root, std::string_view path) : root_(root), path_(path) {}

    [[nodiscard]] std::optional<Error> const& error() const { return error_; }

    void fail(std::string_view key, std::string_view reason = "is missing, or of another type") {
        if (!error_) error_ = Error{ErrorCode::malformed_file}.in(path_).at(key).because(reason);
    }
    [[nodiscard]] std::int64_t count(JsonValue of, std::string_view key) {
        auto const member = of.find(key);
        auto const number = member ? member->integer() : std::nullopt;
        if (!number || *number < 0) fail(key);
        return number.value_or(0);
    }
    [[nodiscard]] std::int64_t count(std::string_view key) { return count(root_, key); }
    [[nodiscard]] std::string text(JsonValue of, std::string_view key) {
        auto const member = of.find(key);
        auto const found = member ? member->string() : std::nullopt;
        if (!found) fail(key);
        return std::string(found.value_or(std::string_view{}));
    }
    [[nodiscard]] Optional<double> real(JsonValue of, std::string_view key) {
        auto const member = of.find(key);
        if (member && member->is_null()) return {};
        auto const number = member ? member->real() : std::nullopt;
        if (!number) fail(key);
        return number;
    }
    /// Calls `take` for each member of an object or list.
    template <class Take>
    void each(std::string_view key, Take take) {
        auto const member = root_.find(key);
        if (!member || (!member->is_object() && !member->is_array())) return fail(key);
        for (auto const one : *member) take(one);
    }
    [[nodiscard]] JsonValue root() const { return root_; }

private:
    JsonValue root_;
    std::string_view path_;
    std::optional<Error> error_;
};

}  // namespace detail

inline std::string CheckpointRecord::text() const {
    JsonWriter json(2);
    auto const real = [&json](std::string_view name, Optional<double> const& value) {
        json.key(name);
        if (value) {
            json.value(*value);
        } else {
            json.value(nullptr);
        }
    };
    json.begin_object();
    json.member("step", state.step).member("updates", state.updates).member("tokens", state.tokens);
    json.member("position", state.position);
    // As text: readers of JSON take numbers of 63 bits, or round them.
    json.member("seed", std::string_view(std::to_string(state.seed)));
    if (state.scaler) {
        json.key("scaler").begin_object();
        json.member("scale", state.scaler->scale).member("good_steps", state.scaler->good_steps).end_object();
    } else {
        json.key("scaler").value(nullptr);
    }
    json.key("skipped").begin_array();
    for (auto const step : state.skipped) json.value(step);
    json.end_array().member("skipped_in_row", state.skipped_in_row);
    json.key("loss").begin_object();
    real("first", state.first_loss);
    real("last", state.last_loss);
    real("valid", state.valid_loss);
    real("best_valid", state.best_valid_loss);
    json.member("valid_data", std::string_view(state.valid_data));
    if (state.owes_validation) json.member("owes_validation", true);
    json.end_object().key("settings").begin_object();
    for (auto const& one : state.settings.all()) json.member(one.name, std::string_view(one.value));
    json.end_object().key("files").begin_object();
    for (auto const& file : files) {
        json.key(file.name).begin_object();
        json.member("bytes", file.bytes).member("sha256", std::string_view(file.hash)).end_object();
    }
    json.end_object().key("tensors").begin_object();
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        bool const is_first = i == 0 || tensors[i].file != tensors[i - 1].file;
        if (is_first && i > 0) json.end_object();
        if (is_first) json.key(tensors[i].file).begin_object();
        json.member(tensors[i].name, std::string_view(detail::hex_of(tensors[i].sum)));
    }
    if (!tensors.empty()) json.end_object();
    json.end_object().end_object();
    // The members follow the schema and the hash, which is over the rest of the text.
    auto const rest = "\"," + json.text().substr(1) + "\n";
    return detail::record_start() + sha256_hex(rest) + rest;
}

inline Result<CheckpointRecord> CheckpointRecord::parse(std::string_view text, std::string_view path) {
    auto const damaged = [path](std::string_view reason) {
        return Error{ErrorCode::malformed_file}.in(path).because(reason);
    };
    auto const start = detail::record_start();
    constexpr std::size_t hash_digits = 64;
    bool const has_hash = text.starts_with(start) && text.size() > start.size() + hash_digits;
    bool const is_whole =
        has_hash && sha256_hex(text.substr(start.size() + hash_digits)) == text.substr(start.size(), hash_digits);
    if (has_hash && !is_whole) return damaged("has changed since it was written: its checksum is another");
    auto const document = parse_json(text, {.values = 4 * max_file_tensors});
    if (!document) return Error{document.error()}.in(path);
    auto const root = document->root();
    auto const schema = root.find("schema");
    auto const name = schema ? schema->string() : std::nullopt;
    if (!name || !name->starts_with("shardwise.trainer_state/")) return damaged("is no state of shardwise's trainer");
    if (*name != trainer_state_schema)
        return Error{ErrorCode::unsupported}
            .in(path)
            .at("schema")
            .because("is of a version that is not read: " + std::string(name->substr(0, 60)))
            .fix("go on with the version of shardwise that wrote it");
    if (!is_whole) return damaged("has changed since it was written: its checksum is another");

    detail::RecordReader reader(root, path);
    CheckpointRecord out;
    out.state.step = reader.count("step");
    out.state.updates = reader.count("updates");
    out.state.tokens = reader.count("tokens");
    out.state.position = reader.count("position");
    auto const seed = detail::whole_number(reader.text(root, "seed"), 10);
    if (!seed) reader.fail("seed");
    out.state.seed = seed.value_or(0);
    auto const scaler = root.find("scaler");
    if (!scaler) reader.fail("scaler");
    if (scaler && !scaler->is_null()) {
        auto const scale = reader.real(*scaler, "scale");
        if (!scale) reader.fail("scale");
        out.state.scaler = TrainerState::Scaler{scale.value_or(0.0), reader.count(*scaler, "good_steps")};
    }
    reader.each("skipped", [&](JsonValue one) {
        if (!one.integer()) reader.fail("skipped");
        out.state.skipped.push_back(one.integer().value_or(0));
    });
    out.state.skipped_in_row = reader.count("skipped_in_row");
    if (auto const loss = root.find("loss")) {
        out.state.first_loss = reader.real(*loss, "first");
        out.state.last_loss = reader.real(*loss, "last");
        out.state.valid_loss = reader.real(*loss, "valid");
        out.state.best_valid_loss = reader.real(*loss, "best_valid");
        // Earlier records have none.
        if (loss->find("valid_data")) out.state.valid_data = reader.text(*loss, "valid_data");
        // Most owe none.
        if (auto const owes = loss->find("owes_validation")) {
            if (!owes->boolean()) reader.fail("owes_validation");
            out.state.owes_validation = owes->boolean().value_or(false);
        }
    } else {
        reader.fail("loss");
    }
    reader.each("settings", [&](JsonValue one) {
        if (!one.is_string()) return reader.fail("settings");
        out.state.settings.add(one.key(), *one.string());
    });
    reader.each("files", [&](JsonValue one) {
        out.files.push_back({std::string(one.key()), reader.count(one, "bytes"), reader.text(one, "sha256")});
    });
    reader.each("tensors", [&](JsonValue file) {
        for (auto const one : file) {
            auto const sum = detail::whole_number(one.string().value_or(std::string_view{}), 16);
            if (!sum) reader.fail("tensors");
            out.tensors.push_back({std::string(file.key()), std::string(one.key()), sum.value_or(0)});
        }
    });
    if (reader.error()) return *reader.error();
    return out;
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
