"""Shell completion, written from the table of verbs: `eval "$(tacit --completion bash)"`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

SHELLS = ("bash", "zsh", "tcsh")
GLOBAL = ("--help", "--version", "--debug", "--json", "--quiet", "--completion")
EVERYWHERE = ("--help", "--debug", "--json", "--quiet")


def script(shell: str, options: Mapping[str, Sequence[str]]) -> str:
    """The completion script of that shell, for verbs and the options of each.

    Args:
        shell: bash, zsh or tcsh.
        options: of every verb, by its name.
    """
    return {"bash": _bash, "zsh": _zsh, "tcsh": _tcsh}[shell](options)


def _bash(options: Mapping[str, Sequence[str]]) -> str:
    return f"""# completion of tacit for bash: eval "$(tacit --completion bash)"
_tacit() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" words=""
    case "${{COMP_WORDS[1]}}" in
{_cases(options)}
    esac
    if [ "$COMP_CWORD" -eq 1 ]; then
        words="{" ".join([*options, *GLOBAL])}"
    elif [ "${{COMP_WORDS[1]}}" = "--completion" ]; then
        words="{" ".join(SHELLS)}"
    fi
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ] || [[ "$word" == -* ]] || [ "${{COMP_WORDS[1]}}" = "--completion" ]
    then
        COMPREPLY=($(compgen -W "$words" -- "$word"))
    fi
}}
complete -o default -F _tacit tacit"""


def _zsh(options: Mapping[str, Sequence[str]]) -> str:
    return f"""#compdef tacit
# completion of tacit for zsh: eval "$(tacit --completion zsh)"
_tacit() {{
    local words_of=""
    if (( CURRENT == 2 )); then
        compadd -- {" ".join([*options, *GLOBAL])}
        return
    fi
    case "${{words[2]}}" in
        --completion) compadd -- {" ".join(SHELLS)}; return ;;
{_cases(options, "words_of")}
    esac
    if [[ "${{words[CURRENT]}}" == -* ]]; then
        compadd -- ${{=words_of}}
    else
        _files
    fi
}}
compdef _tacit tacit"""


def _tcsh(options: Mapping[str, Sequence[str]]) -> str:
    every = sorted({option for found in options.values() for option in found} | {*EVERYWHERE})
    return f"""# completion of tacit for tcsh: tacit --completion tcsh > ~/.tacit.tcsh; source it
complete tacit \\
    'n/--completion/({" ".join(SHELLS)})/' \\
    'p/1/({" ".join([*options, *GLOBAL])})/' \\
    'c/--/({" ".join(option.removeprefix("--") for option in every)})/' \\
    'p/*/f/'"""


def _cases(options: Mapping[str, Sequence[str]], variable: str = "words") -> str:
    return "\n".join(
        f'        {verb}) {variable}="{" ".join([*found, *EVERYWHERE])}" ;;'
        for verb, found in options.items()
    )
