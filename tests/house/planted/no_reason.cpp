// refused: the first line must be
static_assert(sizeof(int) == 1, "no reason given");
