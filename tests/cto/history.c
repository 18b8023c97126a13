/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What has happened, for whoever has to understand a difference. */
#include <stdio.h>
#include <string.h>
#include "model.h"

enum { NOTES = 4096, SHOWN = 40 };

static struct note {
	struct op op;
	const struct file *file;
	int64_t rc;
	int err;
	double began, ended;
} notes[NOTES];
static unsigned long nnotes;
static double start;
static const struct file *wrong;

void history_start(void)
{
	nnotes = 0;
	start = now_seconds();
}

static const struct file *file_of(const struct op *o)
{
	const struct file *f = model.begun[o->worker].file;

	return f || is_slotted(o) || o->what == PAUSE ? f : model.names[o->name].file;
}

void history_note(const struct op *o, const struct answer *a, double began)
{
	notes[nnotes++ % NOTES] = (struct note){ .op = *o, .file = file_of(o), .rc = a->rc, .err = a->err,
		.began = began, .ended = now_seconds() };
}

void history_wrong(const struct op *o)
{
	wrong = file_of(o);
}

void history_print(void)
{
	const struct file *f = wrong;
	unsigned long from = nnotes, shown = 0;

	while (f && from && nnotes - from < NOTES && shown < SHOWN)
		shown += notes[--from % NOTES].file == f;
	printf("what was done last with the file (seconds):\n");
	for (; f && from < nnotes; from++) {
		const struct note *n = &notes[from % NOTES];

		if (n->file != f)
			continue;
		printf("  %8.4f to %8.4f: %s%s", n->began - start, n->ended - start,
		       n->err ? strerror(n->err) : "done", n->err ? "" : ",");
		if (!n->err)
			printf(" %lld", (long long)n->rc);
		print_op(&n->op);
	}
}
