#include "profile/maps.h"

#include <elf.h>
#include <link.h>
#include <stdlib.h>

#include "base/report.h"
#include "os/stack.h"

/* Reads a number and skips the character behind it. */
static uint64_t number(char **s, int base) {
    const uint64_t n = strtoull(*s, s, base);
    ++*s;
    return n;
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
            memcmp(notes + name, "GNU", 4) == 0 && note.n_descsz <= 64) {
            put_hex(id, notes + contents, note.n_descsz);
            return true;
        }
        at = contents + (note.n_descsz + 3u) / 4 * 4;
    }
    return false;
}

/* Peeks, because the file may be unmapped meanwhile. */
static void read_build_id(const hk_maps_t *maps, char *id) {
    ElfW(Ehdr) file;
    ElfW(Phdr) part;
    unsigned char notes[1024];
    if (!hk_os_peek(&file, maps->file, sizeof file) || memcmp(file.e_ident, ELFMAG, SELFMAG) != 0)
        return;
    for (unsigned i = 0; i < file.e_phnum; i++) {
        if (!hk_os_peek(&part, maps->file + file.e_phoff + i * sizeof part, sizeof part))
            return;
        const size_t n = hk_min(part.p_filesz, sizeof notes);
        if (part.p_type == PT_NOTE && part.p_offset < maps->bytes &&
            hk_os_peek(notes, maps->file + part.p_offset, n) && find_in_notes(notes, n, id))
            return;
    }
}

/* ---- mappings ---- */

/* START-END PERMISSIONS OFFSET DEVICE:DEVICE INODE PATH */
bool hk_maps_next(hk_maps_t *maps, hk_mapping_t *mapping) {
    char *s;
    while ((s = hk_os_line(&maps->lines)) != NULL) {
        mapping->start = number(&s, 16);
        mapping->end = number(&s, 16);
        const bool executable = s[2] == 'x';
        s += strlen("r-xp ");
        mapping->offset = number(&s, 16);
        number(&s, 16);
        number(&s, 16);
        const uint64_t inode = number(&s, 10);
        while (*s == ' ')
            s++;
        mapping->path = s;
        if (mapping->offset == 0) {
            maps->file = mapping->start;
            maps->bytes = mapping->end - mapping->start;
            maps->inode = inode;
        }
        if (!executable)
            continue;
        mapping->build_id[0] = '\0';
        if (maps->bytes != 0 && inode == maps->inode &&
            !hk_os_line_has(mapping->path, "[vsyscall]"))
            read_build_id(maps, mapping->build_id);
        return true;
    }
    return false;
}
