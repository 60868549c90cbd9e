// expect: anything
// refused: compiles, but must not
int main() {}
