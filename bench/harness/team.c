#include "team.h"

#include <string.h>

typedef struct {
    hb_team_t *team;
    unsigned lane;
} seat_t;

static void *enter(void *argument) {
    const seat_t *seat = argument;
    seat->team->body(seat->team, seat->lane, seat->team->context);
    return NULL;
}

void hb_team_start(hb_team_t *team) {
    pthread_barrier_wait(&team->ready);
    pthread_barrier_wait(&team->go);
}

void hb_team_finish(hb_team_t *team) {
    if (atomic_fetch_sub(&team->working, 1) == 1) {
        team->end = hb_usage_now();
    }
    pthread_barrier_wait(&team->over);
}

pthread_t hb_team_succeed(hb_team_t *team, unsigned lane) {
    const pthread_t predecessor = team->thread[lane];
    team->thread[lane] = pthread_self();
    return predecessor;
}

hb_usage_t hb_team_run(unsigned lanes, hb_body_t *body, void *context) {
    static hb_team_t team;
    static seat_t seats[HB_MAX_LANES];
    if (lanes == 0 || lanes > HB_MAX_LANES) {
        hb_die("%u threads: 1 to %d are possible", lanes, HB_MAX_LANES);
    }
    team = (hb_team_t){.lanes = lanes, .body = body, .context = context};
    atomic_init(&team.working, lanes);
    pthread_barrier_init(&team.ready, NULL, lanes + 1);
    pthread_barrier_init(&team.go, NULL, lanes + 1);
    pthread_barrier_init(&team.over, NULL, lanes + 1);
    for (unsigned i = 0; i < lanes; i++) {
        seats[i] = (seat_t){&team, i};
        const int error = pthread_create(&team.thread[i], NULL, enter, &seats[i]);
        if (error != 0) {
            hb_die("pthread_create: %s", strerror(error));
        }
    }
    pthread_barrier_wait(&team.ready);
    team.begin = hb_usage_now();
    pthread_barrier_wait(&team.go);
    pthread_barrier_wait(&team.over);
    for (unsigned i = 0; i < lanes; i++) {
        pthread_join(team.thread[i], NULL);
    }
    pthread_barrier_destroy(&team.ready);
    pthread_barrier_destroy(&team.go);
    pthread_barrier_destroy(&team.over);
    return hb_usage_between(&team.begin, &team.end);
}
