// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardwise/monitor/host_sample.hpp>

#include "console.hpp"

#include <deque>
#include <optional>
#include <string>
#include <termios.h>
#include <vector>

namespace shardwise::cli {

/// The text of the live view: a row and a history of the utilisation for the host and for each device, within a screen of any
/// size. Knows no terminal.
class MonitorScreen {
public:
    MonitorScreen(std::vector<MonitoredDevice> devices, Style style, bool has_utf8, double interval);

    /// Takes a look into the histories and shows it from now on.
    void add(MonitorSample const& sample);
    /// Lines of less than `columns` characters, at most `rows` of them.
    [[nodiscard]] std::vector<std::string> lines(int columns, int rows, bool is_paused) const;

private:
    using History = std::deque<std::optional<double>>;

    [[nodiscard]] std::string bars(History const& history, int columns) const;

    std::vector<MonitoredDevice> devices_;
    Style style_;
    bool has_utf8_;
    double interval_;
    MonitorSample sample_{};
    History host_;
    std::vector<History> histories_;
};

/// The terminal while the live view is on it: another screen, no cursor, keys as they are typed; as it was before after its
/// end.
class ViewTerminal {
public:
    ViewTerminal() { enter(); }
    ViewTerminal(ViewTerminal const&) = delete;
    ViewTerminal& operator=(ViewTerminal const&) = delete;
    ~ViewTerminal() { leave(); }

    /// True where input and output are a terminal that can show it.
    [[nodiscard]] static bool is_there();

    /// Draws lines over what was there.
    void draw(std::vector<std::string> const& lines) const;
    [[nodiscard]] int columns() const;
    [[nodiscard]] int rows() const;
    /// Gives the terminal back and stops this process, until somebody lets it go on.
    void stop();

private:
    void enter();
    void leave();

    termios before_{};
    bool is_on_ = false;
};

}  // namespace shardwise::cli
