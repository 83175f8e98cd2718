/* Whether C++'s operators new and delete are this library's, or the program has replaced some.
 *
 * By the standard only the basic forms work on a heap: one new and one delete, and one of each for
 * alignments. All others are derived: the default of each calls another one, in the end a basic
 * one, and so a program that replaces the basic ones has replaced all. Our derived forms have hits
 * of their own as long as no program can tell the difference; where a form that others call has
 * been replaced, no derived form has a hit, and each calls what the C++ library's would. */
#pragma once

#include "base/base.h"

/* The forms that others call, by their mangled names. The loader decides what such a name means in
 * a process; hk_own and the name is always the function of this library. (api/malloc.c defines
 * both.) */
#define HK_CALLED_OPERATORS(X)                                                                     \
    X(_Znwm, void *, size_t)                                                                       \
    X(_Znam, void *, size_t)                                                                       \
    X(_ZnwmSt11align_val_t, void *, size_t, size_t)                                                \
    X(_ZnamSt11align_val_t, void *, size_t, size_t)                                                \
    X(_ZdlPv, void, void *)                                                                        \
    X(_ZdaPv, void, void *)                                                                        \
    X(_ZdlPvSt11align_val_t, void, void *, size_t)                                                 \
    X(_ZdaPvSt11align_val_t, void, void *, size_t)

#define HK_DECLARE_OPERATOR(name, result, ...)                                                     \
    result name(__VA_ARGS__);                                                                      \
    HK_HIDDEN result hk_own##name(__VA_ARGS__);
HK_CALLED_OPERATORS(HK_DECLARE_OPERATOR)

/* The function that a name means in this process: the compiler must not assume that it is the one
 * it sees. */
#define HK_SERVING(name)                                                                           \
    ({                                                                                             \
        __typeof__(name) *serving = name;                                                          \
        __asm__("" : "+r"(serving));                                                               \
        serving;                                                                                   \
    })

/* What derived forms of operator new may take from a magazine: nothing until it is known that all
 * forms are ours. (Visibility is hidden, or the hit would look the variable's address up.) */
typedef struct {
    atomic_size_t end;  /* atomic: set once; sizes below this */
    atomic_size_t most; /* atomic: set once; rounded up for an alignment, sizes up to this */
} hk_derived_t;
extern HK_HIDDEN hk_derived_t hk_derived;

/* Whether the program has replaced none of them. It may say no though none is replaced: in a
 * program that is not position independent, a function whose address the program takes has the
 * address of a stub. The derived forms go the longer way to the same end then. */
bool hk_operators_look(void);
HK_INLINE bool hk_operators_are_ours(void) {
    return hk_load_relaxed(&hk_derived.end) != 0 || hk_operators_look();
}
