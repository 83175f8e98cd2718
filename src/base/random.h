/* Random numbers for places and orders that must not be predictable without reading hakmem's
 * memory. */
#pragma once

#include "base/base.h"

/* Both halves of a product folded into one word, so no bit depends on only a few bits of either
 * factor. */
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

/* The stream's next number, uniform below `end`. A small multiplicative generator: fast, but no
 * protection against a program that can read the allocator's own memory. */
HK_INLINE uint32_t hk_random_below(uint64_t *stream, uint32_t end) {
    *stream += 0x9E3779B97F4A7C15u;
    return (uint32_t)((hk_folded(*stream, *stream ^ 0xE7037ED1A0B428DBu) >> 32) * end >> 32);
}

/* The same for a stream that threads share; racing threads may get the same number. */
HK_INLINE uint32_t hk_random_shared(_Atomic uint64_t *stream, uint32_t end) {
    uint64_t own = hk_load_relaxed(stream);
    const uint32_t number = hk_random_below(&own, end);
    hk_store_relaxed(stream, own);
    return number;
}
