// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "program.hpp"

#include <filesystem>
#include <string>

using namespace shardwise;
using namespace shardwise::tests;

TEST_CASE("calibrate: writes a description that plan and map read, and whose rates their times depend on") {
    TemporaryFolder const folder;
    auto const file = folder.path() + "/machine.json";
    auto const ran = run({"calibrate", "--out", file, "--quick", "--tp", "2", "--json"});
    REQUIRE_MESSAGE(ran.status == 0, ran.err);
    Answer const answer(ran.out);
    CHECK(answer.text("schema") == "shardwise.calibrate/1");
    CHECK(answer.real("memory", "read", "all") > 1e6);
    CHECK(answer.real("memory", "copy", "one") < 1e13);
    CHECK(answer.size("products") == 12);
    CHECK(answer.text("products", std::size_t{2}, "dtype") == "bf16");
    CHECK(answer.real("products", std::size_t{2}, "operations_per_s") > 1e6);
    CHECK(answer.real("all_reduce", "bandwidth") > 1e4);
    CHECK(answer.real("seconds") < 60.0);

    auto const times = [&](std::string const& devices) {
        auto const planned = run({"plan", "gpt2", "--devices", devices, "--context", "128", "--json"});
        CHECK_MESSAGE(planned.status == 0, planned.err);
        return Answer(planned.out).real("cost", "total");
    };
    auto const seconds = times(file);
    CHECK(seconds > 0.0);
    auto text = read_text(file);
    // The same machine, ten times as slow at reading weights of 32 and of 16 bits.
    auto const slow = folder.path() + "/slow.json";
    for (std::size_t at = 0; (at = text.find("\"one_row\"", at)) != std::string::npos; ++at) {
        auto const end = text.find('}', at);
        text.replace(at, end - at, R"("one_row": {"fp32": 1e6, "bf16": 1e6)");
    }
    CHECK(folder.write("slow.json", text) == slow);
    CHECK(times(slow) > 2.0 * seconds);

    auto const mapped = run({"map", "gpt2", "--devices", file, "--objective", "latency", "--json"});
    CHECK_MESSAGE(mapped.status == 0, mapped.err);
    CHECK(Answer(mapped.out).size("devices") == 2);
}

TEST_CASE("calibrate: a file that cannot be written is refused before anything is measured") {
    auto const none = run({"calibrate"});
    CHECK(none.status == 2);
    CHECK(none.says("--out"));
    auto const nowhere = run({"calibrate", "--out", "/no/such/folder/machine.json", "--json"});
    CHECK(nowhere.status == 1);
    CHECK(nowhere.says("cannot be written"));
    CHECK(Answer(nowhere.out).text("error", "code") == "file_unwritable");
    CHECK(run({"calibrate", "--out", "x.json", "--tp", "0"}).status == 2);
}

TEST_CASE("calibrate: a device that cannot be had is refused before anything is measured") {
    TemporaryFolder const folder;
    auto const file = folder.path() + "/machine.json";
    auto const absent = run({"calibrate", "--out", file, "--devices", "cuda:99", "--json"});
    CHECK(absent.status == 4);
    CHECK(Answer(absent.out).text("error", "code") == "no_such_device");
    CHECK_FALSE(std::filesystem::exists(file));
    auto const no_device = run({"calibrate", "--out", file, "--devices", "2xgpu:24GiB"});
    CHECK(no_device.status == 2);
    CHECK(no_device.says("cuda:0,cuda:1"));
}
