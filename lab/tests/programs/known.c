// A library of which it is known what it does: it adds 1 to a word, locked or not.
long words[2][8] __attribute__((aligned(64)));
void add_locked(int which) { __atomic_fetch_add(&words[which][0], 1, __ATOMIC_SEQ_CST); }
void add_plain(int which) { *(volatile long *)&words[which][0] += 1; }
