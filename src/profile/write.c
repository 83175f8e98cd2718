/* Writes pprof's profile.proto in a gzip file whose blocks are stored uncompressed; a reader may
 * compress them. */
#include "profile/write.h"

#include <elf.h>
#include <link.h>
#include <stdlib.h>

#include "base/calls.h"
#include "base/report.h"
#include "os/os.h"
#include "os/stack.h"
#include "profile/sample.h"

enum { STORED_HEAD = 5, BLOCK = 32768, MOST_MAPPINGS = 4096, FIRST_PLACES = 4096 };
enum { LONGEST_ID = 64 };

/* A range of code; its number in the profile is its index here plus 1. */
typedef struct {
    uintptr_t start, end;
} code_t;

/* A protobuf message under construction; the longest is a sample's list of addresses. */
typedef struct {
    size_t len;
    uint8_t bytes[1024];
} message_t;

/* A writer's state, in its own mapping, because an allocating thread may have a small stack; `told`
 * has another one. */
typedef struct {
    int fd, error;
    uint32_t crc, total;
    size_t used;      /* bytes in `block`, behind the head */
    uint64_t strings; /* number written */
    unsigned codes;
    uintptr_t *told;     /* addresses whose locations were written; open addressing */
    size_t places, full; /* of `told`: all, and used ones */
    hk_os_lines_t lines; /* of HK_OS_MAPPINGS */
    /* the last mapping of a file's beginning; hexadecimal or "" */
    uintptr_t file, file_bytes;
    uint64_t inode;
    char build_id[2 * LONGEST_ID + 1];
    message_t head, message, addresses, values;
    hk_line_t line;
    code_t code[MOST_MAPPINGS];
    uint8_t block[STORED_HEAD + BLOCK];
} writer_t;

/* ---- bytes ---- */

static void write_all(writer_t *w, const void *bytes, size_t n) {
    if (w->error == 0)
        w->error = hk_write_all(w->fd, bytes, n);
}

static uint32_t crc_of(uint32_t crc, const uint8_t *at, size_t n) {
    static const uint32_t of_four_bits[16] = {0x00000000, 0x1DB71064, 0x3B6E20C8, 0x26D930AC,
                                              0x76DC4190, 0x6B6B51F4, 0x4DB26158, 0x5005713C,
                                              0xEDB88320, 0xF00F9344, 0xD6D6A3E8, 0xCB61B38C,
                                              0x9B64C2B0, 0x86D3D2D4, 0xA00AE278, 0xBDBDF21C};
    for (crc = ~crc; n != 0; n--, at++) {
        crc = of_four_bits[(crc ^ *at) & 15] ^ crc >> 4;
        crc = of_four_bits[(crc ^ *at >> 4) & 15] ^ crc >> 4;
    }
    return ~crc;
}

static void flush(writer_t *w, bool last) {
    const unsigned n = (unsigned)w->used, no = ~n;
    const uint8_t head[STORED_HEAD] = {last, (uint8_t)n, (uint8_t)(n >> 8), (uint8_t)no,
                                       (uint8_t)(no >> 8)};
    memcpy(w->block, head, sizeof head);
    w->crc = crc_of(w->crc, w->block + STORED_HEAD, n);
    w->total += n;
    write_all(w, w->block, STORED_HEAD + n);
    w->used = 0;
}

static void put(writer_t *w, const void *bytes, size_t n) {
    for (const char *at = bytes; n != 0;) {
        const size_t part = hk_min(n, BLOCK - w->used);
        memcpy(w->block + STORED_HEAD + w->used, at, part);
        w->used += part;
        at += part;
        n -= part;
        if (w->used == BLOCK)
            flush(w, false);
    }
}

static void begin(writer_t *w) {
    static const uint8_t head[] = {31, 139, 8, 0, 0, 0, 0, 0, 0, 255};
    write_all(w, head, sizeof head);
}

static void end(writer_t *w) {
    flush(w, true);
    uint8_t tail[8];
    for (unsigned i = 0; i < 4; i++) {
        tail[i] = (uint8_t)(w->crc >> 8 * i);
        tail[4 + i] = (uint8_t)(w->total >> 8 * i);
    }
    write_all(w, tail, sizeof tail);
}

/* ---- protobuf ---- */

enum { NUMBER = 0, BYTES = 2 };

static message_t *anew(message_t *m) {
    m->len = 0;
    return m;
}

static void put_number(message_t *m, uint64_t n) {
    hk_assert(m->len + 10 <= sizeof m->bytes);
    for (; n > 127; n >>= 7)
        m->bytes[m->len++] = (uint8_t)(n | 128);
    m->bytes[m->len++] = (uint8_t)n;
}

static void put_field(message_t *m, unsigned field, uint64_t n) {
    put_number(m, field << 3 | NUMBER);
    put_number(m, n);
}

static void put_list(message_t *m, unsigned field, const message_t *list) {
    put_number(m, field << 3 | BYTES);
    put_number(m, list->len);
    hk_assert(m->len + list->len <= sizeof m->bytes);
    memcpy(m->bytes + m->len, list->bytes, list->len);
    m->len += list->len;
}

/* Writes a field of the profile itself: bytes, or a number. */
static void tell_bytes(writer_t *w, unsigned field, const void *bytes, size_t n) {
    message_t *head = anew(&w->head);
    put_number(head, field << 3 | BYTES);
    put_number(head, n);
    put(w, head->bytes, head->len);
    put(w, bytes, n);
}

static void tell_number(writer_t *w, unsigned field, uint64_t n) {
    message_t *m = anew(&w->head);
    put_field(m, field, n);
    put(w, m->bytes, m->len);
}

/* profile.proto */
enum { SAMPLE_TYPE = 1, SAMPLE, MAPPING, LOCATION, STRING = 6, TIME = 9, DURATION };
enum { PERIOD_TYPE = 11, PERIOD, COMMENT, DEFAULT_TYPE };

static uint64_t tell_string(writer_t *w, const char *s) {
    tell_bytes(w, STRING, s, strlen(s));
    return w->strings++;
}

static void tell_type(writer_t *w, unsigned field, const char *type, const char *unit) {
    message_t *m = anew(&w->message);
    put_field(m, 1, tell_string(w, type));
    put_field(m, 2, tell_string(w, unit));
    tell_bytes(w, field, m->bytes, m->len);
}

/* ---- build ids ---- */

static void put_hex(char *to, const unsigned char *from, size_t n) {
    hk_line_t line = {0};
    for (size_t i = 0; i < n; i++)
        hk_line_put(&line, "%02lx", (uint64_t)from[i]);
    memcpy(to, hk_line_text(&line), 2 * n + 1);
}

/* A note: three numbers, a name and contents, both aligned to 4 bytes. */
static bool find_in_notes(const unsigned char *notes, size_t n, char *id) {
    ElfW(Nhdr) note;
    for (size_t at = 0; at + sizeof note <= n;) {
        memcpy(&note, notes + at, sizeof note);
        const size_t name = at + sizeof note, contents = name + (note.n_namesz + 3u) / 4 * 4;
        if (note.n_namesz > n || note.n_descsz > n || contents + note.n_descsz > n)
            return false;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
            memcmp(notes + name, "GNU", 4) == 0 && note.n_descsz <= LONGEST_ID) {
            put_hex(id, notes + contents, note.n_descsz);
            return true;
        }
        at = contents + (note.n_descsz + 3u) / 4 * 4;
    }
    return false;
}

/* Peeks, because the file may be unmapped meanwhile. */
static void read_build_id(writer_t *w) {
    ElfW(Ehdr) file;
    ElfW(Phdr) part;
    unsigned char notes[1024];
    if (!hk_os_peek(&file, w->file, sizeof file) || memcmp(file.e_ident, ELFMAG, SELFMAG) != 0)
        return;
    for (unsigned i = 0; i < file.e_phnum; i++) {
        if (!hk_os_peek(&part, w->file + file.e_phoff + i * sizeof part, sizeof part))
            return;
        const size_t n = hk_min(part.p_filesz, sizeof notes);
        if (part.p_type == PT_NOTE && part.p_offset < w->file_bytes &&
            hk_os_peek(notes, w->file + part.p_offset, n) && find_in_notes(notes, n, w->build_id))
            return;
    }
}

/* ---- a profile ---- */

/* Reads a number and skips the character behind it. */
static uint64_t number(char **s, int base) {
    const uint64_t n = strtoull(*s, s, base);
    ++*s;
    return n;
}

/* If the mapping is executable: START-END PERMISSIONS OFFSET DEVICE:DEVICE INODE PATH */
static void tell_mapping(writer_t *w, char *s) {
    const uintptr_t start = number(&s, 16), end = number(&s, 16);
    const bool executable = s[2] == 'x';
    s += strlen("r-xp ");
    const uint64_t offset = number(&s, 16);
    number(&s, 16);
    number(&s, 16);
    const uint64_t inode = number(&s, 10);
    while (*s == ' ')
        s++;
    if (offset == 0) {
        w->file = start;
        w->file_bytes = end - start;
        w->inode = inode;
    }
    if (!executable)
        return;
    w->build_id[0] = '\0';
    if (w->file_bytes != 0 && inode == w->inode && !hk_os_line_has(s, "[vsyscall]"))
        read_build_id(w);
    message_t *m = anew(&w->message);
    w->code[w->codes++] = (code_t){start, end};
    put_field(m, 1, w->codes);
    put_field(m, 2, start);
    put_field(m, 3, end);
    put_field(m, 4, offset);
    put_field(m, 5, tell_string(w, s));
    put_field(m, 6, tell_string(w, w->build_id));
    tell_bytes(w, MAPPING, m->bytes, m->len);
}

/* A reader cannot name addresses then. */
#define NO_MAPPINGS "no mappings: " HK_OS_MAPPINGS " cannot be opened"

static void tell_mappings(writer_t *w) {
    if (!hk_os_mappings_open(&w->lines))
        tell_number(w, COMMENT, tell_string(w, NO_MAPPINGS));
    for (char *s; w->codes < MOST_MAPPINGS && (s = hk_os_line(&w->lines)) != NULL;)
        tell_mapping(w, s);
    hk_os_lines_close(&w->lines);
}

/* Binary search: the system lists mappings by address. 0: none. */
static unsigned mapping_of(const writer_t *w, uintptr_t pc) {
    unsigned from = 0, to = w->codes;
    while (from < to) {
        const unsigned at = (from + to) / 2;
        if (w->code[at].end <= pc)
            from = at + 1;
        else
            to = at;
    }
    return from < w->codes && w->code[from].start <= pc ? from + 1 : 0;
}

static size_t bytes_of(size_t places) {
    return hk_align_up(places * sizeof(uintptr_t), hk_os_page_size());
}

/* The address's place, or the free one where it belongs. */
static uintptr_t *place_of(uintptr_t *told, size_t places, uintptr_t pc) {
    size_t i = pc * 0x9E3779B97F4A7C15u >> 32 & (places - 1);
    while (told[i] != 0 && told[i] != pc)
        i = (i + 1) & (places - 1);
    return &told[i];
}

static void forget_places(writer_t *w) {
    if (w->told != NULL)
        hk_os_unmap(w->told, bytes_of(w->places));
}

/* Doubles the table if half of it is full. False: no memory. */
static bool has_place(writer_t *w) {
    if (w->full < w->places / 2)
        return true;
    const size_t more = w->places != 0 ? 2 * w->places : FIRST_PLACES;
    uintptr_t *grown = hk_os_map(bytes_of(more), hk_os_page_size());
    if (grown == NULL)
        return false;
    for (size_t i = 0; i < w->places; i++)
        if (w->told[i] != 0)
            *place_of(grown, more, w->told[i]) = w->told[i];
    forget_places(w);
    w->told = grown;
    w->places = more;
    return true;
}

/* A location's number is its address, that of the call's last byte. Each is written once. */
static uintptr_t tell_location(writer_t *w, const void *frame) {
    const uintptr_t pc = (uintptr_t)frame - 1;
    if (!has_place(w)) {
        w->error = w->error != 0 ? w->error : ENOMEM;
        return pc;
    }
    uintptr_t *place = place_of(w->told, w->places, pc);
    if (*place == pc)
        return pc;
    *place = pc;
    w->full++;
    message_t *m = anew(&w->message);
    put_field(m, 1, pc);
    put_field(m, 2, mapping_of(w, pc));
    put_field(m, 3, pc);
    tell_bytes(w, LOCATION, m->bytes, m->len);
    return pc;
}

static void tell_sample(writer_t *w, const hk_profile_stack_t *s) {
    message_t *places = anew(&w->addresses), *values = anew(&w->values);
    for (unsigned i = 0; i < s->count; i++)
        put_number(places, tell_location(w, s->frames[i]));
    put_number(values, hk_profile_objects(&s->in_use));
    put_number(values, hk_load_relaxed(&s->in_use.all_bytes));
    put_number(values, hk_profile_objects(&s->allocated));
    put_number(values, hk_load_relaxed(&s->allocated.all_bytes));
    message_t *m = anew(&w->message);
    put_list(m, 1, places);
    put_list(m, 2, values);
    tell_bytes(w, SAMPLE, m->bytes, m->len);
}

static void tell_line(writer_t *w) {
    tell_number(w, COMMENT, tell_string(w, hk_line_text(&w->line)));
    w->line.len = 0;
}

static void tell_comment(writer_t *w, const char *what, uint64_t n) {
    hk_line_put(&w->line, "%s %lu", what, n);
    tell_line(w);
}

static void tell_all(writer_t *w, const hk_profile_about_t *about, const hk_profile_stack_t *s) {
    tell_string(w, "");
    tell_type(w, SAMPLE_TYPE, "inuse_objects", "count");
    tell_type(w, SAMPLE_TYPE, "inuse_space", "bytes");
    tell_type(w, SAMPLE_TYPE, "alloc_objects", "count");
    tell_type(w, SAMPLE_TYPE, "alloc_space", "bytes");
    tell_type(w, PERIOD_TYPE, "space", "bytes");
    tell_number(w, DEFAULT_TYPE, tell_string(w, "inuse_space"));
    tell_number(w, PERIOD, hk_max(hk_profile_mean(), 1));
    tell_number(w, TIME, hk_os_date_ns());
    tell_number(w, DURATION, hk_os_now_ns() - hk_profile_began());
    tell_number(w, COMMENT, tell_string(w, "hakmem " HK_VERSION));
    tell_comment(w, "pid", HK_CALL(other, getpid()));
    hk_line_put(&w->line, "reason %s", about->reason);
    tell_line(w);
    if (about->rss != 0) /* known */
        tell_comment(w, "rss_bytes", about->rss);
    if (about->live != UINT64_MAX)
        tell_comment(w, "live_bytes", about->live);
    if (hk_load_relaxed(&hk_profile_lost) != 0)
        tell_comment(w, "lost_samples", hk_load_relaxed(&hk_profile_lost));
    tell_mappings(w);
    for (; s != NULL; s = s->before)
        if (hk_load_relaxed(&s->allocated.objects) != 0)
            tell_sample(w, s);
}

/* ---- the same as text ---- */

#define SUMS "%lu: %lu [%lu: %lu] @"

static void say_sample(hk_output_t *out, const hk_profile_stack_t *s) {
    hk_output_put(out, SUMS, hk_load_relaxed(&s->in_use.objects), hk_load_relaxed(&s->in_use.bytes),
                  hk_load_relaxed(&s->allocated.objects), hk_load_relaxed(&s->allocated.bytes));
    for (unsigned i = 0; i < s->count; i++)
        hk_output_put(out, " %#lx", (uintptr_t)s->frames[i]);
    hk_output_put(out, "\n");
}

static int say_all(int fd, hk_os_lines_t *lines, const hk_profile_stack_t *newest) {
    enum { PIECE = HK_LONGEST_PIECE / 2 };
    hk_output_t out = {.fd = fd};
    uint64_t sums[4] = {0};
    for (const hk_profile_stack_t *s = newest; s != NULL; s = s->before) {
        sums[0] += hk_load_relaxed(&s->in_use.objects);
        sums[1] += hk_load_relaxed(&s->in_use.bytes);
        sums[2] += hk_load_relaxed(&s->allocated.objects);
        sums[3] += hk_load_relaxed(&s->allocated.bytes);
    }
    hk_output_put(&out, "heap profile: " SUMS " heap_v2/%lu\n", sums[0], sums[1], sums[2], sums[3],
                  hk_max(hk_profile_mean(), 1));
    for (const hk_profile_stack_t *s = newest; s != NULL; s = s->before)
        if (hk_load_relaxed(&s->allocated.objects) != 0)
            say_sample(&out, s);
    hk_output_put(&out, "\nMAPPED_LIBRARIES:\n");
    if (!hk_os_mappings_open(lines))
        hk_output_put(&out, NO_MAPPINGS "\n");
    for (const char *s; (s = hk_os_line(lines)) != NULL; hk_output_put(&out, "\n"))
        for (; *s != '\0'; s += hk_min(strlen(s), PIECE))
            hk_output_put(&out, "%.*s", PIECE, s);
    hk_os_lines_close(lines);
    hk_output_flush(&out);
    return out.error;
}

/* Leaves out stacks that are made meanwhile. */
int hk_profile_write(int fd, const hk_profile_about_t *about) {
    const int saved = errno;
    const hk_profile_stack_t *newest = hk_profile_stacks();
    const size_t bytes = hk_align_up(sizeof(writer_t), hk_os_page_size());
    writer_t *w = hk_os_map(bytes, hk_os_page_size());
    if (w == NULL)
        return ENOMEM;
    w->fd = fd;
    if (about->text) {
        w->error = say_all(fd, &w->lines, newest);
    } else {
        begin(w);
        tell_all(w, about, newest);
        end(w);
    }
    const int error = w->error;
    forget_places(w);
    hk_os_unmap(w, bytes);
    errno = saved;
    return error;
}
