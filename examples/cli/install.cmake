# SPDX-License-Identifier: Apache-2.0
# The program where it is installed: beside it lie its manual page and completions, which it prints itself.
include(GNUInstallDirs)
if(NOT SHARDWISE_INSTALL)
    return()
endif()
install(TARGETS shardwise_program RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT program)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/share/shardwise/demo" DESTINATION "${CMAKE_INSTALL_DATADIR}/shardwise"
        COMPONENT program)
if(CMAKE_CROSSCOMPILING)
    return()
endif()

set(printed "${PROJECT_BINARY_DIR}/share")
file(MAKE_DIRECTORY "${printed}")
add_custom_command(TARGET shardwise_program POST_BUILD
                   COMMAND shardwise_program man > "${printed}/shardwise.1"
                   COMMAND shardwise_program completion bash > "${printed}/shardwise.bash"
                   COMMAND shardwise_program completion zsh > "${printed}/_shardwise"
                   COMMAND shardwise_program completion fish > "${printed}/shardwise.fish"
                   VERBATIM)
install(FILES "${printed}/shardwise.1" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1" COMPONENT program)
install(FILES "${printed}/shardwise.bash" RENAME shardwise
        DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions" COMPONENT program)
install(FILES "${printed}/_shardwise" DESTINATION "${CMAKE_INSTALL_DATADIR}/zsh/site-functions" COMPONENT program)
install(FILES "${printed}/shardwise.fish" DESTINATION "${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d"
        COMPONENT program)
