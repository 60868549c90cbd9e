// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/bytes.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/train/checkpoint/checkpoint_files.hpp>
#include <shardwise/train/checkpoint/checkpoint_folders.hpp>
#include <shardwise/train/checkpoint/checkpoint_layout.hpp>
#include <shardwise/train/checkpoint/checkpoint_reader.hpp>
#include <shardwise/train/checkpoint/trainer_state.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <sys/statvfs.h>
#include <utility>
#include <vector>

namespace shardwise::inline SHARDWISE_NAMESPACE {

/// Where a run begins.
struct ResumePoint {
    /// The checkpoint's folder; empty: at step 0, with the model's weights.
    std::string folder;
    TrainerState state;
    /// Checkpoints that were passed over because they are damaged, by their steps, and one sentence on each.
    std::vector<std::int64_t> damaged;
    std::vector<std::string> warnings;

    [[nodiscard]] bool is_beginning() const { return folder.empty(); }
    /// Whether it is a checkpoint of the run that writes into this folder.
    [[nodiscard]] bool is_in(std::string const& out) const {
        return !is_beginning() && folder == out + "/" + checkpoint_name(state.step);
    }
};

/// Success where a run with these settings and files may go on from a checkpoint.
///
/// Errors  invalid_argument with the name of the first setting that differs; shape_mismatch for another config.json or tokenizer.json
[[nodiscard]] inline Result<> compare_runs(CheckpointRecord const& record, std::string const& folder,
                                           RunSettings const& settings, CheckpointFiles const& files) {
    constexpr std::string_view fix =
        "go on with the settings that the run began with, or begin another in a new folder";
    auto const differs = [&](std::string_view name, std::string const* here, std::string const* there) {
        auto const text = [](std::string const* value) { return value == nullptr ? std::string("not set") : *value; };
        return Error{ErrorCode::invalid_argument}
            .in(folder)
            .at(name)
            .because("is " + text(here) + ", and was " + text(there) + " when the run began, which changes its result")
            .fix(fix);
    };
    auto const& before = record.state.settings;
    for (auto const& one : settings.all()) {
        auto const* const was = before.find(one.name);
        if (was == nullptr || *was != one.value) return differs(one.name, &one.value, was);
    }
    for (auto const& one : before.all()) {
        if (settings.find(one.name) == nullptr) return differs(one.name, nullptr, &one.value);
    }
    for (auto const& file : files.files) {
        if (file.name != "config.json" && file.name != "tokenizer.json") continue;
        for (auto const& recorded : record.files) {
            if (recorded.name == file.name && recorded.hash != sha256_hex(file.text))
                return Error{ErrorCode::shape_mismatch}
                    .in(folder)
                    .at(file.name)
                    .because("is not the one that the run began with")
                    .fix(fix);
        }
    }
    return {};
}

/// The newest checkpoint of a run's folder that is whole: every byte is looked at. Where a newer one is damaged, a warning names it
/// and the tensor. Without any checkpoint, or without the folder, the run begins at step 0.
///
/// Errors  as compare_runs, of the newest whose record can be read; where all checkpoints are damaged, that of the newest
[[nodiscard]] inline Result<ResumePoint> newest_checkpoint(std::string const& out, CheckpointLayout const& layout,
                                                           CheckpointFiles const& files, RunSettings const& settings) {
    ResumePoint point;
    std::optional<Error> newest;
    for (auto const step : list_checkpoints(out)) {
        auto folder = out + "/" + checkpoint_name(step);
        auto record = read_checkpoint_record(folder);
        if (record && record->state.step != step)
            record = Error{ErrorCode::malformed_file}
                         .in(folder)
                         .because("holds another step than its name says")
                         .got(record->state.step)
                         .expected(step);
        // Other settings make another layout: they are named before any tensor is.
        if (record) {
            if (auto const same = compare_runs(*record, folder, settings, files); !same) return same.error();
            record = verify_checkpoint(folder, layout);
        }
        if (record) {
            point.folder = std::move(folder);
            point.state = std::move(record->state);
            return point;
        }
        if (record.error().code() == ErrorCode::unsupported) return record.error();
        point.damaged.push_back(step);
        point.warnings.push_back(record.error().message() + "; the checkpoint before it is taken");
        if (!newest) newest = record.error();
    }
    if (!newest) return point;
    return newest->fix("bring the checkpoint back, or begin again in a new folder; none in this one is whole");
}

/// One checkpoint, by its folder.
///
/// Errors  as compare_runs and verify_checkpoint
[[nodiscard]] inline Result<ResumePoint> resume_from(std::string folder, CheckpointLayout const& layout,
                                                     CheckpointFiles const& files, RunSettings const& settings) {
    while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
    auto record = read_checkpoint_record(folder);
    if (!record) return record.error();
    if (auto const same = compare_runs(*record, folder, settings, files); !same) return same.error();
    record = verify_checkpoint(folder, layout);
    if (!record) return record.error();
    return ResumePoint{std::move(folder), std::move(record->state), {}, {}};
}

/// Success where a run that begins there removes no checkpoint that it does not make again itself. A run keeps its newest checkpoints
/// alone: those of another run, and those of later steps, would go. What `newest_checkpoint` has found damaged may.
///
/// Errors  invalid_argument with the checkpoint that would go; as compare_runs
[[nodiscard]] inline Result<> check_run_folder(std::string const& out, ResumePoint const& from,
                                               CheckpointFiles const& files, RunSettings const& settings) {
    for (auto const step : list_checkpoints(out)) {
        if (std::find(from.damaged.begin(), from.damaged.end(), step) != from.damaged.end()) continue;
        auto const folder = out + "/" + checkpoint_name(step);
        Error lost{ErrorCode::invalid_argument};
        lost.in(folder).fix("go on from it, or give the run a folder of its own");
        if (from.is_beginning()) return lost.because("would be removed by a run that begins at step 0");
        if (step > from.state.step)
            return lost.because("would be removed by a run that goes on from an earlier step").got(from.state.step);
        auto const record = read_checkpoint_record(folder);
        if (!record) continue;
        if (auto const same = compare_runs(*record, folder, settings, files); !same) return same;
    }
    return {};
}

/// Success where the disk of a run's folder has room for `count` more checkpoints; looked at before the first step, so that a run does
/// not end without one.
///
/// Errors  file_unwritable with what is needed and what is free
[[nodiscard]] inline Result<> check_checkpoint_space(std::string const& out, CheckpointLayout const& layout,
                                                     CheckpointFiles const& files, std::int64_t count = 2) {
    // About what a tensor takes in trainer_state.json.
    constexpr std::int64_t record_bytes = 128;
    auto const one = layout.bytes().count() + files.bytes().count() +
                     record_bytes * static_cast<std::int64_t>(layout.tensors() + 64);
    struct statvfs disk {};
    auto place = out;
    // The folder is made later: what it will lie in counts.
    while (::statvfs(place.empty() ? "." : place.c_str(), &disk) != 0) {
        if (place.empty() || place == "/" || errno != ENOENT) return detail::unwritable(out, errno);
        auto const slash = place.find_last_of('/');
        place = slash == std::string::npos ? std::string{} : slash == 0 ? std::string("/") : place.substr(0, slash);
    }
    auto const free = static_cast<double>(disk.f_bavail) * static_cast<double>(disk.f_frsize);
    auto const needed = static_cast<double>(one) * static_cast<double>(count);
    if (needed <= free) return {};
    return Error{ErrorCode::file_unwritable}
        .in(out)
        .needs(Bytes{one * count})
        .has(Bytes{static_cast<std::int64_t>(free)})
        .because(count == 1 ? std::string("for a checkpoint") : "for " + std::to_string(count) + " checkpoints")
        .fix("free some space, or write elsewhere");
}

}  // namespace shardwise::inline SHARDWISE_NAMESPACE
