// SPDX-License-Identifier: Apache-2.0
#include "monitor_view.hpp"

#include <shardwise/core/error.hpp>

#include "monitor_text.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <string_view>
#include <sys/ioctl.h>
#include <unistd.h>
#include <utility>

namespace shardwise::cli {

namespace {

/// No terminal is wider.
constexpr std::size_t max_history = 1024;

void put(std::string_view text) {
    while (!text.empty()) {
        auto const count = ::write(STDOUT_FILENO, text.data(), text.size());
        if (count <= 0) return;
        text.remove_prefix(static_cast<std::size_t>(count));
    }
}

/// Parts of a line, the important ones first: as many as fit.
[[nodiscard]] std::string fitted(std::vector<std::string> const& parts, int columns) {
    std::string line;
    for (auto const& part : parts) {
        auto const gap = line.empty() ? std::string() : std::string("  ");
        if (!line.empty() && static_cast<int>(line.size() + gap.size() + part.size()) > columns) continue;
        line += gap + part;
    }
    // What is cut may be no part of a character: names are shown in ASCII.
    if (static_cast<int>(line.size()) > columns) line.resize(static_cast<std::size_t>(std::max(columns, 0)));
    return line;
}

[[nodiscard]] std::string ascii(std::string text) {
    for (auto& letter : text) {
        if (static_cast<unsigned char>(letter) < 0x20 || static_cast<unsigned char>(letter) > 0x7E) letter = '?';
    }
    return text;
}

}  // namespace

MonitorScreen::MonitorScreen(std::vector<MonitoredDevice> devices, Style style, bool has_utf8, double interval)
    : devices_(std::move(devices)),
      style_(style),
      has_utf8_(has_utf8),
      interval_(interval),
      histories_(devices_.size()) {}

void MonitorScreen::add(MonitorSample const& sample) {
    sample_ = sample;
    auto const take = [](History& history, std::optional<double> value) {
        history.push_back(value);
        if (history.size() > max_history) history.pop_front();
    };
    take(host_, sample.host.cpu);
    for (std::size_t i = 0; i < devices_.size() && i < sample.devices.size(); ++i)
        take(histories_[i], sample.devices[i].utilization);
}

std::string MonitorScreen::bars(History const& history, int columns) const {
    constexpr std::array<std::string_view, 8> blocks{"\u2581", "\u2582", "\u2583", "\u2584",
                                                     "\u2585", "\u2586", "\u2587", "\u2588"};
    constexpr std::string_view ramp = ".:-=+*#@";
    std::string out;
    auto const count = std::min(history.size(), static_cast<std::size_t>(std::max(columns, 0)));
    for (auto i = history.size() - count; i < history.size(); ++i) {
        if (!history[i]) {
            // Unknown is no bar of height 0.
            out += '?';
            continue;
        }
        auto const height = static_cast<std::size_t>(std::clamp(*history[i] / 100.0 * 8.0, 0.0, 7.0));
        out += has_utf8_ ? std::string(blocks[height]) : std::string(1, ramp[height]);
    }
    return style_.good(out);
}

std::vector<std::string> MonitorScreen::lines(int columns, int rows, bool is_paused) const {
    // The last column stays free: writing there makes some terminals go to the next line.
    auto const width = std::max(columns - 1, 1);
    std::vector<std::string> out;
    auto const room = static_cast<std::size_t>(std::max(rows, 1));
    out.push_back(style_.bold(fitted({is_paused ? "shardwise monitor: paused" : "shardwise monitor", "q quit", "p pause",
                                      "every " + number_text(interval_, "s", interval_ < 1.0 ? 2 : 0),
                                      number_text(sample_.elapsed, "s", 0) + " watched"},
                                     width)));
    // A history below each row where all of them find room.
    bool const has_bars = 1 + 2 * (devices_.size() + 1) <= room;
    auto const add = [&](std::string line, History const& history) {
        out.push_back(std::move(line));
        if (has_bars) out.push_back(bars(history, width));
    };
    auto const& host = sample_.host;
    auto const memory = [](std::optional<Bytes> used, std::optional<Bytes> total) {
        return "mem " + (used ? to_text(*used) : "-") + " of " + (total ? to_text(*total) : "-");
    };
    if (room > 1) {
        add(fitted({"host", "cpu " + percent_text(host.cpu), memory(host.memory_used, host.memory_total),
                    "busiest " + percent_text(host.busiest_core), "waits cpu " + percent_text(host.cpu_pressure),
                    "io " + percent_text(host.io_pressure)},
                   width),
            host_);
    }
    for (std::size_t i = 0; i < devices_.size() && i < sample_.devices.size(); ++i) {
        auto const left = devices_.size() - i;
        if (out.size() + 1 == room && left > 1) {
            out.push_back(fitted({std::to_string(left) + " more devices: the screen is too low"}, width));
            break;
        }
        if (out.size() + 1 > room) break;
        auto const& device = sample_.devices[i];
        auto const id = ascii(devices_[i].id);
        auto const name = ascii(devices_[i].name);
        if (device.is_lost) {
            add(fitted({id, "lost", name}, width), histories_[i]);
            continue;
        }
        std::vector<std::string> parts{id, "busy " + percent_text(device.utilization),
                                       memory(device.memory_used, device.memory_total)};
        parts.push_back(number_text(device.power, "W"));
        parts.push_back(number_text(device.temperature, "C"));
        if (device.sm_activity) parts.push_back("SM " + percent_text(device.sm_activity));
        if (device.tensor_activity) parts.push_back("tensor " + percent_text(device.tensor_activity));
        if (device.dram_activity) parts.push_back("DRAM " + percent_text(device.dram_activity));
        parts.push_back(name);
        add(fitted(parts, width), histories_[i]);
    }
    return out;
}

bool ViewTerminal::is_there() {
    char const* const kind = std::getenv("TERM");
    bool const is_able = kind != nullptr && *kind != '\0' && std::string_view{kind} != "dumb";
    return is_able && ::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1;
}

void ViewTerminal::enter() {
    if (is_on_ || ::tcgetattr(STDIN_FILENO, &before_) != 0) return;
    auto raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    (void)::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    is_on_ = true;
    // The other screen, without the cursor.
    put("\x1b[?1049h\x1b[?25l\x1b[2J");
}

void ViewTerminal::leave() {
    if (!is_on_) return;
    is_on_ = false;
    put("\x1b[?25h\x1b[?1049l");
    (void)::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
}

void ViewTerminal::stop() {
    leave();
    (void)::kill(::getpid(), SIGSTOP);
    enter();
}

void ViewTerminal::draw(std::vector<std::string> const& lines) const {
    std::string out = "\x1b[H";
    for (std::size_t i = 0; i < lines.size(); ++i) out += (i > 0 ? "\r\n" : "") + lines[i] + "\x1b[K";
    put(out + "\x1b[J");
}

int ViewTerminal::columns() const {
    winsize size{};
    return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

int ViewTerminal::rows() const {
    winsize size{};
    return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 ? size.ws_row : 24;
}

}  // namespace shardwise::cli
