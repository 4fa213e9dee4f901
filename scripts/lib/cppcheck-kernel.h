/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The kernel's macros that change the shape of a statement, for cppcheck, which
 * reads our files without the kernel's headers.
 */
#define list_for_each(pos, head) for ((pos) = (head)->next; (pos) != (head); (pos) = (pos)->next)
#define list_for_each_entry(pos, head, member)                                          \
	for ((pos) = first_of(head); (pos); (pos) = next_of(pos))
#define list_for_each_entry_safe(pos, next, head, member)                               \
	for ((pos) = first_of(head), (next) = next_of(pos); (pos); (pos) = (next))
#define list_for_each_entry_srcu(pos, head, member, cond)                               \
	for ((pos) = first_of(head); (pos); (pos) = next_of(pos))
#define DECLARE_EVENT_CLASS(name, ...)
#define DEFINE_EVENT(name, ...)
#define TRACE_EVENT(name, ...)
