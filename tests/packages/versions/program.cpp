// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

extern "C" char const* first_answer();
extern "C" char const* second_answer();

int main() { std::printf("%s\n%s\n", first_answer(), second_answer()); }
