/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Intrusive doubly linked list. A `struct list` is both head and node. An unlinked node
 * points to itself, so list_del() on it does nothing, and list_empty() tells whether a node
 * is on a list.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct list {
	struct list *next, *prev;
};

#define container_of(ptr, type, member) \
	((type *)(void *)((char *)(ptr) - offsetof(type, member)))

static inline void list_init(struct list *l)
{
	l->next = l->prev = l;
}

static inline bool list_empty(const struct list *l)
{
	return l->next == l;
}

/* Inserts n before `at`. If `at` is a head, that is the list's tail. */
static inline void list_add_before(struct list *at, struct list *n)
{
	n->prev = at->prev;
	n->next = at;
	at->prev->next = n;
	at->prev = n;
}

static inline void list_add_tail(struct list *head, struct list *n)
{
	list_add_before(head, n);
}

static inline void list_add_head(struct list *head, struct list *n)
{
	list_add_before(head->next, n);
}

/* Takes n off its list and leaves it unlinked. */
static inline void list_del(struct list *n)
{
	n->prev->next = n->next;
	n->next->prev = n->prev;
	list_init(n);
}

/* Takes the first node off; NULL when the list is empty. */
static inline struct list *list_pop(struct list *head)
{
	struct list *n = head->next;

	if (n == head)
		return NULL;
	list_del(n);
	return n;
}

/* Moves everything on `from` to the tail of `to`; `from` is empty afterwards. */
static inline void list_splice_tail(struct list *to, struct list *from)
{
	if (list_empty(from))
		return;
	from->next->prev = to->prev;
	to->prev->next = from->next;
	from->prev->next = to;
	to->prev = from->prev;
	list_init(from);
}

#define list_for_each(pos, head) \
	for (struct list *pos = (head)->next; pos != (head); pos = pos->next)

/* For the structs that the nodes are members of. */
#define list_for_each_entry(type, pos, head, member) \
	for (type *pos = container_of((head)->next, type, member); &pos->member != (head); \
	     pos = container_of(pos->member.next, type, member))

/* As list_for_each, but pos may be taken off its list inside the loop. */
#define list_for_each_safe(pos, tmp, head) \
	for (struct list *pos = (head)->next, *tmp = pos->next; \
	     pos != (head); pos = tmp, tmp = pos->next)

#define list_for_each_entry_safe(type, pos, tmp, head, member) \
	for (type *pos = container_of((head)->next, type, member), \
		  *tmp = container_of(pos->member.next, type, member); \
	     &pos->member != (head); pos = tmp, tmp = container_of(pos->member.next, type, member))
