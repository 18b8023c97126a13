/* SPDX-License-Identifier: GPL-2.0-or-later */
/* MOUNT version 3 (RFC 1813, section 5): MNT, UMNT, EXPORT, DUMP. */

PLAY(dirpath)
{
	STR(*v, play_len(p, 1024));
}

PLAY(mountres3)
{
	I(v->fhs_status, play_status(p, MNT3ERR_ACCES, MNT3ERR_SERVERFAULT));
	if (v->fhs_status != MNT3_OK)
		return;
	FHANDLE3(v->mountres3_u.mountinfo.fhandle, play_len(p, FHSIZE3));
	ARRAY(v->mountres3_u.mountinfo.auth_flavors.auth_flavors_len,
	      v->mountres3_u.mountinfo.auth_flavors.auth_flavors_val,
	      int, play_len(p, 10), 10)
		I(v->mountres3_u.mountinfo.auth_flavors.auth_flavors_val[i],
		  390003 + (int)i);
}

PLAY_ENTRY(groupnode)
{
	STR(v->gr_name, 1 + i);
}

PLAY_ENTRY(exportnode)
{
	STR(v->ex_dir, 3 * i);
	GROUPS3(v->ex_groups, play_len(p, 12));
}

PLAY_ENTRY(mountbody)
{
	STR(v->ml_hostname, 255 - i);
	STR(v->ml_directory, 1024 - i);
}

PLAY(exports_t)
{
	EXPORTS3(*v, play_len(p, SIDE_LIST_MAX));
}

PLAY(mounts_t)
{
	MOUNTS3(*v, play_len(p, SIDE_LIST_MAX));
}

#define CASES_MOUNT3		\
	ARG(dirpath)		\
	RES(mountres3)		\
	RES(exports_t)		\
	RES(mounts_t)
