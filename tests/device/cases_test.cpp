// The cases that every back end runs, in one translation unit: the room's program compiles them for the host and the fake
// vendor, and each vendor's program compiles them once more.
#include "backend_cases.hpp"
#include "kernel_cases.hpp"
#include "peer_cases.hpp"
