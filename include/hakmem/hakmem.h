/* hakmem: a general-purpose memory allocator.
 *
 * Preloaded or linked, hakmem replaces malloc and its family and the C++ operators new and delete;
 * nothing of this header is needed for that. The hak_* functions below are the same allocator under
 * names of its own: blocks may be freed by either. All functions may be called by any thread. */
#ifndef HAKMEM_HAKMEM_H
#define HAKMEM_HAKMEM_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* n bytes aligned to 16 (to 8 for n <= 8). hak_malloc(0) is a unique pointer. NULL and errno ENOMEM
 * when out of memory. The caller owns the block until it passes it to hak_free() or hak_realloc().
 */
void *hak_malloc(size_t n);

/* count * size bytes that read as zero; NULL and ENOMEM also where the product overflows. */
void *hak_calloc(size_t count, size_t size);

/* Changes the size of a block to n bytes; the contents up to the smaller size are kept and the
 * block may move. hak_realloc(NULL, n) allocates, hak_realloc(p, 0) frees and returns NULL. On
 * failure NULL, ENOMEM, and p is as it was. */
void *hak_realloc(void *p, size_t n);

/* n bytes aligned to `align`, a power of two; otherwise NULL and EINVAL. */
void *hak_aligned_alloc(size_t align, size_t n);

/* Frees a block; NULL is allowed; errno is kept. A double or invalid free of a block of ours ends
 * the process with one line on stderr, at the latest when the block leaves the thread's cache; a
 * pointer that is not ours goes to the C library's free. */
void hak_free(void *p);

/* Bytes that may be used at p, at least what was asked for; 0 for NULL. */
size_t hak_usable_size(const void *p);

/* "MAJOR.MINOR.PATCH"; a constant. */
const char *hak_version(void);

/* 1 if this process's malloc is hakmem's, 0 if hakmem is loaded but malloc binds to something else.
 */
int hak_is_serving(void);

/* Reads an option, or changes it while the process runs. `name` is that of the environment's
 * variable, e.g. "HAKMEM_SS_MEM_LEAN". `value` is what the variable would be set to; NULL only
 * reads. `out` receives the effective value as a string (empty for a text that is not set), the one
 * from before where both are given; NULL only writes. What is set here goes before the environment
 * and the profile. Any thread, but no signal handler. Keeps errno. Returns 0, or ENOENT  there is
 * no such option EPERM   the option is read when the process starts and cannot be changed EINVAL
 * the value is not allowed ERANGE  `out` is too small, nothing has changed. */
int hak_ctl(const char *name, const char *value, char *out, size_t out_bytes);

/* Writes all options with their effective values and where these come from to a file descriptor: as
 * "text", a line each, or as "json". Never allocates. Returns 0, or EINVAL for another format. */
int hak_options_print(int fd, const char *format);

#ifdef __cplusplus
}
#endif

#endif
