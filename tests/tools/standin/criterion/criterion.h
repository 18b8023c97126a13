/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the tests use of Criterion's interface, for builds with sanitizers only: Criterion maps
 * memory at addresses that ThreadSanitizer reserves, so its programs end before the first test.
 * Under AddressSanitizer each of its tests takes 50 ms: it executes the program anew, whose
 * libraries load 140 certificates. Here each test runs in a forked process.
 */
#pragma once

/* Comparisons are as lax as Criterion's own. */
#pragma GCC system_header

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct standin_opts {
	void (*init)(void);
	void (*fini)(void);
	double timeout;                 /* seconds; 0: a generous default */
	int signal;                     /* that the test has to die of */
	int exit_code;                  /* that it has to end with */
	bool disabled;
	const char *description;
};

struct standin_test {
	struct standin_test *next;
	const char *suite, *name;
	void (*fn)(void);               /* NULL: the suite's own entry */
	struct standin_opts opts;
};

void standin_register(struct standin_test *t);
/* Counts a failure of the running test; fmt may be NULL. */
void standin_failed(const char *file, int line, const char *what, const char *fmt, ...);
void standin_skip(const char *fmt, ...) __attribute__((noreturn));
void standin_end(void) __attribute__((noreturn));

#define STANDIN_REGISTER_(var, suite_, name_, fn_, ...) \
	static struct standin_test var = { \
		.suite = #suite_, .name = name_, .fn = fn_, .opts = { __VA_ARGS__ }, \
	}; \
	static void __attribute__((constructor)) var##_register(void) { standin_register(&var); }

#define Test(suite, name, ...) \
	static void suite##_##name##_test(void); \
	STANDIN_REGISTER_(suite##_##name##_entry, suite, #name, suite##_##name##_test, __VA_ARGS__) \
	static void suite##_##name##_test(void)
#define TestSuite(suite, ...) \
	STANDIN_REGISTER_(suite##_suite_entry, suite, NULL, NULL, __VA_ARGS__) \
	struct standin_test

#define STANDIN_CHECK_(fatal, what, cond, ...) \
	do { \
		if (!(cond)) { \
			standin_failed(__FILE__, __LINE__, what, ##__VA_ARGS__, (char *)NULL); \
			if (fatal) \
				standin_end(); \
		} \
	} while (0)

#define cr_assert(c, ...)             STANDIN_CHECK_(1, #c, (c), ##__VA_ARGS__)
#define cr_assert_not(c, ...)         STANDIN_CHECK_(1, "not " #c, !(c), ##__VA_ARGS__)
#define cr_assert_null(p, ...)        STANDIN_CHECK_(1, #p " is NULL", !(p), ##__VA_ARGS__)
#define cr_assert_not_null(p, ...)    STANDIN_CHECK_(1, #p " is not NULL", (p), ##__VA_ARGS__)
#define cr_assert_eq(a, b, ...)       STANDIN_CHECK_(1, #a " == " #b, (a) == (b), ##__VA_ARGS__)
#define cr_assert_neq(a, b, ...)      STANDIN_CHECK_(1, #a " != " #b, (a) != (b), ##__VA_ARGS__)
#define cr_assert_lt(a, b, ...)       STANDIN_CHECK_(1, #a " < " #b, (a) < (b), ##__VA_ARGS__)
#define cr_assert_leq(a, b, ...)      STANDIN_CHECK_(1, #a " <= " #b, (a) <= (b), ##__VA_ARGS__)
#define cr_assert_gt(a, b, ...)       STANDIN_CHECK_(1, #a " > " #b, (a) > (b), ##__VA_ARGS__)
#define cr_assert_geq(a, b, ...)      STANDIN_CHECK_(1, #a " >= " #b, (a) >= (b), ##__VA_ARGS__)
#define cr_assert_str_eq(a, b, ...)   STANDIN_CHECK_(1, #a " equals " #b, !strcmp(a, b), ##__VA_ARGS__)
#define cr_assert_str_neq(a, b, ...)  STANDIN_CHECK_(1, #a " differs from " #b, strcmp(a, b), ##__VA_ARGS__)
#define cr_assert_arr_eq(a, b, n, ...) \
	STANDIN_CHECK_(1, #a " equals " #b, !memcmp(a, b, n), ##__VA_ARGS__)
#define cr_assert_fail(...)           STANDIN_CHECK_(1, "fail", 0, ##__VA_ARGS__)

#define cr_expect(c, ...)             STANDIN_CHECK_(0, #c, (c), ##__VA_ARGS__)
#define cr_expect_not(c, ...)         STANDIN_CHECK_(0, "not " #c, !(c), ##__VA_ARGS__)
#define cr_expect_null(p, ...)        STANDIN_CHECK_(0, #p " is NULL", !(p), ##__VA_ARGS__)
#define cr_expect_not_null(p, ...)    STANDIN_CHECK_(0, #p " is not NULL", (p), ##__VA_ARGS__)
#define cr_expect_eq(a, b, ...)       STANDIN_CHECK_(0, #a " == " #b, (a) == (b), ##__VA_ARGS__)
#define cr_expect_neq(a, b, ...)      STANDIN_CHECK_(0, #a " != " #b, (a) != (b), ##__VA_ARGS__)
#define cr_expect_lt(a, b, ...)       STANDIN_CHECK_(0, #a " < " #b, (a) < (b), ##__VA_ARGS__)
#define cr_expect_leq(a, b, ...)      STANDIN_CHECK_(0, #a " <= " #b, (a) <= (b), ##__VA_ARGS__)
#define cr_expect_gt(a, b, ...)       STANDIN_CHECK_(0, #a " > " #b, (a) > (b), ##__VA_ARGS__)
#define cr_expect_geq(a, b, ...)      STANDIN_CHECK_(0, #a " >= " #b, (a) >= (b), ##__VA_ARGS__)
#define cr_expect_str_eq(a, b, ...)   STANDIN_CHECK_(0, #a " equals " #b, !strcmp(a, b), ##__VA_ARGS__)
#define cr_expect_str_neq(a, b, ...)  STANDIN_CHECK_(0, #a " differs from " #b, strcmp(a, b), ##__VA_ARGS__)
#define cr_expect_arr_eq(a, b, n, ...) \
	STANDIN_CHECK_(0, #a " equals " #b, !memcmp(a, b, n), ##__VA_ARGS__)
#define cr_expect_fail(...)           STANDIN_CHECK_(0, "fail", 0, ##__VA_ARGS__)

#define cr_log_info(...)              fprintf(stderr, __VA_ARGS__)
#define cr_skip_test(...)             standin_skip("" __VA_ARGS__)
#define cr_skip(...)                  standin_skip("" __VA_ARGS__)
