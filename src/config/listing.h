/* Lists the options for users: effective values and where they come from. Opens no file, never
 * allocates. */
#pragma once

#include "base/report.h"

/* Writes an aligned line per option: `begins`, name, value, origin. Returns 0 or an errno value, as
 * does the next. */
int hk_config_print_text(int fd, const char *begins);

/* Writes one JSON object with "options" and "profiles", each entry on a line of its own. */
int hk_config_print_json(int fd);

/* Writes "hakmem: note: A=1, B=2 have no effect: C=0 ..." to stderr for each cause in
 * suppressed.def. */
void hk_config_note_suppressed(void);

/* If the option differs from its default, appends "NAME":"value" and returns true. Cuts a long
 * text. */
bool hk_config_put_setting(hk_line_t *line, unsigned option);
