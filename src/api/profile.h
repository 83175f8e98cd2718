/* Heap profiles and the report of leaks, as the options ask for them. */
#pragma once

/* Samples are taken from now on, or no more, as the options say now. Allocates. */
void hk_profile_apply(void);
