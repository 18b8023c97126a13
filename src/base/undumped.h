/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Memory for people's data outside the arena. Like the arena, it is left out of core
 * dumps. */
#pragma once

#include <stddef.h>

/* Whole pages, zeroed. NULL: no memory. */
void *undumped_alloc(size_t len);
/* len as given to undumped_alloc(). mem may be NULL. */
void undumped_free(void *mem, size_t len);
