/* What is written about the process to files: by whom, under which name, and when a signal asks for it.
 *
 * A signal's handler only wakes a thread of ours, which sleeps otherwise and exists only where asked for. That
 * does the writing, because what is written needs locks that the interrupted code may hold. A forked
 * child starts a thread of its own. */
#pragma once

#include "base/report.h"

/* This process is the one that read the environment. */
void hk_asked_start(void);

/* Has forked children call `start`, the allocator's own fork handler having run: that one comes first. */
void hk_asked_in_children(void (*start)(void));

/* Appends the path with each %p in it replaced by the process's number. Where there is none a forked child puts its
 * own at the end: it must not overwrite what its parent writes. False: it is too long. */
bool hk_asked_path(hk_line_t *path, const char *pattern);

/* Who may read a file: anybody, as far as the umask leaves that; or the process's user only, for it shows where code lies. */
enum { HK_FOR_ALL = 0644, HK_FOR_THE_USER = 0600 };

/* Has `emit` write `what` to a file of this name; it says 0, or what is wrong as errno does, and so does this. Readers
 * see the old file or the whole new one. What is there and no regular file (a device, a pipe, a link) is written
 * to, not replaced; so is a file that the system lets nobody replace but us write. What is for the user only
 * goes to nothing that is there: that is replaced, or it is an error. */
typedef int hk_emit_t(int fd, const void *what);
int hk_asked_file(const hk_line_t *path, unsigned mode, hk_emit_t *emit, const void *what);

/* The same to what has been opened as fd, and is closed; or errno, where it could not be. */
int hk_asked_emit(int fd, hk_emit_t *emit, const void *what);

/* From now on `write` is called whenever SIGUSR1 or SIGUSR2 comes; one line says so where it cannot be. A
 * program's own handler stays, whether it was there before or comes later. */
void hk_asked_listen(int number, void (*write)(void));

/* Starts that thread, if this process has none: it also ends the process once threads of ours are all that is left of it.
 * 0, or what pthread_create() says. */
int hk_asked_watch(void);

/* What the options ask for when the process starts, once they have been read, and when it ends, after the program's own
 * handlers of that (api/start.c). */
void hk_live_begin(void);
void hk_stats_begin(void);
void hk_stats_end(void);
void hk_recording_begin(void);
void hk_profile_begin(void);
/* It may end the process. */
void hk_profile_end(void);

/* Samples are taken from now on, or no more, as the options say now. Allocates. False: as hk_watch(). */
bool hk_profile_apply(void);
