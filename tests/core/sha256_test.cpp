// SPDX-License-Identifier: Apache-2.0
#include <shardwise/core/sha256.hpp>

#include <doctest/doctest.h>

#include <string>

using namespace shardwise;

TEST_CASE("Sha256: the hashes that NIST publishes") {
    // https://csrc.nist.gov/projects/cryptographic-standards-and-guidelines/example-values, SHA-256; the empty message and a
    // million letters: FIPS 180-2, appendix B.3.
    CHECK(sha256_hex("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    CHECK(sha256_hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    CHECK(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
          "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    CHECK(sha256_hex(std::string(1'000'000, 'a')) ==
          "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("Sha256: parts give the hash of the whole, wherever they are cut") {
    std::string text;
    for (int i = 0; i < 300; ++i) text += static_cast<char>(i * 37 % 256);
    for (std::size_t const size : {1U, 55U, 56U, 63U, 64U, 65U, 119U, 120U, 128U, 300U}) {
        auto const part = std::string_view(text).substr(0, size);
        auto const whole = sha256_hex(part);
        for (std::size_t cut = 0; cut <= size; cut += 7) {
            Sha256 hash;
            hash.add(part.substr(0, cut));
            (void)hash.digest();
            hash.add(part.substr(cut));
            CHECK(hash.hex() == whole);
        }
    }
    static_assert(Sha256().add("abc").digest()[0] == 0xBA);
}
