/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the tests use of Criterion's interface, for the ThreadSanitizer build
 * only: Criterion maps memory at addresses that ThreadSanitizer reserves, so
 * its programs end before the first test. Each test runs in a forked process.
 */
#pragma once

/* Comparisons are as lax as Criterion's own. */
#pragma GCC system_header

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tsan_opts {
	void (*init)(void);
	void (*fini)(void);
	double timeout;                 /* seconds; 0: a generous default */
	int signal;                     /* that the test has to die of */
	int exit_code;                  /* that it has to end with */
	bool disabled;
	const char *description;
};

struct tsan_test {
	struct tsan_test *next;
	const char *suite, *name;
	void (*fn)(void);               /* NULL: the suite's own entry */
	struct tsan_opts opts;
};

void tsan_register(struct tsan_test *t);
/* Counts a failure of the running test; fmt may be NULL. */
void tsan_failed(const char *file, int line, const char *what, const char *fmt, ...);
void tsan_skip(const char *fmt, ...) __attribute__((noreturn));
void tsan_end(void) __attribute__((noreturn));

#define TSAN_REGISTER_(var, suite_, name_, fn_, ...) \
	static struct tsan_test var = { \
		.suite = #suite_, .name = name_, .fn = fn_, .opts = { __VA_ARGS__ }, \
	}; \
	static void __attribute__((constructor)) var##_register(void) { tsan_register(&var); }

#define Test(suite, name, ...) \
	static void suite##_##name##_test(void); \
	TSAN_REGISTER_(suite##_##name##_entry, suite, #name, suite##_##name##_test, __VA_ARGS__) \
	static void suite##_##name##_test(void)
#define TestSuite(suite, ...) \
	TSAN_REGISTER_(suite##_suite_entry, suite, NULL, NULL, __VA_ARGS__) \
	struct tsan_test

#define TSAN_CHECK_(fatal, what, cond, ...) \
	do { \
		if (!(cond)) { \
			tsan_failed(__FILE__, __LINE__, what, ##__VA_ARGS__, (char *)NULL); \
			if (fatal) \
				tsan_end(); \
		} \
	} while (0)

#define cr_assert(c, ...)             TSAN_CHECK_(1, #c, (c), ##__VA_ARGS__)
#define cr_assert_not(c, ...)         TSAN_CHECK_(1, "not " #c, !(c), ##__VA_ARGS__)
#define cr_assert_null(p, ...)        TSAN_CHECK_(1, #p " is NULL", !(p), ##__VA_ARGS__)
#define cr_assert_not_null(p, ...)    TSAN_CHECK_(1, #p " is not NULL", (p), ##__VA_ARGS__)
#define cr_assert_eq(a, b, ...)       TSAN_CHECK_(1, #a " == " #b, (a) == (b), ##__VA_ARGS__)
#define cr_assert_neq(a, b, ...)      TSAN_CHECK_(1, #a " != " #b, (a) != (b), ##__VA_ARGS__)
#define cr_assert_lt(a, b, ...)       TSAN_CHECK_(1, #a " < " #b, (a) < (b), ##__VA_ARGS__)
#define cr_assert_leq(a, b, ...)      TSAN_CHECK_(1, #a " <= " #b, (a) <= (b), ##__VA_ARGS__)
#define cr_assert_gt(a, b, ...)       TSAN_CHECK_(1, #a " > " #b, (a) > (b), ##__VA_ARGS__)
#define cr_assert_geq(a, b, ...)      TSAN_CHECK_(1, #a " >= " #b, (a) >= (b), ##__VA_ARGS__)
#define cr_assert_str_eq(a, b, ...)   TSAN_CHECK_(1, #a " equals " #b, !strcmp(a, b), ##__VA_ARGS__)
#define cr_assert_str_neq(a, b, ...)  TSAN_CHECK_(1, #a " differs from " #b, strcmp(a, b), ##__VA_ARGS__)
#define cr_assert_arr_eq(a, b, n, ...) \
	TSAN_CHECK_(1, #a " equals " #b, !memcmp(a, b, n), ##__VA_ARGS__)
#define cr_assert_fail(...)           TSAN_CHECK_(1, "fail", 0, ##__VA_ARGS__)

#define cr_expect(c, ...)             TSAN_CHECK_(0, #c, (c), ##__VA_ARGS__)
#define cr_expect_not(c, ...)         TSAN_CHECK_(0, "not " #c, !(c), ##__VA_ARGS__)
#define cr_expect_null(p, ...)        TSAN_CHECK_(0, #p " is NULL", !(p), ##__VA_ARGS__)
#define cr_expect_not_null(p, ...)    TSAN_CHECK_(0, #p " is not NULL", (p), ##__VA_ARGS__)
#define cr_expect_eq(a, b, ...)       TSAN_CHECK_(0, #a " == " #b, (a) == (b), ##__VA_ARGS__)
#define cr_expect_neq(a, b, ...)      TSAN_CHECK_(0, #a " != " #b, (a) != (b), ##__VA_ARGS__)
#define cr_expect_lt(a, b, ...)       TSAN_CHECK_(0, #a " < " #b, (a) < (b), ##__VA_ARGS__)
#define cr_expect_leq(a, b, ...)      TSAN_CHECK_(0, #a " <= " #b, (a) <= (b), ##__VA_ARGS__)
#define cr_expect_gt(a, b, ...)       TSAN_CHECK_(0, #a " > " #b, (a) > (b), ##__VA_ARGS__)
#define cr_expect_geq(a, b, ...)      TSAN_CHECK_(0, #a " >= " #b, (a) >= (b), ##__VA_ARGS__)
#define cr_expect_str_eq(a, b, ...)   TSAN_CHECK_(0, #a " equals " #b, !strcmp(a, b), ##__VA_ARGS__)
#define cr_expect_str_neq(a, b, ...)  TSAN_CHECK_(0, #a " differs from " #b, strcmp(a, b), ##__VA_ARGS__)
#define cr_expect_arr_eq(a, b, n, ...) \
	TSAN_CHECK_(0, #a " equals " #b, !memcmp(a, b, n), ##__VA_ARGS__)
#define cr_expect_fail(...)           TSAN_CHECK_(0, "fail", 0, ##__VA_ARGS__)

#define cr_log_info(...)              fprintf(stderr, __VA_ARGS__)
#define cr_skip_test(...)             tsan_skip("" __VA_ARGS__)
#define cr_skip(...)                  tsan_skip("" __VA_ARGS__)
