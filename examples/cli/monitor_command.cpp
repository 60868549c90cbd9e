// SPDX-License-Identifier: Apache-2.0
#include <shardwise/monitor/check_available.hpp>
#include <shardwise/monitor/csv_rows.hpp>
#include <shardwise/monitor/json_lines.hpp>
#include <shardwise/monitor/prometheus_text.hpp>
#include <shardwise/monitor/sampler.hpp>

#include "commands.hpp"
#include "detect_options.hpp"
#include "monitor_child.hpp"
#include "monitor_csv.hpp"
#include "monitor_listen.hpp"
#include "monitor_request.hpp"
#include "program_signals.hpp"
#include "monitor_text.hpp"
#include "monitor_view.hpp"
#include "requests.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <optional>
#include <poll.h>
#include <string>
#include <unistd.h>
#include <utility>

namespace shardwise::cli {

namespace {

using Form = MonitorRequest::Form;
using namespace std::chrono_literals;

/// A look that takes longer than this is a driver that hangs.
constexpr std::chrono::seconds hang_limit{10};

/// Whether looks are shown on a live terminal.
[[nodiscard]] bool has_view(MonitorRequest const& request, Arguments const& arguments) {
    bool const is_shown = request.form == Form::text || (request.form == Form::csv && request.csv != "-");
    return is_shown && !request.is_once && arguments.command_line.empty() && ViewTerminal::is_there();
}

/// Says on stderr, each once, why something stays unknown, and which call hangs.
class NotePrinter {
public:
    void print(Sampler const& sampler) {
        auto const notes = sampler.notes(printed_);
        print_warnings(notes);
        printed_ += notes.size();
        auto const call = sampler.hanging_call(2s);
        if (!call.empty() && call != hanging_)
            print_warnings({call + " has not returned for 2 s: the driver hangs or is busy, and nothing new is seen meanwhile"});
        hanging_ = call;
    }

private:
    std::size_t printed_ = 0;
    std::string hanging_;
};

/// Everything that a run of `monitor` is made of.
class MonitorRun {
public:
    MonitorRun(Arguments const& arguments, MonitorRequest request, Style style, ProgramSignals const& signals)
        : arguments_(arguments), request_(std::move(request)), style_(style), signals_(signals) {}

    [[nodiscard]] ExitCode run() {
        auto monitor = DeviceMonitor::open({request_.devices, program_detection_options()});
        if (!monitor) return refuse(monitor.error());
        auto sampler = Sampler::start(*std::move(monitor), {looks_apart(), 500ms});
        if (!sampler) return fail(sampler.error());
        auto const status = arguments_.command_line.empty() ? watch(*sampler) : watch_command(*sampler);
        if (!sampler->stop()) {
            // Ending in order would wait for the driver's own end.
            (void)flush_output();
            ::_exit(static_cast<int>(status));
        }
        return status;
    }

private:
    /// One look takes two, a moment apart: what is counted needs a difference.
    [[nodiscard]] std::chrono::nanoseconds looks_apart() const {
        bool const is_short = request_.is_once || (request_.form == Form::text && arguments_.command_line.empty() &&
                                                   !request_.listen && !has_view(request_, arguments_));
        return is_short ? std::min<std::chrono::nanoseconds>(request_.interval, 250ms) : request_.interval;
    }

    [[nodiscard]] ExitCode fail(Error const& error) const { return report(error, Stage::work, arguments_.json); }

    /// Names every device of --devices that may not be used, not only the first.
    [[nodiscard]] ExitCode refuse(Error const& error) const {
        if (error.code() == ErrorCode::no_such_device && !request_.devices.empty()) {
            auto const checked = check_available(request_.devices, program_detection_options());
            for (auto const& one : checked ? checked->devices : std::vector<DeviceAnswer>{}) {
                if (one.is_available) continue;
                auto const reason = one.reason.empty() ? std::string("is not available") : escaped(one.reason);
                std::fprintf(stderr, "shardwise: %s: %s\n", escaped(one.word).c_str(), reason.c_str());
            }
        }
        return fail(error);
    }

    [[nodiscard]] Result<> print(Sampler const& sampler, MonitorSample const& sample) {
        switch (request_.form) {
            case Form::text: print_text(monitor_text(sampler.devices(), sample, style_)); break;
            case Form::json: print_text(json_line(sampler.devices(), sample)); break;
            case Form::prometheus: print_text(prometheus_text(sampler.devices(), sample)); break;
            case Form::csv: return csv_->add(CsvRows(sampler.devices()).row(sample));
        }
        if (!flush_output()) return Error{ErrorCode::file_unwritable}.in("the standard output").because("is closed");
        return {};
    }

    /// Opens what looks go to: the file of rows, the listener.
    [[nodiscard]] Result<> open_outputs(Sampler const& sampler, bool has_exit_code) {
        if (request_.form == Form::csv) {
            auto file = CsvFile::open(request_.csv, CsvRows(sampler.devices(), has_exit_code).header());
            if (!file) return file.error();
            csv_.emplace(*std::move(file));
        }
        if (request_.listen) {
            auto listener = MetricsListener::open(*request_.listen);
            if (!listener) return listener.error();
            listener_.emplace(*std::move(listener));
            std::fprintf(stderr, "listening on http://%s/metrics\n", listener_->name().c_str());
        }
        return {};
    }
    /// Answers who asks for metrics, or waits as long.
    void serve(Sampler const& sampler, std::chrono::milliseconds limit) {
        listener_->serve(limit, [&] {
            MonitorSample sample;
            return sampler.wait_for(1, 0ms, sample) > 0 ? prometheus_text(sampler.devices(), sample) : std::string();
        });
    }

    /// Prints looks until one is enough, or a signal comes.
    [[nodiscard]] ExitCode watch(Sampler const& sampler) {
        if (auto const opened = open_outputs(sampler, false); !opened) return fail(opened.error());
        if (has_view(request_, arguments_)) return view(sampler);
        bool const is_printing = !(request_.form == Form::text && listener_);
        bool const is_once = request_.is_once || (request_.form == Form::text && !listener_);
        auto const begin = std::chrono::steady_clock::now();
        MonitorSample sample;
        std::uint64_t seen = 1;
        while (true) {
            while (auto const signal = signals_.next()) {
                if (ProgramSignals::is_end(*signal)) return stopped_by(static_cast<int>(signal->ssi_signo));
            }
            if (listener_) serve(sampler, 50ms);
            auto const latest = sampler.wait_for(seen + 1, listener_ ? 0ms : 100ms, sample);
            notes_.print(sampler);
            if (latest == 0) {
                if (is_once && std::chrono::steady_clock::now() - begin > hang_limit) return fail(hang(sampler));
                continue;
            }
            seen = latest;
            if (!is_printing) continue;
            if (auto const printed = print(sampler, sample); !printed) return fail(printed.error());
            if (is_once) return ExitCode::done;
        }
    }

    /// Shows looks on the terminal until q or a signal. What stays unknown is said when the terminal is as before.
    [[nodiscard]] ExitCode view(Sampler const& sampler) {
        MonitorScreen screen(sampler.devices(), style_, is_utf8_environment(),
                             std::chrono::duration<double>(request_.interval).count());
        auto const status = [&]() -> Result<ExitCode> {
            ViewTerminal terminal;
            MonitorSample sample;
            std::uint64_t seen = 0;
            bool is_paused = false;
            bool is_stale = true;
            while (true) {
                while (auto const signal = signals_.next()) {
                    if (ProgramSignals::is_end(*signal)) return stopped_by(static_cast<int>(signal->ssi_signo));
                    if (static_cast<int>(signal->ssi_signo) == SIGTSTP) terminal.stop();
                    is_stale = true;
                }
                char key = 0;
                pollfd ready[2]{{STDIN_FILENO, POLLIN, 0}, {signals_.descriptor(), POLLIN, 0}};
                if (::poll(ready, 2, listener_ ? 0 : 50) > 0 && ready[0].revents != 0) {
                    // A terminal that is gone gives neither keys nor a wait.
                    if (::read(STDIN_FILENO, &key, 1) != 1) return ExitCode::done;
                    if (key == 'q' || key == 'Q') return ExitCode::done;
                    if (key == 'p' || key == 'P') is_paused = !is_paused;
                    is_stale = true;
                }
                if (listener_) serve(sampler, 50ms);
                if (auto const latest = sampler.wait_for(seen + 1, 0ms, sample); latest > 0) {
                    seen = latest;
                    if (csv_) {
                        if (auto const added = print(sampler, sample); !added) return added.error();
                    }
                    if (!is_paused) screen.add(sample);
                    is_stale = is_stale || !is_paused;
                }
                if (is_stale) terminal.draw(screen.lines(terminal.columns(), terminal.rows(), is_paused));
                is_stale = false;
            }
        }();
        notes_.print(sampler);
        if (!status) return fail(status.error());
        return *status;
    }

    [[nodiscard]] static Error hang(Sampler const& sampler) {
        return Error{ErrorCode::backend_failure}
            .in(sampler.hanging_call())
            .because("has not returned in " + std::to_string(hang_limit.count()) + " s")
            .fix("the driver hangs: see dmesg; a restart usually helps");
    }

    /// Runs the command and says at its end what it took.
    [[nodiscard]] ExitCode watch_command(Sampler& sampler) {
        // Before hours of work: a file that cannot be written is known now.
        if (auto const opened = open_outputs(sampler, true); !opened) return fail(opened.error());
        // The first look is the state before the command; one that hangs does not keep it from running.
        MonitorSample first;
        (void)sampler.wait_for(1, 2s, first);
        notes_.print(sampler);
        auto const begin = std::chrono::steady_clock::now();
        auto child = MonitorChild::start(arguments_.command_line, signals_);
        if (!child) return fail(child.error());
        while (!child->has_ended()) {
            if (listener_) serve(sampler, 50ms);
            auto const signal = listener_ ? signals_.next() : signals_.wait(100ms, child->descriptor());
            if (signal) child->take(*signal);
            child->look();
            notes_.print(sampler);
        }
        auto const left = child->sweep();
        auto const seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        // With a last look: what was counted until now is in.
        (void)sampler.stop();
        auto const summary = sampler.summary();
        auto text = "shardwise: " + escaped(arguments_.command_line.front()) + " " + child->end_text() + " after " +
                    number_text(seconds, "s", 2) + "\n" + summary_text(sampler.devices(), summary);
        if (left > 0) text += "  processes that it had left running and that were ended: " + std::to_string(left) + "\n";
        if (request_.form == Form::json) text = json_line(sampler.devices(), summary, child->exit_code());
        std::fputs(text.c_str(), stderr);
        if (csv_) {
            using namespace std::chrono;
            auto const now = duration<double>(system_clock::now().time_since_epoch()).count();
            auto const added = csv_->add(CsvRows(sampler.devices(), true).row(summary, now, child->exit_code()));
            // The command's own status is what a script asks for.
            if (!added) (void)fail(added.error());
        }
        return static_cast<ExitCode>(child->exit_code());
    }

    Arguments const& arguments_;
    MonitorRequest request_;
    Style style_;
    ProgramSignals const& signals_;
    NotePrinter notes_;
    std::optional<CsvFile> csv_;
    std::optional<MetricsListener> listener_;
};

}  // namespace

ExitCode run_monitor(Arguments const& arguments) {
    auto const color = read_color(arguments);
    if (!color) return report(color.error(), Stage::arguments, arguments.json);
    auto const request = read_monitor_request(arguments);
    if (!request) return report(request.error(), Stage::arguments, arguments.json);
    // Before any thread is made.
    ProgramSignals const signals(has_view(*request, arguments));
    return MonitorRun(arguments, *request, style_of_stdout(*color), signals).run();
}

}  // namespace shardwise::cli
