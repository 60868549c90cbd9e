// The cases that every back end runs, in one translation unit: a vendor's program compiles them once more.
#include "backend_test.cpp"
#include "kernels_test.cpp"
#include "peers_test.cpp"
