"""Options that several commands share."""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

DEFAULT_REWARD = "any-edit"

Json = Annotated[bool, typer.Option("--json", help="Write one JSON document to standard output and nothing else.")]
Seed = Annotated[int, typer.Option("--seed", help="Random seed.")]
By = Annotated[
    list[str] | None,
    typer.Option("--by", help="Also by the values of this label of the items, such as `type` or `level`. Repeatable."),
]
BootstrapSamples = Annotated[
    int, typer.Option("--bootstrap-samples", min=100, help="Number of bootstrap samples for confidence intervals.")
]


def _trust(context: typer.Context, names: Sequence[str] | None) -> Sequence[str] | None:
    from ..reward.trust import trusted_names, trusting

    if not context.resilient_parsing:  # of a shell's completion
        try:
            if names:
                # click closes no context whose arguments turn out to be wrong later: then this process ends.
                context.with_resource(trusting(*names))
            trusted_names()
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
    return names


Trust = Annotated[
    list[str] | None,
    typer.Option(
        "--trust",
        metavar="NAME",
        callback=_trust,
        is_eager=True,
        show_default=False,
        help="What files may name beside what is installed: a module whose code they run, an address, an environment "
        "variable, a folder they read from; or a file with all that it names. Repeatable; also in EDITCRITIC_TRUST.",
    ),
]
"""Takes effect by itself: a command that reads other people's files has it as a parameter, and need not use it."""


def command_line(context: typer.Context) -> str:
    """The command as one would type it, for reports: with the options that differ from their defaults."""
    words = context.command_path.split()
    for parameter in context.command.params:
        value = context.params.get(str(parameter.name))
        if value in (None, (), []) or value == parameter.get_default(context):
            continue
        if parameter.param_type_name == "argument":
            words.append(str(value))
        elif isinstance(value, bool):
            words.append(parameter.opts[0] if value else parameter.secondary_opts[0])
        else:
            values = value if isinstance(value, list | tuple) else [value]
            words += [word for one in values for word in (parameter.opts[0], str(one))]
    return shlex.join(words)


RewardSpec = Annotated[
    str,
    typer.Option(
        "--reward", help="A name (see `editcritic rewards`), `name?option=value`, `module:Name`, or a TOML file."
    ),
]
Protocol = Annotated[
    str | None,
    typer.Option(
        "--protocol", help="Variant of the metric, e.g. paper or official; `editcritic rewards NAME` lists them."
    ),
]
Experts = Annotated[
    list[str] | None,
    typer.Option(
        "--experts",
        help="Models that the reward queries: a bundle (cpu, laptop, small, standard, large, edival, edival-official, "
        "dlebench, i2ibench), as in `--experts small`; ROLE=SPEC, as in `--experts judge=qwen3-vl-8b`; several in "
        "quotes, later ones override: `--experts 'small judge=openai:http://127.0.0.1:8000/v1'`; a TOML file; or "
        "module:function returning role -> expert. Default: cpu, which needs no download. It judges annotated boxes, "
        "colours and text; other edits of photos get no score. docs/experts.md lists all specs.",
    ),
]
AnswerCache = Annotated[
    Path | None,
    typer.Option(
        "--cache", help="Answer log (SQLite): answers of experts found there are not queried again; new ones are added."
    ),
]
PipelineArgs = Annotated[
    list[str] | None,
    typer.Option(
        "--pipeline-arg", help="Keyword argument of the pipeline call, e.g. num_inference_steps=20. Repeatable."
    ),
]
BatchSize = Annotated[int, typer.Option("--batch-size", min=1, help="Images per pipeline call.")]
Dtype = Annotated[
    str | None, typer.Option("--dtype", help="Dtype of the weights. Default: bfloat16 on a GPU, else float32.")
]
Device = Annotated[str | None, typer.Option("--device", help="Device, e.g. cuda:1. Default: the first GPU, else CPU.")]
Download = Annotated[bool, typer.Option("--download", help="Allow downloads from the Hugging Face Hub.")]

SuiteName = Annotated[
    str,
    typer.Argument(
        metavar="SUITE",
        help="A suite that `editcritic bench list` names, with options as in `edival?mode=singlepass`.",
    ),
]
Data = Annotated[
    Path | None, typer.Option("--data", help="Folder of the suite's data. Default: data/SUITE; `sceneedit` needs none.")
]
SuiteProtocol = Annotated[
    str | None,
    typer.Option(
        "--protocol",
        help="Variant of the suite's metrics. edival, sceneedit: paper (default), or official for the numbers of "
        "EdiVal's released code; edival also official-fixed, paper-official. complex-edit, dlebench: a mode instead of "
        "the suite's own, or paper. gedit, imgedit: fixed (default), official. i2ibench: judge-only, paper.",
    ),
]
Metric = Annotated[
    list[str] | None,
    typer.Option(
        "--metric",
        help="Only this metric of the suite, with options as in `if?threshold=0.3`. Repeatable. Default: all.",
    ),
]
ResultFolders = Annotated[
    list[Path], typer.Argument(metavar="RESULTS", help="Result folders, or folders that contain them.")
]
SuiteSpec = Annotated[
    str | None, typer.Option("--suite", help="Spec of the suite, if the name in the results does not load it.")
]

_EXAMPLE = "Example: "
_UNBROKEN = "\u2011"  # a hyphen at which no line ends


class _Formatter(typer.Context.formatter_class):  # type: ignore[misc, valid-type]
    """Texts are wrapped between words: names of options and of models have hyphens, and could not be copied."""

    def write_text(self, text: str) -> None:
        super().write_text(text.replace("-", _UNBROKEN))

    def write_dl(self, rows: Sequence[tuple[str, str]], *args: Any, **options: Any) -> None:
        super().write_dl([(name, text.replace("-", _UNBROKEN)) for name, text in rows], *args, **options)

    def getvalue(self) -> str:
        return str(super().getvalue()).replace(_UNBROKEN, "-")


class _Context(typer.Context):
    formatter_class = _Formatter


class _PlainHelp:
    context_class: Any = _Context

    def get_short_help_str(self, limit: int = 0) -> str:
        """The first sentence, in as many lines as it takes."""
        return str(super().get_short_help_str(10_000))  # type: ignore[misc]


class _Command(_PlainHelp, TyperCommand):
    """A command whose help is plain text."""


class _Group(_PlainHelp, TyperGroup):
    """A group of commands whose help is plain text."""


def command_group(
    name: str, description: str, commands: Mapping[str, Callable[..., None]], epilog: str | None = None
) -> typer.Typer:
    """The group with these commands, by name. epilog: shown at the end of its help."""
    group = typer.Typer(
        name=name,
        help=description,
        epilog=epilog,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # its table has four columns beside the help, which is then a word wide
        cls=_Group,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    for command_name, command in commands.items():
        help_text, example = _help_of(command)
        group.command(command_name, cls=_Command, help=help_text, epilog=example)(command)
    return group


def _help_of(command: Callable[..., None]) -> tuple[str, str | None]:
    """The paragraphs of the docstring, each as one line that the terminal wraps; and the example, if there is one."""
    paragraphs = [" ".join(text.split()) for text in (inspect.getdoc(command) or "").split("\n\n")]
    example = paragraphs.pop() if paragraphs[-1].startswith(_EXAMPLE) else None
    return "\n\n".join(paragraphs), example
