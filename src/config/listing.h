/* The options as a user sees them: effective values and where they come from. Opens no file, never allocates. */
#pragma once

#include "base/report.h"

/* One aligned line per option: what begins each line, name, value, origin. Returns 0, or what is wrong as errno does; as
 * the next. */
int hk_config_print_text(int fd, const char *begins);

/* One JSON object: "options" and "profiles", each entry on a line of its own. */
int hk_config_print_json(int fd);

/* "hakmem: note: A=1, B=2 has no effect: C=0 ..." on stderr for all that suppressed.def knows. */
void hk_config_note_suppressed(void);

/* True, and "NAME":"value" appended, if the option has not the table's value. A long text is cut. */
bool hk_config_put_setting(hk_line_t *line, unsigned option);
