/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Calls of the server: CB_COMPOUND and what comes in its place.
 *     input: messages, each behind 1 byte: its length / 4, and whether it comes twice (bit 7).
 *            Then both are answered with the same bytes
 */
#include <string.h>
#include "fuzz.h"
#include "nfs/common.h"
#include "nfs/nfs4/nfs4_compound.h"
#include "xdr_msg.h"

static struct nfs4_client n4;
static const struct nfs_version version = { .minor = 2 };
static unsigned recalls, freed, due;

/* A file handle and an owner are the file system's. */
static void on_lock_freed(struct nfs_lane *l, const struct nfs_fh *fh, uint64_t owner)
{
	CHECK(fh->len <= NFS_FH_MAX && owner);
	touch(fh->data, fh->len);
	freed++;
}

static void on_delegations_due(struct nfs_lane *l)
{
	due++;
}

/* Known of some files. */
static bool on_asked(struct nfs_lane *l, const struct nfs_delegation *d, uint64_t *size, uint64_t *change)
{
	*size = *change = d->number;
	return d->file->fh.len & 1;
}

static bool on_copy_ended(struct nfs_lane *l, const struct nfs_fh *fh, const struct nfs_copy_id *id,
			  const struct nfs_copy_end *end)
{
	touch(fh->data, fh->len);
	touch(id->bytes, sizeof(id->bytes));
	CHECK(end->status <= 0);
	return end->count & 1;
}

static const struct nfs_front front = {
	.lock_freed = on_lock_freed, .delegations_due = on_delegations_due, .delegation_attr = on_asked,
	.copy_ended = on_copy_ended,
};
static struct nfs_client client = { .cfg = { .front = &front, .delegations = true } };
static struct nfs_server server = { .client = &client, .vdata = &n4, .version = &version };
static struct nfs_lane lane = { .client = &client };
static struct nfs_target target = { .server = &server, .lane = &lane };

bool nfs4_is_current(const struct nfs_call *c)
{
	return true;
}

bool nfs4_slots_in_flight(struct nfs4_slots *t, const char *session, uint32_t slot, uint32_t seqid)
{
	touch(session, NFS4_SESSIONID_SIZE);
	return slot == 7;
}

void nfs4_slots_recall(struct nfs_server *s, const char *session, uint32_t highest)
{
	touch(session, NFS4_SESSIONID_SIZE);
	recalls++;
}

/* Nothing is open. */
void nfs4_open_get(struct nfs_open *o)
{
	CHECK(false);
}

void nfs4_open_put(struct nfs_open *o)
{
	CHECK(false);
}

int nfs4_errno(nfsstat4 status)
{
	return status ? -5 : 0;
}

uint64_t nfs_verifier(const char verf[8])
{
	touch(verf, 8);
	return 1;
}

/* Nothing is opened, and nothing sent. */
uint32_t nfs4_share_access(int flags)
{
	CHECK(false);
	return 0;
}

bool_t nfs4_begin(struct nfs_call *c, XDR *x, uint32_t nops, bool cache, const struct nfs_fh *fh)
{
	CHECK(false);
	return 0;
}

bool_t nfs4_put_op(XDR *x, nfs_opnum4 op)
{
	CHECK(false);
	return 0;
}

int nfs4_get_op(XDR *x, nfs_opnum4 op)
{
	CHECK(false);
	return 0;
}

int nfs4_check(struct nfs_call *c, XDR *x)
{
	CHECK(false);
	return 0;
}

bool_t nfs4_put_free(struct nfs_call *c, XDR *x, const stateid4 *stateid)
{
	CHECK(false);
	return 0;
}

int nfs4_get_free(struct nfs_call *c, XDR *x, nfsstat4 *status)
{
	CHECK(false);
	return 0;
}

bool nfs4_carries_kept(const struct nfs_call *c)
{
	CHECK(false);
	return 0;
}

static uint32_t serve(const uint8_t *data, uint32_t len, uint32_t *reply)
{
	uint32_t msg[128], n;
	XDR in, out;

	memcpy(msg, data, len);
	xdr_msg_create(&in, msg, len, XDR_DECODE);
	xdr_msg_create(&out, reply, RR_INLINE - RR_HDR_MIN, XDR_ENCODE);
	n = rpcserve(&nfs4_callback, &target, &in, &out);
	CHECK(n <= NFS4_BACK_REPLY + 24 && n % 4 == 0 && (!n || n >= 20));
	touch(reply, n);
	for (unsigned i = 0; i < NFS4_BACK_SLOTS; i++)
		CHECK(!n4.back.session[n4.back.newest].slot[i].busy);
	return n;
}

/* Has CB_SEQUENCE been accepted? Its tag was empty. */
static bool is_in_session(const uint32_t *reply, uint32_t len)
{
	return len >= 44 && !reply[2] && !reply[5] && !reply[7] &&
	       reply[9] == __builtin_bswap32(OP_CB_SEQUENCE) && !reply[10];
}

/* The one that the seeds recall. */
static void have_delegation(void)
{
	static struct nfs_file file = { .fh = { .len = 5, .data = "fhand" }, .refs = 2 };
	static struct nfs_open open = { .file = &file };
	struct nfs_call c = { .lane = &lane, .target = &target, .open = &open, .args.fh = &file.fh };
	stateid4 stateid = { .seqid = 1, .other = "opn1opn2opn3" };

	atomic_store(&file.refs, 2);
	n4.back.has = true;
	CHECK(nfs4_delegs_ask(&c) && nfs4_delegs_got(&c, &stateid, 0, true));
	nfs4_delegs_ask_ends(&c);
}

/* Each one goes back once. */
static void return_all(void)
{
	struct nfs_call c = { .lane = &lane, .target = &target };

	while (nfs4_delegs_any_due(&server)) {
		c.args.delegation = nfs4_delegs_take(&server);
		CHECK(c.args.delegation && c.args.delegation->file->fh.len <= NFS_FH_MAX);
		touch(c.args.delegation->file->fh.data, c.args.delegation->file->fh.len);
		container_of(c.args.delegation, struct nfs4_delegation, d)->answered = true;
		nfs4_delegs_return_ends(&c);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static uint32_t first[RR_INLINE / 4], second[RR_INLINE / 4];

	memset(&n4.back, 0, sizeof(n4.back));
	nfs4_back_init(&n4.back);
	memset(&n4.delegs, 0, sizeof(n4.delegs));
	nfs4_delegs_init(&n4.delegs);
	nfs4_back_enter(&n4.back, "0123456789abcdef");
	have_delegation();
	for (size_t at = 0; at < len; ) {
		uint32_t n = (data[at] & 127u) * 4, r;
		bool twice = data[at++] & 128;

		n = n < len - at ? n : (uint32_t)(len - at) & ~3u;
		r = serve(data + at, n, first);
		if (twice && is_in_session(first, r)) {
			unsigned before = recalls + freed + due;

			CHECK(serve(data + at, n, second) == r && !memcmp(first, second, r));
			CHECK(recalls + freed + due == before);
		}
		at += n ? n : 1;
	}
	return_all();
	nfs4_delegs_fini(&n4.delegs);
	nfs4_back_fini(&n4.back);
	return 0;
}
