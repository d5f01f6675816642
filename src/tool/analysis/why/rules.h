/* SPDX-License-Identifier: MIT
 *
 * The rules of `sonde why`. Each rule reads the facts and adds findings that they prove. A wrong
 * finding is worse than none, so the limits below are conservative.
 */
#ifndef SONDE_ANALYSIS_WHY_RULES_H
#define SONDE_ANALYSIS_WHY_RULES_H

#include "analysis/why/facts.h"

/* All limits, with the reason. X(name, value, reason) */
#define WHY_LIMIT_TABLE(X)                                                                         \
  X(HOT_SHARE, 0.5, "a function with less than half of the time is not the one to change")         \
  X(NOTE_CPU_NS, 0.1e9, "ten samples at 99 Hz: fewer do not name a function")                      \
  X(BUSY_SHARE, 0.5, "a thread that spins uses at least half of a CPU, even on a full machine")    \
  X(BUSY_NS, 0.1e9, "adaptive locks spin for less than a millisecond")                             \
  X(SPIN_SHARE, 0.6, "a busy server spends most of its CPU time outside of poll")                  \
  X(DEADLOCK_NS, 0.25e9, "longer than any hand-over of a lock that was seen on a full machine")    \
  X(CONVOY_SHARE, 0.4, "locks of healthy servers cost their threads a few percent of the time")    \
  X(CONVOY_NS, 0.2e9, "start-up may be serialized for some milliseconds")                          \
  X(HELD_NS, 60e6, "three looks at 50 Hz that found the same owner in the same call")              \
  X(CONVOY_WAITERS, 2, "a single waiting thread is an order of work, not a crowd")                 \
  X(STALL_NS, 0.1e9, "people notice a delay of 100 ms")                                            \
  X(GROWTH_BYTES, 1e6, "less is the working memory of a small program")                            \
  X(NOTE_KEPT, 1e6, "less is not worth a sentence")                                                \
  X(GROWTH_STEPS, 0.75, "share of the recording's steps in which a leak grows; a load phase ends") \
  X(GROWTH_SHARE, 0.5, "the culprit allocated at least half of what was added")                    \
  X(GROWTH_BLOCKS, 4, "fewer blocks are buffers that grow, not things that are kept")              \
  X(GROWTH_KEPT, 0.05, "of what is allocated, even a rare leak keeps a twentieth; less must rise") \
  X(GROWTH_NS, 0.3e9, "a shorter program is still starting")                                       \
  X(TEMPORARY_SHARE, 0.5, "half of all allocations are freed by the next call")                    \
  X(TEMPORARY_CPU, 0.25, "the allocator uses a quarter of the CPU time; else it does not matter")  \
  X(SHORT_LIVED, 1e6, "so many allocations take 50 ms of CPU time at least")                       \
  X(TURNOVER, 100, "what is kept or filled slowly is allocated a few times, not a hundred times")  \
  X(COST_NS, 0.2e9, "less is not worth a change")                                                  \
  X(THROW_SHARE, 0.4, "exceptions are for what is rare")                                           \
  X(COPY_SHARE, 0.5, "most of the CPU time")                                                       \
  X(COPY_BYTES, 256e6, "copies of less take less than a tenth of a second")                        \
  X(DISK_SHARE, 0.4, "programs that work wait a few percent of their time for the disk")           \
  X(DISK_NS, 0.1e9, "less is not worth a change")                                                  \
  X(DISK_SAMPLES, 8, "fewer do not show that most waits are the same")                             \
  X(QUEUE_SHARE, 0.1, "on a machine with free CPUs, a thread gets one at once")                    \
  X(QUEUED_SHARE, 0.75, "two busy programs share a processor by halves; this one gets a quarter")  \
  X(QUEUED_NS, 4e9, "a machine may be busy for some seconds")                                      \
  X(CROWD_SHARE, 0.7, "the program itself keeps a processor busy")                                 \
  X(STARVED_SHARE, 0.5, "a writer waits for the readers that are there, not for half of the run")  \
  X(STARVED_NS, 0.5e9, "readers hold a lock for some milliseconds")                                \
  X(GROUP_RATE, 4000, "wake-ups of all threads at one place that use a good part of a CPU")        \
  X(GROUP_SLEEP_NS, 5e6, "an interval that a user or a protocol notices is longer")                \
  X(WAKEUPS_RATE, 1000, "fewer wake-ups use little of a CPU")                                      \
  X(SLEEP_NS, 200e3,                                                                               \
    "work is seldom paced by sleeps of less than 200 µs; a timer of 1 ms is not rare")             \
  X(TIMER_SHARE, 0.7, "the thread waits for time, not for others")                                 \
  X(WAKEUP_NS, 50e3, "with more work for each wake-up, the work is the cost and not the wake-up")  \
  X(KIND_SHARE, 0.75, "the others may be opened and closed")                                       \
  X(DESCRIPTORS_LEAST, 24, "a pool of connections has some tens")                                  \
  X(SAMPLED_SHARE, 0.8, "a few samples do not distinguish two functions that open descriptors")    \
  X(RSS_BYTES, 8e6, "the first use of libraries and of the heap takes some megabytes")             \
  X(FRAGMENTED_BYTES, 8e6, "an allocator keeps some megabytes for the next allocation")            \
  X(FRAGMENTED_SHARE, 0.4, "allocators return memory at the top of the heap, not the rest")        \
  X(FRAGMENTED_STEADY, 1.5, "a heap that shrinks further is being freed")                          \
  X(THROTTLED_SHARE, 0.2, "short bursts may be throttled in a healthy program")                    \
  X(ZOMBIES_LEAST, 8, "a shell collects some children late")                                       \
  X(TRY_SHARE, 0.15, "one of the three calls of a try to connect, with a margin")                  \
  X(ATOMIC_SHARE, 0.25, "an atomic load is one instruction of two or three in such a loop")        \
  X(IDLE_SHARE, 0.05, "a program that uses a twentieth of a CPU works")                            \
  X(IDLE_LASTED, 0.5, "the wait is half of what was observed")                                     \
  X(LOST_SHARE, 0.05, "a twentieth of the time or the events missing changes what a report says")

#define WHY_LIMIT(name, value, reason)                                                             \
  __attribute__((unused)) static const double WHY_##name = (value);
WHY_LIMIT_TABLE(WHY_LIMIT)
#undef WHY_LIMIT

typedef void why_rule_t(why_t *why, findings_list_t *out);

/* One function for each file of rules. */
void why_crash_rules(why_t *why, findings_list_t *out);
void why_lock_rules(why_t *why, findings_list_t *out);
void why_cpu_rules(why_t *why, findings_list_t *out);
void why_cost_rules(why_t *why, findings_list_t *out);
void why_disk_rules(why_t *why, findings_list_t *out);
void why_thread_rules(why_t *why, findings_list_t *out);
void why_wakeup_rules(why_t *why, findings_list_t *out);
void why_stall_rules(why_t *why, findings_list_t *out);
void why_memory_rules(why_t *why, findings_list_t *out);
void why_resource_rules(why_t *why, findings_list_t *out);
void why_call_rules(why_t *why, findings_list_t *out);
void why_blocked_rules(why_t *why, findings_list_t *out);
void why_recording_rules(why_t *why, findings_list_t *out);

/* Applies all rules and ranks the findings. */
void why_find(why_t *why, findings_list_t *out);

/* ---- texts -------------------------------------------------------------------------------- */

/* "1.25 s", "310 ms"; "12.3 MB". Return OUT. */
#define WHY_AMOUNT_MAX 24
char *why_seconds(double ns, char out[WHY_AMOUNT_MAX]);
char *why_bytes(double bytes, char out[WHY_AMOUNT_MAX]);

/* Formats a text of a finding: WHY_SAY(finding.what, "…", …). */
#define WHY_SAY(field, ...) ((void)snprintf((field), sizeof(field), __VA_ARGS__))

#endif
