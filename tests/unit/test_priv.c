/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <criterion/criterion.h>
#include "priv.h"

/* As the kernel lists them: in numbers before Linux 5.8, in words since. */
Test(priv, who_is_hidden_from_root)
{
	static const char *const seen[] = {
		"rw,nosuid", "rw,hidepid=0", "rw,hidepid=off,gid=4", "rw,hidepid=1", "rw,hidepid=2",
		"rw,hidepid=noaccess", "rw,hidepid=invisible,subset=pid", "rw,gid=0,hidepid=2", "rw,gid=4",
	};
	static const char *const hidden[] = {
		"rw,hidepid=4", "rw,hidepid=ptraceable", "rw,gid=0,hidepid=ptraceable,subset=pid",
		"rw,gid=4,hidepid=2", "rw,gid=10,hidepid=noaccess", "rw,hidepid=invisible,gid=04",
	};

	for (size_t i = 0; i < sizeof(seen) / sizeof(*seen); i++)
		cr_assert_not(priv_proc_is_hidden(seen[i]), "%s", seen[i]);
	for (size_t i = 0; i < sizeof(hidden) / sizeof(*hidden); i++)
		cr_assert(priv_proc_is_hidden(hidden[i]), "%s", hidden[i]);
}
