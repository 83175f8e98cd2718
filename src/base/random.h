/* Numbers of chance, for places and orders that nobody shall foretell without reading our memory. */
#pragma once

#include "base/base.h"

/* Both halves of a product in one: no bit of it depends on a few bits of either factor. */
HK_INLINE uint64_t hk_folded(uint64_t a, uint64_t b) {
#if defined(__x86_64__)
    uint64_t high; /* compilers may take the product through memory */
    __asm__("mulq %2" : "+a"(a), "=d"(high) : "rm"(b) : "cc");
    return high ^ a;
#else
    __extension__ typedef unsigned __int128 wide_t;
    const wide_t product = (wide_t)a * b;
    return (uint64_t)(product >> 64) ^ (uint64_t)product;
#endif
}

/* The next number of a stream, uniformly spread below `end`. A small multiplicative generator: fast, and
 * not meant to withstand who can read the allocator's own memory. */
HK_INLINE uint32_t hk_random_below(uint64_t *stream, uint32_t end) {
    *stream += 0x9E3779B97F4A7C15u;
    return (uint32_t)((hk_folded(*stream, *stream ^ 0xE7037ED1A0B428DBu) >> 32) * end >> 32);
}

/* The same of a stream that threads share; two of them may get the same number. */
HK_INLINE uint32_t hk_random_shared(_Atomic uint64_t *stream, uint32_t end) {
    uint64_t own = hk_load_relaxed(stream);
    const uint32_t number = hk_random_below(&own, end);
    hk_store_relaxed(stream, own);
    return number;
}
