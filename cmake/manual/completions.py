# SPDX-License-Identifier: MIT
"""Completions for bash, zsh and fish."""
import re

FILES = {"FILE", "DIR", "OLD", "NEW", "FOLDER", "POLICY", "CORE"}


def brief(text):
    """The first clause of a help text."""
    clause = re.split(r"[;:.]\s|[;:.]$", " ".join(text.split()))[0]
    return clause if len(clause) <= 60 else clause[:59].rsplit(" ", 1)[0] + " …"


def kinds(verb):
    """What the first argument and the later ones can be: sets of file, pid, verb, word, command."""
    words = re.findall(r"\w+", verb["arguments"])
    if "COMMAND…" in verb["arguments"]:
        return {"pid" if words[0] == "PID" else "command"}, {"command"}
    first = verb["arguments"].split(" ")[0] if verb["arguments"] else ""
    found = {"file"} if set(words) & FILES else set()
    if "words" in verb and first[:1] + first[1:2] == first[:2].lower():
        return {"word"}, found
    begin = set()
    begin |= {"pid"} if "PID" in first else set()
    begin |= {"verb"} if "VERB" in first else set()
    begin |= {"file"} if found and not begin & {"pid"} or re.search(r"\|(FILE|CORE)", first) else set()
    return begin, {"word"} if "words" in verb else found


def is_file(option):
    return option.get("value") in FILES


# ---- bash ----------------------------------------------------------------------------------------

BASH = r'''# SPDX-License-Identifier: MIT
# bash completion for sonde

_sonde_pids() { (cd /proc 2>/dev/null && printf '%%s\n' [0-9]*); }

# What ACTION offers: words, or @file, @pid, @command.
_sonde_offer() {
  local action
  for action in $1; do
    case $action in
    @file) compopt -o filenames 2>/dev/null; COMPREPLY+=($(compgen -f -- "$cur")) ;;
    @pid) COMPREPLY+=($(compgen -W "$(_sonde_pids)" -- "$cur")) ;;
    @command) COMPREPLY+=($(compgen -c -- "$cur")) ;;
    *) COMPREPLY+=($(compgen -W "$action" -- "$cur")) ;;
    esac
  done
}

_sonde() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} verb=${COMP_WORDS[1]}
  local option= word i rank=0 IFS=$' \n'
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    _sonde_offer "%(verbs)s --help --version"
    return
  fi
  # bash makes '=' a word of its own: --by = peak
  if [[ $cur == "=" ]]; then
    option=$prev cur=
  elif [[ $prev == "=" ]]; then
    option=${COMP_WORDS[COMP_CWORD-2]}
  elif [[ " %(takers)s " == *" $verb:$prev "* ]]; then
    option=$prev
  fi
  if [[ $option ]]; then
    case $verb:$option in
%(values)s
    esac
    return
  fi
  for ((i = 2; i < COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    if [[ " %(commands)s " == *" $verb "* ]] && { [[ $word == -- ]] || ((rank)); }; then
      [[ $word == -- ]] && ((i++))
      if declare -F _command_offset >/dev/null && ((i <= COMP_CWORD)); then
        _command_offset $i
      elif ((i == COMP_CWORD)); then
        _sonde_offer @command
      else
        _sonde_offer @file
      fi
      return
    fi
    [[ $word == -* || $word == "=" || ${COMP_WORDS[i-1]} == "=" ]] && continue
    [[ " %(takers)s " == *" $verb:${COMP_WORDS[i-1]} "* ]] || ((++rank))
  done
  if [[ $cur == -* ]]; then
    case $verb in
%(options)s
    esac
  elif [[ $verb == help ]] && ((rank == 1)); then
    case ${COMP_WORDS[2]} in
%(parts)s
    esac
  elif ((rank == 0)); then
    case $verb in
%(first)s
    esac
  else
    case $verb in
%(later)s
    esac
  fi
}

complete -F _sonde sonde
'''


def bash_actions(found, verb, verbs):
    out = []
    for kind in sorted(found):
        out.append(" ".join(v["name"] for v in verbs) if kind == "verb" else
                   " ".join(verb["words"]) if kind == "word" else "@" + kind)
    return " ".join(out)


def part_names(verb):
    return [part["name"] for part in verb.get("parts", [])]


def bash(verbs):
    names = " ".join(verb["name"] for verb in verbs)
    takers, values, options, first, later, commands = [], [], [], [], [], []
    for verb in verbs:
        name = verb["name"]
        for option in verb["options"]:
            heads = [f"--{option['name']}"] + ([f"-{option['letter']}"] if "letter" in option else [])
            if "value" in option and not option["value_optional"]:
                takers += [f"{name}:{head}" for head in heads]
            action = " ".join(option.get("values", []) + (["@file"] if is_file(option) else []) +
                              (["@pid"] if option.get("value") == "PID" else []))
            if action:
                values.append("    " + " | ".join(f"{name}:{head}" for head in heads) + f') _sonde_offer "{action}" ;;')
        words = " ".join(f"--{option['name']}" for option in verb["options"])
        options.append(f'    {name}) _sonde_offer "{words}" ;;')
        begin, rest = kinds(verb)
        if "command" in begin:
            commands.append(name)
        for found, cases in ((begin, first), (rest, later)):
            if found:
                cases.append(f'    {name}) _sonde_offer "{bash_actions(found, verb, verbs)}" ;;')
    parts = [f'    {verb["name"]}) _sonde_offer "{" ".join(part_names(verb))}" ;;' for verb in verbs if part_names(verb)]
    return BASH % {"verbs": names, "parts": "\n".join(parts), "takers": " ".join(takers), "commands": " ".join(commands),
                   "values": "\n".join(values), "options": "\n".join(options), "first": "\n".join(first),
                   "later": "\n".join(later)}


# ---- zsh -----------------------------------------------------------------------------------------

def zsh_quoted(text):
    return text.replace("'", "'\\''")


def zsh_message(text):
    return zsh_quoted(re.sub(r"([\[\]:\\])", r"\\\1", text))


def zsh_action(found, verb, verbs):
    actions = {"file": "_files", "pid": "_pids", "command": "_command_names -e",
               "verb": "(" + " ".join(v["name"] for v in verbs) + ")",
               "word": "(" + " ".join(verb.get("words", [])) + ")"}
    chosen = [actions[kind] for kind in sorted(found)]
    if len(chosen) < 2:
        return chosen[0]
    return "_alternative " + " ".join(f'"{kind}:{kind}:{actions[kind]}"' for kind in sorted(found))


def zsh_option(option):
    help_text = "[" + zsh_message(brief(option["help"])) + "]"
    long, value = f"--{option['name']}", option.get("value")
    if value:
        words = "(" + " ".join(option["values"]) + ")" if "values" in option else ""
        action = (f'_alternative "words:word:{words}" "files:file:_files"' if words and is_file(option)
                  else words or ("_files" if is_file(option) else "_pids" if value == "PID" else " "))
        tail = f":{value}:{action}"
        if option["value_optional"]:
            return [f"'{long}=-{help_text}:{zsh_quoted(tail)}'"]
        out = [f"'{long}={help_text}{zsh_quoted(tail)}'"]
        if "letter" in option:
            out.append(f"'-{option['letter']}+{help_text}{zsh_quoted(tail)}'")
        return out
    return [f"'{head}{help_text}'" for head in [long] + ([f"-{option['letter']}"] if "letter" in option else [])]


def zsh(verbs):
    lines = ["#compdef sonde", "# SPDX-License-Identifier: MIT", "", "_sonde() {", "  local line state", "  _arguments -C \\",
             "    '--help[list the verbs]' '--version[print the version]' '1:verb:->verb' '*::argument:->arguments'",
             "  case $state in", "  verb)", "    local -a verbs=("]
    lines += [f"      '{verb['name']}:{zsh_message(verb['summary'])}'" for verb in verbs]
    lines += ["    )", "    _describe -t verbs verb verbs ;;", "  arguments)", "    case $line[1] in"]
    for verb in verbs:
        lines.append(f"    {verb['name']})")
        begin, rest = kinds(verb)
        specs = [spec for option in verb["options"] for spec in zsh_option(option)]
        if "command" in begin:
            specs += ["'(-)1:command: _command_names -e'", "'*::argument: _normal'"]
        else:
            if begin:
                specs.append(f"'1:argument:{zsh_quoted(zsh_action(begin, verb, verbs))}'")
            if verb["name"] == "help":
                specs.append("'2:part:_sonde_parts'")
            if rest:
                specs.append(f"'*:argument:{zsh_quoted(zsh_action(rest, verb, verbs))}'")
        lines.append("      _arguments " + " \\\n        ".join(specs) + " ;;")
    lines += ["    esac ;;", "  esac", "}", "", "# What can follow sonde help VERB.", "_sonde_parts() {", "  case $words[2] in"]
    lines += [f"  {verb['name']}) compadd {' '.join(part_names(verb))} ;;" for verb in verbs if part_names(verb)]
    lines += ["  esac", "}", "", '_sonde "$@"']
    return "\n".join(lines) + "\n"


# ---- fish ----------------------------------------------------------------------------------------

def fish_quoted(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def fish(verbs):
    lines = ["# SPDX-License-Identifier: MIT", "# fish completion for sonde", "",
             "# The verb that is typed is one of these.",
             "function __sonde_verb",
             "    set -l words (commandline -opc)",
             "    test (count $words) -ge 2; and contains -- $words[2] $argv",
             "end", "",
             "complete -c sonde -f",
             "complete -c sonde -n 'test (count (commandline -opc)) -eq 1' -l help -d 'list the verbs'",
             "complete -c sonde -n 'test (count (commandline -opc)) -eq 1' -l version -d 'print the version'"]
    for verb in verbs:
        name = verb["name"]
        lines.append(f"complete -c sonde -n 'test (count (commandline -opc)) -eq 1' -a {name} "
                     f"-d {fish_quoted(verb['summary'])}")
        for option in verb["options"]:
            words = [f"complete -c sonde -n '__sonde_verb {name}' -l {option['name']}"]
            if "letter" in option:
                words.append(f"-s {option['letter']}")
            if "value" in option:
                if not option["value_optional"]:
                    words.append("-r" if is_file(option) else "-x")
                if is_file(option):
                    words.append("-F")
                if "values" in option:
                    words.append("-a " + fish_quoted(" ".join(option["values"])))
            words.append("-d " + fish_quoted(brief(option["help"])))
            lines.append(" ".join(words))
        begin, rest = kinds(verb)
        found = begin | rest
        if "command" in found:
            lines.append(f"complete -c sonde -n '__sonde_verb {name}' -x -a '(__fish_complete_subcommand --fcs-skip=2)'")
        if "file" in found:
            lines.append(f"complete -c sonde -n '__sonde_verb {name}' -F")
        if "pid" in found:
            lines.append(f"complete -c sonde -n '__sonde_verb {name}' -a '(__fish_complete_pids)'")
        if part_names(verb):
            lines.append(f"complete -c sonde -n '__sonde_verb help; and contains -- {name} (commandline -opc)' "
                         f"-a {fish_quoted(' '.join(part_names(verb)))}")
        if "verb" in found:
            lines.append(f"complete -c sonde -n '__sonde_verb {name}' -a {fish_quoted(' '.join(v['name'] for v in verbs))}")
        if "word" in found:
            lines.append(f"complete -c sonde -n '__sonde_verb {name}' -a {fish_quoted(' '.join(verb['words']))}")
    return "\n".join(lines) + "\n"


def write_completions(out, verbs):
    for path, text in (("bash-completion/completions/sonde", bash(verbs)),
                       ("zsh/site-functions/_sonde", zsh(verbs)),
                       ("fish/vendor_completions.d/sonde.fish", fish(verbs))):
        file = out / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
