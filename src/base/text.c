/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "base/text.h"

#include <stdio.h>
#include <string.h>

size_t text_printable(const char *text)
{
	const unsigned char *p = (const unsigned char *)text;
	size_t n = p[0] < 0x80 ? 1 : p[0] >= 0xc2 && p[0] < 0xe0 ? 2 : p[0] >= 0xe0 && p[0] < 0xf0 ? 3 :
		   p[0] >= 0xf0 && p[0] < 0xf5 ? 4 : 0;

	for (size_t i = 1; i < n; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	if (n == 1 && (p[0] < 0x20 || p[0] == 0x7f))
		return 0;
	/* The first byte alone does not tell: a control character, longer than need be, half of a
	 * UTF-16 pair, behind U+10FFFF. Readers of JSON refuse a whole line for the last three. */
	switch (p[0]) {
	case 0xc2: case 0xe0:
		return p[1] < 0xa0 ? 0 : n;
	case 0xed:
		return p[1] >= 0xa0 ? 0 : n;
	case 0xf0:
		return p[1] < 0x90 ? 0 : n;
	case 0xf4:
		return p[1] >= 0x90 ? 0 : n;
	}
	return n;
}

size_t text_show(const char **text, char out[TEXT_SHOWN])
{
	const char *c = *text;
	size_t n = text_printable(c);

	*text += n ? n : 1;
	if (!n)
		return (size_t)(*c == '\n' ? sprintf(out, "\\n") : sprintf(out, "\\x%02x", (unsigned char)*c));
	memcpy(out, c, n);
	out[n] = '\0';
	return n;
}
