/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "top/screen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef SONDE_HAVE_NCURSES

#include <ncurses.h>
#include <poll.h>
#include <time.h>

static SCREEN *screen;
static FILE *input; /* of the keys */
static bool has_color;

const char *screen_refusal(void) {
  const char *term = getenv("TERM");
  if (!isatty(STDOUT_FILENO)) return "standard output is no terminal";
  if (!term || !*term || strcmp(term, "dumb") == 0) return "TERM names no terminal with a cursor";
  return NULL;
}

enum { PAIR_HEADING = 1, PAIR_BUSY, PAIR_ALARM };

static void start_colors(void) {
  const char *no_color = getenv("NO_COLOR");
  has_color = !(no_color && *no_color) && has_colors() && start_color() == OK;
  if (!has_color) return;
  use_default_colors();
  init_pair(PAIR_HEADING, COLOR_CYAN, -1);
  init_pair(PAIR_BUSY, COLOR_GREEN, -1);
  init_pair(PAIR_ALARM, COLOR_RED, -1);
}

bool screen_open(void) {
  input = isatty(STDIN_FILENO) ? stdin : fopen("/dev/tty", "re");
  if (!input) return false;
  screen = newterm(NULL, stdout, input);
  if (!screen) return false;
  set_term(screen);
  cbreak();
  noecho();
  nonl();
  keypad(stdscr, TRUE);
  nodelay(stdscr, TRUE);
  set_escdelay(25);
  curs_set(0);
  start_colors();
  return true;
}

void screen_close(void) {
  if (!screen) return;
  endwin();
  delscreen(screen);
  screen = NULL;
  if (input != stdin) fclose(input);
}

void screen_size(unsigned *columns, unsigned *rows) {
  *columns = COLS > 0 ? (unsigned)COLS : 80;
  *rows = LINES > 0 ? (unsigned)LINES : 24;
}

static attr_t attributes_of(top_style_t style) {
  switch (style) {
  case TOP_BOLD: return A_BOLD;
  case TOP_DIM: return A_DIM;
  case TOP_HEADING: return A_BOLD | (has_color ? (attr_t)COLOR_PAIR(PAIR_HEADING) : A_UNDERLINE);
  case TOP_SELECTED: return A_REVERSE;
  case TOP_BUSY: return has_color ? (attr_t)COLOR_PAIR(PAIR_BUSY) : A_BOLD;
  case TOP_ALARM: return A_BOLD | (has_color ? (attr_t)COLOR_PAIR(PAIR_ALARM) : A_NORMAL);
  default: return A_NORMAL;
  }
}

void screen_draw(const top_lines_t *lines) {
  erase();
  for (size_t i = 0; i < lines->count && i < (size_t)LINES; i++) {
    attr_t attributes = attributes_of(lines->items[i].style);
    attrset((int)attributes);
    mvaddstr((int)i, 0, lines->items[i].text);
    if (lines->items[i].style == TOP_SELECTED) chgat(-1, A_REVERSE, 0, NULL);
  }
  attrset(A_NORMAL);
  refresh();
}

static int key_of(int key) {
  switch (key) {
  case ERR: return -1;
  case KEY_UP: return TOP_KEY_UP;
  case KEY_DOWN: return TOP_KEY_DOWN;
  case KEY_PPAGE: return TOP_KEY_PAGE_UP;
  case KEY_NPAGE: return TOP_KEY_PAGE_DOWN;
  case KEY_HOME: return TOP_KEY_HOME;
  case KEY_END: return TOP_KEY_END;
  case KEY_ENTER: return TOP_KEY_ENTER;
  case KEY_BACKSPACE: return TOP_KEY_BACKSPACE;
  case KEY_RESIZE: return TOP_KEY_RESIZE;
  default: return key < 256 ? key : 0;
  }
}

int screen_key(uint64_t timeout_ns, const sigset_t *waiting) {
  int key = getch();
  if (key != ERR) return key_of(key);
  struct pollfd ready = {.fd = fileno(input), .events = POLLIN};
  const struct timespec timeout = {.tv_sec = (time_t)(timeout_ns / 1000000000u),
                                   .tv_nsec = (long)(timeout_ns % 1000000000u)};
  int count = ppoll(&ready, 1, &timeout, waiting);
  /* The terminal is gone: its session ends top by SIGHUP, or here. */
  if (count > 0 && ready.revents & (POLLHUP | POLLERR | POLLNVAL)) return 'q';
  return key_of(getch());
}

#else

const char *screen_refusal(void) {
  return "this command was built without ncurses, which the live view needs";
}
bool screen_open(void) { return false; }
void screen_close(void) {}
void screen_size(unsigned *columns, unsigned *rows) { *columns = *rows = 0; }
void screen_draw(const top_lines_t *lines) { (void)lines; }
int screen_key(uint64_t timeout_ns, const sigset_t *waiting) {
  (void)timeout_ns;
  (void)waiting;
  return -1;
}

#endif
