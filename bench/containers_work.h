/* The C++ half of bench_containers: the standard library's containers, which take their blocks from
 * operator new. */
#ifndef HB_CONTAINERS_WORK_H
#define HB_CONTAINERS_WORK_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One thread's containers, kept from one call to the next. */
typedef struct containers containers_t;

/* With a map of about `entries`, and a queue that holds as many strings. */
containers_t *containers_new(uint64_t entries, uint32_t seed);

/* Does so many rounds. Returns how many values were not what had been put in; with `verify` each one
 * that leaves a container is looked at, otherwise few are. */
uint64_t containers_run(containers_t *containers, uint64_t rounds, int verify);

void containers_delete(containers_t *containers);

#ifdef __cplusplus
}
#endif

#endif
