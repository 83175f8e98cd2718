#include "guard/operators.h"

#include <link.h>
#include <string.h>

#include "guard/guard.h"

static const char operator_new[] = "_Znwm";

/* What an object says to the loader, as far as it matters here; NULL: it has none. */
typedef struct {
    const ElfW(Sym) * symbols;
    const char *strings, *name;
    const uint32_t *hash, *gnu_hash;
} tables_t;

/* Some loaders write where a table is in the place of its offset, others leave it. */
static const void *table(const struct dl_phdr_info *object, ElfW(Addr) at) {
    return (const void *)(at < object->dlpi_addr ? object->dlpi_addr + at : at);
}

static tables_t tables_of(const struct dl_phdr_info *object, const ElfW(Dyn) * entry) {
    tables_t t = {0};
    size_t name = 0;
    for (; entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_SYMTAB)
            t.symbols = table(object, entry->d_un.d_ptr);
        else if (entry->d_tag == DT_STRTAB)
            t.strings = table(object, entry->d_un.d_ptr);
        else if (entry->d_tag == DT_HASH)
            t.hash = table(object, entry->d_un.d_ptr);
        else if (entry->d_tag == DT_GNU_HASH)
            t.gnu_hash = table(object, entry->d_un.d_ptr);
        else if (entry->d_tag == DT_SONAME)
            name = entry->d_un.d_val;
    }
    t.name = t.strings != NULL ? t.strings + name : ""; /* the first string is empty */
    return t;
}

static bool is_it(const tables_t *t, uint32_t i) {
    const ElfW(Sym) *symbol = &t->symbols[i];
    return symbol->st_shndx != SHN_UNDEF && strcmp(t->strings + symbol->st_name, operator_new) == 0;
}

/* The table has its counts, a filter, the first symbol of each bucket, and for each symbol from the first one on
 * its hash, whose lowest bit ends the bucket. */
static bool is_in_gnu_hash(const tables_t *t) {
    const uint32_t count = t->gnu_hash[0], first = t->gnu_hash[1], filter = t->gnu_hash[2];
    const uint32_t *buckets = t->gnu_hash + 4 + filter * (sizeof(ElfW(Addr)) / sizeof *buckets);
    const uint32_t *hashes = buckets + count;
    uint32_t hash = 5381;
    for (const char *c = operator_new; *c != '\0'; c++)
        hash = hash * 33 + (unsigned char)*c;
    for (uint32_t i = count != 0 ? buckets[hash % count] : 0; i >= first && i != 0; i++) {
        if ((hashes[i - first] | 1) == (hash | 1) && is_it(t, i))
            return true;
        if ((hashes[i - first] & 1) != 0)
            break;
    }
    return false;
}

/* The older table knows how many symbols there are. */
static bool is_in_hash(const tables_t *t) {
    for (uint32_t i = 0; i < t->hash[1]; i++)
        if (is_it(t, i))
            return true;
    return false;
}

static bool is_cxx_library(const char *name) {
    return strncmp(name, "libstdc++", 9) == 0 || strncmp(name, "libc++", 6) == 0;
}

static int has_operators(struct dl_phdr_info *object, size_t bytes, void *unused) {
    const ElfW(Dyn) *dynamic = NULL;
    (void)bytes;
    (void)unused;
    for (unsigned i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        const uintptr_t start = object->dlpi_addr + part->p_vaddr;
        if (part->p_type == PT_LOAD && (uintptr_t)&hk_guard_page - start < part->p_memsz)
            return 0; /* ours */
        if (part->p_type == PT_DYNAMIC)
            dynamic = (const void *)start;
    }
    if (dynamic == NULL)
        return 0;
    const tables_t t = tables_of(object, dynamic);
    if (t.symbols == NULL || t.strings == NULL || is_cxx_library(t.name))
        return 0;
    return t.gnu_hash != NULL ? is_in_gnu_hash(&t) : t.hash != NULL && is_in_hash(&t);
}

bool hk_operators_are_mixed(void) { return dl_iterate_phdr(has_operators, NULL) != 0; }
