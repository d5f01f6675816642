/* SPDX-License-Identifier: MIT */
#include "sensor/stall/rules.h"

#define MS                UINT64_C(1000000)
#define TICKS_A_THRESHOLD 10
#define TICK_MIN_NS       (4 * MS)
#define TICK_MAX_NS       (100 * MS)
#define SAMPLE_MAX_NS     (1000 * MS)
#define LATE_MIN_NS       (20 * MS)
/* The kernel's delay in booking CPU time. */
#define BOOKING_NS (10 * MS)

stall_rules_t stall_rules_for(uint64_t threshold_ns) {
  uint64_t tick = threshold_ns / TICKS_A_THRESHOLD;
  tick = tick < TICK_MIN_NS ? TICK_MIN_NS : tick > TICK_MAX_NS ? TICK_MAX_NS : tick;
  return (stall_rules_t){.threshold_ns = threshold_ns, .tick_ns = tick};
}

static uint64_t minus(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

static bool is_stopped(const stall_poll_t *poll) {
  return poll->state == 'T' || poll->state == 't' || poll->frozen;
}

static bool is_late(const stall_rules_t *rules, uint64_t late_ns) {
  return late_ns > rules->threshold_ns / 4 && late_ns > LATE_MIN_NS;
}

/* Attributes the time since the previous poll. */
static void account(stall_iteration_t *t, const stall_rules_t *rules, const stall_poll_t *poll) {
  uint64_t passed = minus(poll->now_ns, t->last.now_ns);
  uint64_t ran = minus(poll->run_ns, t->last.run_ns);
  uint64_t idle = minus(passed, ran);
  if (is_stopped(poll) || is_stopped(&t->last))
    t->stopped_ns += idle;
  else if (is_late(rules, poll->late_ns))
    t->late_ns += idle < poll->late_ns ? idle : poll->late_ns;
  else if (poll->state == 'R' && t->last.state == 'R')
    t->ready_ns += (int64_t)passed - (int64_t)ran;
}

/* The state before the first poll is unknown; up to one tick of it is normal. */
static void account_first(stall_iteration_t *t, const stall_rules_t *rules,
                          const stall_poll_t *poll) {
  uint64_t unseen = minus(minus(poll->now_ns, t->began_ns), rules->tick_ns);
  if (is_late(rules, unseen)) t->late_ns = unseen;
  t->first = *poll;
}

uint64_t stall_iteration_runq_wait_ns(const stall_iteration_t *t) {
  uint64_t ready = t->ready_ns > 0 ? (uint64_t)t->ready_ns : 0;
  uint64_t booked = minus(t->last.runq_ns, t->first.runq_ns);
  uint64_t seen = ready > minus(booked, t->late_ns) ? ready : minus(booked, t->late_ns);
  uint64_t age = minus(t->last.now_ns, t->began_ns + t->stopped_ns + t->late_ns);
  return seen > BOOKING_NS && seen > age / 10 ? seen : 0;
}

uint64_t stall_iteration_active_ns(const stall_iteration_t *t, uint64_t now_ns) {
  return minus(minus(now_ns, t->began_ns),
               t->stopped_ns + t->late_ns + stall_iteration_runq_wait_ns(t));
}

/* Often near the threshold, less and less often later. */
static uint64_t sample_interval(const stall_iteration_t *t, const stall_rules_t *rules) {
  uint64_t age = stall_iteration_active_ns(t, t->last.now_ns);
  if (age < 2 * t->threshold_ns) return rules->tick_ns * 3 / 4;
  uint64_t interval = age / 20;
  return interval < rules->tick_ns  ? rules->tick_ns
         : interval > SAMPLE_MAX_NS ? SAMPLE_MAX_NS
                                    : interval;
}

unsigned stall_iteration_poll(stall_iteration_t *t, const stall_rules_t *rules,
                              const stall_poll_t *poll) {
  unsigned todo = 0;
  if (t->polled)
    account(t, rules, poll);
  else
    account_first(t, rules, poll);
  t->polled = true;
  t->last = *poll;
  if (is_stopped(poll)) return 0;
  if (poll->now_ns >= t->next_sample_ns) {
    t->next_sample_ns = poll->now_ns + sample_interval(t, rules);
    t->samples++;
    todo |= STALL_DO_SAMPLE;
  }
  if (!t->reported && stall_iteration_active_ns(t, poll->now_ns) >= t->threshold_ns) {
    t->reported = true;
    todo |= STALL_DO_REPORT;
  }
  return todo;
}

uint64_t stall_iteration_next_poll_ns(const stall_iteration_t *t, const stall_rules_t *rules,
                                      uint64_t now_ns) {
  uint64_t next = now_ns + rules->tick_ns;
  if (t->reported) return next;
  uint64_t active = stall_iteration_active_ns(t, now_ns);
  uint64_t due = now_ns + minus(t->threshold_ns, active) + MS / 4;
  return due < next ? due : next;
}
