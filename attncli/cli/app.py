"""The Typer app: a table of commands, of which only the one that was called is imported."""

from __future__ import annotations

import os
import sys
from functools import cache
from importlib import import_module
from itertools import pairwise
from typing import Any, NamedTuple, cast

import typer
from typer.core import TyperCommand, TyperGroup

from attncli import __version__
from attncli.cli import console
from attncli.errors import AttnError, UsageError, unknown
from attncli.extensions import installed, load

# A command is a module with a function `command`, whose signature holds its options and whose docstring is its help.
COMMANDS = {
    "attend": ("attncli.cli.attend", "Attention of given matrices: attend Q K [V], or attend --scores S [V]."),
    "self": ("attncli.cli.self_", "Self-attention: Q, K and V all from X."),
    "cross": ("attncli.cli.cross", "Cross-attention: Q from X, K and V from Y."),
    "run": ("attncli.cli.run", "Compute what a problem file describes."),
    "explain": ("attncli.cli.explain", "The arithmetic behind one row or cell, step by step."),
    "decode": ("attncli.cli.decode", "The same attention one query at a time, as a decoder generates."),
    "batch": ("attncli.cli.batch", "Many problems in one process, in several, or on a cluster."),
    "check": ("attncli.cli.check", "Mark numbers calculated by hand, and name the first slip."),
    "diff": ("attncli.cli.diff", "How two arrays differ, without a problem."),
    "new": ("attncli.cli.new", "A problem file to begin with, or an exercise in variants with keys."),
    "show": ("attncli.cli.show", "What was read from files: shape, dtype, labels, numbers."),
    "list": ("attncli.cli.list_", "Scores, normalizers, masks, formats, profiles, steps, mistakes."),
    "schema": ("attncli.cli.schema", "JSON Schema of problem files, for editors."),
    "help": ("attncli.cli.help_", "A command, or a topic: conventions, masks, marking, formats and more."),
}


def run(arguments: list[str]) -> int:
    """Parse the command line and call its command; gives the exit status."""
    if "_ATTNCLI_COMPLETE" in os.environ:
        # Typer sends help texts through Rich's markup when a shell completes, which eats `[mask]` and takes its time.
        sys.modules.setdefault("rich", None)  # type: ignore[arg-type]
    if len(arguments) == 2 and arguments[0] in ("--install-completion", "--show-completion"):
        return _completion(*arguments)
    try:
        given = typer.main.get_command(app)(args=arguments, prog_name="attncli", standalone_mode=False)
    except _Ended as ended:
        raise ended.by from None
    if isinstance(given, _Returned):
        return given.status or console.DONE
    if given == console.INTERRUPTED:  # Typer's word for it, where no command runs yet
        raise KeyboardInterrupt
    return console.WRONG if given else console.DONE


class _Returned(NamedTuple):
    """What a command gave, apart from exit statuses of Typer's own: its 1 is no difference found."""

    status: int | None


class _Ended(Exception):
    """Whatever ended a command, past Typer, which has meanings of its own for some of it."""

    def __init__(self, by: BaseException) -> None:
        self.by = by


_SHELLS = ("bash", "zsh", "fish", "powershell", "pwsh")


def _completion(option: str, shell: str) -> int:
    """Completion of the shell that is named; Typer knows only the one that is running."""
    from typer import completion  # what it imports from a private module is not typed as its own

    names: Any = completion
    said = {"prog_name": "attncli", "complete_var": "_ATTNCLI_COMPLETE", "shell": shell}
    if shell not in _SHELLS:
        raise unknown("shell", shell, _SHELLS)
    if option == "--show-completion":
        console.write(names.get_completion_script(**said))
        return console.DONE
    _, path = names.install(**said)
    console.write(f"{shell} completion installed in {path}; it works in a new terminal")
    return console.DONE


# It is obeyed before the rest is parsed, since what it brings may be an option or a command.
_LOAD = "Run a Python file that adds scores, masks, steps and more: `attncli help extending`. [repeatable]"


@cache
def _of_all() -> list[Any]:
    """The options of every command, --load and --help-all, which Typer makes of a function's parameters alone."""
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)

    def show(context: typer.Context, asked: bool) -> None:
        if asked and not context.resilient_parsing:
            cast(PanelCommand, context.command).everything = True
            console.write(context.get_help())
            raise typer.Exit()

    @alone.command()
    def holder(
        load: list[str] = typer.Option(  # noqa: B008
            [], "--load", metavar="FILE.py", help=_LOAD, show_default=False, expose_value=False
        ),
        all_of_it: bool = typer.Option(
            False, "--help-all", help="Show every option and exit.", is_eager=True, expose_value=False, callback=show
        ),
    ) -> None: ...

    command: Any = typer.main.get_command(alone)
    return list(command.params)


class PanelCommand(TyperCommand):
    """A command whose help lists the options in groups, in plain text: `[mask]` and `:x:` stand as written.

    --help leaves out what few need, --help-all nothing.
    """

    everything = False

    def get_params(self, ctx: Any) -> Any:
        return [*super().get_params(ctx), *_of_all()]

    def make_parser(self, ctx: Any) -> Any:
        parser: Any = super().make_parser(ctx)
        options = parser._process_opts

        def process(argument: str, state: Any) -> None:
            if argument.startswith("-::"):  # an array of standard input, which only looks like an option
                state.largs.append(argument)
            else:
                options(argument, state)

        parser._process_opts = process
        return parser

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            if getattr(error, "ctx", ctx) is None:
                error.ctx = ctx  # type: ignore[attr-defined]  # so that the message can name the command
            raise

    def format_options(self, ctx: Any, formatter: Any) -> None:
        panels: dict[str, list[tuple[str, str]]] = {}
        rare = 0
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            of_table = getattr(parameter, "rich_help_panel", None)
            is_rare = not _is_common(parameter.name) if of_table else parameter.name == "load"
            if is_rare and not self.everything:
                rare += 1
            elif record is not None:
                own = "Arguments" if parameter.param_type_name == "argument" else "Options"
                panels.setdefault(of_table or own, []).append(record)
        for panel, records in panels.items():
            with formatter.section(panel):
                formatter.write_dl(records, col_max=24)
        if rare:
            formatter.write(f"\n{rare} more options: {ctx.command_path} --help-all\n")


def _is_common(name: str) -> bool:
    from attncli.problem.settings import FIELDS

    return FIELDS[name].common


_TELLS = frozenset(("--help", "-h", "--help-all"))


class LazyCommand(TyperCommand):
    """A name and a line of help, until it is called or completed."""

    def __init__(self, name: str, module: str, line: str) -> None:
        super().__init__(name, short_help=line, rich_markup_mode=None)
        self.module = module
        self.tells = name in ("list", "schema")

    def make_context(self, info_name: Any, args: Any, parent: Any = None, **extra: Any) -> Any:
        if extra.get("resilient_parsing") or self.tells or not _TELLS.isdisjoint(args):
            installed()
            return self._context(info_name, args, None, parent, extra)
        try:
            return self._context(info_name, args, list(args), parent, extra)
        except typer.Exit:
            raise
        except Exception as error:  # told, and looked for among what is installed, with every option that there is
            if type(error).__name__ == "NoSuchOption":
                installed()
            return self._context(info_name, args, None, parent, extra)

    def _context(self, info_name: Any, args: Any, said: list[str] | None, parent: Any, extra: dict[str, Any]) -> Any:
        alone = typer.Typer(add_completion=False, rich_markup_mode=None)
        command = import_module(self.module).command
        if hasattr(command, "options"):
            from attncli.cli.options import with_options

            command = with_options(command, said)
        alone.command(self.name, cls=PanelCommand)(command)
        return typer.main.get_command(alone).make_context(info_name, list(args), parent, **extra)


def _loaded(arguments: list[str]) -> list[str]:
    """The files of --load, wherever they stand."""
    said = arguments[: arguments.index("--")] if "--" in arguments else arguments
    files = [after for word, after in pairwise(said) if word == "--load"]
    return files + [word.partition("=")[2] for word in said if word.startswith("--load=")]


class Commands(TyperGroup):
    """The commands of the table."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self._know()

    def _know(self) -> None:
        self.commands = {name: LazyCommand(name, module, line) for name, (module, line) in COMMANDS.items()}

    def make_context(self, info_name: Any, args: Any, parent: Any = None, **extra: Any) -> Any:
        completes = extra.get("resilient_parsing", False)
        try:
            for file in _loaded(args):
                load(file)
            if completes or (args and args[0] in _TELLS):
                installed()
        except AttnError:
            if not completes:
                raise
        self._know()
        return super().make_context(info_name, args, parent, **extra)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in self.commands and installed():
            self._know()
        if args[0] not in self.commands and not ctx.resilient_parsing:
            raise unknown("command", args[0], self.commands)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            return _Returned(super().invoke(ctx))
        except typer.Exit:
            raise
        except BaseException as error:
            raise _Ended(error) from error


app = typer.Typer(
    name="attncli",
    cls=Commands,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="A command-line attention calculator: every step, every convention, every mistake named.",
    epilog="A matrix is a file (.npy .npz .safetensors .csv .tsv .txt .yaml .json .xlsx), data.npz::NAME, - for "
    "standard input, or inline: '[[1, 0], [0, 1]]'. Exit status: 0 done, 1 a check found a difference, 2 wrong usage "
    "or input, 3 the machine failed.",
)


@app.callback()
def root(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", help="Tell the version and stop."),
    load: list[str] = typer.Option([], "--load", metavar="FILE.py", help=_LOAD, show_default=False),  # noqa: B008
    help_all: bool = typer.Option(False, "--help-all", help="Tell the topics of `attncli help`, too."),
) -> None:
    if help_all:
        from attncli.cli.help_ import command

        command()
        raise typer.Exit()
    if version:
        from attncli.engine.kernel import available

        engine = available()
        console.write(f"attncli {__version__}\nengine: {f'compiled, {engine}' if engine else 'rows'}\n")
        raise typer.Exit()
    if context.invoked_subcommand is None:
        raise UsageError("no command given", hint=f"{', '.join(COMMANDS)}: see `attncli --help`")
