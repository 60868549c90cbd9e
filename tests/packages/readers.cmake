# The component readers with the system's nlohmann_json, by find_package and by pkg-config.
include("${CMAKE_CURRENT_LIST_DIR}/common.cmake")

function(expect_layers program)
    run("${program}")
    if(NOT printed STREQUAL "layers: 32\n")
        message(FATAL_ERROR "${program} prints '${printed}'")
    endif()
endfunction()

build_consumer("-DCMAKE_PREFIX_PATH=${PREFIX}" -DCONSUMER_COMPONENTS=readers)
expect_layers("${WORK}/build/readers")

run("${CMAKE_COMMAND}" -E env "PKG_CONFIG_PATH=${PREFIX}/share/pkgconfig" pkg-config --cflags --libs shardwise-readers)
separate_arguments(flags UNIX_COMMAND "${printed}")
run("${COMPILER}" -std=c++20 ${flags} "${SOURCE_DIR}/tests/consumer/readers.cpp" -o "${WORK}/readers")
expect_layers("${WORK}/readers")
