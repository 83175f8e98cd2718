// The plugin that other_namespace opens: it has thread-specific data, by the C library of its own namespace.
#include <pthread.h>
#include <stddef.h>
#include <string.h>

enum { BYTES = 1 << 16 };
static char data[BYTES]; // as zero as what nobody writes to
static pthread_key_t key;

int plugin_begin(void);
int plugin_set(void);
size_t plugin_changed(void);

int plugin_begin(void) { return pthread_key_create(&key, NULL); }
int plugin_set(void) { return pthread_setspecific(key, data); }

// Where somebody has written to it; 0: nobody has.
size_t plugin_changed(void) {
    for (size_t i = 0; i < BYTES; i++)
        if (data[i] != 0)
            return i + 1;
    return 0;
}
