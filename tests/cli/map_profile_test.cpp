// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "program.hpp"

using namespace shardwise;
using namespace shardwise::tests;

namespace {

/// gpt2's twelve layers on two devices, of which the second takes three times as long.
std::string profile_of(std::string_view layer = "transformer.h.") {
    std::string text = R"({"schema":"shardwise.profile/1","devices":[)";
    for (int device = 0; device < 2; ++device) {
        text += device == 0 ? R"({"device":"A100-40GB","context":512,"modules":{)"
                            : R"(,{"device":"T4","context":512,"modules":{)";
        auto const seconds = device == 0 ? R"({"decode":0.001})" : R"({"decode":0.003})";
        for (int i = 0; i < 12; ++i) {
            text += (i == 0 ? "\"" : ",\"") + std::string(layer) + std::to_string(i) + "\":" + seconds;
        }
        text += R"(,"transformer.wte":{"decode":0},"transformer.wpe":{"decode":0},"transformer.ln_f":{"decode":0}}})";
    }
    return text + "]}";
}

}  // namespace

TEST_CASE("map --profile: the slower device gets a third of the layers, and the certificate is in measured seconds") {
    TemporaryFolder const folder;
    auto const file = folder.write("profile.json", profile_of());
    auto const ran =
        run({"map", "gpt2", "--devices", "1xA100-40GB+1xT4", "--context", "512", "--profile", file, "--json"});
    CAPTURE(ran.err);
    REQUIRE(ran.status == 0);
    CHECK(ran.err.empty());
    Answer const answer(ran.out);
    CHECK(answer.integer("device_map", "transformer.h.8") == 0);
    CHECK(answer.integer("device_map", "transformer.h.9") == 1);
    CHECK(answer.text("certificate", "objective") == "bottleneck");
    CHECK(answer.real("certificate", "value") == doctest::Approx(0.009));
    CHECK(answer.real("certificate", "lower_bound") == answer.real("certificate", "value"));
    CHECK(answer.text("profile", "phase") == "decode");
    CHECK(answer.integer("profile", "devices", std::size_t{1}, "measured") == 15);
    auto const balanced = run({"map", "gpt2", "--devices", "1xA100-40GB+1xT4", "--context", "512", "--profile", file,
                               "--strategy", "balanced", "--json"});
    CHECK(Answer(balanced.out).real("certificate", "lower_bound") == doctest::Approx(0.009));
    CHECK(Answer(balanced.out).real("certificate", "value") > 0.01);
    CHECK(run({"map", "gpt2", "--devices", "1xT4", "--json"}).out.find("\"profile\": null") != std::string::npos);
}

TEST_CASE("map --profile: what is estimated is said; what is wrong is named") {
    TemporaryFolder const folder;
    auto const file = folder.write("profile.json", profile_of());
    auto const with = [&](std::vector<std::string> words) {
        std::vector<std::string> all{"map", "gpt2", "--profile", file};
        all.insert(all.end(), words.begin(), words.end());
        return run(all);
    };
    auto const estimated = with({"--devices", "1xT4+1xL4"});
    CHECK(estimated.status == 0);
    CHECK(estimated.says("has no times on L4: all are estimated"));
    CHECK(estimated.says("was measured at batch 1, context 512, not at batch 1, context 1,024"));
    CHECK(with({"--devices", "1xL4"}).status == 1);
    CHECK(with({"--devices", "1xT4", "--objective", "load"}).status == 2);
    CHECK(with({"--devices", "1xT4", "--dialect", "accelerate"}).status == 2);
    CHECK(run({"map", "gpt2", "--devices", "1xT4", "--profile", folder.path("none.json")}).status == 1);
    auto const misspelt = folder.write("misspelt.json", profile_of("transformer.layers."));
    auto const refused = run({"map", "gpt2", "--devices", "1xT4", "--profile", misspelt});
    CHECK(refused.status == 1);
    CHECK(refused.says("transformer.layers.0: is no module of the model"));
}
