// expect: the reason given here
// refused: fails without the text
static_assert(sizeof(int) == 1, "another reason");
