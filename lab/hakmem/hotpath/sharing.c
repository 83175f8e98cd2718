/* A plugin for qemu's user-mode emulation: what threads do to each other inside one library.
 *
 * Counted are, of the library's own code, the instructions, those that lock the bus, and the cache
 * lines that change hands: a read or a write of one that the thread has not, or has no more, because
 * others have written to it, as if each thread had a processor with an endless cache. Also the calls of
 * futex, by whomever. So that 64 threads are interleaved as on 64 processors, however few there
 * are, no thread may be more than a few hundred instructions ahead of the slowest that runs.
 *
 * The plugin interface is qemu's version 1; its header is in no package. Arguments: library=NAME of
 * the file, out=FILE for one line of JSON. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

/* ---- qemu's interface ---- */

typedef uint64_t plugin_id;
typedef uint32_t mem_info;
typedef struct qemu_plugin_tb block_t;
typedef struct qemu_plugin_insn insn_t;
typedef struct qemu_info qemu_info_t;
enum { NO_REGISTERS = 0, READS_AND_WRITES = 3 };

__attribute__((visibility("default"))) int qemu_plugin_version = 1;
__attribute__((visibility("default"))) int
qemu_plugin_install(plugin_id id, const qemu_info_t *info, int argc, char **argv);
size_t qemu_plugin_tb_n_insns(const block_t *block);
insn_t *qemu_plugin_tb_get_insn(const block_t *block, size_t i);
const void *qemu_plugin_insn_data(const insn_t *insn);
size_t qemu_plugin_insn_size(const insn_t *insn);
void *qemu_plugin_insn_haddr(const insn_t *insn);
bool qemu_plugin_mem_is_store(mem_info info);
void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id id, void (*cb)(plugin_id, block_t *));
void qemu_plugin_register_vcpu_tb_exec_cb(block_t *block, void (*cb)(unsigned, void *), int flags,
                                          void *data);
void qemu_plugin_register_vcpu_insn_exec_cb(insn_t *insn, void (*cb)(unsigned, void *), int flags,
                                            void *data);
void qemu_plugin_register_vcpu_mem_cb(insn_t *insn,
                                      void (*cb)(unsigned, mem_info, uint64_t, void *), int flags,
                                      int rw, void *data);
void qemu_plugin_register_vcpu_exit_cb(plugin_id id, void (*cb)(plugin_id, unsigned));
void qemu_plugin_register_vcpu_syscall_cb(plugin_id id,
                                          void (*cb)(plugin_id, unsigned, int64_t, uint64_t,
                                                     uint64_t, uint64_t, uint64_t, uint64_t,
                                                     uint64_t, uint64_t, uint64_t));
void qemu_plugin_register_atexit_cb(plugin_id id, void (*cb)(plugin_id, void *), void *data);

/* ---- threads, in step ---- */

enum { THREADS = 1024, AHEAD = 400, PATIENCE = 2000, IDLE = 0 };

static struct {
    _Alignas(128) _Atomic uint64_t clock; /* instructions; IDLE: in a system call, or no thread */
    uint64_t done;                        /* owner: the same, kept meanwhile */
    bool inside;                          /* owner: its block is the library's */
} thread_of[THREADS];
static atomic_uint highest;
static _Atomic uint64_t instructions, locked, taken_over, futexes;

static uint64_t slowest(void) {
    uint64_t least = UINT64_MAX;
    const unsigned end = atomic_load(&highest);
    for (unsigned i = 0; i <= end; i++) {
        const uint64_t clock = atomic_load_explicit(&thread_of[i].clock, memory_order_relaxed);
        if (clock != IDLE && clock < least)
            least = clock;
    }
    return least;
}

/* A thread that has waited or is new goes on where the others are. */
static void join_in(unsigned i) {
    unsigned end = atomic_load(&highest);
    while (end < i && !atomic_compare_exchange_weak(&highest, &end, i))
        continue;
    const uint64_t least = slowest();
    if (least != UINT64_MAX && least > thread_of[i].done)
        thread_of[i].done = least;
}

/* Whoever is ahead lets the others catch up; not for ever, for one may wait for what this one has. */
static void advance(unsigned i, uint64_t by) {
    if (atomic_load_explicit(&thread_of[i].clock, memory_order_relaxed) == IDLE)
        join_in(i);
    thread_of[i].done += by;
    atomic_store(&thread_of[i].clock, thread_of[i].done);
    for (unsigned tries = 0; tries < PATIENCE && thread_of[i].done > slowest() + AHEAD; tries++)
        sched_yield();
}

static void on_block(unsigned cpu, void *insns) {
    thread_of[cpu % THREADS].inside = false;
    advance(cpu % THREADS, (uintptr_t)insns);
}

static void on_own_block(unsigned cpu, void *insns) {
    atomic_fetch_add(&instructions, (uintptr_t)insns);
    on_block(cpu, insns);
    thread_of[cpu % THREADS].inside = true;
}

/* When it has returned, the next block joins in. */
static void on_syscall(plugin_id id, unsigned cpu, int64_t number, uint64_t a, uint64_t b,
                       uint64_t c, uint64_t d, uint64_t e, uint64_t f, uint64_t g, uint64_t h) {
    (void)id, (void)a, (void)b, (void)c, (void)d, (void)e, (void)f, (void)g, (void)h;
    if (number == SYS_futex)
        atomic_fetch_add(&futexes, 1);
    atomic_store(&thread_of[cpu % THREADS].clock, IDLE);
}

static void on_exit_of(plugin_id id, unsigned cpu) {
    (void)id;
    atomic_store(&thread_of[cpu % THREADS].clock, IDLE);
}

/* ---- cache lines ---- */

enum { LINES = 1 << 22, STRIPES = 4096 };
typedef struct {
    uint64_t line;
    uint64_t sharers; /* threads that have it, modulo 64 */
    bool written;     /* by any */
} line_t;
static line_t *lines;
static atomic_flag stripes[STRIPES];

static void on_access(unsigned cpu, mem_info info, uint64_t address, void *unused) {
    (void)unused;
    if (!thread_of[cpu % THREADS].inside)
        return; /* qemu reports the next atomic operation as well, whoever's that is */
    const uint64_t line = address >> 6, own = 1ull << cpu % 64;
    line_t *entry = &lines[line % LINES];
    atomic_flag *stripe = &stripes[line % STRIPES];
    while (atomic_flag_test_and_set_explicit(stripe, memory_order_acquire))
        sched_yield();
    if (entry->line != line)
        *entry = (line_t){.line = line};
    const bool has_it = (entry->sharers & own) != 0, others = (entry->sharers & ~own) != 0;
    const bool store = qemu_plugin_mem_is_store(info);
    const bool moves = !has_it && (store ? others : entry->written);
    entry->sharers = store ? own : entry->sharers | own;
    entry->written |= store;
    atomic_flag_clear_explicit(stripe, memory_order_release);
    if (moves)
        atomic_fetch_add(&taken_over, 1);
}

/* ---- the library's code ---- */

static char name[256], out_path[4096];
static struct { uintptr_t start, end; } code[64];
static atomic_uint code_count;

/* Where the library is mapped may change while the program starts, so what is not known is looked up. */
static void find_code(void) {
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[4352];
    unsigned count = 0;
    while (maps != NULL && count < 64 && fgets(line, sizeof line, maps) != NULL) {
        unsigned long start, end;
        const char *slash = strrchr(line, '/');
        if (slash == NULL || sscanf(line, "%lx-%lx", &start, &end) != 2)
            continue;
        if (strncmp(slash + 1, name, strlen(name)) != 0 || slash[1 + strlen(name)] != '\n')
            continue;
        code[count].start = start;
        code[count++].end = end;
    }
    if (maps != NULL)
        fclose(maps);
    atomic_store(&code_count, count);
}

static bool is_own(const void *address) {
    for (unsigned i = 0; i < atomic_load(&code_count); i++)
        if ((uintptr_t)address - code[i].start < code[i].end - code[i].start)
            return true;
    return false;
}

/* A lock prefix, or an exchange with memory, which needs none. */
static bool is_locked(const insn_t *insn) {
    const unsigned char *byte = qemu_plugin_insn_data(insn),
                        *end = byte + qemu_plugin_insn_size(insn);
    for (; byte < end; byte++) {
        if (*byte == 0xf0)
            return true;
        const bool prefix = *byte == 0x66 || *byte == 0xf2 || *byte == 0xf3 || *byte == 0x2e ||
                            *byte == 0x36 || *byte == 0x3e || *byte == 0x26 || *byte == 0x64 ||
                            *byte == 0x65 || (*byte & 0xf0) == 0x40;
        if (!prefix)
            return (*byte & 0xfe) == 0x86 && byte + 1 < end && byte[1] >> 6 != 3;
    }
    return false;
}

static void on_locked(unsigned cpu, void *unused) {
    (void)cpu, (void)unused;
    atomic_fetch_add(&locked, 1);
}

static void translate(plugin_id id, block_t *block) {
    (void)id;
    const size_t count = qemu_plugin_tb_n_insns(block);
    if (atomic_load(&code_count) == 0)
        find_code();
    const bool own = is_own(qemu_plugin_insn_haddr(qemu_plugin_tb_get_insn(block, 0)));
    void *data = (void *)(uintptr_t)count;
    qemu_plugin_register_vcpu_tb_exec_cb(block, own ? on_own_block : on_block, NO_REGISTERS, data);
    for (size_t i = 0; own && i < count; i++) {
        insn_t *insn = qemu_plugin_tb_get_insn(block, i);
        qemu_plugin_register_vcpu_mem_cb(insn, on_access, NO_REGISTERS, READS_AND_WRITES, NULL);
        if (is_locked(insn))
            qemu_plugin_register_vcpu_insn_exec_cb(insn, on_locked, NO_REGISTERS, NULL);
    }
}

static void write_counts(plugin_id id, void *unused) {
    (void)id, (void)unused;
    FILE *file = fopen(out_path, "we");
    if (file == NULL)
        return;
    fprintf(file,
            "{\"instructions\":%" PRIu64 ",\"locked\":%" PRIu64 ",\"lines\":%" PRIu64
            ",\"futex\":%" PRIu64 ",\"found\":%s}\n",
            instructions, locked, taken_over, futexes, code_count != 0 ? "true" : "false");
    fclose(file);
}

static bool argument(char *to, size_t room, const char *text, const char *key) {
    if (strncmp(text, key, strlen(key)) != 0)
        return false;
    return snprintf(to, room, "%s", text + strlen(key)) < (int)room;
}

int qemu_plugin_install(plugin_id id, const qemu_info_t *info, int argc, char **argv) {
    (void)info;
    for (int i = 0; i < argc; i++)
        if (!argument(name, sizeof name, argv[i], "library=") &&
            !argument(out_path, sizeof out_path, argv[i], "out="))
            return -1;
    lines = mmap(NULL, LINES * sizeof *lines, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (lines == MAP_FAILED || name[0] == '\0' || out_path[0] == '\0')
        return -1;
    qemu_plugin_register_vcpu_tb_trans_cb(id, translate);
    qemu_plugin_register_vcpu_syscall_cb(id, on_syscall);
    qemu_plugin_register_vcpu_exit_cb(id, on_exit_of);
    qemu_plugin_register_atexit_cb(id, write_counts, NULL);
    return 0;
}
