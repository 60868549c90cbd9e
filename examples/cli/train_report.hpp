// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/core/result.hpp>

#include "console.hpp"
#include "train_answer.hpp"

#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace shardwise::cli {

/// What a run says of each step: a line of a CSV file, and on stderr one line that is drawn over on a terminal, else one now and then.
class TrainReport {
public:
    /// `first` is the step behind which the run begins: lines of a CSV file that are behind it, of a run that went further, are cut off.
    /// Validation comes after each `valid_every` steps, and after the last one; `validated` is that of `first`, where it was done later.
    ///
    /// With a picture alone the lines lie in the run's own folder.
    ///
    /// Errors  file_unwritable; malformed_file for a CSV file that is not of a run, or lacks steps
    [[nodiscard]] static Result<TrainReport> begin(TrainRequest const& request, std::int64_t steps,
                                                   std::int64_t valid_every, std::int64_t first,
                                                   std::optional<double> const& validated, ColorMode color);

    /// Errors  file_unwritable
    [[nodiscard]] Result<> take(TrainRow const& row);
    /// Prints a warning on a line of its own.
    void warn(std::string const& text);
    /// Ends the line on stderr. Lines of the CSV file are on the disk then.
    ///
    /// Errors  file_unwritable
    [[nodiscard]] Result<> end();

    /// All rows, those of the CSV file before `first` included where there is one.
    [[nodiscard]] std::vector<TrainRow> const& rows() const { return rows_; }

private:
    struct Close {
        void operator()(std::FILE* file) const { (void)std::fclose(file); }
    };

    TrainReport() = default;
    void show(TrainRow const& row);
    /// Ends the line that is drawn over.
    void end_line();

    std::string path_;
    std::unique_ptr<std::FILE, Close> csv_;
    std::vector<TrainRow> rows_;
    std::int64_t steps_ = 0;
    /// Steps from one line on stderr to the next; 0: one line, drawn over.
    std::int64_t line_every_ = 0;
    std::optional<double> valid_;
    /// Smoothed, for the time that is left.
    double step_seconds_ = 0.0;
    std::int64_t valid_every_ = 1;
    double valid_seconds_ = 0.0;
    bool has_line_ = false;
};

}  // namespace shardwise::cli
