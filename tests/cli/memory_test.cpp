// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "program.hpp"

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <sys/resource.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

using namespace shardwise::tests;

namespace {

/// What the program took and how it ended; -1 where it did not run.
struct Peak {
    std::int64_t bytes = 0;
    int status = -1;
};
Peak peak_of(std::vector<std::string> words) {
    words.insert(words.begin(), SHARDWISE_PROGRAM);
    std::vector<char*> arguments;
    for (auto& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    std::fflush(stdout);  // the child would write it once more
    auto const child = ::fork();
    if (child == 0) {
        if (std::freopen("/dev/null", "w", stdout) == nullptr || std::freopen("/dev/null", "w", stderr) == nullptr)
            ::_exit(126);
        ::execvp(arguments[0], arguments.data());
        ::_exit(127);
    }
    int status = 0;
    struct rusage usage {};
    if (::wait4(child, &status, 0, &usage) != child || !WIFEXITED(status)) return {};
    return {std::int64_t{usage.ru_maxrss} * 1024, WEXITSTATUS(status)};
}

/// A safetensors file of bytes: the i-th tensor is name(i), of size(i) elements.
template <class Name, class Size>
void write_tensors(std::string const& path, int count, Name name, Size size) {
    std::string header = "{";
    std::int64_t end = 0;
    for (int i = 0; i < count; ++i) {
        auto const bytes = static_cast<std::int64_t>(size(i));
        header += (i > 0 ? ",\"" : "\"") + name(i) + R"(":{"dtype":"U8","shape":[)" + std::to_string(bytes) +
                  R"(],"data_offsets":[)" + std::to_string(end) + "," + std::to_string(end + bytes) + "]}";
        end += bytes;
    }
    header += "}";
    std::ofstream file(path, std::ios::binary);
    for (unsigned shift = 0; shift < 64; shift += 8) file.put(static_cast<char>(header.size() >> shift & 0xFFU));
    file << header;
    file.close();
    REQUIRE(::truncate(path.c_str(), static_cast<off_t>(8 + header.size()) + end) == 0);
}

}  // namespace

TEST_SUITE("timing") {
    TEST_CASE("map: any file of tensors, and any tree, takes at most 64 MiB") {
        TemporaryFolder const folder;
        auto const path = folder.path("x.safetensors");
        auto const base = peak_of({"map", "llama-2-7b", "--devices", "4xA100-40GB", "--strategy", "auto"});
        REQUIRE(base.status == 0);
        auto const extra = [&](std::vector<std::string> const& model, int status) {
            std::vector<std::string> words{"map", "--devices", "8xA100-80GB", "--strategy", "auto", "--json"};
            words.insert(words.end(), model.begin(), model.end());
            auto const peak = peak_of(words);
            CHECK(peak.status == status);
            return (peak.bytes - base.bytes) / (1 << 20);
        };
        auto const any = [](int i) { return 1 + i; };
        write_tensors(
            path, 100'000,
            [](int i) { return "layers." + std::to_string(i / 768) + "." + std::to_string(i % 768) + ".w"; },
            [](int) { return 4; });
        CHECK(extra({path}, 0) <= 32);
        // Every module, name and size is another.
        write_tensors(
            path, 100'000,
            [](int i) {
                return "first" + std::to_string(i * 7) + ".second" + std::to_string(i * 13) + ".w" + std::to_string(i);
            },
            any);
        CHECK(extra({path}, 0) <= 64);
        write_tensors(
            path, 100'000, [](int i) { return "m" + std::to_string(i) + ".a.b.c.d.e.f.g.h.i.j.k.w"; }, any);
        CHECK(extra({path}, 1) <= 64);

        std::string tree = R"({"class":"M","children":[{"name":"x"})";
        for (int i = 0; i < 300'000; ++i)
            tree += R"(,{"name":"m)" + std::to_string(i) + R"(","params":[{"name":"w","dtype":"u8","shape":[1]}]})";
        auto const file = folder.write("tree.json", tree + "]}");
        CHECK(extra({"--tree", file}, 1) <= 64);
    }
}
