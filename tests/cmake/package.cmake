# SPDX-License-Identifier: Apache-2.0
# The ways to get shardwise, each with the ten lines of tests/consumer/main.cpp and each compiler; tests/packages/ says how.
set(package_prefix "${CMAKE_CURRENT_BINARY_DIR}/packages/prefix")
# Where scripts/setup.sh puts what no package of the system has.
set(package_cache "$ENV{XDG_CACHE_HOME}")
if(NOT package_cache)
    set(package_cache "$ENV{HOME}/.cache")
endif()
# shardwise_package_test(NAME SCRIPT COMPILER ARGUMENT...): a packaging test in a folder of its own.
function(shardwise_package_test name script compiler)
    add_test(NAME package.${name}
             COMMAND "${CMAKE_COMMAND}" "-DSOURCE_DIR=${PROJECT_SOURCE_DIR}" "-DBINARY_DIR=${PROJECT_BINARY_DIR}"
                     "-DPREFIX=${package_prefix}" "-DWORK=${CMAKE_CURRENT_BINARY_DIR}/packages/${name}"
                     "-DVERSION=${PROJECT_VERSION}" "-DCOMPILER=${shardwise_${compiler}}" ${ARGN}
                     -P "${PROJECT_SOURCE_DIR}/tests/packages/${script}.cmake")
    set_tests_properties(package.${name} PROPERTIES FIXTURES_REQUIRED package_prefix)
endfunction()

list(GET shardwise_compilers 0 compiler)
shardwise_package_test(install install ${compiler})
set_tests_properties(package.install PROPERTIES FIXTURES_REQUIRED "" FIXTURES_SETUP package_prefix)

foreach(way find_package add_subdirectory fetch_content pkg_config include_path single_header vcpkg)
    set(script ways)
    if(way STREQUAL "vcpkg")
        set(script vcpkg)
    endif()
    foreach(compiler IN LISTS shardwise_compilers)
        shardwise_package_test(${way}.${compiler} ${script} ${compiler} "-DWAY=${way}")
    endforeach()
endforeach()

list(GET shardwise_compilers 0 compiler)
shardwise_package_test(readers readers ${compiler})
shardwise_package_test(host host ${compiler})
# One unit of the library, and where the label is long all, with a program that links it.
shardwise_package_test(runtime runtime ${compiler} -DUNIT=kernels.cpp)
shardwise_package_test(whole_runtime runtime ${compiler})
set_tests_properties(package.whole_runtime PROPERTIES LABELS long)
shardwise_package_test(refusals refusals ${compiler})
shardwise_package_test(optional_parts optional_parts ${compiler})
set_tests_properties(package.optional_parts PROPERTIES FIXTURES_REQUIRED "")
file(GLOB readers "${package_cache}/shardwise/cuda-readers/lib/python*/site-packages/nvidia/*/bin")
find_program(shardwise_cuobjdump cuobjdump HINTS ${readers} /usr/local/cuda/bin)
mark_as_advanced(shardwise_cuobjdump)
set(lister "")
if(shardwise_cuobjdump)
    set(lister "${shardwise_cuobjdump}")
endif()
set(devices "")
foreach(vendor cuda hip)
    string(TOUPPER "${vendor}" upper)
    if(TARGET shardwise::${vendor} AND shardwise_${vendor}_compiler)
        list(APPEND devices "-DHAS_${upper}=ON")
    endif()
endforeach()
shardwise_package_test(device_code device_code ${compiler} "-DLISTER=${lister}" ${devices})
set_tests_properties(package.device_code PROPERTIES FIXTURES_REQUIRED "")
list(GET shardwise_compilers -1 second_compiler)
shardwise_package_test(versions versions ${compiler} "-DSECOND_COMPILER=${shardwise_${second_compiler}}")
set(program "")
if(SHARDWISE_EXAMPLES)
    set(program "$<TARGET_FILE:shardwise_program>")
endif()
shardwise_package_test(version version ${compiler} "-DPROGRAM=${program}")

# Commas: a list would fall apart on its way.
set(compilers "")
foreach(compiler IN LISTS shardwise_compilers)
    list(APPEND compilers "${compiler}=${shardwise_${compiler}}")
endforeach()
list(JOIN compilers "," compilers)

find_program(shardwise_conan conan HINTS "${package_cache}/shardwise/conan/bin")
if(shardwise_conan)
    shardwise_package_test(conan conan "" "-DCONAN=${shardwise_conan}" "-DCOMPILERS=${compilers}")
else()
    shardwise_skipped_test(package.conan "conan is not installed (scripts/setup.sh installs it from PyPI)")
endif()
