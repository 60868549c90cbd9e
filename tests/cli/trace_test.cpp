// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "program.hpp"
#include "small_llama.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

using namespace shardwise;
using namespace shardwise::tests;

namespace {

struct Event {
    std::string phase, name;
    std::int64_t rank = 0, track = 0, layer = -1, peer = -1, id = 0, bytes = -1;
    double begin = 0.0, duration = 0.0;

    [[nodiscard]] double end() const { return begin + duration; }
    [[nodiscard]] bool is_step() const { return name == "prefill" || name == "decode"; }
};

std::vector<Event> events_of(Answer const& trace) {
    std::vector<Event> all;
    for (std::size_t i = 0; i < trace.size("traceEvents"); ++i) {
        Event event;
        auto const at = [&](auto... steps) { return trace.integer("traceEvents", i, steps...); };
        event.phase = trace.text("traceEvents", i, "ph");
        event.name = trace.text("traceEvents", i, "name");
        event.rank = at("pid");
        event.track = at("tid");
        event.id = at("id");
        if (trace.at("traceEvents", i, "args", "layer")) event.layer = at("args", "layer");
        if (trace.at("traceEvents", i, "args", "peer")) event.peer = at("args", "peer");
        if (trace.at("traceEvents", i, "args", "bytes")) event.bytes = at("args", "bytes");
        event.begin = trace.real("traceEvents", i, "ts");
        event.duration = trace.real("traceEvents", i, "dur");
        all.push_back(event);
    }
    return all;
}

/// Times are doubles of microseconds: what meets in a nanosecond may differ in the last digits.
constexpr double rounding = 1e-4;

/// On each track an event lies within another or apart from it; what lies within one another is a step and its operations.
void check_tracks(std::vector<Event> const& events) {
    std::map<std::pair<std::int64_t, std::int64_t>, std::vector<Event>> tracks;
    for (auto const& event : events) {
        if (event.phase == "X") tracks[{event.rank, event.track}].push_back(event);
    }
    for (auto& [place, track] : tracks) {
        auto const& key = place;
        std::stable_sort(track.begin(), track.end(), [](Event const& a, Event const& b) {
            return a.begin != b.begin ? a.begin < b.begin : a.duration > b.duration;
        });
        std::vector<double> open;
        int broken = 0;
        for (auto const& event : track) {
            while (!open.empty() && open.back() <= event.begin + rounding) open.pop_back();
            if (!open.empty() && event.end() > open.back() + rounding) ++broken;
            open.push_back(event.end());
        }
        CHECK_MESSAGE(broken == 0, "rank ", key.first, ", track ", key.second);
    }
}

/// What operations, communication and fetching of weights take in each step is the time of the step, within 5 %.
int check_sums(std::vector<Event> const& events) {
    int steps = 0;
    for (auto const& step : events) {
        if (!step.is_step()) continue;
        ++steps;
        double sum = 0.0;
        for (auto const& event : events) {
            bool const is_part = event.phase == "X" && event.rank == step.rank &&
                                 event.begin >= step.begin - rounding && event.end() <= step.end() + rounding &&
                                 !event.is_step() && event.name != "wait";
            if (is_part) sum += event.duration;
        }
        CHECK(sum == doctest::Approx(step.duration).epsilon(0.05));
    }
    return steps;
}

/// Each receive has its send, which began before it ended, and an arrow between them; the number of receives.
int check_messages(std::vector<Event> const& events) {
    std::map<std::pair<std::int64_t, std::int64_t>, std::vector<Event>> sends, receives;
    std::map<std::int64_t, std::pair<int, int>> arrows;
    int count = 0;
    for (auto const& event : events) {
        if (event.name == "send") sends[{event.rank, event.peer}].push_back(event);
        if (event.name == "receive") receives[{event.peer, event.rank}].push_back(event), ++count;
        if (event.phase == "s") ++arrows[event.id].first;
        if (event.phase == "f") ++arrows[event.id].second;
    }
    for (auto& [way, received] : receives) {
        auto const& sent = sends[way];
        REQUIRE(sent.size() == received.size());
        for (std::size_t i = 0; i < sent.size(); ++i) {
            CHECK(sent[i].begin <= received[i].end());
            CHECK(sent[i].bytes == received[i].bytes);
            CHECK(sent[i].bytes > 0);
        }
    }
    CHECK(static_cast<int>(arrows.size()) == count);
    for (auto const& [id, ends] : arrows) CHECK((ends.first == 1 && ends.second == 1));
    return count;
}

std::string ids_of_run(Ran const& ran) {
    CHECK_MESSAGE(ran.status == 0, ran.err);
    return ids_of(ran.out);
}

}  // namespace

TEST_CASE("run --trace: events nest, receives have sends, steps add up, and tokens stay, over threads and processes") {
    SmallLlama const model;
    auto const file = model.folder / "trace.json";
    std::vector<std::string> const words{
        "run", model.folder.path(), "--prompt-ids", "5,9,2", "--max-new-tokens", "5", "--threads",
        "2",   "--deterministic",   "--json"};
    auto const plain = ids_of_run(run(words));
    REQUIRE_FALSE(plain.empty());
    struct Case {
        std::vector<std::string> more;
        int ranks;
        int receives;
    };
    for (auto const& each : {Case{{}, 1, 0}, Case{{"--tp", "2"}, 2, 0}, Case{{"--pp", "2"}, 2, 5},
                             Case{{"--tp", "2", "--pp", "2", "--ranks", "processes"}, 4, 10}}) {
        auto all = words;
        all.insert(all.end(), each.more.begin(), each.more.end());
        all.insert(all.end(), {"--trace", file});
        CHECK(ids_of_run(run(all)) == plain);
        Answer const trace(read_text(file));
        REQUIRE(trace.is_valid());
        std::filesystem::remove(file);
        CHECK(trace.text("otherData", "schema") == "shardwise.trace/1");
        CHECK(trace.size("otherData", "ranks") == static_cast<std::size_t>(each.ranks));
        auto const events = events_of(trace);
        check_tracks(events);
        CHECK(check_sums(events) == 5 * each.ranks);
        CHECK(check_messages(events) == each.receives);
        int communication = 0;
        int layers = 0;
        for (auto const& event : events) {
            if (event.phase != "X") continue;
            if (event.track == 1) ++communication;
            if (event.name == "attention" && event.layer >= 0) layers |= 1 << event.layer;
            if (event.name == "attention") CHECK(event.bytes > 0);
        }
        CHECK(layers == 3);
        CHECK((communication > 0) == (each.ranks > 1));
        CHECK(trace.integer("otherData", "ranks", std::size_t{0}, "dropped_events") == 0);
        CHECK(trace.real("otherData", "ranks", static_cast<std::size_t>(each.ranks - 1), "clock_offset_s") == 0.0);
    }
}

TEST_CASE(
    "run --trace: the oldest events give way, which is said with their number; layers on disk are waits for weights") {
    SmallLlama const model(R"("max_position_embeddings":8192,"eos_token_id":61)");
    auto const file = model.folder / "trace.json";
    auto const map =
        model.folder.write("map.json", R"({"model.embed_tokens":0,"model.layers.0":0,"model.layers.1":"disk",)"
                                       R"("model.norm":0,"lm_head":0})");
    auto const streamed = run({"run", model.folder.path(), "--prompt-ids", "5", "--max-new-tokens", "3", "--map", map,
                               "--trace", file, "--json"});
    CHECK_MESSAGE(streamed.status == 0, streamed.err);
    auto const events = events_of(Answer(read_text(file)));
    check_tracks(events);
    CHECK(check_sums(events) == 3);

    auto const cut =
        run({"run", model.folder.path(), "--prompt-ids", "5", "--max-new-tokens", "5000", "--trace", file, "--json"});
    CHECK_MESSAGE(cut.status == 0, cut.err);
    // The document is larger than what readers of this program take.
    auto const text = read_text(file);
    std::string const key = R"("dropped_events":)";
    auto const at = text.find(key);
    REQUIRE(at != std::string::npos);
    auto const dropped = std::stoll(text.substr(at + key.size(), 20));
    CHECK(dropped > 0);
    CHECK_MESSAGE(cut.says("--trace has the last 131072 events of rank 0; " + std::to_string(dropped) + " before them"),
                  cut.err);
}

TEST_CASE(
    "run --trace: what cannot be written is refused before the model is loaded, and nothing is left beside the file") {
    SmallLlama const model;
    auto const refused =
        run({"run", model.folder.path(), "--prompt-ids", "5", "--trace", model.folder / "none" + "/trace.json"});
    CHECK(refused.status == 1);
    CHECK_MESSAGE(refused.says("trace.json"), refused.err);
    std::filesystem::create_directory(model.folder / "traces");
    CHECK(run({"run", model.folder.path(), "--prompt-ids", "5", "--max-new-tokens", "1", "--trace",
               model.folder / "traces/a.json"})
              .status == 0);
    int files = 0;
    for (auto const& entry : std::filesystem::directory_iterator(model.folder / "traces")) {
        ++files;
        CHECK(entry.path().filename() == "a.json");
    }
    CHECK(files == 1);
}
