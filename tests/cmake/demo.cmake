# SPDX-License-Identifier: Apache-2.0
# long.demo: the demo model's bytes, made again by the optimised program on two ranks that share the optimizer's state.
add_test(NAME long.demo
         COMMAND sh -c "cmake --preset release >/dev/null && cmake --build --preset release --target shardwise_program && scripts/make_demo_model.sh --check --dp 2 --zero 1"
         WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
set_tests_properties(long.demo PROPERTIES LABELS long PROCESSORS 2 TIMEOUT 7200)
