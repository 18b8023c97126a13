/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The pieces of a domain: registered with all devices, or with none. The devices are played. */
#include <criterion/criterion.h>
#include <errno.h>

#include "fabric/fabric.h"

#define PIECES 3u
#define LEN    4096u

static struct fab_domain domain;
static char memory[PIECES][LEN];
static struct errbuf eb;

static struct device {
	struct fab_device dev;
	unsigned registered;            /* now */
	int reg_error, dereg_error;
	unsigned after;                 /* reg_error: not for so many more */
	uint32_t keys;
} one, two;

static int play_reg(struct fab_device *dev, const struct fab_piece *piece, int how, struct fab_mr *out,
		    struct errbuf *why)
{
	struct device *d = container_of(dev, struct device, dev);

	if (d->reg_error && !d->after)
		return err_set(why, d->reg_error, "played");
	d->after -= d->after > 0;
	d->registered++;
	*out = (struct fab_mr){ .base = piece->mem, .len = piece->len, .rkey = (uint32_t)how << 16 | ++d->keys };
	return 0;
}

static int play_dereg(struct fab_device *dev, struct fab_mr *mr)
{
	struct device *d = container_of(dev, struct device, dev);

	cr_assert_gt(d->registered, 0);
	cr_assert_eq(mr->len, LEN);
	if (d->dereg_error)
		return d->dereg_error;
	d->registered--;
	return 0;
}

static void device_begins(struct device *d)
{
	*d = (struct device){ .dev = { .reg = play_reg, .dereg = play_dereg } };
	list_init(&d->dev.tables);
	list_add_tail(&domain.devices, &d->dev.node);
}

static void device_ends(struct device *d)
{
	fab_device_fini(&domain, &d->dev);
	list_del(&d->dev.node);
	cr_assert_eq(d->registered, 0);
}

static void begin(void)
{
	fab_domain_init(&domain);
	cr_assert_eq(fab_domain_pieces(&domain, PIECES), 0);
	device_begins(&one);
	device_begins(&two);
}

static void end(void)
{
	device_ends(&one);
	device_ends(&two);
	fab_domain_fini(&domain);
}

TestSuite(domain, .init = begin, .fini = end);

static const struct fab_mr *wants(struct device *d, int how)
{
	const struct fab_mr *mrs = NULL;

	cr_assert_eq(fab_device_pieces(&domain, &d->dev, how, &mrs, &eb), 0);
	return mrs;
}

static int add(unsigned i)
{
	return fab_domain_add(&domain, i, &(struct fab_piece){ memory[i], LEN, -1 }, &eb);
}

Test(domain, a_piece_is_on_all_devices)
{
	const struct fab_mr *a = wants(&one, 1), *b = wants(&two, 1), *c = wants(&two, 2);

	cr_assert_eq(wants(&one, 1), a, "all connections of a device have the same");
	cr_assert_eq(add(1), 0);
	cr_assert(a[1].base == memory[1] && b[1].base == memory[1] && c[1].base == memory[1]);
	cr_assert_neq(b[1].rkey, c[1].rkey);
	cr_assert_eq(a[0].len + a[2].len, 0);
	cr_assert_eq(one.registered, 1);
	cr_assert_eq(two.registered, 2);
	cr_assert(fab_domain_remove(&domain, 1));
	cr_assert_eq(one.registered + two.registered, 0);
	cr_assert_eq(a[1].len, 0);
}

/* Nobody uses it yet: no connection there wants pieces. */
Test(domain, a_device_that_comes_later_has_all)
{
	const struct fab_mr *mrs;

	cr_assert_eq(add(0), 0);
	cr_assert_eq(add(2), 0);
	cr_assert_eq(one.registered, 0);
	mrs = wants(&one, 1);
	cr_assert(mrs[0].base == memory[0] && mrs[2].base == memory[2]);
	cr_assert_eq(mrs[1].len, 0);
	cr_assert_eq(one.registered, 2);
}

Test(domain, a_device_that_comes_later_cannot)
{
	const struct fab_mr *mrs = NULL;

	cr_assert_eq(add(0), 0);
	cr_assert_eq(add(1), 0);
	one.reg_error = -ENOMEM;
	one.after = 1;
	cr_assert_eq(fab_device_pieces(&domain, &one.dev, 1, &mrs, &eb), -ENOMEM);
	cr_assert_str_eq(eb.text, "played");
	cr_assert_eq(one.registered, 0, "it keeps none of them");
	/* With fewer it can. */
	cr_assert(fab_domain_remove(&domain, 1));
	one.after = 1;
	cr_assert_eq(wants(&one, 1)[0].base, memory[0]);
}

/* A program's dma-buf keeps nobody from a path whose device does not take it. */
Test(domain, a_device_that_comes_later_lacks_a_dmabuf)
{
	const struct fab_mr *mrs;

	cr_assert_eq(fab_domain_add(&domain, 1, &(struct fab_piece){ memory[1], LEN, 7 }, &eb), 0);
	one.reg_error = -EOPNOTSUPP;
	mrs = wants(&one, 1);
	cr_assert_eq(mrs[1].len, 0);
	one.reg_error = 0;
	cr_assert_eq(add(2), 0);
	cr_assert_eq(mrs[2].base, memory[2]);
	cr_assert_eq(wants(&two, 1)[1].base, memory[1], "another device takes it");
	cr_assert(fab_domain_remove(&domain, 1));
	cr_assert_eq(one.registered, 1);
	cr_assert_eq(two.registered, 1);
}

Test(domain, the_second_device_refuses)
{
	const struct fab_mr *a = wants(&one, 1), *b = wants(&two, 1);

	cr_assert_eq(add(0), 0);
	two.reg_error = -ENOMEM;
	cr_assert_eq(add(1), -ENOMEM);
	cr_assert_str_eq(eb.text, "played");
	cr_assert_eq(one.registered, 1);
	cr_assert_eq(two.registered, 1);
	cr_assert_eq(a[1].len + b[1].len, 0);
	two.reg_error = 0;
	cr_assert_eq(wants(&one, 2)[1].len, 0, "nor does it come with others");
	cr_assert_eq(add(1), 0);
}

/* A window of a connection that is about to go still refers to it. */
Test(domain, a_device_cannot_end_it_yet)
{
	const struct fab_mr *a = wants(&one, 1), *b = wants(&two, 1);

	cr_assert_eq(add(1), 0);
	two.dereg_error = -EBUSY;
	cr_assert_not(fab_domain_remove(&domain, 1));
	cr_assert_eq(one.registered, 0);
	cr_assert_eq(two.registered, 1);
	cr_assert_eq(wants(&one, 2)[1].len, 0, "nobody gets it any more");
	cr_assert_not(fab_domain_remove(&domain, 1));
	two.dereg_error = 0;
	cr_assert(fab_domain_remove(&domain, 1));
	cr_assert_eq(two.registered, 0);
	cr_assert_eq(a[1].len + b[1].len, 0);
}

/* The last connection of a device has ended, and a piece is there. */
Test(domain, a_device_ends)
{
	wants(&one, 1);
	wants(&two, 1);
	cr_assert_eq(add(0), 0);
	device_ends(&one);
	cr_assert(fab_domain_remove(&domain, 0));
	device_begins(&one);
}
