/* What describes a fenced block. It lies apart, in a table of one for each slice of 4 GiB of addresses: that of the slice in which the block
 * starts. A page before the block would take two mappings, a fault and a call of the system, and each fork copies them. All the same it is sealed:
 * none is believed that somebody else has written, or written to. No lock is taken. */
#pragma once

#include "guard/guard.h"
#include "os/os.h"

enum { HK_HEADER_FREE, HK_HEADER_OUT };

typedef struct {
    size_t n;
    char *start; /* of the mapping, and its bytes */
    size_t bytes;
    /* What is accessible, from the start on, and its bytes; and the block, from there on. No address: who looks for what
     * leads to a block (profile/reach.h) looks here as well. */
    size_t body, body_bytes, block;
    size_t by; /* a hk_by_t */
    /* of all before, of where it is, and of the secret: const while the block is out, and being freed */
    uint64_t seal;
    bool marked;       /* the mapping can be written to, and its fences are marks */
    bool keeps;        /* its memory while it is free */
    bool open;         /* it is cleared while it is free, and anybody can write to it */
    atomic_uint state; /* atomic: whoever frees */
} hk_header_t;

HK_INLINE char *hk_header_body(const hk_header_t *header) { return header->start + header->body; }
HK_INLINE char *hk_header_block(const hk_header_t *header) {
    return hk_header_body(header) + header->block;
}

/* Makes a part of its mapping one of its fences. */
HK_INLINE bool hk_header_close(const hk_header_t *header, char *p, size_t bytes) {
    return header->marked ? hk_os_mark(p, bytes) : hk_os_close(p, bytes);
}

/* Of the slice that p lies in, where it may be written to; NULL: refused. */
hk_header_t *hk_header_make(const void *p);

/* The same of one that was made. */
hk_header_t *hk_header_at(const void *p);

/* Before its mapping goes: it describes nothing more, and is the next one's there, which may be at once. */
void hk_header_leave(hk_header_t *header);

/* After each change of what is sealed. */
void hk_header_seal(hk_header_t *header);
bool hk_header_is_sealed(const hk_header_t *header);

/* The header of what lies at p, which is in a slice of kind HK_KIND_FENCED and no sample; NULL: none is whole. */
hk_header_t *hk_header_of(const void *p);

/* The same of any address in a mapping, of which nothing may be accessible. In a signal handler. */
const hk_header_t *hk_header_around(const void *p);
