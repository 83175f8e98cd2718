#include "guard/quarantine.h"

HK_NOINLINE void *hk_quarantine_fill(hk_quarantine_t *q, unsigned cls, void *p) {
    const unsigned room = hk_quarantine_room(cls);
    if (room == 0)
        return p;
    q->blocks[cls][q->held[cls]++] = p;
    if (q->held[cls] == room)
        q->full[cls] = (uint8_t)room;
    return NULL;
}

void *hk_quarantine_take(hk_quarantine_t *q, unsigned cls) {
    q->full[cls] = 0;
    return q->held[cls] != 0 ? q->blocks[cls][--q->held[cls]] : NULL;
}
