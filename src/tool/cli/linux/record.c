/* SPDX-License-Identifier: MIT
 *
 * sonde record: parses the options and runs the recorder (recorder/recorder.h).
 */
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"
#include "cli/cli.h"
#include "cli/common/policy_file.h"
#include "cli/linux/leaks_client.h"
#include "cli/linux/record_push.h"
#include "cli/verbs.h"
#include "record/shm.h"
#include "recorder/control.h"
#include "recorder/defaults.h"
#include "recorder/recorder.h"
#include "recorder/recording_file.h"
#include "sensor/sensor_table.h"
#include "symbol/link_pattern.h"

/* A year. */
#define SECONDS_MAX 31536000

#define TRACE_LEAST_MAX_NS 3.6e12
#define TRACE_DEPTH_MAX    262143

/* Below this, a unit was forgotten. */
#define LIMIT_MIN 1024u

/* KEY_malloc and so on are the sensors' options. */
enum {
  KEY_LIMIT = CLI_LONG_ONLY,
  KEY_KEEP_FREE,
  KEY_WALL,
  KEY_COVERAGE,
  KEY_AUDIT_DEPTH,
  KEY_NO_WAITS,
  KEY_TRACE_LEAST,
  KEY_TRACE_DEPTH,
  KEY_LEAKS,
  KEY_CPU,
  KEY_BUDGET,
  KEY_FOLLOW,
  KEY_JIT,
  KEY_ASYNC,
  KEY_PYTHON_LINES,
  KEY_FORCE,
  KEY_SECONDS,
  KEY_PUSH,
  KEY_PUSH_EVERY,
  KEY_PUSH_LABEL,
#define SENSOR_KEY(name, mode, argument, help) KEY_##name,
  SENSOR_TABLE(SENSOR_KEY, SENSOR_IGNORE)
#undef SENSOR_KEY
};

static const cli_option_t options[] = {
    CLI_GROUP("what is recorded"),
#define SENSOR_OPTION(name, mode, argument, help) {KEY_##name, #name, argument, help},
    SENSOR_TABLE(SENSOR_OPTION, SENSOR_IGNORE)
#undef SENSOR_OPTION
        {KEY_WALL, "wall", "[HZ]",
         "sample all threads, including blocked ones, HZ times a "
         "second (" DEFAULT_HZ_TEXT "). Only running threads are signaled; with "
         "-p, no thread is"},
    {KEY_LEAKS, "leaks", NULL,
     "search the command's memory for leaked blocks when it "
     "exits, with -p at the end of the recording; 'sonde leaks "
     "FILE' lists them. Records live blocks (--malloc=live) "
     "unless --malloc is given"},
    {KEY_NO_WAITS, "no-waits", NULL,
     "with --trace: do not trace calls that can block. By "
     "default (not with -p), sonde traces them too, so that a "
     "function's own time leaves out waiting"},
    {KEY_TRACE_LEAST, "trace-least", "DURATION",
     "with --trace: record no calls that take less: 10us, 1ms"},
    {KEY_TRACE_DEPTH, "trace-depth", "N",
     "with --trace: record only the N outermost levels of calls"},
    {KEY_AUDIT_DEPTH, "audit-depth", "N",
     "with --audit: record the N innermost frames of a stack "
     "(1 to 64; default: all). Calls whose frames are equal "
     "then count as one"},
    {KEY_JIT, "jit", NULL,
     "let node, Java, .NET and Erlang write the names of the "
     "code that they generate, through environment variables"},
    {KEY_ASYNC, "async", NULL,
     "in stacks, show the callers of Swift's async functions "
     "instead of the executor that runs them. sonde then "
     "unwinds every stack in full, which takes longer"},
    {KEY_PYTHON_LINES, "python-lines", NULL,
     "with --malloc=all or live: record the lines of all "
     "Python functions, not only of the one that allocates"},
    {KEY_COVERAGE, "coverage", NULL,
     "with --audit: count system calls that the audit's hooks "
     "do not see; every system call stops the program twice, "
     "as under strace"},
    {KEY_CPU, "cpu", "[LIMIT]",
     "record CPU use per thread. LIMIT is PERCENT,SECONDS "
     "(" DEFAULT_CPU_TEXT "): report, with a profile, when a thread or the "
     "process uses more than PERCENT of one CPU for SECONDS"},
    {KEY_BUDGET, "budget", "PERCENT",
     "sample less often while sonde itself uses more than "
     "PERCENT of one CPU, or of the program's CPU time if that "
     "is more (default: " DEFAULT_BUDGET_TEXT " if no option selects what to "
     "record, otherwise off; 'off')"},
    CLI_GROUP("the recording"),
    {'o', "output", "FILE",
     "the recording; default COMMAND.PID.sonde; an existing "
     "recording is replaced"},
    {KEY_FORCE, "force", NULL, "replace FILE even if it is not a recording"},
    {KEY_FOLLOW, "follow", NULL,
     "record each child, to FILE.PID.sonde; 'sonde report "
     "FILE processes' lists them"},
    {KEY_KEEP_FREE, "keep-free", "SIZE",
     "stop when the file system has less than SIZE left "
     "(default: 512M, at most 2 % of it; 0: never)"},
    {KEY_LIMIT, "limit", "SIZE", "limit the file to SIZE (500M, 2G); keep newest events"},
    {KEY_PUSH, "push", "URL",
     "send the profiles to URL as 'sonde push' does: what is "
     "new at each interval, and the rest at the end. The exit "
     "status is the command's nevertheless"},
    {KEY_PUSH_EVERY, "push-every", "DURATION", "the interval of --push, from 1s (default: 60s)"},
    {KEY_PUSH_LABEL, "push-label", "NAME=VALUE", "a label of these profiles; may be repeated"},
    CLI_GROUP("a running program"),
    {'p', "pid", "PID",
     "record the running process PID. --sample, --wall, "
     "--stall and --cpu work from outside; the default is "
     "--sample --wall --stall. --malloc, --leaks, --trace and "
     "--audit load the agent into the process, and remove it "
     "at the end"},
    {KEY_SECONDS, "seconds", "N",
     "with -p: record for N seconds. Otherwise Ctrl-C or the "
     "end of the process ends the recording"},
    {0}};

static const cli_usage_t usage = {
    .verb = "record",
    .arguments = "[--] COMMAND… | -p PID",
    .about = "Runs COMMAND and records what it does and from where. The command needs no\n"
             "special build. If no option selects what to record, the defaults are --sample\n"
             "--stall --malloc=" DEFAULT_BLOCKS_TEXT ", which are cheap enough for production.\n"
             "A static program, such as most Go programs, is recorded from outside, by default\n"
             "with --sample --wall --stall.\n"
             "The exit status is the command's. It is 125 if recording fails, 126 if the\n"
             "command cannot be run and 127 if it is not found. If the policy is invalid, the\n"
             "exit status is 2 and the command is not run. With -p, the exit status is 0, or\n"
             "2 if recording fails.",
    .options = options,
    .examples = {
        {"sonde record -- python3 script.py", "records to python3.PID.sonde"},
        {"sonde record -o run.sonde -- ls", "records to run.sonde"},
        {"sonde record --wall -- ./server", "shows where threads spend their time, waits included"},
        {"sonde record --trace='!*' -- ./program",
         "records every call of the program's own functions, without a rebuild"},
        {"sonde record --trace -- ./program", "records every call in an instrumented program"},
        {"sonde record --trace='libz*:*' -- python3 script.py",
         "records every call to libz's functions, besides instrumented calls"},
        {"sonde record --leaks -- ./batch", "finds what is leaked when the program exits"},
        {"sonde record -p 1234 --malloc --seconds 30", "records what process 1234 allocates"}}};

typedef struct parsed {
  recorder_options_t options;
  bool malloc_given; /* --malloc was used, even if it is off */
  long pid;          /* of a running process; 0: a command is run */
  long seconds;      /* 0: no limit */
  char trace_pattern[sizeof((shm_control_t *)0)->trace_pattern];
  long audit_depth; /* 0: all frames */
  bool no_waits;
  bool budget_given;
  record_push_t push;
} parsed_t;

static bool parse_malloc(const char *value, parsed_t *p) {
  uint32_t mode;
  if (!control_parse_malloc(value ? value : "all", &mode, &p->options.sample_bytes)) return false;
  p->options.mode = (p->options.mode & ~(uint32_t)SENSOR_MODE_malloc) | mode;
  p->malloc_given = true;
  return true;
}

/* "80,60" */
static bool parse_cpu(const char *text, cpu_rules_t *out) {
  char *end;
  double percent = strtod(text, &end);
  if (end == text || *end != ',' || !(percent >= 1 && percent <= 100000)) return false;
  long seconds;
  if (!parse_number(end + 1, 1, 86400, &seconds)) return false;
  *out = (cpu_rules_t){(uint32_t)(percent * 10 + 0.5), (uint64_t)seconds * 1000000000u};
  return true;
}

/* "0.5", or "off" */
static bool parse_budget(const char *text, uint32_t *permille) {
  char *end;
  *permille = 0;
  if (!strcmp(text, "off")) return true;
  double percent = strtod(text, &end);
  if (end == text || *end || !(percent >= 0.1 && percent <= 100)) return false;
  *permille = (uint32_t)(percent * 10 + 0.5);
  return true;
}

/* The policy remains allocated while the recorder runs. */
static bool read_policy(const char *name, recorder_options_t *o) {
  free((void *)(uintptr_t)o->policy);
  o->policy = policy_file_compile(name, &o->policy_bytes);
  return o->policy != NULL;
}

/* The options without a value. */
static void set_switch(parsed_t *p, int key) {
  recorder_options_t *o = &p->options;
  switch (key) {
  case KEY_LEAKS: o->leaks = true; break;
  case KEY_NO_WAITS: p->no_waits = true; break;
  case KEY_COVERAGE: o->coverage = true; break;
  case KEY_FOLLOW: o->follow = true; break;
  case KEY_JIT: o->jit = true; break;
  case KEY_ASYNC: o->async = true; break;
  case KEY_PYTHON_LINES: o->python_lines = true; break;
  case KEY_FORCE: o->force = true; break;
  default: break;
  }
}

/* The limits of --trace, as parse_option. */
static const char *parse_trace_limit(recorder_options_t *o, int key, const char *value) {
  long depth;
  double ns;
  if (key == KEY_TRACE_LEAST) {
    if (!parse_duration(value, &ns) || ns < 1 || ns > TRACE_LEAST_MAX_NS)
      return "--trace-least takes a duration such as 10us, at most an hour";
    o->trace_filter.least_ns = (uint64_t)ns;
  } else {
    if (!parse_number(value, 1, TRACE_DEPTH_MAX, &depth))
      return "--trace-depth takes a number from 1 to 262143";
    o->trace_filter.depth = (uint32_t)depth;
  }
  return NULL;
}

/* The limits, as parse_option. */
static const char *parse_limit(parsed_t *p, int key, const char *value) {
  recorder_options_t *o = &p->options;
  switch (key) {
  case KEY_BUDGET:
    p->budget_given = true;
    if (parse_budget(value, &o->budget_permille)) break;
    return "--budget takes a percentage from 0.1 to 100, or off";
  case KEY_SECONDS:
    if (parse_number(value, 1, SECONDS_MAX, &p->seconds)) break;
    return "--seconds takes a number from 1 to 31536000";
  case KEY_KEEP_FREE:
    o->keep_free_bytes = 0;
    if (!strcmp(value, "0") || parse_size(value, &o->keep_free_bytes)) break;
    return "--keep-free takes a size such as 2G, or 0";
  case KEY_TRACE_LEAST:
  case KEY_TRACE_DEPTH: return parse_trace_limit(o, key, value);
  case KEY_LIMIT:
    if (parse_size(value, &o->limit_bytes) && o->limit_bytes >= LIMIT_MIN) break;
    return "--limit takes a size such as 500M, at least 1K";
  default: set_switch(p, key);
  }
  return NULL;
}

/* Returns NULL, or what is wrong with the option; "" after a message about the policy. */
static const char *parse_option(parsed_t *p, int key, const char *value) {
  recorder_options_t *o = &p->options;
  switch (key) {
  case 'o': o->output = value; break;
  case KEY_malloc:
    if (parse_malloc(value, p)) break;
    return "--malloc takes all, malloc, vm, live, livevm, off or " DEFAULT_BLOCKS_TEXT " (a size)";
  case KEY_sample:
    o->mode |= SENSOR_MODE_sample;
    if (!value || parse_number(value, 1, SAMPLE_HZ_MAX, &o->sample_hz)) break;
    return "--sample takes a number from 1 to 1000";
  case KEY_WALL:
    o->mode |= SENSOR_MODE_sample;
    o->wall_hz = DEFAULT_SAMPLE_HZ;
    if (!value || parse_number(value, 1, SAMPLE_HZ_MAX, &o->wall_hz)) break;
    return "--wall takes a number from 1 to 1000";
  case KEY_trace:
    o->mode |= SENSOR_MODE_trace;
    if (!value) break;
    o->trace_pattern = p->trace_pattern;
    o->trace_given = value;
    if (strlen(value) >= sizeof((shm_control_t *)0)->trace_given)
      return "--trace takes a pattern of at most 511 bytes";
    if (link_pattern(value, p->trace_pattern, sizeof p->trace_pattern)) break;
    return "--trace names too many functions at once; use wildcards";
  case KEY_CPU:
    o->mode |= SENSOR_MODE_sample;
    o->cpu = true;
    if (!value || parse_cpu(value, &o->cpu_rules)) break;
    return "--cpu takes a percentage of one CPU and seconds: 80,60";
  case KEY_stall:
    o->mode |= SENSOR_MODE_stall;
    if (!value || parse_number(value, STALL_MS_MIN, STALL_MS_MAX, &o->stall_ms)) break;
    return "--stall takes a number of milliseconds, at least 50";
  case KEY_audit:
    o->mode |= SENSOR_MODE_audit;
    if (read_policy(value ? value : "linux", o)) break;
    return "";
  case KEY_AUDIT_DEPTH:
    if (parse_number(value, 1, AUDIT_DEPTH_MAX, &p->audit_depth)) break;
    return "--audit-depth takes a number of frames from 1 to 64";
  case 'p':
    if (parse_number(value, 1, INT32_MAX, &p->pid)) break;
    return "-p takes the number of a process";
  case KEY_PUSH: p->push.url = value; break;
  case KEY_PUSH_EVERY: p->push.every = value; break;
  case KEY_PUSH_LABEL:
    if (p->push.label_count == RECORD_PUSH_LABELS_MAX)
      return "--push-label can be repeated up to 64 times";
    p->push.labels[p->push.label_count++] = value;
    break;
  default: return parse_limit(p, key, value);
  }
  return NULL;
}

/* Functions of the program are traced: instrumented ones, or those that the pattern patches. */
static bool traces_program(const recorder_options_t *o) {
  return o->mode & SENSOR_MODE_trace && (!o->trace_given || strchr(o->trace_given, '!'));
}

/* Adds the audit to --coverage and --audit-depth. */
static bool complete_audit(parsed_t *p) {
  recorder_options_t *o = &p->options;
  if ((o->coverage || p->audit_depth) && !(o->mode & RECORD_AUDIT)) {
    o->mode |= RECORD_AUDIT;
    if (!read_policy("linux", o)) return false;
  }
  if (p->audit_depth)
    policy_limit_depth((audit_policy_t *)(uintptr_t)o->policy, (uint32_t)p->audit_depth);
  return true;
}

/* Adds the live blocks to --leaks. */
static bool complete_leaks(parsed_t *p) {
  recorder_options_t *o = &p->options;
  if (o->leaks && !p->malloc_given) o->mode |= RECORD_LIVE;
  if (!o->leaks || o->mode & (RECORD_BLOCKS | RECORD_LIVE)) return true;
  (void)cli_wrong_use(&usage, "--leaks needs every block; leave out --malloc, or use "
                              "--malloc=live or --malloc=all");
  return false;
}

/* Adds the default sensors, the calls that can block, and what --leaks, --coverage and
 * --audit-depth need. */
static bool complete(parsed_t *p) {
  recorder_options_t *o = &p->options;
  if (!complete_leaks(p)) return false;
  if (!p->malloc_given && !o->mode) {
    if (!p->budget_given) o->budget_permille = DEFAULT_BUDGET_PERCENT * 10;
    o->mode = RECORD_SAMPLES | RECORD_SAMPLED_BLOCKS | RECORD_STALLS;
    o->is_default = !o->coverage && !p->audit_depth;
    o->sample_bytes = DEFAULT_SAMPLE_BYTES;
  }
  o->trace_waits = traces_program(o) && !p->no_waits;
  return complete_audit(p);
}

/* NULL, or which option needs another one. With --malloc=off, `sonde ctl` can record blocks later.
 */
static const char *refuse_alone(const parsed_t *p) {
  const recorder_options_t *o = &p->options;
  bool records_stacks = o->mode & (RECORD_BLOCKS | RECORD_LIVE) || o->leaks;
  bool is_off = p->malloc_given && !(o->mode & SENSOR_MODE_malloc);
  if (p->no_waits && !(o->mode & SENSOR_MODE_trace)) return "--no-waits needs --trace";
  if ((o->trace_filter.least_ns || o->trace_filter.depth) && !(o->mode & SENSOR_MODE_trace))
    return "--trace-least and --trace-depth need --trace";
  if (o->python_lines && !records_stacks && !is_off)
    return "--python-lines needs --malloc=all, --malloc=malloc or --malloc=live";
  if (p->seconds && !p->pid) return "--seconds needs -p PID";
  return NULL;
}

/* NULL, or what -p does not allow. */
static const char *refuse_outside(const parsed_t *p, int rest_count) {
  const recorder_options_t *o = &p->options;
  if (rest_count) return "-p PID records a running process; a command cannot be run with it";
  if (o->jit) return "--jit sets the environment of a command; -p records a running process";
  return NULL;
}

static int observe(parsed_t *p, int rest_count) {
  recorder_options_t *o = &p->options;
  const char *wrong = refuse_outside(p, rest_count);
  if (wrong) return cli_wrong_use(&usage, "%s", wrong);
  if (!complete_leaks(p)) return CLI_FAILED;
  if (!o->mode && !p->audit_depth) {
    if (!p->budget_given) o->budget_permille = DEFAULT_BUDGET_PERCENT * 10;
    o->mode = RECORD_SAMPLES | RECORD_STALLS;
    o->wall_hz = DEFAULT_SAMPLE_HZ;
  }
  return complete_audit(p) ? recorder_observe((pid_t)p->pid, p->seconds, o) : CLI_FAILED;
}

/* Returns an exit status. */
static int run(parsed_t *p, cli_parser_t *parser) {
  int key;
  while ((key = cli_next(parser)) > 0) {
    const char *wrong = parse_option(p, key, parser->value);
    if (wrong && *wrong) (void)cli_wrong_use(&usage, "%s", wrong);
    if (wrong) return *wrong ? RECORDER_FAILED : CLI_FAILED;
  }
  if (key < 0) return parser->status == CLI_FAILED ? RECORDER_FAILED : parser->status;
  const char *alone = refuse_alone(p);
  if (!alone) alone = record_push_prepare(&p->push, &p->options);
  if (alone) {
    int status = cli_wrong_use(&usage, "%s", alone);
    return p->pid ? status : RECORDER_FAILED;
  }
  if (p->pid) return observe(p, parser->rest_count);
  if (!parser->rest_count) {
    (void)cli_wrong_use(&usage, "no command to run");
    return RECORDER_FAILED;
  }
  return complete(p) ? recorder_run(parser->rest, &p->options) : RECORDER_FAILED;
}

int verb_record(int argc, char **argv) {
  cli_parser_t parser = cli_parser_for_command(&usage, argc, argv);
  parsed_t p = {.options = {.search = exit_search,
                            .sample_hz = DEFAULT_SAMPLE_HZ,
                            .keep_free_bytes = RECORDING_KEEP_DEFAULT,
                            .stall_ms = DEFAULT_STALL_MS,
                            .cpu_rules = {DEFAULT_CPU_PERCENT * 10,
                                          DEFAULT_CPU_SECONDS * UINT64_C(1000000000)}}};
  int status = run(&p, &parser);
  free((void *)(uintptr_t)p.options.policy);
  return status;
}
