// SPDX-License-Identifier: Apache-2.0
#include <shardwise/launch/rank_outputs.hpp>

#include <doctest/doctest.h>

#include "temporary_folder.hpp"

#include <chrono>
#include <fcntl.h>
#include <fstream>
#include <string>
#include <thread>
#include <unistd.h>

namespace {

using namespace shardwise;
using namespace std::chrono_literals;

struct Pipe {
    int ends[2] = {-1, -1};
    Pipe() { REQUIRE(pipe2(ends, O_CLOEXEC) == 0); }
    ~Pipe() {
        for (int const end : ends) close(end);
    }
    /// What is in it now.
    [[nodiscard]] std::string text() const {
        std::string out(1 << 20, '\0');
        (void)fcntl(ends[0], F_SETFL, O_NONBLOCK);
        auto const count = read(ends[0], out.data(), out.size());
        out.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
        return out;
    }
};
void put(int descriptor, std::string const& text) {
    REQUIRE(write(descriptor, text.data(), text.size()) > 0);
}
std::string file_text(std::string const& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

TEST_CASE("RankOutputs: a rank in mid-line keeps no other from being heard, and the streams stay apart") {
    Pipe const out;
    Pipe const err;
    auto outputs = RankOutputs::open(4, 2, {true, "", false, out.ends[1], err.ends[1]});
    REQUIRE(outputs);
    put(outputs->output_of(0), "half");
    put(outputs->output_of(1), "whole\n");
    put(outputs->error_of(1), "trouble\n");
    while (outputs->pass_on()) {
    }
    CHECK(outputs->flush(Deadline::after(10s)));
    CHECK(out.text() == "[rank5] whole\n");
    CHECK(err.text() == "[rank5] trouble\n");
    CHECK(outputs->last_errors(1).back() == "trouble");
    put(outputs->output_of(0), " a line\nrest");
    while (outputs->pass_on()) {
    }
    outputs->finish();
    outputs->say("end\n");
    CHECK(outputs->flush(Deadline::after(10s)));
    CHECK(out.text() == "[rank4] half a line\n[rank4] rest\n");
    CHECK(err.text() == "end\n");
    CHECK(outputs->check());
}

TEST_CASE("RankOutputs: who does not read the standard output holds up only that") {
    Pipe const out;
    Pipe const err;
    auto outputs = RankOutputs::open(0, 2, {false, "", false, out.ends[1], err.ends[1]});
    REQUIRE(outputs);
    std::string const line(60000, 'x');
    // Far more than the pipe and what is kept.
    for (int i = 0; i < 100 && !outputs->is_held_up(); ++i) {
        put(outputs->output_of(0), line + "\n");
        (void)outputs->pass_on();
    }
    CHECK(outputs->is_held_up());
    put(outputs->error_of(1), "still heard\n");
    while (outputs->pass_on()) {
    }
    std::string heard;
    for (int i = 0; i < 5000 && heard.empty(); ++i) {
        heard = err.text();
        std::this_thread::sleep_for(1ms);
    }
    CHECK(heard == "still heard\n");
    CHECK_FALSE(outputs->flush(Deadline::after(10ms)));
}

TEST_CASE("RankOutputs: one pipe for both streams gets whole lines") {
    Pipe const both;
    auto outputs = RankOutputs::open(0, 1, {true, "", false, both.ends[1], both.ends[1]});
    REQUIRE(outputs);
    put(outputs->output_of(0), "a\n");
    put(outputs->error_of(0), "b\n");
    while (outputs->pass_on()) {
    }
    CHECK(outputs->flush(Deadline::after(10s)));
    CHECK(both.text() == "[rank0] a\n[rank0] b\n");
}

TEST_CASE("RankOutputs: log files hold what was written, as it was; a restart adds to them") {
    testing::TemporaryFolder const folder;
    Pipe const out;
    Pipe const err;
    auto const logs = folder / "deep/logs";
    for (bool const is_added : {false, false, true}) {
        auto outputs = RankOutputs::open(7, 1, {true, logs, is_added, out.ends[1], err.ends[1]});
        REQUIRE(outputs);
        put(outputs->output_of(0), "a\npart");
        put(outputs->error_of(0), "b");
        while (outputs->pass_on()) {
        }
        CHECK(outputs->flush(Deadline::after(10s)));
        CHECK_FALSE(outputs->log_problem());
    }
    CHECK(file_text(logs + "/rank.7.out") == "a\nparta\npart");
    CHECK(file_text(logs + "/rank.7.err") == "bb");
    std::ofstream(folder / "file") << "x";
    auto const refused = RankOutputs::open(0, 1, {true, folder / "file/logs", false, out.ends[1], err.ends[1]});
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code() == ErrorCode::file_unwritable);
}

TEST_CASE("RankOutputs: an output that nobody reads any more, and a log file that is full, are errors") {
    Pipe const err;
    int ends[2] = {-1, -1};
    REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
    close(ends[0]);
    {
        auto outputs = RankOutputs::open(0, 1, {true, "", false, ends[1], err.ends[1]});
        REQUIRE(outputs);
        put(outputs->output_of(0), "a\n");
        while (outputs->pass_on()) {
        }
        CHECK(outputs->flush(Deadline::after(10s)));
        auto const checked = outputs->check();
        REQUIRE_FALSE(checked);
        CHECK(checked.error().message() == "the standard output: Broken pipe");
    }
    close(ends[1]);
    testing::TemporaryFolder const folder;
    REQUIRE(symlink("/dev/full", (folder / "rank.0.out").c_str()) == 0);
    auto outputs = RankOutputs::open(0, 1, {true, folder.path(), true, err.ends[1], err.ends[1]});
    REQUIRE(outputs);
    put(outputs->output_of(0), "a\n");
    while (outputs->pass_on()) {
    }
    CHECK(outputs->flush(Deadline::after(10s)));
    CHECK(outputs->check());
    REQUIRE(outputs->log_problem());
    CHECK(outputs->log_problem()->message().find("rank.0.out: No space left on device") != std::string::npos);
    CHECK(err.text() == "[rank0] a\n");
}

}  // namespace
