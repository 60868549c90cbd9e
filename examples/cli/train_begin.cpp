// SPDX-License-Identifier: Apache-2.0
#include "train_begin.hpp"

#include <shardwise/core/files/temporaries.hpp>
#include <shardwise/core/text.hpp>

#include "commands.hpp"
#include "options.hpp"
#include "train_settings.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

namespace shardwise::cli {

namespace {

/// Names a setting of a run that differs by the flag that it follows from.
[[nodiscard]] Error with_flag(Error error) {
    constexpr std::array<std::pair<std::string_view, std::string_view>, 6> others{
        std::pair{"floor", "--min-lr, as a part of --lr"},
        {"learning_rate", "--lr"},
        {"warm_up", "--warmup"},
        {"data", "the text of --data"},
        {"model", "the weights of the model"},
        {"tokens", "the number of tokens to learn from (--data, --valid-part)"}};
    if (error.code() != ErrorCode::invalid_argument) return error;
    for (auto const& [name, words] : others) {
        if (error.place() == name) return error.at(words);
    }
    auto flag = "--" + std::string(error.place());
    std::replace(flag.begin(), flag.end(), '_', '-');
    bool is_flag = false;
    find_command("train")->for_each_option([&](Option const& option) { is_flag = is_flag || option.flag == flag; });
    return is_flag ? error.at(flag) : error;
}

/// Where the run begins, by --resume: where it would remove checkpoints that are there, nowhere.
[[nodiscard]] Result<ResumePoint> find_begin(TrainJob const& job, TrainAnswer const& answer,
                                             CheckpointLayout const& layout) {
    auto const& request = answer.request;
    auto const settings = settings_of(request, answer.plan, *job.data);
    if (auto const cleaned = remove_leftovers(request.out); !cleaned) return cleaned.error();
    remove_temporaries(request.out + "/tokens");
    for (auto const& file : {request.csv, request.svg}) {
        if (file) remove_temporaries(std::filesystem::path(*file).parent_path().string());
    }
    auto const from = request.resume.value_or("auto");
    auto point = equal_ignoring_case(from, "none")   ? Result<ResumePoint>(ResumePoint{})
                 : equal_ignoring_case(from, "auto") ? newest_checkpoint(request.out, layout, *job.files, settings)
                                                     : resume_from(from, layout, *job.files, settings);
    if (!point) return with_flag(point.error());
    auto const kept = check_run_folder(request.out, *point, *job.files, settings);
    if (kept) return point;
    auto error = with_flag(kept.error());
    // A setting that differs has its own way out.
    if (error.place().empty()) error.fix("go on from it with --resume auto, or give another --out");
    return error;
}

/// How many checkpoints the disk must have space for: the one that is written, and the one that stays until then where the run does not go
/// on from one in its own folder.
[[nodiscard]] std::int64_t checkpoints_to_come(TrainAnswer const& answer, ResumePoint const& from) {
    if (!from.is_in(answer.request.out)) return 2;
    return from.state.step < answer.plan.steps || from.state.owes_validation ? 1 : 0;
}

}  // namespace

Result<ResumePoint> open_folder(TrainJob const& job, TrainAnswer const& answer, CheckpointLayout const& layout,
                                std::optional<RunFolderLock>& lock) {
    auto taken = RunFolderLock::take(answer.request.out);
    if (!taken) return taken.error();
    lock.emplace(*std::move(taken));
    auto from = find_begin(job, answer, layout);
    if (!from) return from;
    auto const space =
        check_checkpoint_space(answer.request.out, layout, *job.files, checkpoints_to_come(answer, *from));
    return space ? from : Result<ResumePoint>(space.error());
}

}  // namespace shardwise::cli
