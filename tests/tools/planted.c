/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests that check-tap.sh runs, to see that what is wrong with them is found: each suite has one
 * fault. `good` has none.
 */
#include <criterion/criterion.h>
#include <unistd.h>

static void fails(void)
{
	cr_assert(false, "planted");
}

static void ends(void)
{
	_exit(3);
}

static void crashes(void)
{
	abort();
}

Test(good, passes)
{
	cr_assert(true);
}

Test(in_test, fails)
{
	fails();
}

Test(in_init, fails, .init = fails)
{
}

Test(in_fini, fails, .fini = fails)
{
}

Test(in_fini, ends, .fini = ends)
{
}

Test(in_fini, crashes, .fini = crashes)
{
}
