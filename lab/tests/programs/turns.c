// Two threads take turns, each turn waiting outside the library; in it each adds 1 to the same word,
// or to one of its own.
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
void add_locked(int which);
void add_plain(int which);
static volatile int turn;
static int turns, same;
static void (*add)(int);
static void *take_turns(void *number) {
    const int own = number != NULL;
    for (int i = 0; i < turns; i++) {
        while (__atomic_load_n(&turn, __ATOMIC_SEQ_CST) != own)
            sched_yield();
        add(same ? 0 : own);
        __atomic_store_n(&turn, !own, __ATOMIC_SEQ_CST);
    }
    return NULL;
}
int main(int argc, char **argv) {
    pthread_t other;
    turns = argc > 3 ? atoi(argv[3]) : 0;
    add = strcmp(argv[1], "locked") == 0 ? add_locked : add_plain;
    same = strcmp(argv[2], "same") == 0;
    pthread_create(&other, NULL, take_turns, &other);
    take_turns(NULL);
    pthread_join(other, NULL);
    return 0;
}
