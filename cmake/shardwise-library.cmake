include(GNUInstallDirs)

# One target per component. They carry include paths and requirements only; everything is in the headers.

# The planning half: the standard library and nothing else.
add_library(shardwise INTERFACE)
add_library(shardwise::shardwise ALIAS shardwise)
target_compile_features(shardwise INTERFACE cxx_std_20)
target_include_directories(shardwise INTERFACE "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>"
                                               "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")

# What reads files and asks the machine. nlohmann_json is only named here: whoever links this target must have found it.
# Threads and dlopen are libraries of their own where glibc is older than 2.34.
add_library(shardwise_readers INTERFACE)
add_library(shardwise::readers ALIAS shardwise_readers)
set_target_properties(shardwise_readers PROPERTIES EXPORT_NAME readers)
target_link_libraries(shardwise_readers INTERFACE shardwise nlohmann_json::nlohmann_json "$<$<PLATFORM_ID:Linux>:dl>")
target_link_options(shardwise_readers INTERFACE "$<$<PLATFORM_ID:Linux>:-pthread>")
