// SPDX-License-Identifier: Apache-2.0
#include <shardwise/core/assert.hpp>
#include <shardwise/core/list.hpp>
#include <shardwise/core/optional.hpp>
#include <shardwise/core/result.hpp>
#include <shardwise/core/span.hpp>
#include <shardwise/core/tensor_view.hpp>

#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <string>

using namespace shardwise;

namespace {

/// What a process that does this prints on stderr before it aborts; "went on" where it does not.
template <class Bug>
std::string death_of(Bug bug) {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    auto const child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        close(ends[0]);
        dup2(ends[1], STDERR_FILENO);
        // doctest's handler would print a report of its own.
        std::signal(SIGABRT, SIG_DFL);
        bug();
        _exit(0);
    }
    close(ends[1]);
    std::string printed;
    char buffer[512];
    for (ssize_t count = 0; (count = read(ends[0], buffer, sizeof buffer)) > 0;)
        printed.append(buffer, static_cast<std::size_t>(count));
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFEXITED(status)) return "went on";
    CHECK(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == SIGABRT);
    CHECK(std::count(printed.begin(), printed.end(), '\n') == 1);
    CHECK(printed.find("shardwise: assertion failed: ") != std::string::npos);
    return printed;
}

bool says(std::string const& printed, std::string_view text) { return printed.find(text) != std::string::npos; }

/// Keeps the compiler from seeing that an index is out of range.
template <class T>
T hide(T value) {
    T volatile hidden = value;
    return hidden;
}

template <class T>
void use(T const& value) {
    [[maybe_unused]] auto const* volatile at = &value;
}

}  // namespace

TEST_CASE("SHARDWISE_ASSERT: one line that shows the condition, and abort; nothing where it holds") {
    CHECK(says(death_of([] { SHARDWISE_ASSERT(hide(1) == 2); }), "assert_test.cpp:"));
    CHECK(says(death_of([] { SHARDWISE_ASSERT(hide(1) == 2); }), "assertion failed: hide(1) == 2"));
    CHECK(death_of([] { SHARDWISE_ASSERT(hide(1) == 1); }) == "went on");
}

TEST_CASE("Result: the value of an error and the error of a value end the program") {
    Result<int> const error = Error{ErrorCode::unsupported};
    Result<int> const value = 3;
    Result<> const done;
    constexpr auto holds_error = "this Result holds an error";
    CHECK(says(death_of([&] { use(*error); }), holds_error));
    CHECK(says(death_of([&] { use(error.value()); }), holds_error));
    CHECK(says(death_of([&] { use(*Result<int>{error}); }), holds_error));
    CHECK(says(death_of([&] { use(Result<int>{error}.value()); }), holds_error));
    CHECK(says(death_of([&] { use(*error.operator->()); }), holds_error));
    CHECK(says(death_of([&] {
                   auto copy = error;
                   *copy = 4;
               }),
               holds_error));
    CHECK(says(death_of([&] { use(value.error()); }), "this Result holds no error"));
    CHECK(says(death_of([&] { use(done.error()); }), "this Result holds no error"));
    CHECK(death_of([&] { use(*value), use(value.value()), use(error.error()); }) == "went on");
}

TEST_CASE("Result and Optional: value_or gives the fall-back where there is no value") {
    Result<std::string> const error = Error{ErrorCode::unsupported};
    Result<std::string> const value = std::string("three");
    CHECK(error.value_or("none") == "none");
    CHECK(value.value_or("none") == "three");
    CHECK(Result<std::string>{value}.value_or("none") == "three");
    CHECK(Optional<int>{}.value_or(7) == 7);
    CHECK(Optional<int>{3}.value_or(7) == 3);
    static_assert(Result<int>{3}.value_or(7) == 3);
    static_assert(Result<int>{Error{ErrorCode::unsupported}}.value_or(7) == 7);
}

TEST_CASE("Optional: the value of none ends the program") {
    Optional<int> const none;
    CHECK(says(death_of([&] { use(*none); }), "this Optional holds nothing"));
    CHECK(says(death_of([&] { use(none.value()); }), "this Optional holds nothing"));
    CHECK(says(death_of([&] { use(*none.operator->()); }), "this Optional holds nothing"));
}

TEST_CASE("List: what is beyond the end ends the program") {
    List<int> list{1, 2, 3};
    List<int> empty;
    CHECK(says(death_of([&] { use(list[hide(std::size_t{3})]); }), "beyond the end of the List"));
    CHECK(says(death_of([&] { list[hide(std::size_t{0}) - 1] = 1; }), "beyond the end of the List"));
    CHECK(says(death_of([&] { use(empty.front()); }), "beyond the end of the List"));
    CHECK(says(death_of([&] { use(empty.back()); }), "beyond the end of the List"));
    CHECK(says(death_of([&] { empty.pop_back(); }), "the List is empty"));
    CHECK(says(death_of([&] { list.insert(list.begin() + hide(4), 1); }), "beyond the end of the List"));
    CHECK(says(death_of([&] { list.erase(list.begin() + 1, list.begin() + hide(5)); }), "is not of the List"));
    CHECK(death_of([&] { list.insert(list.end(), 4), list.erase(list.begin(), list.end()); }) == "went on");
}

TEST_CASE("Span: what is beyond the end ends the program") {
    int values[] = {1, 2, 3};
    Span<int> const span = values;
    CHECK(says(death_of([&] { use(span[hide(std::size_t{3})]); }), "beyond the end of the Span"));
    CHECK(says(death_of([&] { use(Span<int>{}.front()); }), "beyond the end of the Span"));
    CHECK(says(death_of([&] { use(Span<int>{}.back()); }), "beyond the end of the Span"));
    CHECK(says(death_of([&] { use(span.first(hide(std::size_t{4}))); }), "beyond the end of the Span"));
    CHECK(says(death_of([&] { use(span.last(hide(std::size_t{4}))); }), "beyond the end of the Span"));
    CHECK(says(death_of([&] { use(span.subspan(hide(std::size_t{4}))); }), "beyond the end of the Span"));
    CHECK(says(death_of([&] { use(span.subspan(2, hide(std::size_t{2}))); }), "beyond the end of the Span"));
    CHECK(death_of([&] { use(span.first(3)), use(span.last(0)), use(span.subspan(3)), use(span.subspan(3, 0)); }) == "went on");
}

TEST_CASE("TensorView: parts that are not of the tensor end the program") {
    int values[] = {1, 2, 3, 4, 5, 6};
    TensorView<int, 2, void> const view(values, {2, 3});
    TensorView<int, 1, void> const row(values, {6});
    constexpr auto beyond = "beyond the end of the TensorView";
    CHECK(says(death_of([&] { use(view.row(hide(3))); }), beyond));
    CHECK(says(death_of([&] { use(view.row(hide(-1))); }), beyond));
    CHECK(says(death_of([&] { use(view.rows(1, hide(2))); }), beyond));
    CHECK(says(death_of([&] { use(view.rows(hide(-1), 1)); }), beyond));
    CHECK(says(death_of([&] { use(view.columns(1, hide(3))); }), beyond));
    CHECK(says(death_of([&] { use(view.columns(1, hide(-1))); }), beyond));
    CHECK(says(death_of([&] { use(row.part(hide(std::int64_t{1}), INT64_MAX)); }), beyond));
    CHECK(says(death_of([&] { use(view.extent(hide(std::size_t{2}))); }), "has fewer dimensions"));
    CHECK(says(death_of([&] { use(view.stride(hide(std::size_t{2}))); }), "has fewer dimensions"));
    CHECK(death_of([&] { use(view.rows(2, 0)), use(view.columns(3, 0)), use(row.part(6, 0)), use(view.row(2)); }) == "went on");
}
