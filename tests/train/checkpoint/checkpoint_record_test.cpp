// SPDX-License-Identifier: Apache-2.0
#include <shardwise/train/checkpoint/checkpoint_record.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <string>

using namespace shardwise;

namespace {

CheckpointRecord some_record() {
    CheckpointRecord out;
    out.state.step = 7;
    out.state.updates = 6;
    out.state.tokens = 4096;
    out.state.position = 56;
    out.state.seed = UINT64_MAX;
    out.state.scaler = TrainerState::Scaler{32768.0, 3};
    out.state.skipped = {4};
    out.state.first_loss = 0.1;
    out.state.best_valid_loss = 1.0 / 3.0;
    out.state.valid_data = sha256_hex("ids");
    out.state.settings.add("learning_rate", 3e-4).add("schedule", "cosine").add("shuffles", true).add("batch", 8);
    out.files = {{"config.json", 12, sha256_hex("x")}};
    out.tensors = {{"model.safetensors", "a \"b\"", 0},
                   {"model.safetensors", "c", UINT64_MAX},
                   {"optimizer.safetensors", "exp_avg.c", 0x1234}};
    return out;
}

}  // namespace

TEST_CASE("CheckpointRecord: what is written is read") {
    auto const record = some_record();
    auto const read = CheckpointRecord::parse(record.text(), "trainer_state.json");
    REQUIRE_MESSAGE(read, (read ? "" : read.error().message()));
    CHECK(*read == record);
    // Most owe no validation, and have the bytes of those before there was any.
    CHECK(record.text().find("owes_validation") == std::string::npos);
    auto owing = record;
    owing.state.owes_validation = true;
    auto const of_owing = CheckpointRecord::parse(owing.text(), "trainer_state.json");
    REQUIRE(of_owing);
    CHECK(*of_owing == owing);
    auto wrong = owing.text();
    wrong.replace(wrong.find("\"owes_validation\""), 23, "\"owes_validation\": 1  ");
    CHECK_FALSE(CheckpointRecord::parse(wrong, "trainer_state.json"));
    auto const empty = CheckpointRecord::parse(CheckpointRecord{}.text(), "trainer_state.json");
    REQUIRE(empty);
    CHECK(*empty == CheckpointRecord{});
    CHECK(*record.state.settings.find("learning_rate") == "3e-04");
    CHECK(*record.state.settings.find("shuffles") == "yes");
}

TEST_CASE("CheckpointRecord: every flipped bit and every cut of its text is refused") {
    auto const text = some_record().text();
    for (std::size_t i = 0; i < text.size(); ++i) {
        for (unsigned bit = 0; bit < 8; ++bit) {
            auto damaged = text;
            damaged[i] = static_cast<char>(static_cast<unsigned char>(damaged[i]) ^ (1U << bit));
            CHECK_FALSE(CheckpointRecord::parse(damaged, "x"));
        }
        CHECK_FALSE(CheckpointRecord::parse(text.substr(0, i), "x"));
    }
}

TEST_CASE("CheckpointRecord: a later version is told from damage") {
    auto text = some_record().text();
    text.replace(text.find("state/1"), 7, "state/2");
    auto const read = CheckpointRecord::parse(text, "OUT/step-000007/trainer_state.json");
    REQUIRE_FALSE(read);
    CHECK(read.error().code() == ErrorCode::unsupported);
    auto const other = CheckpointRecord::parse("{\"schema\": \"x\"}", "x");
    REQUIRE_FALSE(other);
    CHECK(other.error().message() == "x: is no state of shardwise's trainer");
}
