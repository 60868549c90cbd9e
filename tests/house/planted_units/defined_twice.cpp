// SPDX-License-Identifier: Apache-2.0
// What only_inline.cmake must refuse: a function that is not inline, among others that are.
inline int of_all() {
    return 1;
}

int of_one_unit() {
    return of_all();
}
