# The planning half as others use it, where no SDK can be seen; tests/cmake/consumer.cmake says how.
foreach(mode installed subdirectory readers unknown)
    add_test(NAME package.${mode}
             COMMAND "${CMAKE_COMMAND}" "-DMODE=${mode}" "-DSOURCE_DIR=${PROJECT_SOURCE_DIR}"
                     "-DBINARY_DIR=${PROJECT_BINARY_DIR}" "-DWORK=${CMAKE_CURRENT_BINARY_DIR}/consumer"
                     "-DCOMPILER=${CMAKE_CXX_COMPILER}" -P "${CMAKE_CURRENT_LIST_DIR}/consumer.cmake")
endforeach()
