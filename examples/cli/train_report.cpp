// SPDX-License-Identifier: Apache-2.0
#include "train_report.hpp"

#include <shardwise/core/files/text_file.hpp>
#include <shardwise/core/files/write_file.hpp>

#include "console.hpp"
#include "text.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <string_view>

namespace shardwise::cli {

namespace {

constexpr std::string_view csv_head =
    "step,tokens,loss,valid_loss,lr,grad_norm,skipped,tokens_per_s,compute_s,communication_s,exposed_s\n";
constexpr std::size_t max_csv_bytes = std::size_t{1} << 30U;
/// Lines of a whole run on what is no terminal.
constexpr std::int64_t lines = 20;

/// The shortest digits that read back as the same number; nothing for what is no number.
[[nodiscard]] std::string shortest(std::optional<double> const& value) {
    if (!value || !std::isfinite(*value)) return {};
    std::array<char, 32> digits{};
    auto const end = std::to_chars(digits.data(), digits.data() + digits.size(), *value).ptr;
    return {digits.data(), end};
}

[[nodiscard]] std::string csv_line(TrainRow const& row) {
    auto out = std::to_string(row.step) + "," + std::to_string(row.tokens) + "," + shortest(row.loss) + "," +
               shortest(row.valid_loss) + "," + shortest(row.learning_rate) + "," + shortest(row.norm) + "," +
               (row.is_skipped ? "1" : "0") + "," + shortest(row.tokens_per_second) + "," +
               shortest(row.times.compute) + "," + shortest(row.times.communication) + "," +
               shortest(row.times.exposed) + "\n";
    return out;
}

[[nodiscard]] std::optional<double> number_of(std::string_view text) {
    double value = 0.0;
    auto const [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (problem != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return value;
}

/// Reads a line back; nothing where it is none.
[[nodiscard]] std::optional<TrainRow> row_of(std::string_view line) {
    std::array<std::string_view, 7> cells;
    for (auto& cell : cells) {
        auto const comma = line.find(',');
        if (comma == std::string_view::npos) return std::nullopt;
        cell = line.substr(0, comma);
        line.remove_prefix(comma + 1);
    }
    auto const step = number_of(cells[0]);
    auto const tokens = number_of(cells[1]);
    if (!step || !tokens) return std::nullopt;
    TrainRow row;
    row.step = static_cast<std::int64_t>(*step);
    row.tokens = static_cast<std::int64_t>(*tokens);
    row.loss = number_of(cells[2]).value_or(std::nan(""));
    row.valid_loss = number_of(cells[3]);
    row.learning_rate = number_of(cells[4]).value_or(0.0);
    row.norm = number_of(cells[5]).value_or(std::nan(""));
    row.is_skipped = cells[6] == "1";
    return row;
}

/// A line with the loss of a validation that came after it was written.
[[nodiscard]] std::string with_valid_loss(std::string_view line, double loss) {
    std::size_t at = 0;
    for (int cell = 0; cell < 3; ++cell) at = line.find(',', at) + 1;
    return std::string(line.substr(0, at)) + shortest(loss) + std::string(line.substr(line.find(',', at)));
}

/// The head and the lines up to a step of a file that a run wrote; the rows go to `rows`. `validated` is the loss of that step's validation
/// where the line does not have it.
[[nodiscard]] Result<std::string> kept_lines(std::string const& path, std::int64_t first,
                                             std::optional<double> const& validated, std::vector<TrainRow>& rows) {
    auto const text = read_text_file(path, max_csv_bytes);
    if (!text) {
        if (text.error().code() != ErrorCode::file_not_found) return text.error();
        return std::string(csv_head);
    }
    auto const bad = [&path](std::string_view reason) {
        return Error{ErrorCode::malformed_file}.in(path).because(reason).fix("name another file, or remove it");
    };
    if (!text->starts_with(csv_head)) return bad("is not the CSV file of a run that could go on");
    std::string out{csv_head};
    for (auto at = csv_head.size(); at < text->size();) {
        auto const end = text->find('\n', at);
        // The last line of a run that was killed may be cut.
        if (end == std::string::npos) break;
        auto const line = std::string_view{*text}.substr(at, end + 1 - at);
        at = end + 1;
        auto row = row_of(line);
        if (!row) return bad("has a line that is none of a run");
        if (row->step > first) break;
        bool const is_late = row->step == first && validated;
        if (is_late) row->valid_loss = validated;
        out += is_late ? with_valid_loss(line, *validated) : std::string(line);
        rows.push_back(*row);
    }
    return out;
}

}  // namespace

Result<TrainReport> TrainReport::begin(TrainRequest const& request, std::int64_t steps, std::int64_t valid_every,
                                       std::int64_t first, std::optional<double> const& validated, ColorMode color) {
    TrainReport out;
    out.steps_ = steps;
    out.valid_every_ = std::max<std::int64_t>(1, valid_every);
    out.line_every_ = may_animate(color) ? 0 : std::max<std::int64_t>(1, steps / lines);
    if (!request.csv && !request.svg) return out;
    // A run that goes on draws the steps before it, too.
    out.path_ = request.csv.value_or(request.out + "/steps.csv");
    auto const kept =
        first > 0 ? kept_lines(out.path_, first, validated, out.rows_) : Result<std::string>(std::string(csv_head));
    if (!kept) return kept.error();
    if (auto const written = write_file(out.path_, *kept); !written) return written.error();
    out.csv_.reset(std::fopen(out.path_.c_str(), "ae"));
    if (!out.csv_) return detail::unwritable(out.path_, errno);
    return out;
}

Result<> TrainReport::take(TrainRow const& row) {
    rows_.push_back(row);
    if (row.valid_loss) {
        valid_ = row.valid_loss;
        valid_seconds_ = row.valid_seconds;
    }
    // Early steps are slower: memory is touched for the first time.
    step_seconds_ = step_seconds_ > 0.0 ? 0.9 * step_seconds_ + 0.1 * row.times.step : row.times.step;
    show(row);
    if (!csv_) return {};
    auto const line = csv_line(row);
    bool const is_written = std::fwrite(line.data(), 1, line.size(), csv_.get()) == line.size();
    // Whoever looks on, and whoever looks after a crash, finds every step.
    if (!is_written || std::fflush(csv_.get()) != 0) return detail::unwritable(path_, errno);
    return {};
}

void TrainReport::show(TrainRow const& row) {
    bool const is_drawn_over = line_every_ == 0;
    bool const is_due = is_drawn_over || row.step % line_every_ == 0 || row.step == steps_ || row.valid_loss;
    if (!is_due) return;
    auto text = "step " + std::to_string(row.step) + "/" + std::to_string(steps_) + "  loss " + decimals(row.loss, 4);
    if (row.is_skipped) text += " (skipped)";
    if (valid_) text += "  validation " + decimals(*valid_, 4);
    text += "  " + grouped(static_cast<std::int64_t>(row.tokens_per_second)) + " tokens/s";
    auto const share = row.times.step > 0.0 ? row.times.exposed / row.times.step : 0.0;
    text += "  communication " + decimals(100.0 * share, 0) + " %";
    // After each valid_every steps, and after the last one.
    auto const validations = ceil_divide(steps_, valid_every_) - row.step / valid_every_;
    auto const left =
        static_cast<double>(steps_ - row.step) * step_seconds_ + static_cast<double>(validations) * valid_seconds_;
    if (row.step < steps_) text += "  " + duration(left) + " left";
    std::fprintf(stderr, is_drawn_over ? "\r\033[K%s" : "%s\n", text.c_str());
    (void)std::fflush(stderr);
    has_line_ = is_drawn_over;
}

void TrainReport::end_line() {
    if (has_line_) std::fputs("\n", stderr);
    has_line_ = false;
}

void TrainReport::warn(std::string const& text) {
    end_line();
    print_warnings({text});
}

Result<> TrainReport::end() {
    end_line();
    if (!csv_) return {};
    if (auto* const file = csv_.release(); std::fclose(file) != 0) return detail::unwritable(path_, errno);
    return {};
}

}  // namespace shardwise::cli
