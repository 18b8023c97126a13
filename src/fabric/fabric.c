/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The providers by name. No provider calls this, so they call each other in no circle. */
#include <string.h>
#include "fabric/fabric.h"

static const struct fabric *const fabrics[] = {
	&fabric_verbs,
	&fabric_iwarp,
};

const struct fabric *fabric_by_name(const char *name)
{
	for (size_t i = 0; i < sizeof(fabrics) / sizeof(fabrics[0]); i++)
		if (!strcmp(fabrics[i]->name, name))
			return fabrics[i];
	return NULL;
}
