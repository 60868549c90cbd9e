// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "program.hpp"
#include "small_llama.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace shardwise;
using namespace shardwise::tests;

namespace {

std::vector<std::string> energy_run(SmallLlama const& model) {
    return {"run", model.folder.path(), "--prompt-ids", "5", "--max-new-tokens", "400", "--monitor", "--json"};
}

/// A counter of 20 digits, written in place: a reader never sees half of another number.
void count(std::string const& path, long microjoules) {
    char text[32];
    std::snprintf(text, sizeof text, "%020ld\n", microjoules);
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    if (!file.is_open()) file.open(path, std::ios::out | std::ios::binary);
    file << text << std::flush;
}

}  // namespace

TEST_CASE(
    "run --monitor: joules per token come from RAPL's counters, and are unknown with the reason where there are none") {
    // No token is that of an end.
    SmallLlama const model(R"("max_position_embeddings":512,"eos_token_id":61)");
    TemporaryFolder const root;
    std::filesystem::create_directories(root / "proc");
    std::ofstream(root / "proc/meminfo") << "MemTotal: 8000000 kB\nMemFree: 4000000 kB\nMemAvailable: 4000000 kB\n";
    std::vector<std::pair<std::string, std::string>> const there{{"SHARDWISE_SYSTEM_ROOT", root.path()}};

    auto const without = run(energy_run(model), there);
    CHECK_MESSAGE(without.status == 0, without.err);
    Answer const unknown(without.out);
    for (auto const* key : {"joules", "decode_joules", "joules_per_token"}) CHECK(unknown.is_null("energy", key));
    CHECK(unknown.size("energy", "notes") > 0);
    CHECK_MESSAGE(without.says("there is no RAPL below /sys/class/powercap"), without.err);

    std::string const package = root / "sys/class/powercap/intel-rapl:0";
    std::filesystem::create_directories(package);
    std::ofstream(package + "/name") << "package-0\n";
    std::ofstream(package + "/max_energy_range_uj") << "262143328850\n";
    std::atomic<bool> is_over{false};
    long used = 1'000'000;
    count(package + "/energy_uj", used);
    std::thread counter([&] {
        // A thousand watts, as far as this thread is let run.
        while (!is_over) {
            count(package + "/energy_uj", used += 1000);
            std::this_thread::sleep_for(std::chrono::microseconds(1000));
        }
    });
    auto const with = run(energy_run(model), there);
    is_over = true;
    counter.join();
    CHECK_MESSAGE(with.status == 0, with.err);
    Answer const known(with.out);
    auto const total = known.real("energy", "joules");
    auto const decode = known.real("energy", "decode_joules");
    CHECK(decode > 0.0);
    CHECK(total >= decode);
    CHECK(total <= static_cast<double>(used - 1'000'000) * 1e-6);
    // 400 tokens, of which the first ends the prompt.
    CHECK(known.real("energy", "joules_per_token") == doctest::Approx(decode / 399.0));
    CHECK(known.at("memory", "ranks", std::size_t{0}, "held").has_value());

    auto const plain = run({"run", model.folder.path(), "--prompt-ids", "5", "--max-new-tokens", "2", "--json"}, there);
    CHECK_FALSE(Answer(plain.out).at("energy").has_value());
    CHECK(plain.err.empty());
}
