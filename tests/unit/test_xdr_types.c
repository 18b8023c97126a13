/* SPDX-License-Identifier: GPL-2.0-or-later */
/* xdr/nfs_types: references, bulk data, bitmaps, lists and their bounds. */
#include <criterion/criterion.h>
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "nfs_lists.h"

enum {
	CAP = 256 * 1024,
	ENTRY = 4 + 8 + 4 + 8 + 8,	/* an entry3 named "entry" in a list */
};

static _Alignas(8) char buf[CAP];

static XDR encoder(void)
{
	XDR xdrs;

	xdrmem_create(&xdrs, buf, CAP, XDR_ENCODE);
	return xdrs;
}

static XDR decoder(uint32_t len)
{
	XDR xdrs;

	xdrmem_create(&xdrs, buf, len, XDR_DECODE);
	return xdrs;
}

static void put_word(uint32_t at, uint32_t value)
{
	const uint32_t be = htonl(value);

	memcpy(buf + at, &be, sizeof(be));
}

/* ---- nfs_ref ---- */

/* Exactly `max` bytes pass in both directions, one more in neither. */
static void check_bound(const char *name, bool_t (*proc)(XDR *, struct nfs_ref *),
			uint32_t max)
{
	char *bytes = calloc(1, max + 1);
	struct nfs_ref ref = { max, bytes };
	struct nfs_ref out = { 0 };
	char *wire = calloc(1, max + 8);
	XDR xdrs;

	xdrmem_create(&xdrs, wire, max + 8, XDR_ENCODE);
	cr_expect(proc(&xdrs, &ref), "%s encodes %u bytes", name, max);
	xdrmem_create(&xdrs, wire, max + 8, XDR_DECODE);
	cr_expect(proc(&xdrs, &out), "%s decodes %u bytes", name, max);
	cr_expect_eq(out.len, max);

	ref.len = max + 1;
	xdrmem_create(&xdrs, wire, max + 8, XDR_ENCODE);
	cr_expect_not(proc(&xdrs, &ref), "%s encodes %u bytes", name, max + 1);
	xdrmem_create(&xdrs, wire, max + 8, XDR_ENCODE);
	cr_expect(xdr_uint32_t(&xdrs, &ref.len));
	xdrmem_create(&xdrs, wire, max + 8, XDR_DECODE);
	cr_expect_not(proc(&xdrs, &out), "%s decodes %u bytes", name, max + 1);
	free(wire);
	free(bytes);
}

Test(xdr_ref, bounds)
{
	check_bound("nfs_ref64", xdr_nfs_ref64, 64);
	check_bound("nfs_ref128", xdr_nfs_ref128, 128);
	check_bound("nfs_ref255", xdr_nfs_ref255, 255);
	check_bound("nfs_ref1024", xdr_nfs_ref1024, 1024);
	check_bound("nfs_ref64k", xdr_nfs_ref64k, 65536);
	check_bound("nfs_ref128k", xdr_nfs_ref128k, 131072);
	check_bound("nfs_ref16m", xdr_nfs_ref16m, 16777216);
	check_bound("nfs_fh3", xdr_nfs_fh3, NFS3_FHSIZE);
	check_bound("nfs_fh4", xdr_nfs_fh4, NFS4_FHSIZE);
	check_bound("dirpath", xdr_dirpath, MNTPATHLEN);
	check_bound("mountname", xdr_mountname, MNTNAMLEN);
}

Test(xdr_ref, decode_points_into_the_stream)
{
	struct nfs_ref in = nfs_ref_str("hello"), out = { 0 };
	XDR xdrs = encoder();

	cr_assert(xdr_component4(&xdrs, &in));
	cr_assert_eq(XDR_GETPOS(&xdrs), 12);
	cr_expect_arr_eq(buf, "\0\0\0\5hello\0\0\0", 12);

	xdrs = decoder(12);
	cr_assert(xdr_component4(&xdrs, &out));
	cr_expect_eq(out.data, buf + 4);
	cr_expect(nfs_ref_equal(&in, &out));
	cr_expect_eq(XDR_GETPOS(&xdrs), 12);
}

Test(xdr_ref, no_pointer_is_needed_for_nothing)
{
	struct nfs_ref ref = { 0, NULL };
	XDR xdrs = encoder();

	cr_expect(xdr_component4(&xdrs, &ref));
	cr_expect_eq(XDR_GETPOS(&xdrs), 4);
}

Test(xdr_ref, unaligned_stream_is_refused)
{
	struct nfs_ref ref;
	XDR xdrs;

	put_word(1, 4);
	xdrmem_create(&xdrs, buf + 1, 8, XDR_DECODE);
	cr_expect_not(xdr_component4(&xdrs, &ref));
}

Test(xdr_ref, names)
{
	struct nfs_ref nul = { 3, "a\0b" };
	struct nfs_ref empty = { 0, NULL };
	struct nfs_ref slash = nfs_ref_str("a/b"), good = nfs_ref_str(".x");

	cr_expect(nfs_ref_is_name(&good, 255));
	cr_expect(nfs_ref_is_name(&good, 2));
	cr_expect_not(nfs_ref_is_name(&good, 1));
	cr_expect_not(nfs_ref_is_name(&nul, 255));
	cr_expect_not(nfs_ref_is_name(&slash, 255));
	cr_expect_not(nfs_ref_is_name(&empty, 255));
}

/* ---- nfs_bulk ---- */

Test(xdr_bulk, encode_leaves_the_data_out)
{
	nfs_bulk bulk = { .len = 5 };
	uint32_t before = 1, after = 2;
	XDR xdrs = encoder();

	cr_assert(xdr_uint32_t(&xdrs, &before) && xdr_nfs_bulk(&xdrs, &bulk) &&
		  xdr_uint32_t(&xdrs, &after));
	cr_expect_eq(bulk.pos, 8);
	cr_expect_eq(XDR_GETPOS(&xdrs), 12);
	cr_expect_arr_eq(buf, "\0\0\0\1\0\0\0\5\0\0\0\2", 12);
}

Test(xdr_bulk, placed_data_is_not_in_the_stream)
{
	nfs_bulk bulk = { .max = 8192, .placed = true };
	uint32_t after = 0;
	XDR xdrs;

	put_word(0, 8192);
	put_word(4, 77);
	xdrs = decoder(8);
	cr_assert(xdr_nfs_bulk(&xdrs, &bulk) && xdr_uint32_t(&xdrs, &after));
	cr_expect_eq(bulk.len, 8192);
	cr_expect_eq(after, 77);

	put_word(0, 8193);
	xdrs = decoder(8);
	cr_expect_not(xdr_nfs_bulk(&xdrs, &bulk), "more than the buffer holds");
}

Test(xdr_bulk, inline_data_is_pointed_at)
{
	nfs_bulk bulk = { .max = 5 };
	uint32_t after = 0;
	XDR xdrs;

	put_word(0, 5);
	put_word(12, 77);
	xdrs = decoder(16);
	cr_assert(xdr_nfs_bulk(&xdrs, &bulk) && xdr_uint32_t(&xdrs, &after));
	cr_expect_eq(bulk.data, buf + 4);
	cr_expect_eq(bulk.pos, 4);
	cr_expect_eq(after, 77);

	bulk.max = 4;
	xdrs = decoder(16);
	cr_expect_not(xdr_nfs_bulk(&xdrs, &bulk), "more than asked for");
	bulk.max = 0;
	xdrs = decoder(16);
	cr_expect(xdr_nfs_bulk(&xdrs, &bulk), "no bound but the stream");
}

Test(xdr_bulk, lengths_beyond_the_stream_are_refused)
{
	const uint32_t lens[] = { 9, 0x7fffffff, 0x80000000, 0xfffffffd, 0xffffffff };

	for (unsigned i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		nfs_bulk bulk = { 0 };
		XDR xdrs = decoder(12);

		put_word(0, lens[i]);
		cr_expect_not(xdr_nfs_bulk(&xdrs, &bulk), "%#x", lens[i]);
	}
}

Test(xdr_bulk, a_missing_pad_is_refused)
{
	nfs_bulk bulk = { 0 };
	XDR xdrs;

	put_word(0, 5);
	xdrs = decoder(4 + 5);
	cr_expect_not(xdr_nfs_bulk(&xdrs, &bulk));
}

Test(xdr_bulk, insert)
{
	char msg[20] = "headtail";
	uint32_t len = 8;

	cr_assert_eq(nfs_bulk_insert(msg, &len, sizeof(msg), 4, "12345", 5), 0);
	cr_expect_eq(len, 16);
	cr_expect_arr_eq(msg, "head12345\0\0\0tail", 16);

	cr_assert_eq(nfs_bulk_insert(msg, &len, sizeof(msg), 16, "abcd", 4), 0);
	cr_expect_eq(len, 20);
	cr_expect_arr_eq(msg, "head12345\0\0\0tailabcd", 20);

	cr_expect_eq(nfs_bulk_insert(msg, &len, sizeof(msg), 20, NULL, 0), 0);
	cr_expect_eq(nfs_bulk_insert(msg, &len, sizeof(msg), 4, "x", 1), -EMSGSIZE);
	cr_expect_eq(nfs_bulk_insert(msg, &len, sizeof(msg), 4, "x", 0xffffffff), -EMSGSIZE);
	cr_expect_eq(nfs_bulk_insert(msg, &len, 100, 24, "x", 1), -EINVAL);
	cr_expect_eq(len, 20);
}

Test(xdr_bulk, insert_wants_room_for_the_pad)
{
	char msg[8] = "1234";
	uint32_t len = 4;

	cr_expect_eq(nfs_bulk_insert(msg, &len, 7, 4, "abc", 3), -EMSGSIZE);
	cr_expect_eq(nfs_bulk_insert(msg, &len, 8, 4, "abc", 3), 0);
}

/* ---- bitmap4 ---- */

Test(xdr_bitmap, set_and_isset)
{
	bitmap4 map = { 0 };

	cr_expect_not(bitmap4_isset(&map, 0));
	bitmap4_set(&map, FATTR4_SIZE);
	cr_expect_eq(map.len, 1);
	bitmap4_set(&map, FATTR4_XATTR_SUPPORT);
	cr_expect_eq(map.len, 3);
	bitmap4_set(&map, FATTR4_MODE);
	cr_expect_eq(map.len, 3);
	cr_expect(bitmap4_isset(&map, FATTR4_SIZE) && bitmap4_isset(&map, FATTR4_MODE) &&
		  bitmap4_isset(&map, FATTR4_XATTR_SUPPORT));
	cr_expect_not(bitmap4_isset(&map, FATTR4_TYPE));
	cr_expect_not(bitmap4_isset(&map, 255));
	cr_expect_eq(map.words[0], 1u << 4);
	cr_expect_eq(map.words[1], 1u << 1);
	cr_expect_eq(map.words[2], 1u << 18);
}

Test(xdr_bitmap, decode_clears_the_rest)
{
	bitmap4 map;
	XDR xdrs;

	memset(&map, 0xff, sizeof(map));
	put_word(0, 1);
	put_word(4, 6);
	xdrs = decoder(8);
	cr_assert(xdr_bitmap4(&xdrs, &map));
	cr_expect_eq(map.words[0], 6);
	for (unsigned i = 1; i < NFS4_BITMAP_WORDS; i++)
		cr_expect_eq(map.words[i], 0);
}

Test(xdr_bitmap, bound)
{
	bitmap4 map = { 0 };
	XDR xdrs;

	memset(buf, 0, 64);
	put_word(0, NFS4_BITMAP_WORDS);
	xdrs = decoder(64);
	cr_expect(xdr_bitmap4(&xdrs, &map));
	put_word(0, NFS4_BITMAP_WORDS + 1);
	xdrs = decoder(64);
	cr_expect_not(xdr_bitmap4(&xdrs, &map));
	map.len = NFS4_BITMAP_WORDS + 1;
	xdrs = encoder();
	cr_expect_not(xdr_bitmap4(&xdrs, &map));
}

/* ---- Lists ---- */

/* Encodes `n` entries named "entry" into buf; returns the length. */
static uint32_t make_list(uint32_t n, dirlist3 *list)
{
	entry3 *entries = calloc(n + 1, sizeof(*entries));
	XDR xdrs = encoder();

	for (uint32_t i = 0; i < n; i++)
		entries[i] = (entry3){ i, nfs_ref_str("entry"), i + 1 };
	*list = (dirlist3){ { .count = n, .array = entries }, TRUE };
	cr_assert(xdr_dirlist3(&xdrs, list));
	free(entries);
	return XDR_GETPOS(&xdrs);
}

Test(xdr_list, empty)
{
	struct nfs_cursor cur;
	dirlist3 list;
	entry3 ent;
	XDR xdrs = decoder(make_list(0, &list));

	cr_assert(xdr_dirlist3(&xdrs, &list));
	cr_expect_eq(list.entries.count, 0);
	cr_expect_eq(list.entries.bytes, 0);
	cr_expect(list.eof);
	nfs_cursor_open(&cur, &list.entries);
	cr_expect_eq(nfs_entry3_next(&cur, &ent), 0);
}

/* As long as a message can make it; recursion would need megabytes of stack. */
Test(xdr_list, long_list_is_walked_without_recursion)
{
	const uint32_t n = 6000;
	struct nfs_cursor cur;
	dirlist3 list;
	entry3 ent;
	XDR xdrs = decoder(make_list(n, &list));
	uint32_t i = 0;

	cr_assert(xdr_dirlist3(&xdrs, &list));
	cr_expect_eq(list.entries.count, n);
	cr_expect_eq(list.entries.bytes, n * ENTRY);
	nfs_cursor_open(&cur, &list.entries);
	while (nfs_entry3_next(&cur, &ent) > 0) {
		cr_assert_eq(ent.fileid, i++);
		cr_assert_eq(ent.cookie, i);
		cr_assert(ent.name.data > buf && ent.name.data < buf + CAP);
	}
	cr_expect_eq(i, n);
	cr_expect_eq(nfs_entry3_next(&cur, &ent), 0);
}

Test(xdr_list, endless_list_ends_with_the_stream)
{
	dirlist3 list;
	XDR xdrs;

	/* Each entry: fileid 1 << 32 | 1, an empty name, another cookie. */
	for (uint32_t at = 0; at < 24 * 1000; at += 24) {
		put_word(at, 1);
		memset(buf + at + 4, 0, 20);
	}
	xdrs = decoder(24 * 1000);
	cr_expect_not(xdr_dirlist3(&xdrs, &list));
}

Test(xdr_list, damage_after_decoding_is_noticed)
{
	struct nfs_cursor cur;
	dirlist3 list;
	entry3 ent;
	XDR xdrs = decoder(make_list(3, &list));

	cr_assert(xdr_dirlist3(&xdrs, &list));
	put_word(ENTRY + 4 + 8, 0xfffffff0);
	nfs_cursor_open(&cur, &list.entries);
	cr_expect_eq(nfs_entry3_next(&cur, &ent), 1);
	cr_expect_eq(nfs_entry3_next(&cur, &ent), -EBADMSG);
	cr_expect_eq(nfs_entry3_next(&cur, &ent), 0);
}

Test(xdr_list, a_decoded_list_can_be_encoded)
{
	static _Alignas(8) char copy[1024];
	dirlist3 list;
	uint32_t len = make_list(5, &list);
	XDR xdrs = decoder(len), out;

	cr_assert(xdr_dirlist3(&xdrs, &list));
	xdrmem_create(&out, copy, sizeof(copy), XDR_ENCODE);
	cr_assert(xdr_dirlist3(&out, &list));
	cr_expect_eq(XDR_GETPOS(&out), len);
	cr_expect_arr_eq(copy, buf, len);
}

/* ---- COMPOUND piece by piece ---- */

Test(xdr_compound, pieces_equal_the_whole)
{
	static char pieces[256];
	nfs_argop4 ops[2] = { { .argop = OP_PUTROOTFH }, { .argop = OP_LOOKUP } };
	COMPOUND4args whole = {
		.tag = nfs_ref_str("tag"), .minorversion = 1, .argarray = { 2, ops },
	};
	compound4_args_head head = { nfs_ref_str("tag"), 1, 2 };
	XDR xdrs = encoder(), out;

	ops[1].nfs_argop4_u.oplookup.objname = nfs_ref_str("export");
	cr_assert(xdr_COMPOUND4args(&xdrs, &whole));

	xdrmem_create(&out, pieces, sizeof(pieces), XDR_ENCODE);
	cr_assert(xdr_compound4_args_head(&out, &head) &&
		  xdr_nfs_opnum4(&out, &ops[0].argop) &&
		  xdr_nfs_opnum4(&out, &ops[1].argop) &&
		  xdr_LOOKUP4args(&out, &ops[1].nfs_argop4_u.oplookup));
	cr_expect_eq(XDR_GETPOS(&out), XDR_GETPOS(&xdrs));
	cr_expect_arr_eq(pieces, buf, XDR_GETPOS(&out));
}

Test(xdr_compound, too_many_operations_are_refused)
{
	COMPOUND4res res = { 0 };
	XDR xdrs;

	memset(buf, 0, 64);
	put_word(8, NFS4_MAX_OPS + 1);
	xdrs = decoder(CAP);
	cr_expect_not(xdr_COMPOUND4res(&xdrs, &res));
	cr_expect_null(res.resarray.resarray_val);
}

/* ---- No malloc on the hot path ---- */

/* Decodes what `value` encodes to and compares what is allocated before and after. */
static void check_no_malloc(const char *name, xdrproc_t proc, void *value, void *out)
{
	XDR xdrs = encoder();
	struct mallinfo2 before, after;

	cr_assert(proc(&xdrs, value), "%s", name);
	xdrs = decoder(XDR_GETPOS(&xdrs));
	before = mallinfo2();
	cr_assert(proc(&xdrs, out), "%s", name);
	after = mallinfo2();
	cr_expect_eq(before.uordblks, after.uordblks, "%s allocates", name);
}

#define CHECK_NO_MALLOC(type, ...)						\
	check_no_malloc(#type, (xdrproc_t)(void (*)(void))xdr_##type,		\
			&(type){ __VA_ARGS__ }, &(type){ 0 })

Test(xdr_hot, decoding_does_not_allocate)
{
	const fattr4 attrs = { { 2, { 7, 8 } }, { 8, "12345678" } };
	const nfs_fh3 fh3 = { 28, "0123456789abcdef0123456789ab" };
	const nfs_fh4 fh4 = { 28, "0123456789abcdef0123456789ab" };
	const entryplus3 ents3[2] = {
		{ .name = { 1, "a" }, .name_attributes = { 1, { { 0 } } } },
		{ .name = { 1, "b" }, .name_handle = { 1, { fh3 } } },
	};
	const entry4 ents4[2] = { { 1, { 1, "a" }, attrs }, { 2, { 1, "b" }, attrs } };

	CHECK_NO_MALLOC(LOOKUP3res, .LOOKUP3res_u.resok.object = fh3);
	CHECK_NO_MALLOC(READLINK3res, .READLINK3res_u.resok.data.len = 0);
	CHECK_NO_MALLOC(CREATE3res, .CREATE3res_u.resok.obj = { 1, { fh3 } });
	CHECK_NO_MALLOC(READDIRPLUS3res, .READDIRPLUS3res_u.resok.reply.entries =
			{ .count = 2, .array = ents3 });
	CHECK_NO_MALLOC(GETATTR4res, .GETATTR4res_u.resok4.obj_attributes = attrs);
	CHECK_NO_MALLOC(GETFH4res, .GETFH4res_u.resok4.object = fh4);
	CHECK_NO_MALLOC(READDIR4res, .READDIR4res_u.resok4.reply.entries =
			{ .count = 2, .array = ents4 });
	CHECK_NO_MALLOC(OPEN4res, .OPEN4res_u.resok4.delegation = {
			OPEN_DELEGATE_READ,
			{ .read.permissions.who = { 6, "OWNER@" } } });
	CHECK_NO_MALLOC(SEQUENCE4res, 0);
	CHECK_NO_MALLOC(WRITE4res, 0);
	CHECK_NO_MALLOC(SETATTR4res, NFS4_OK, { 2, { 1, 2 } });
	CHECK_NO_MALLOC(GETXATTR4res, .GETXATTR4res_u.gxr_value = { 3, "abc" });
}
