/*
 * Threads that start together and are timed together.
 *
 * A body prepares, calls hb_team_start(), does its fixed share of the work, calls hb_team_finish(),
 * and cleans up. The clock runs from before the first thread is let go until the last has finished.
 */
#ifndef HB_TEAM_H
#define HB_TEAM_H

#include <pthread.h>
#include <stdatomic.h>

#include "measure.h"

#define HB_MAX_LANES 256

typedef struct hb_team hb_team_t;
typedef void hb_body_t(hb_team_t *team, unsigned lane, void *context);

struct hb_team {
    unsigned lanes;                 /* const */
    hb_body_t *body;                /* const */
    void *context;                  /* const */
    pthread_barrier_t ready;        /* all prepared */
    pthread_barrier_t go;           /* the clock runs */
    pthread_barrier_t over;         /* the clock has stopped */
    atomic_uint working;            /* lanes that have not finished */
    hb_usage_t begin;               /* written by the caller before `go` */
    hb_usage_t end;                 /* written by the last lane to finish, before `over` */
    pthread_t thread[HB_MAX_LANES]; /* who holds the lane; see hb_team_succeed() */
};

/* Runs body(team, lane, context) on `lanes` threads; returns what the timed part took. */
hb_usage_t hb_team_run(unsigned lanes, hb_body_t *body, void *context);

void hb_team_start(hb_team_t *team);
void hb_team_finish(hb_team_t *team);

/* Called by a thread that takes a lane over from the thread that held it; returns that thread,
   which the successor has to join. */
pthread_t hb_team_succeed(hb_team_t *team, unsigned lane);

#endif
