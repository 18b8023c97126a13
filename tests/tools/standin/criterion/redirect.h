/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See criterion.h beside this file. */
#pragma once

#include <stdio.h>

void cr_redirect_stderr(void);
void cr_redirect_stdout(void);
FILE *cr_get_redirected_stderr(void);
FILE *cr_get_redirected_stdout(void);
