/* Reports that hakmem writes to files: their names, how they are written, and when a signal asks
 * for them.
 *
 * A signal's handler only wakes a thread of ours, which sleeps otherwise and exists only where
 * asked for. The thread does the writing, because that needs locks that the interrupted code may
 * hold. A forked child starts its own thread. */
#pragma once

#include "base/report.h"

/* Notes the calling process as the one that read the environment. */
void hk_asked_start(void);

/* Has forked children call `start`, after the allocator's own fork handler. */
void hk_asked_in_children(void (*start)(void));

/* Appends the path with each %p replaced by the process's number. A path without %p gets the number
 * appended in a forked child, which must not overwrite its parent's file. False: it is too long. */
bool hk_asked_path(hk_line_t *path, const char *pattern);

/* File modes: readable for all, as far as the umask permits; or for the process's user only,
 * because the file shows where code lies. */
enum { HK_FOR_ALL = 0644, HK_FOR_THE_USER = 0600 };

/* Has `emit` write `what` to the file at `path`. Returns 0 or an errno value, as `emit` does.
 * Readers see the old file or the whole new one. An existing path that is no regular file (a
 * device, a pipe, a link) is written to, not replaced; so is a file that may be written but not
 * replaced. With HK_FOR_THE_USER an existing file is never written to: it is replaced, or that is
 * an error. */
typedef int hk_emit_t(int fd, const void *what);
int hk_asked_file(const hk_line_t *path, unsigned mode, hk_emit_t *emit, const void *what);

/* The same to fd, which is then closed. If fd is negative, returns errno as the failed open left
 * it. */
int hk_asked_emit(int fd, hk_emit_t *emit, const void *what);

/* From now on `write` is called for each SIGUSR1 or SIGUSR2; if that is not possible, warns in one
 * line. A handler of the program's stays in effect, whether installed earlier or later. */
void hk_asked_listen(int number, void (*write)(void));

/* Starts that thread if this process has none. It also ends the process once only workers are left.
 * Returns 0, or pthread_create()'s error. */
int hk_asked_watch(void);

/* What the options ask for: the _begin functions run at the process's start, once the options have
 * been read; the _end functions at its end, after the program's own exit handlers (api/start.c). */
void hk_live_begin(void);
void hk_stats_begin(void);
void hk_stats_end(void);
void hk_recording_begin(void);
void hk_profile_begin(void);
/* It may end the process. */
void hk_profile_end(void);

/* Starts or stops sampling as the options say now. Allocates. False: as hk_watch(). */
bool hk_profile_apply(void);
