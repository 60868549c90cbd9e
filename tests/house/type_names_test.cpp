// SPDX-License-Identifier: Apache-2.0
#include "type_names.hpp"

#include <doctest/doctest.h>

#include <unistd.h>

TEST_CASE("type names: the namespace of each is known, specialisations and declarations are none") {
    auto const names = house::type_names(
        "namespace shardwise::inline SHARDWISE_NAMESPACE {\n"
        "struct Plan {\n    struct Inner {};\n};\n"
        "namespace detail {\n"
        "template <class T>\nclass Reader : Base {\n};\n"
        "template <>\nstruct Reader<int> {\n};\n"
        "struct Later;\n"
        "}  // namespace detail\n"
        "enum class Kind : int { one };\n"
        "}  // namespace shardwise::inline SHARDWISE_NAMESPACE\n"
        "namespace shardwise::inline SHARDWISE_NAMESPACE::detail::avx2 {\n"
        "struct Lanes {\n};\n"
        "}  // namespace shardwise::inline SHARDWISE_NAMESPACE::detail::avx2\n");
    std::string all;
    for (auto const& type : names) all += type.space + "/" + type.name + " ";
    CHECK(all == "/Plan detail/Reader /Kind detail::avx2/Lanes ");
}

TEST_CASE("type names: a name of detail that is one of the library's own is a violation") {
    auto const root = std::filesystem::temp_directory_path() / ("shardwise-names-" + std::to_string(getpid()));
    auto const plant = [&](std::string const& name, std::string const& space, std::string const& type) {
        house::write_text(root / "include" / "shardwise" / name, "namespace shardwise::inline SHARDWISE_NAMESPACE" +
                                                                     space + " {\nstruct " + type +
                                                                     " {};\n}  // namespace shardwise\n");
    };
    plant("memory/held.hpp", "", "Held");
    plant("comm/held.hpp", "::detail::x", "Held");
    CHECK(house::check_type_names(root).empty());
    plant("comm/held.hpp", "::detail", "Held");
    CHECK(house::check_type_names(root) ==
          std::vector<std::string>{
              "include/shardwise/comm/held.hpp:2: detail::Held hides the one of include/shardwise/memory/held.hpp:2"});
    std::filesystem::remove_all(root);
}
