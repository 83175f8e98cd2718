// Like random_mixed: an untimed pass of n/10 and --warmup=, then n operations, all of equal cost. As
// `plain` it has no untimed pass. Started where statistics are asked for, it plants them.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile unsigned sink;

__attribute__((noinline)) static void operate(long n) {
    for (long i = 0; i < n; i++) {
        unsigned char *volatile p = malloc(64);
        p[0] = 1;
        sink += p[0];
        free(p);
    }
}

int main(int argc, char **argv) {
    long n = 0, warm = 0;
    for (int i = 1; i < argc; i++) {
        const char *value = strchr(argv[i], '=');
        if (sscanf(argv[i], "--warmup=%ld", &warm) == 0 && n == 0) {
            n = atol(value == NULL ? argv[i] : value + 1);
        }
    }
    if (argc > 2 && strcmp(argv[2], "crash") == 0) {
        abort();
    }
    if ((argc > 2 && strcmp(argv[2], "give up") == 0) || getenv("PLANTED_FAILURE") != NULL) {
        fprintf(stderr, "planted failure\n");
        return 9;
    }
    if (argc <= 2 || strcmp(argv[2], "plain") != 0) {
        operate(n / 10 + warm);
    }
    if (argc > 2 && strcmp(argv[2], "forks") == 0 && fork() == 0) {
        operate(10 * n);
        _exit(0);
    }
    wait(NULL);
    operate(n);
    const char *every = getenv("HAKMEM_SECTIONS_SAMPLE"), *out = getenv("HAKMEM_STATS");
    if (every != NULL && out != NULL && getenv("HAKMEM_PLANTED") != NULL) {
        FILE *file = fopen(out + strlen("json:"), "w");
        fprintf(file, "{\"sections_sample\": %s, \"sections\": {\"refill\": {\"count\": %ld,"
                "\"sampled\": %ld, \"cycles\": %ld, \"max\": 900}}}", every, 7 + n / 8,
                n / 80, 40 * (n / 80));
        fclose(file);
    }
    printf("{\"bench\":\"planted\",\"ops\":%ld}\n", n);
    return 0;
}
