#include <shardwise/core/version.hpp>
#include <shardwise/shardwise.hpp>

#include <cstdio>

int main() {
    std::printf("shardwise %d.%d.%d\n", shardwise::library_version.major_number,
                shardwise::library_version.minor_number, shardwise::library_version.patch_number);
}
