/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The choice of chunks, at and around each boundary. */
#include <criterion/criterion.h>
#include <errno.h>
#include "rpcrdma/plan.h"

static struct rr_plan plan(struct rr_plan_in in)
{
	struct rr_plan out;

	if (!in.send_limit)
		in.send_limit = 4096;
	if (!in.recv_limit)
		in.recv_limit = 4096;
	if (in.data_len && !in.nsend)
		in.nsend = 1;
	cr_assert_eq(rr_plan(&out, &in), 0);
	return out;
}

Test(plan, small_is_inline)
{
	struct rr_plan p = plan((struct rr_plan_in){ .msg_len = 200, .reply_max = 500 });

	cr_assert(p.call == RR_CALL_INLINE && p.reply == RR_REPLY_INLINE);
}

Test(plan, call_boundary)
{
	/* 28 bytes of header and 4068 of message are 4096. */
	cr_assert_eq(plan((struct rr_plan_in){ .msg_len = 4068 }).call, RR_CALL_INLINE);
	cr_assert_eq(plan((struct rr_plan_in){ .msg_len = 4072 }).call, RR_CALL_LONG);
	/* A Write chunk in the header takes 24 more. */
	cr_assert_eq(plan((struct rr_plan_in){ .msg_len = 4044, .sink_len = 65536, .nsink = 1 }).call,
		     RR_CALL_INLINE);
	cr_assert_eq(plan((struct rr_plan_in){ .msg_len = 4048, .sink_len = 65536, .nsink = 1 }).call,
		     RR_CALL_LONG);
	/* Each further segment of it takes 16. */
	cr_assert_eq(plan((struct rr_plan_in){ .msg_len = 4028, .sink_len = 65536, .nsink = 2 }).call,
		     RR_CALL_INLINE);
	cr_assert_eq(plan((struct rr_plan_in){ .msg_len = 4032, .sink_len = 65536, .nsink = 2 }).call,
		     RR_CALL_LONG);
	/* A Reply chunk 20. */
	cr_assert_eq(plan((struct rr_plan_in){ .msg_len = 4048, .reply_max = 65536 }).call,
		     RR_CALL_INLINE);
	cr_assert_eq(plan((struct rr_plan_in){ .msg_len = 4052, .reply_max = 65536 }).call,
		     RR_CALL_LONG);
}

Test(plan, reply_boundary)
{
	cr_assert_eq(plan((struct rr_plan_in){ .msg_len = 100, .reply_max = 4068 }).reply,
		     RR_REPLY_INLINE);
	cr_assert_eq(plan((struct rr_plan_in){ .msg_len = 100, .reply_max = 4069 }).reply,
		     RR_REPLY_CHUNK);
}

Test(plan, read_data)
{
	/* Inline as long as data, its pad and the rest fit. */
	cr_assert_eq(plan((struct rr_plan_in){ .reply_max = 500, .sink_len = 3568, .nsink = 1 }).reply,
		     RR_REPLY_INLINE);
	cr_assert_eq(plan((struct rr_plan_in){ .reply_max = 500, .sink_len = 3569, .nsink = 1 }).reply,
		     RR_REPLY_WRITE_CHUNK);
	cr_assert_eq(plan((struct rr_plan_in){ .reply_max = 500, .sink_len = 1u << 20, .nsink = 1 }).reply,
		     RR_REPLY_WRITE_CHUNK);
	/* The reply returns all its segments: 28 + 3996 + 8 + 4 * 16 = 4096. */
	cr_assert_eq(plan((struct rr_plan_in){ .reply_max = 3996, .sink_len = 1u << 22, .nsink = 4 }).reply,
		     RR_REPLY_WRITE_CHUNK);
	cr_assert_eq(rr_plan(&(struct rr_plan){ 0 }, &(struct rr_plan_in){ .recv_limit = 4096,
		     .send_limit = 4096, .reply_max = 3997, .sink_len = 1u << 22, .nsink = 4 }), -EMSGSIZE);
	/* With the default threshold of 1024, too. */
	cr_assert_eq(plan((struct rr_plan_in){ .recv_limit = 1024, .reply_max = 600,
					       .sink_len = 4096, .nsink = 1 }).reply, RR_REPLY_WRITE_CHUNK);
}

Test(plan, write_data)
{
	cr_assert_eq(plan((struct rr_plan_in){ .msg_len = 200, .data_len = 3868 }).call,
		     RR_CALL_INLINE);
	cr_assert_eq(plan((struct rr_plan_in){ .msg_len = 200, .data_len = 3869 }).call,
		     RR_CALL_READ_CHUNK);
	cr_assert_eq(plan((struct rr_plan_in){ .msg_len = 200, .data_len = 1u << 20,
					       .nsend = 2 }).call, RR_CALL_READ_CHUNK);
}

/* The target of a link: inline, as a Read chunk, or in a Long Call if the rest is too long. */
Test(plan, short_data)
{
	struct rr_plan_in in = { .send_limit = 1024, .msg_len = 400, .data_short = true };

	for (in.data_len = 0; in.data_len <= 596; in.data_len++)
		cr_assert_eq(plan(in).call, RR_CALL_INLINE, "%u bytes", in.data_len);
	cr_assert_eq(plan(in).call, RR_CALL_READ_CHUNK);
	in.data_len = 4095;
	in.msg_len = 1024 - 28 - 24;
	cr_assert_eq(plan(in).call, RR_CALL_READ_CHUNK);
	in.msg_len += 4;
	cr_assert_eq(plan(in).call, RR_CALL_LONG);
	/* With a Reply chunk there is less room. */
	in.msg_len = 1024 - 28 - 24 - 20;
	in.recv_limit = 1024;
	in.reply_max = 2000;
	cr_assert(plan(in).call == RR_CALL_READ_CHUNK && plan(in).reply == RR_REPLY_CHUNK);
	in.msg_len += 4;
	cr_assert_eq(plan(in).call, RR_CALL_LONG);
}

Test(plan, what_cannot_be_sent)
{
	struct rr_plan out;

	/* WRITE data whose rest needs a Position-Zero chunk as well. */
	cr_assert_eq(rr_plan(&out, &(struct rr_plan_in){
		.send_limit = 1024, .recv_limit = 1024, .msg_len = 1000,
		.data_len = 8192, .nsend = 1 }), -EMSGSIZE);
	/* READ data whose rest needs a Reply chunk as well. */
	cr_assert_eq(rr_plan(&out, &(struct rr_plan_in){
		.send_limit = 1024, .recv_limit = 1024, .msg_len = 100,
		.sink_len = 8192, .nsink = 1, .reply_max = 1000 }), -EMSGSIZE);
}

Test(plan, absurd_sizes_do_not_wrap)
{
	struct rr_plan out;

	cr_assert_eq(rr_plan(&out, &(struct rr_plan_in){
		.send_limit = 4096, .recv_limit = 4096, .msg_len = UINT32_MAX,
		.reply_max = UINT32_MAX }), 0);
	cr_assert(out.call == RR_CALL_LONG && out.reply == RR_REPLY_CHUNK);
	cr_assert_eq(rr_plan(&out, &(struct rr_plan_in){
		.send_limit = 4096, .recv_limit = 4096, .msg_len = 100,
		.data_len = UINT32_MAX, .nsend = 1 }), 0);
	cr_assert_eq(out.call, RR_CALL_READ_CHUNK);
}
