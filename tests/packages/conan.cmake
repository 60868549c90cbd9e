# `conan create` without any remote, in a Conan home of its own: by the first compiler, then by the second, for which the
# package of the first must serve (a header library has one binary). COMPILERS: names and paths; CONAN: the program.
include("${CMAKE_CURRENT_LIST_DIR}/common.cmake")

set(ENV{CONAN_HOME} "${WORK}/home")
set(how --no-remote -c tools.cmake.cmaketoolchain:generator=Ninja
        -c "tools.cmake.cmake_layout:test_folder=${WORK}/test_package")

set(build "--build=shardwise/*")
set(packages TRUE)
foreach(name path IN ZIP_LISTS NAMES COMPILERS)
    # The profile is Conan's own guess, as most users have it; only the compiler is given.
    run("${CMAKE_COMMAND}" -E env "CXX=${path}" "${CONAN}" profile detect --name ${name})
    run("${CONAN}" create "${SOURCE_DIR}" -pr:a ${name} ${how} ${build}
        -c "tools.build:compiler_executables={'cpp': '${path}'}")
    string(FIND "${printed}" "shardwise/${VERSION}: Created package revision" created)
    string(FIND "${printed}" "${expected}" answered)
    if(answered EQUAL -1 OR (packages AND created EQUAL -1) OR (NOT packages AND NOT created EQUAL -1))
        message(NOTICE "${printed}")
        message(FATAL_ERROR "conan create by ${name}: see above (packages anew: ${packages})")
    endif()
    set(build "--build=missing")
    set(packages FALSE)
endforeach()
