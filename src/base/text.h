/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Text that may be anything (names of files, what a server sent), for terminals and logs. */
#pragma once

#include <stddef.h>

/* The length of the UTF-8 character at `text` that a terminal may get; 0: it is none, but a control character
 * (also U+0080 to U+009F), or not UTF-8. */
size_t text_printable(const char *text);

/* The most that text_show() writes, with its NUL. */
#define TEXT_SHOWN 5u
/* Writes what is shown of the first character of *text, which is not empty, and moves *text behind it: itself if it
 * is printable, "\n" as C has it for the end of a line, "\xff" for any other byte. Returns the length without the NUL
 * that ends it. */
size_t text_show(const char **text, char out[TEXT_SHOWN]);
