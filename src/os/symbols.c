#include "os/symbols.h"

/* The tables of a loaded object that matter here. */
typedef struct {
    uintptr_t base;
    const ElfW(Sym) * symbols;
    const char *strings;
    const uint32_t *hash, *gnu_hash;
} tables_t;

/* Some loaders replace a table's offset by its address, others do not. */
static const void *table(uintptr_t base, ElfW(Addr) at) {
    return (const void *)(at < base ? base + at : at);
}

/* Also returns the object's own name in *object; it may be empty. */
static tables_t tables_of(uintptr_t base, const ElfW(Dyn) * entry, const char **object) {
    tables_t t = {.base = base};
    size_t name = 0;
    for (; entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_SYMTAB)
            t.symbols = table(base, entry->d_un.d_ptr);
        else if (entry->d_tag == DT_STRTAB)
            t.strings = table(base, entry->d_un.d_ptr);
        else if (entry->d_tag == DT_HASH)
            t.hash = table(base, entry->d_un.d_ptr);
        else if (entry->d_tag == DT_GNU_HASH)
            t.gnu_hash = table(base, entry->d_un.d_ptr);
        else if (entry->d_tag == DT_SONAME)
            name = entry->d_un.d_val;
    }
    *object = t.strings != NULL ? t.strings + name : ""; /* the first string is empty */
    return t;
}

/* The address of symbol i if it has this name and is defined here, else NULL. */
static void *if_it_is(const tables_t *t, uint32_t i, const char *name) {
    const ElfW(Sym) *symbol = &t->symbols[i];
    return symbol->st_shndx != SHN_UNDEF && strcmp(t->strings + symbol->st_name, name) == 0
               ? (void *)(t->base + symbol->st_value)
               : NULL;
}

/* The table: counts, a filter, the first symbol of each bucket, then a hash for each symbol from
 * the first one on; its lowest bit ends the bucket. */
static void *in_gnu_hash(const tables_t *t, const char *name) {
    const uint32_t count = t->gnu_hash[0], first = t->gnu_hash[1], filter = t->gnu_hash[2];
    const uint32_t *buckets = t->gnu_hash + 4 + filter * (sizeof(ElfW(Addr)) / sizeof *buckets);
    const uint32_t *hashes = buckets + count;
    uint32_t hash = 5381;
    void *found = NULL;
    for (const char *c = name; *c != '\0'; c++)
        hash = hash * 33 + (unsigned char)*c;
    for (uint32_t i = count != 0 ? buckets[hash % count] : 0; i >= first && i != 0; i++) {
        if ((hashes[i - first] | 1) == (hash | 1))
            found = if_it_is(t, i, name);
        if (found != NULL || (hashes[i - first] & 1) != 0)
            break;
    }
    return found;
}

/* The older table contains the number of symbols: tries all. */
static void *in_hash(const tables_t *t, const char *name) {
    void *found = NULL;
    for (uint32_t i = 0; i < t->hash[1] && found == NULL; i++)
        found = if_it_is(t, i, name);
    return found;
}

void *hk_symbol_in(uintptr_t base, const ElfW(Phdr) * parts, unsigned count, const char *name,
                   bool skips(const char *object)) {
    const ElfW(Dyn) *dynamic = NULL;
    const char *object;
    for (unsigned i = 0; i < count; i++)
        if (parts[i].p_type == PT_DYNAMIC)
            dynamic = (const void *)(base + parts[i].p_vaddr);
    if (dynamic == NULL)
        return NULL;
    const tables_t t = tables_of(base, dynamic, &object);
    if (t.symbols == NULL || t.strings == NULL || (skips != NULL && skips(object)))
        return NULL;
    if (t.gnu_hash != NULL)
        return in_gnu_hash(&t, name);
    return t.hash != NULL ? in_hash(&t, name) : NULL;
}

bool hk_is_cxx_library(const char *object) {
    return strncmp(object, "libstdc++", 9) == 0 || strncmp(object, "libc++", 6) == 0;
}

typedef struct {
    const char *name;
    bool (*skips)(const char *object);
    void *found;
} search_t;

static int look_into(struct dl_phdr_info *info, size_t bytes, void *argument) {
    search_t *search = argument;
    (void)bytes;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        const uintptr_t start = info->dlpi_addr + part->p_vaddr;
        if (part->p_type == PT_LOAD && (uintptr_t)look_into - start < part->p_memsz)
            return 0; /* ours */
    }
    search->found = hk_symbol_in(info->dlpi_addr, info->dlpi_phdr, info->dlpi_phnum, search->name,
                                 search->skips);
    return search->found != NULL;
}

void *hk_symbol_of_others(const char *name, bool skips(const char *object)) {
    search_t search = {.name = name, .skips = skips};
    dl_iterate_phdr(look_into, &search);
    return search.found;
}
