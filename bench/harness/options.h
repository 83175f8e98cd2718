/*
 * A benchmark's parameters, declared once in a table. The parser, `--help` and the "params" object
 * of the JSON result are all made from it.
 */
#ifndef HB_OPTIONS_H
#define HB_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text.h"

typedef enum {
    HB_UINT, /* uint64_t; a K, M or G suffix multiplies by 1024 */
    HB_REAL, /* double, not negative */
    HB_WORD, /* unsigned: the index of the word in `words` */
    HB_TEXT, /* const char *, NULL when not given */
    HB_FLAG, /* bool, false unless given */
} hb_kind_t;

typedef struct {
    hb_kind_t kind;
    const char *name;     /* of the long option, without dashes */
    void *value;          /* where it goes; type by kind */
    const char *start;    /* default, as the user would write it */
    const char *smoke;    /* default under --smoke; NULL: the same */
    const char *words;    /* HB_WORD: the choices, "lifo|fifo"; HB_UINT: a word that stands for 0 */
    uint64_t min;         /* HB_UINT */
    uint64_t max;         /* HB_UINT; 0: no limit */
    bool positional;      /* also accepted by position, in the order of the table */
    const char *env;      /* environment variable with the value; the command line wins */
    const char *env_word; /* HB_WORD: `env` is a switch, and 1 selects this word */
    const char *doc;
} hb_option_t;

typedef struct {
    const char *name;      /* in the result: "bench":"NAME" */
    const char *summary;   /* what it imitates */
    const char *operation; /* what one operation is */
    const char *notes;     /* further paragraphs for --help, or NULL */
    const hb_option_t *options;
    size_t count;
} hb_program_t;

/* Short run in which every block is filled and verified; set by hb_options_parse(). */
extern bool hb_smoke;

/* Fills the variables of the table. Prints help and exits 0 on --help; exits 2 on bad usage, which
   a HAKMEM_BENCH_* variable that no option of the table reads is too. */
void hb_options_parse(const hb_program_t *program, int argc, char **argv);

/* Appends {"name":value,...} with the values in effect. */
void hb_options_json(hb_text_t *text, const hb_program_t *program);

#endif
