/*
 * Stands in for the soak benchmark: prints its epochs at once. HAKMEM_TEST_SOAK, a list of words,
 * plants what a mode may do wrong: crash, leak, fat, slow, fading, shaky, calls, silent, hang, and
 * crash-pairs (only where there is a single epoch).
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static double option(int argc, char **argv, const char *name, double otherwise) {
    const size_t length = strlen(name);
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], name, length) == 0) {
            return atof(argv[i] + length);
        }
    }
    return otherwise;
}

static int planted(const char *word) {
    char all[256], *rest = all;
    const char *list = getenv("HAKMEM_TEST_SOAK");
    snprintf(all, sizeof all, "%s", list ? list : "");
    for (char *one = strtok_r(rest, " ", &rest); one != NULL; one = strtok_r(rest, " ", &rest)) {
        if (strcmp(one, word) == 0) {
            return 1;
        }
    }
    return 0;
}

/* Within 1 of 0; another series in each process, but the same for the same padding. */
static double noise(void) {
    static unsigned state;
    if (state == 0) {
        const char *padding = getenv("LAB_PADDING");
        state = 1 + (unsigned)strlen(padding ? padding : "");
    }
    state = state * 1664525u + 1013904223u;
    return (double)(state >> 8) / (1 << 23) - 1;
}

int main(int argc, char **argv) {
    const double seconds = option(argc, argv, "--seconds=", 60);
    const double epoch_s = option(argc, argv, "--epoch-sec=", 1);
    const int epochs = (int)(seconds / epoch_s + 0.5);
    const double rate = planted("slow") ? 0.5e6 : 1e6;
    double ops = 0;
    if (planted("hang")) {
        pause();
    }
    if (planted("crash") || (planted("crash-pairs") && epochs == 1)) {
        fprintf(stderr, "planted crash\n");
        raise(SIGSEGV);
    }
    if (!planted("silent")) {
        printf("epoch,t_s,ops,ops_per_s,ns_per_op,rss_kb,anon_kb,lazyfree_kb,anonhuge_kb,live_kb,"
               "committed_kb,minflt,user_s,sys_s\n");
    }
    for (int i = 0; i < epochs && !planted("silent"); i++) {
        const double share = (double)i / epochs;
        const double swing = planted("shaky") && i % 2 ? 0.3 : 0;
        const double now =
            rate * (1 + 0.01 * noise() - swing - (planted("fading") ? share / 2 : 0));
        const double rss =
            20000 + (planted("leak") ? 8000 * share : 0) + (planted("fat") ? 9000 : 0);
        printf("%d,%.6f,%.0f,%.1f,%.4f,%.0f,18000,0,0,10000,30000,1,%.6f,0.000001\n", i,
               (i + 1) * epoch_s, now * epoch_s, now, 1e9 / now, rss, epoch_s);
        ops += now * epoch_s;
    }
    printf("{\"bench\":\"soak_mixed\",\"ops\":%.0f,\"seconds\":%.9f,\"user_s\":%.6f,"
           "\"sys_s\":0.000001,\"max_rss_kb\":2048}\n",
           ops, seconds, seconds);
    fprintf(stderr,
            "[SS_OS_STATS] alloc=3 free=2 madvise=1 madvise_enomem=0 mmap_total=3 calls=%d\n",
            planted("calls") ? 1000000 : 10);
    return 0;
}
