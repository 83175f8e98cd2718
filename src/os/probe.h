/* Probes for tracers, as USDT: an ELF note says where a probe is, which registers hold its
 * arguments, and which counter a tracer makes non-zero. An untraced probe costs the test of that
 * counter. */
#pragma once

#include "base/base.h"

/* Defines the counter of the probe of this name. */
#define HK_PROBE_COUNTER(name)                                                                     \
    extern _Atomic uint16_t hk_probe_##name __attribute__((visibility("hidden")));                 \
    _Atomic uint16_t hk_probe_##name __attribute__((section(".probes"), used))

/* The probe; the tracer sees the stack of this function. `where` gives each argument's bytes and
 * operand, e.g. "8@%0"; the operands follow. */
#define HK_PROBE(provider, name, where, ...)                                                       \
    do {                                                                                           \
        if (HK_UNLIKELY(hk_load_relaxed(&hk_probe_##name) != 0))                                   \
            __asm__ volatile(                                                                      \
                "990: nop\n"                                                                       \
                ".pushsection .note.stapsdt, \"\", %%note\n"                                       \
                ".balign 4\n"                                                                      \
                ".4byte 992f - 991f, 994f - 993f, 3\n"                                             \
                "991: .asciz \"stapsdt\"\n"                                                        \
                "992: .balign 4\n"                                                                 \
                "993: .8byte 990b, _.stapsdt.base, hk_probe_" #name "\n"                           \
                ".asciz \"" provider "\"\n.asciz \"" #name "\"\n"                                  \
                ".asciz \"" where "\"\n"                                                           \
                "994: .balign 4\n"                                                                 \
                ".popsection\n"                                                                    \
                ".ifndef _.stapsdt.base\n" /* by it a tracer knows what was moved */               \
                ".pushsection .stapsdt.base, \"aG\", %%progbits, .stapsdt.base, comdat\n"          \
                ".weak _.stapsdt.base\n.hidden _.stapsdt.base\n"                                   \
                "_.stapsdt.base: .space 1\n"                                                       \
                ".popsection\n.endif\n" ::__VA_ARGS__);                                            \
    } while (0)
