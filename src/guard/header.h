/* The header of a fenced block. It lies apart from it, in a table for 4 GiB of addresses, in the
 * entry of the slice in which the block starts: a page before the block would cost two mappings, a
 * fault, a system call, and a copy at each fork. It is sealed: a header that the program has forged
 * or written to is not believed. No lock is taken. */
#pragma once

#include "guard/guard.h"
#include "os/os.h"

enum { HK_HEADER_FREE, HK_HEADER_OUT };

typedef struct {
    size_t n;
    char *start; /* of the mapping, which has `bytes` */
    size_t bytes;
    /* The accessible part, as an offset from the start, and its bytes; the block, as an offset from
     * the body. No addresses: the search for reachable blocks (profile/leaks.c) scans headers
     * too. */
    size_t body, body_bytes, block;
    size_t by; /* a hk_by_t */
    /* of all fields above, the header's address and the secret: const while the block is in use and
     * being freed */
    uint64_t seal;
    bool marked;       /* the mapping is writable, and its fences are marks */
    bool keeps;        /* while free, it keeps its memory */
    bool open;         /* while free, it is cleared and stays writable */
    atomic_uint state; /* atomic: any thread frees */
} hk_header_t;

HK_INLINE char *hk_header_body(const hk_header_t *header) { return header->start + header->body; }
HK_INLINE char *hk_header_block(const hk_header_t *header) {
    return hk_header_body(header) + header->block;
}

/* Turns a part of its mapping into fence. */
HK_INLINE bool hk_header_close(const hk_header_t *header, char *p, size_t bytes) {
    return header->marked ? hk_os_mark(p, bytes) : hk_os_close(p, bytes);
}

/* The writable header of the slice of p; NULL: the system refuses memory. */
hk_header_t *hk_header_make(const void *p);

/* The same without making it; NULL: its table does not exist. */
hk_header_t *hk_header_at(const void *p);

/* Invalidates it before its mapping is unmapped; the slice's next block may use it at once. */
void hk_header_leave(hk_header_t *header);

/* Seals it, after each change of a sealed field. */
void hk_header_seal(hk_header_t *header);
bool hk_header_is_sealed(const hk_header_t *header);

/* The header of the mapping that contains p, which is in a slice of kind HK_KIND_FENCED and no
 * sample; NULL: none is intact. */
hk_header_t *hk_header_of(const void *p);

/* The same for any address in a mapping, accessible or not. In a signal handler. */
const hk_header_t *hk_header_around(const void *p);
