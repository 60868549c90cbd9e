# SPDX-License-Identifier: Apache-2.0
# The communicator over MPI: tests/comm/mpi_ranks.cpp under mpirun. More ranks than cores are meant.

find_program(shardwise_mpirun mpirun)
if(NOT MPI_CXX_FOUND OR NOT shardwise_mpirun)
    shardwise_skipped_test(comm.mpi "Open MPI is not installed (Debian: libopenmpi-dev openmpi-bin)")
    return()
endif()

shardwise_program(mpi_ranks tests comm/mpi_ranks.cpp)
target_link_libraries(mpi_ranks PRIVATE MPI::MPI_CXX)
target_compile_definitions(mpi_ranks PRIVATE OMPI_SKIP_MPICXX)
# Training takes as long to compile as all the rest: it is built where the label is long.
shardwise_program(mpi_training tests comm/mpi_ranks.cpp)
target_link_libraries(mpi_training PRIVATE MPI::MPI_CXX)
target_compile_definitions(mpi_training PRIVATE OMPI_SKIP_MPICXX SHARDWISE_TEST_TRAINING)
set_target_properties(mpi_training PROPERTIES EXCLUDE_FROM_ALL TRUE)
shardwise_built_test(long.comm.mpi.training.build mpi_training)
set_tests_properties(long.comm.mpi.training.build PROPERTIES LABELS long TIMEOUT 1800 FIXTURES_SETUP mpi_training)

# shardwise_mpi_test(NAME RANKS CASE [EXPECTED]): EXPECTED is what the job says before it ends with an error, as it should.
function(shardwise_mpi_test name ranks case)
    add_test(NAME comm.mpi.${name}
             COMMAND "${shardwise_mpirun}" -np ${ranks} --oversubscribe --allow-run-as-root $<TARGET_FILE:mpi_ranks> ${case})
    set_tests_properties(comm.mpi.${name} PROPERTIES TIMEOUT 120 FAIL_REGULAR_EXPRESSION "FAILED")
    if(ARGN)
        set_tests_properties(comm.mpi.${name} PROPERTIES PASS_REGULAR_EXPRESSION "${ARGN}")
    endif()
endfunction()

foreach(ranks 1 2 4)
    shardwise_mpi_test(cases_${ranks} ${ranks} cases)
endforeach()
shardwise_mpi_test(pipelines 3 pipelines)
shardwise_mpi_test(blocks 3 blocks)
shardwise_mpi_test(twice 2 twice)
shardwise_mpi_test(threads 2 threads)
shardwise_mpi_test(mismatch 3 mismatch)
shardwise_mpi_test(leaves 3 leaves "as expected: rank 1: left the group")
shardwise_mpi_test(stopped 3 stopped "as expected: .*by rank 1")
shardwise_mpi_test(absent 3 absent "as expected: MPI: was not started in time")
shardwise_mpi_test(silent 3 silent "as expected: .*by rank 1")
add_test(NAME long.comm.mpi.training
         COMMAND "${shardwise_mpirun}" -np 2 --oversubscribe --allow-run-as-root $<TARGET_FILE:mpi_training> training)
set_tests_properties(long.comm.mpi.training PROPERTIES LABELS long TIMEOUT 120 FAIL_REGULAR_EXPRESSION "FAILED"
    PASS_REGULAR_EXPRESSION "ended on rank 0.*ended on rank 1|ended on rank 1.*ended on rank 0" FIXTURES_REQUIRED mpi_training)
