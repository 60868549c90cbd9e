# SPDX-License-Identifier: Apache-2.0
# A room's test files are compiled in batches, several in one unit (make_batch.cmake): the suite builds in a fraction of the time.

# shardwise_batches(OUT ROOM SOURCE...): the units of these files. One that reopens our namespace or replaces operator new stays alone.
function(shardwise_batches out room)
    set(units "")
    set(together "")
    foreach(source IN LISTS ARGN)
        file(STRINGS "${source}" reopened REGEX "^namespace shardwise::inline|^void\\* operator new" LIMIT_COUNT 1)
        if(reopened OR SHARDWISE_BATCH LESS 2)
            list(APPEND units "${source}")
        else()
            list(APPEND together "${source}")
        endif()
    endforeach()
    list(LENGTH together files)
    set(number 0)
    set(first 0)
    while(first LESS files)
        list(SUBLIST together ${first} ${SHARDWISE_BATCH} sources)
        math(EXPR first "${first} + ${SHARDWISE_BATCH}")
        math(EXPR number "${number} + 1")
        set(batch "${CMAKE_CURRENT_BINARY_DIR}/batches/${room}_${number}.cpp")
        list(JOIN sources "," joined)
        add_custom_command(OUTPUT "${batch}"
                           COMMAND "${CMAKE_COMMAND}" "-DSOURCES=${joined}" "-DBATCH=${batch}" -P "${make_batch}"
                           DEPENDS ${sources} "${make_batch}"
                           COMMENT "${room}: batch ${number}"
                           VERBATIM)
        list(APPEND units "${batch}")
    endwhile()
    set(${out} "${units}" PARENT_SCOPE)
endfunction()
set(make_batch "${CMAKE_CURRENT_LIST_DIR}/make_batch.cmake")
