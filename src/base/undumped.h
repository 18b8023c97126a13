/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Memory for people's data outside of the arena, which is not in a core dump either. */
#ifndef BASE_UNDUMPED_H
#define BASE_UNDUMPED_H

#include <stddef.h>

/* Whole pages, zeroed. NULL: there is none. */
void *undumped_alloc(size_t len);
/* The same len. mem may be NULL. */
void undumped_free(void *mem, size_t len);

#endif
