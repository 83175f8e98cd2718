/* The plan: how a thread is observed, as one word. It says which layers an operation passes on its
 * way to the heap, and whether it is counted. */
#pragma once

#include "base/base.h"

/* The layers of the front, in the order in which an operation asks them; behind them is the heap.
 * Their numbers are bits of a plan. */
typedef enum {
    HK_LAYER_ULTRAHOT, /* a few blocks of bands C2 ... C5 */
    HK_LAYER_C7_HOT,   /* a few blocks of band C7 */
    HK_LAYER_HEAPV2,   /* the product's magazines (front/magazine.h) */
    HK_LAYER_SLL,      /* lists through the free blocks */
    HK_LAYER_UNIFIED,  /* one small stock of all classes */
    HK_LAYER_HEAP,     /* none: what no layer could serve */
    HK_LAYER_COUNT,
} hk_layer_t;
#define HK_LAYER_BIT(layer) (1u << (layer))

/* 0 is the product as it is: unobserved, magazines alone. */
enum {
    HK_PLAN_METRICS = 1 << 8,   /* count */
    HK_PLAN_PASSDOWN = 1 << 9,  /* compute the route once */
    HK_PLAN_C7_BOUND = 1 << 10, /* C7_HOT is filled from a slab on a miss */
    HK_PLAN_C7_EARLY = 1 << 11, /* and before the thread's first operation */
    HK_PLAN_WATCHED = 1 << 13,  /* watched only: magazines as ever, and told (front/watched.h) */
    HK_PLAN_OBSERVED = 1 << 14, /* so that a plan without any layer is not 0 */
    HK_PLAN_NEW = 1 << 15,      /* set with each new plan, until its thread has acted on it */
};

/* The plan that the options ask for now. */
unsigned hk_plan_from_options(void);
