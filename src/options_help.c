/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "options_impl.h"

#include <string.h>

#include "config.h"

const char *opt_default_word(const struct row *r)
{
	const struct choice *c = r->choices;

	while (c->refuse || c->value != r->value)
		c++;
	return c->word;
}

static void help_row(FILE *out, const struct row *named)
{
	const struct row *r = opt_meaning(named);
	char left[64], words[128], range[64];

	switch (r->kind) {
	case CHOICE:
		snprintf(left, sizeof(left), "%s=WORD", named->name);
		break;
	case UINT:
	case STRING:
		snprintf(left, sizeof(left), "%s=%s", named->name, r->meta);
		break;
	default:
		snprintf(left, sizeof(left), "%s", named->name);
	}
	fprintf(out, "  %-21s ", left);
	if (named->same_as) {
		fprintf(out, "the same as %s\n", named->same_as);
		return;
	}
	fputs(r->help, out);
	switch (r->kind) {
	case CHOICE:
		opt_words_text(r, words, sizeof(words));
		if (strcmp(words, r->choices[0].word) == 0)
			fprintf(out, " (%s only)", words);
		else
			fprintf(out, " (%s; default %s)", words, opt_default_word(r));
		break;
	case UINT:
		fprintf(out, " (%s", opt_range_text(r, range, sizeof(range)));
		if (r->def_text)
			fprintf(out, "; default %s)", r->def_text);
		else
			fprintf(out, "; default %u)", r->def);
		break;
	case STRING:
	case TRI:
		if (r->def_text)
			fprintf(out, " (default %s)", r->def_text);
		break;
	case FLAG:
		if (r->def)
			fputs(" (default)", out);
		break;
	default:
		break;
	}
	fputc('\n', out);
}

void options_help(FILE *out)
{
	const char *group = NULL;
	size_t column = 0;

	fprintf(out, "%s\n\n"
		"Mounts an NFS export over RDMA. Unmount with: umount MOUNTPOINT (root) or\n"
		"fusermount3 -u MOUNTPOINT. Look at a mount that runs, and change it, with:\n"
		PACKAGE_NAME " ctl MOUNTPOINT COMMAND (see " PACKAGE_NAME " ctl --help). What stands in the\n"
		"way of a good mount: " PACKAGE_NAME " doctor SERVER:/EXPORT.\n\n"
		"  -f                    stay in the foreground\n"
		"  -d                    debug: -f, and log every step\n"
		"  -v                    be verbose\n"
		"  -r, -w                the same as -o ro, -o rw\n"
		"  -s                    ignore unknown options\n"
		"  -n                    accepted without effect\n"
		"  -V, --version         print the version\n"
		"  -h, --help            print this\n"
		"  --words               print the words of -o, for the completion of shells\n"
		"  -o OPTION[,OPTION...] mount options:\n", opt_usage_line);
	for (size_t i = 0; i < opt_rows; i++) {
		const struct row *r = &opt_table[i];
		const char *g = opt_meaning(r)->group;

		if (r->kind == REFUSE)
			continue;
		if (g != group) {
			fprintf(out, "\n%s:\n", g);
			group = g;
			column = 0;
		}
		if (r->kind != IGNORE) {
			help_row(out, r);
			continue;
		}
		if (column + strlen(r->name) > 70) {
			fputc('\n', out);
			column = 0;
		}
		column += (size_t)fprintf(out, "%s%s%s", column ? ", " : "  ", r->name,
					  strcmp(r->name, "x-") == 0 ? "*" : "");
	}
	fprintf(out, "\n\nSee " PACKAGE_NAME "(8) for more.\n");
}

void options_version(FILE *out)
{
	fprintf(out, "%s\n", PACKAGE_STRING);
}

void options_words(FILE *out)
{
	for (size_t i = 0; i < opt_rows; i++) {
		const char *name = opt_table[i].name;
		const struct row *r = opt_meaning(&opt_table[i]);

		if (r->kind == UINT || r->kind == STRING)
			fprintf(out, "%s=\n", name);
		else if (r->kind != CHOICE && r->kind != REFUSE && strcmp(name, "x-") != 0)
			fprintf(out, "%s\n", name);
		for (const struct choice *c = r->choices; c && c->word; c++)
			if (!c->refuse)
				fprintf(out, "%s=%s\n", name, c->word);
	}
}
