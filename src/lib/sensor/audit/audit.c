/* SPDX-License-Identifier: MIT
 *
 * A call's record is built at its final place in the chunk, after a first byte that is still 0. A
 * reader sees no record until that byte is written, and a repetition is erased again.
 */
#include "sensor/audit/audit.h"

#include "base/siphash.h"
#include "base/text.h"
#include "base/varint.h"
#include "os/os.h"
#include "sensor/audit/memory.h"

/* Records of the open chunk that may be repeated; a power of two. */
#define PLACES 64u
/* Stacks whose truncated form is known; a power of two. */
#define STACKS       64u
#define VERDICTS     32u
#define VERDICT_TEXT 40u
/* The size of struct sockaddr_un, the largest that is recorded. */
#define ADDRESS_MAX 110u
#define STRINGS_MAX AUDIT_TEXT_MAX
/* Offset of the first text argument while the record is built: after everything that may precede
 * it. */
#define TEXT_ASIDE (1 + VARINT_MAX_SIZE + 3 + (2 + AUDIT_ARGUMENTS) * VARINT_MAX_SIZE)
#define BODY_MAX   (2 * VARINT_MAX_SIZE + AUDIT_ARGUMENTS * (AUDIT_TEXT_MAX + 2u) + 1)
#define RECORD_MAX (TEXT_ASIDE + BODY_MAX + EVENT_MAX_BYTES)

/* A cached decision about a text. Indexed by hash; the text itself is compared. */
typedef struct verdict {
  uint32_t function; /* its number + 1, and the policy's; 0: empty */
  uint16_t size;
  bool wanted;
  char text[VERDICT_TEXT];
} verdict_t;

/* A record of the open chunk; offsets from the start of the chunk. */
typedef struct repeatable {
  uint64_t open_time;    /* of the chunk, which a forked child's first one has not; 0: empty */
  uint32_t record, body; /* a chunk may be larger than 64 KB */
  uint16_t size, policy;
} repeatable_t;

/* A stack and its innermost frames, as the policy limits them. */
typedef struct shortened {
  uint32_t stack, shorter; /* STACK 0: empty */
  uint32_t policy;
} shortened_t;

typedef struct level {
  shortened_t stacks[STACKS];
  verdict_t verdicts[VERDICTS];
  repeatable_t places[PLACES];
  audit_page_t pages[AUDIT_PAGES];
} level_t;

struct audit_thread {
  level_t levels[WRITER_LEVELS];
  shm_audited_t *shared; /* NULL: none is free, or system calls are not watched */
};

static const audit_policy_t *policy;
static uint16_t policy_number; /* cached decisions of other policies are ignored */

/* Of hashed arguments. */
static uint64_t key[2];
static bool has_key;

/* A call while its record is built. */
typedef struct audited_call {
  const audit_function_t *function;
  const uint64_t *arguments;
  audit_memory_t memory;
  level_t *level;
  const uint8_t *text; /* the first text argument, copied; NULL: not yet */
  uint32_t text_size;
} audited_call_t;

/* ---- arguments ------------------------------------------------------------------------------- */

/* Copies the string argument I. If the function itself reads it, it is readable. */
static uint32_t copy_text(const audited_call_t *c, uint8_t *out, int i) {
  bool known = audit_plain(c->function->arguments[i]) == AUDIT_TEXT;
  return audit_copy_text(&c->memory, out, c->arguments[i], AUDIT_TEXT_MAX, known);
}

/* A string's length, in the two bytes a varint of up to 14 bits may take. */
static void put_size(uint8_t *at, uint32_t size) {
  uint32_t coded = size << 2 | 2;
  at[0] = (uint8_t)coded;
  at[1] = (uint8_t)(coded >> 8);
}

static uint8_t *put_text(const audited_call_t *c, uint8_t *q, int i) {
  uint32_t n = c->text_size;
  if (c->text && i == c->function->text)
    memmove(q + 2, c->text, n);
  else
    n = copy_text(c, q + 2, i);
  put_size(q, n);
  return q + 2 + n;
}

/* A struct sockaddr as it is; its size is in the next argument. */
static uint8_t *put_address(const audited_call_t *c, uint8_t *q, int i) {
  uint64_t address = c->arguments[i], size = i + 1 < AUDIT_ARGUMENTS ? c->arguments[i + 1] : 0;
  uint32_t n = (uint32_t)size < ADDRESS_MAX ? (uint32_t)size : ADDRESS_MAX;
  n = audit_copy(&c->memory, q + 2, address, n);
  put_size(q, n);
  return q + 2 + n;
}

/* Strings, each ended by a 0, as many as fit. */
static uint8_t *put_strings(const audited_call_t *c, uint8_t *q, uint64_t array) {
  uint32_t n = 0;
  uint64_t string;
  while (n + 1 < STRINGS_MAX && audit_copy(&c->memory, &string, array, 8) == 8 && string) {
    n += audit_copy_text(&c->memory, q + 2 + n, string, STRINGS_MAX - 1 - n, false);
    q[2 + n++] = 0;
    array += 8;
  }
  put_size(q, n);
  return q + 2 + n;
}

static uint8_t *put_plain(const audited_call_t *c, uint8_t *q, int i) {
  switch (audit_plain(c->function->arguments[i])) {
  case AUDIT_TEXT:
  case AUDIT_PATH: return put_text(c, q, i);
  case AUDIT_NUMBER:
  case AUDIT_PROCESS: return q + varint_put(q, zigzag((int32_t)c->arguments[i]));
  case AUDIT_FLAGS: return q + varint_put(q, (uint32_t)c->arguments[i]);
  case AUDIT_ADDRESS: return put_address(c, q, i);
  case AUDIT_STRINGS: return put_strings(c, q, c->arguments[i]);
  default: return q;
  }
}

/* The plain argument is erased from the chunk again. Without a key, which nobody else knows, the
 * hash is 0. */
static uint8_t *put_argument(const audited_call_t *c, uint8_t *q, int i) {
  uint8_t *end = put_plain(c, q, i);
  if (!audit_is_hashed(c->function->arguments[i])) return end;
  uint64_t hash = has_key ? siphash(key, q + 2, (size_t)(end - q) - 2) : 0;
  memset(q, 0, (size_t)(end - q));
  return q + varint_put(q, hash);
}

/* ---- matching -------------------------------------------------------------------------------- */

static uint32_t hash_of(const void *data, uint32_t size, uint32_t seed) {
  const uint8_t *p = data;
  uint64_t hash = seed, word = 0;
  for (; size >= 8; p += 8, size -= 8) {
    memcpy(&word, p, 8);
    hash = checksum_mix(hash, word);
  }
  for (word = 0; size; p++, size--)
    word = word << 8 | *p;
  return (uint32_t)checksum_mix(hash, word);
}

static bool evaluate(const audit_function_t *f, const char *text, uint32_t size) {
  char ended[AUDIT_TEXT_SIZE];
  memcpy(ended, text, size);
  ended[size] = 0;
  if (text_after(ended, "/proc/")) audit_own_path(ended, (uint64_t)os_pid());
  return audit_wants(policy, f, ended);
}

static bool wanted(level_t *level, uint32_t number, const audit_function_t *f, const uint8_t *text,
                   uint32_t size) {
  if (size > VERDICT_TEXT) return evaluate(f, (const char *)text, size);
  verdict_t *v = &level->verdicts[hash_of(text, size, number) % VERDICTS];
  uint32_t function = (uint32_t)policy_number << 16 | (number + 1);
  if (v->function == function && v->size == size && !memcmp(v->text, text, size)) return v->wanted;
  v->function = function;
  v->size = (uint16_t)size;
  memcpy(v->text, text, size);
  v->wanted = evaluate(f, (const char *)text, size);
  return v->wanted;
}

static bool is_of_own_process(const audited_call_t *c) {
  for (int i = 0; i < AUDIT_ARGUMENTS; i++)
    if (c->function->arguments[i] == AUDIT_PROCESS) return (int32_t)c->arguments[i] == os_pid();
  return false;
}

/* True if the call is recorded, by its first text argument, which is copied to Q. */
static bool wants(audited_call_t *c, uint32_t number, uint8_t *q) {
  const audit_function_t *f = c->function;
  if (is_of_own_process(c)) return false;
  if (f->always) return true;
  if (f->text < AUDIT_ARGUMENTS) {
    c->text_size = copy_text(c, q, f->text);
    c->text = q;
  }
  bool is = wanted(c->level, number, f, q, c->text_size);
  if (!is) memset(q, 0, c->text_size);
  return is;
}

/* ---- calls in progress ----------------------------------------------------------------------- */

static shm_audited_t *claim_shared(shm_audit_t *audit) {
  if (!audit->watched) return NULL;
  uint32_t number = __atomic_fetch_add(&audit->used, 1u, __ATOMIC_ACQ_REL);
  shm_audited_t *claimed = number < SHM_AUDITED ? &audit->threads[number] : NULL;
  return claimed && os_populate(claimed, sizeof *claimed) ? claimed : NULL;
}

/* Reports to the watcher of system calls that function NUMBER is entered (record/shared/audit.h).
 */
static void report_entered(const writer_t *w, uint32_t number, const caller_t *at) {
  shm_audited_t *shared = w->audit->shared;
  uint32_t n = shared->tid == (uint32_t)w->tid ? shared->count : 0;
  while (n && (n > SHM_ENTERED || shared->entered[n - 1].sp <= at->sp))
    n--;
  if (n == SHM_ENTERED) n--;
  shared->entered[n] = (shm_entered_t){at->sp, at->pc, number, 0};
  shared->tid = (uint32_t)w->tid;
  shared->count = n + 1;
}

/* ---- the record ------------------------------------------------------------------------------ */

static NOINLINE bool make_thread(writer_t *w) {
  struct audit_thread *made = os_map(sizeof *made);
  if (!made || !os_wipe_on_fork(made, sizeof *made)) return false;
  made->shared = claim_shared(&w->control->audit);
  w->audit = made;
  return true;
}

static level_t *level_of(stream_t *s) {
  writer_t *w = s->writer;
  if (UNLIKELY(!w->audit) && !make_thread(w)) return NULL;
  return &w->audit->levels[s - w->events];
}

/* The record of the open chunk with the same body of SIZE bytes, or NULL; then this body is
 * remembered for repetitions. */
static const repeatable_t *repeated(stream_t *s, level_t *level, const uint8_t *body,
                                    uint32_t size) {
  const uint8_t *chunk = (const uint8_t *)s->chunk;
  repeatable_t *p = &level->places[hash_of(body, size, size) % PLACES];
  if (p->open_time == s->open_time && p->size == size && p->policy == policy_number &&
      !memcmp(chunk + p->body, body, size))
    return p;
  *p = (repeatable_t){.open_time = s->open_time,
                      .record = (uint32_t)(s->next - chunk),
                      .body = (uint32_t)(body - chunk),
                      .size = (uint16_t)size,
                      .policy = policy_number};
  return NULL;
}

static void commit_repeat(stream_t *s, uint8_t *q, const repeatable_t *place, unsigned head) {
  uint64_t back = (uint64_t)(s->next - (uint8_t *)s->chunk) - place->record;
  *q++ = EXTENDED_AUDIT_REPEAT;
  *q++ = (uint8_t)(varint_short_size(back) << 1 | 1);
  event_commit(s, q + event_varint(q, back), head);
}

/* Merged stacks cannot be shortened (capture/python/python_event.h). */
static NOINLINE uint32_t unmerged_stack(stream_t *s, caller_t at) {
  uint32_t id = 0;
  if (stack_id_with_python(&id, at.pc, at.sp, at.fp) < 0)
    add_relaxed(&s->writer->control->lost_stacks, 1);
  return id;
}

/* The stack of a call, or its innermost frames if the policy limits the depth. */
static ALWAYS_INLINE uint32_t stack_of(stream_t *s, level_t *level, caller_t at) {
  uint32_t depth = audit_depth(policy);
  if (LIKELY(!depth)) return sensor_rare_stack_id(s, at);
  uint32_t stack = unmerged_stack(s, at);
  if (!stack) return 0;
  shortened_t *known = &level->stacks[stack % STACKS];
  if (known->stack == stack && known->policy == policy_number) return known->shorter;
  *known = (shortened_t){stack, stack_id_innermost(stack, depth), policy_number};
  return known->shorter;
}

static void put_call(stream_t *s, const audited_call_t *c, uint32_t number, uint64_t time,
                     uint32_t stack) {
  unsigned head = EVENT_EXTENDED;
  uint8_t *q = event_time(s, s->next + 1, time, &head), *body = q + 3, *end = body;
  end += varint_put(end, number);
  end += varint_put(end, stack);
  for (int i = 0; i < AUDIT_ARGUMENTS; i++)
    end = put_argument(c, end, i);
  *end++ = 1; /* zeros at the end of an open chunk would be cut off */
  if (c->text && c->text + c->text_size > end)
    memset(end, 0, (size_t)(c->text + c->text_size - end));
  uint32_t size = (uint32_t)(end - body);
  const repeatable_t *place = repeated(s, c->level, body, size);
  if (place) {
    memset(body, 0, size);
    commit_repeat(s, q, place, head);
    return;
  }
  *q = EXTENDED_AUDIT;
  put_size(q + 1, size);
  event_commit(s, end, head);
}

bool audit_called(uint32_t number, const uint64_t *arguments, caller_t at) {
  stream_t *s = writer_enter(RECORD_AUDIT);
  if (!s) return false;
  if (UNLIKELY(number >= policy->function_count)) { /* of an earlier policy */
    writer_leave(s);
    return false;
  }
  audited_call_t c = {
      .function = &audit_functions(policy)[number], .arguments = arguments, .level = level_of(s)};
  if (LIKELY(c.level)) c.memory = (audit_memory_t){at.sp, c.level->pages};
  if (UNLIKELY(c.level && s->writer->audit->shared)) report_entered(s->writer, number, &at);
  if (UNLIKELY(!c.level || !writer_reserve(s, RECORD_MAX))) {
    sensor_finish(s, false);
    return false;
  }
  if (!wants(&c, number, s->next + TEXT_ASIDE)) {
    writer_leave(s);
    return false;
  }
  uint64_t time = writer_now(s->writer);
  uint32_t stack = stack_of(s, c.level, at);
  put_call(s, &c, number, time, stack);
  sensor_finish(s, true);
  return true;
}

void audit_returned(uint32_t number, int64_t result, int32_t error) {
  stream_t *s = writer_enter(RECORD_AUDIT);
  if (!s) return;
  if (UNLIKELY(!writer_reserve(s, EVENT_MAX_BYTES + 4 * VARINT_MAX_SIZE))) {
    sensor_finish(s, false);
    return;
  }
  unsigned head = EVENT_EXTENDED;
  uint8_t *q = event_time(s, s->next + 1, writer_now(s->writer), &head), *body = q + 2, *end = body;
  end += varint_put(end, number);
  end += varint_put(end, (uint64_t)(result + 1));
  end += varint_put(end, (uint32_t)error);
  *q = EXTENDED_AUDIT_RESULT;
  q[1] = (uint8_t)((end - body) << 1 | 1); /* varint_put writes eight bytes */
  event_commit(s, end, head);
  sensor_finish(s, true);
}

#if defined(__APPLE__)
void audit_called_by(uint64_t number, uint64_t arguments, uint64_t at, uint64_t none) {
  (void)none;
  (void)audit_called((uint32_t)number, (const uint64_t *)(uintptr_t)arguments,
                     *(const caller_t *)(uintptr_t)at);
}
#endif

/* Another program, and another run, has another key. It is recorded nowhere. */
static void make_key(void) {
  int fd = has_key ? -1 : os_open_read("/dev/urandom");
  if (fd < 0) return;
  has_key = os_read(fd, key, sizeof key) == (ssize_t)sizeof key;
  os_close(fd);
}

static bool hashes(const audit_policy_t *p) {
  for (uint32_t i = 0; i < p->function_count; i++)
    for (int k = 0; k < AUDIT_ARGUMENTS; k++)
      if (audit_is_hashed(audit_functions(p)[i].arguments[k])) return true;
  return false;
}

void audit_start(const audit_policy_t *p) {
  if (hashes(p)) make_key();
  policy = p;
  policy_number++;
}

/* Writes DATA as consecutive records of TYPE. */
static void write_parts(table_type_t type, const void *data, uint32_t size) {
  for (uint32_t at = 0; at < size; at += TABLE_BODY_MAX) {
    uint32_t left = size - at;
    writer_record(type, (const char *)data + at, left < TABLE_BODY_MAX ? left : TABLE_BODY_MAX);
  }
}

void audit_write_policy(const char *text, uint32_t size, const bool *reached) {
  write_parts(TABLE_POLICY, policy, policy->size);
  write_parts(TABLE_POLICY_TEXT, text, size);
  for (uint32_t i = 0; i < policy->function_count; i++)
    writer_table(TABLE_AUDITED, (const uint64_t[]){i, reached[i]}, 2, NULL);
}
