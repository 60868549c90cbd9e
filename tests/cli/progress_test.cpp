// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "program.hpp"
#include "progress_bar.hpp"

using namespace shardwise;
using namespace shardwise::cli;
using namespace shardwise::tests;

namespace {

/// A bar whose clock the test turns and whose terminal is a string.
struct Fixture {
    double time = 100.0;
    std::string screen;
    ProgressBar bar{[this] { return time; }, [this](std::string_view text) { screen += text; }, 80};
};

}  // namespace

TEST_CASE("progress: work of up to a second shows nothing") {
    Fixture fixture;
    fixture.bar.note({"reading shards", 3, 30});
    for (int i = 0; i < 10; ++i) {
        fixture.bar.draw();
        fixture.time += 0.0999;
    }
    fixture.bar.clear();
    CHECK(fixture.screen.empty());
}

TEST_CASE("progress: longer work is shown on one line that is drawn over, and goes in the end") {
    Fixture fixture;
    fixture.bar.note({"reading shards", 15, 30});
    fixture.time += 2.5;
    fixture.bar.draw();
    CHECK(fixture.screen == "\rreading shards  [############............]  15 of 30  2 s\x1b[K");
    fixture.screen.clear();
    fixture.bar.note({"placing", 0, 0});
    fixture.bar.draw();
    CHECK(fixture.screen.substr(0, 10) == "\rplacing  ");
    CHECK(fixture.screen.find('\n') == std::string::npos);
    fixture.screen.clear();
    fixture.bar.clear();
    CHECK(fixture.screen == "\r\x1b[K");
    fixture.bar.clear();
    CHECK(fixture.screen == "\r\x1b[K");
}

TEST_CASE("progress: a line never leaves the terminal, whatever the numbers are") {
    for (int width : {1, 10, 40, 79, 200}) {
        for (std::int64_t total : {std::int64_t{0}, std::int64_t{1}, std::int64_t{1000}, INT64_MAX}) {
            for (std::int64_t done : {std::int64_t{-5}, std::int64_t{0}, std::int64_t{7}, INT64_MAX}) {
                for (double seconds : {-1.0, 0.0, 1.5, 1e9}) {
                    auto const line = progress_line({"reading\nshards", done, total}, seconds, width);
                    CHECK(line.size() <= static_cast<std::size_t>(width));
                    CHECK(line.find('\n') == std::string::npos);
                }
            }
        }
    }
    CHECK(progress_line({"reading", 30, 30}, 3.0, 79) == "reading  [########################]  30 of 30  3 s");
    CHECK(progress_line({"reading", 29, 30}, 3.0, 79) == "reading  [#######################.]  29 of 30  3 s");
    CHECK(progress_line({"placing", 0, 0}, 0.0, 79) == "placing  [####....................]  0 s");
    CHECK(progress_line({"placing", 0, 0}, 2.5, 79) == "placing  [....................####]  2 s");
}

TEST_CASE("progress: an observer passes what it hears on, and none hears nothing") {
    std::int64_t heard = 0;
    auto const listener = [&](WorkProgress const& progress) { heard += progress.done * 100 + progress.total; };
    Observer const observer(listener);
    observer("reading", 3, 4);
    CHECK(heard == 304);
    Observer{}("reading", 3, 4);
    CHECK(heard == 304);
}

TEST_CASE("progress: without a terminal the error output stays empty") {
    CHECK(run({"estimate", "gpt2", "--color", "always"}).err.empty());
    CHECK(run({"map", "gpt2", "--devices", "1xL4", "--color", "always"}).err.empty());
}
