// Says which processor the main thread is on, each of three together, and one that comes after them.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
enum { TOGETHER = 3 };
static pthread_barrier_t all;
static void *look(void *together) {
    int *place = together, own = sched_getcpu();
    if (*place >= 0)
        pthread_barrier_wait(&all);
    *place = sched_getcpu() == own ? own : -1;
    return NULL;
}
int main(void) {
    pthread_t thread[TOGETHER];
    int on[TOGETHER] = {0}, later = -1;
    printf("%d", sched_getcpu());
    pthread_barrier_init(&all, NULL, TOGETHER);
    for (int i = 0; i < TOGETHER; i++)
        pthread_create(&thread[i], NULL, look, &on[i]);
    for (int i = 0; i < TOGETHER; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < TOGETHER; i++)
        printf(" %d", on[i]);
    pthread_create(&thread[0], NULL, look, &later);
    pthread_join(thread[0], NULL);
    printf(" %d\n", later);
    return 0;
}
