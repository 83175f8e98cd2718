/* Stands in for every benchmark; the one called bench_huge fails, as planted. Its null loop takes
   a tenth of what it takes itself. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
    const double share = strcmp(argv[argc - 1], "--mode=null") == 0 ? 0.1 : 1;
    if (strstr(argv[0], "bench_huge") != NULL) {
        fprintf(stderr, "planted failure\n");
        return 9;
    }
    if (strstr(argv[0], "bench_large") != NULL) {
        printf("no JSON here\n");
        return 0;
    }
    if (strstr(argv[0], "bench_burst") != NULL) {
        pause();
    }
    printf("Throughput = 1 operations per second, relative time: 1.000s.\n");
    printf("{\"bench\":\"stub\",\"ops\":1000,\"seconds\":%g,\"ops_per_s\":2000,\"user_s\":%g,"
           "\"sys_s\":%g,\"minflt\":1,\"majflt\":0,\"max_rss_kb\":2048,\"rss_kb\":1024,"
           "\"peak_kb\":1000,\"after_kb\":600,\"after_lazy_kb\":100,\"free_p9999_ns\":9}\n",
           0.5 * share, 0.4 * share, 0.1 * share);
    return 0;
}
