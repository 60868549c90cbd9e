# SPDX-License-Identifier: Apache-2.0
# session.linked: a family of a program's own, run by the compiled library shardwise::runtime instead of by its headers.
if(NOT TARGET shardwise::runtime)
    return()
endif()
shardwise_program(test_linked tests session/own_family_test.cpp $<TARGET_OBJECTS:doctest_main>)
target_include_directories(test_linked PRIVATE ${shardwise_test_includes})
target_include_directories(test_linked SYSTEM PRIVATE "${shardwise_doctest_include}")
target_compile_definitions(test_linked PRIVATE ${shardwise_test_definitions})
target_link_libraries(test_linked PRIVATE shardwise::runtime)
shardwise_room_test(session.linked test_linked)
