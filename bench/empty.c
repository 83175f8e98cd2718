/* An empty shared library: what preloading costs when there is nothing to it. */
extern const char bench_empty;
const char bench_empty = 0;
