"""What a spec from a file may name: what is installed, and beyond that what the user trusts (see `trust`).

Recordings, locks, results and TOML files are sent around, and whoever reads one builds what it names. `require_trusted`
goes through such data before anything is built: it imports nothing, opens nothing, and says of what it refuses where it
stands and what to type. Entry points, models of the registry, bundles (with the addresses that the user's environment
has for them) and names on the hub pass. It need not know what an option is for: every text is taken for all that it
could name.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, get_args
from urllib.parse import parse_qsl

from .experts.loading.model_registry import bundles, registered_models
from .queries.specs import MODULE_PATH, Group, SpecError, entry_point_names, parse_option, registered
from .trust import VARIABLE, is_trusted, is_trusted_file, is_trusted_module, is_trusted_path

ROLE = re.compile(r"[A-Za-z_][\w-]*(\.[\w-]+)*")
"""A role of an expert, as in `judge.quality`."""
LINES = ("experts",)
"""The keys of texts that are lines of experts, as on the command line. A role or an option may have this name too."""
ADDRESSES = frozenset({"base_url", "address"})
"""Keys whose texts are addresses, whatever they look like."""
HOSTED: Mapping[str, str] = {"editcritic.reward.experts.openai_judge:OpenAIJudge": "https://api.openai.com/v1"}
"""Experts that have an address of their own where none is given, at which pictures are sent away and cost money."""
PLAIN = frozenset(
    {
        *("answering_view", "aspect", "attribute_view", "backend", "boxes", "compression", "content"),
        *("context", "detail", "device", "device_map", "digest", "dimension", "dtype", "edit_type"),
        *("excluded_dimensions", "faces", "failure_modes", "half", "image_format", "incomplete", "json_mode"),
        *("language", "letters", "levels", "logprobs", "lora_revision", "max_memory", "max_tokens_field"),
        *("mean", "meaning", "mode", "model", "object_names", "on_not_applicable", "operations", "part"),
        *("pictures", "potential", "prompt", "protocol", "quantisation", "reduction", "revision", "sampling"),
        *("shown_images", "similarity", "sources", "split", "summary", "text", "text_match", "transfer"),
        *("unit", "vq_prompt"),
    }
)
"""Options that are never names of files: a folder of that name in the working directory means nothing."""
_SHOWN, _LISTED = 200, 5  # characters of a text, and texts, that messages show


def require_trusted(spec: Any, file: str | Path, *, inside: str = "") -> None:
    """Raise `SpecError` if a spec from a file names what is neither installed nor trusted. spec: plain data with specs
    in it, at any depth: tables, texts with options, lines of experts under `LINES`. file: the file, or the folder of
    results, that it is from; if that is trusted, everything in it is. inside: the key that the data stands under.
    """
    if is_trusted_file(Path(file)):
        return
    reader = _Reader()
    try:
        reader.read(spec, (inside,) if inside else ())
    except RecursionError:
        raise SpecError(f"{file} is not a table of experts or metrics: it is nested too deeply") from None
    if untrusted := reader.untrusted:
        texts = list(dict.fromkeys(text for _, text in untrusted))
        if len(texts) > _LISTED or not all(text.isprintable() and len(text) <= _SHOWN for text in texts):
            texts = [str(file)]
        named = "; ".join(dict.fromkeys(what for what, _ in untrusted[:_LISTED]))
        if len(untrusted) > _LISTED:
            named += f"; and {len(untrusted) - _LISTED} more, which are not shown"
        typed = " ".join(f"--trust {shlex.quote(text)}" for text in texts)
        raise SpecError(
            f"{file} names {named}: files run no code, contact nobody and read nothing by themselves; "
            f"if you trust that, add `{typed}`, or set {VARIABLE}"
        )


def require_own_folder(key: str, target: str | Path, file: Path, *, does: Literal["write", "read"] = "write") -> None:
    """Raise `SpecError` if a file would write, or read, what it has under a key outside its folder and trusted ones."""
    if "\0" in str(target):
        raise SpecError(f"{file}: {key}: a path has no null character")
    place = file.parent / target
    if is_trusted_file(file) or is_trusted_path(place) or place.resolve().is_relative_to(file.parent.resolve()):
        return
    direction = "to" if does == "write" else "from"
    raise SpecError(
        f"{file} would {does} {key} {direction} {place}: files {does} in their own folder only; if you trust that, add "
        f"`--trust {shlex.quote(str(place))}`, or give another --{key}"
    )


@dataclass(frozen=True, slots=True)
class _Reader:
    """Collects what data names. untrusted: what each is and where it stands, and the text to trust."""

    untrusted: list[tuple[str, str]] = field(default_factory=list)

    def read(self, value: Any, keys: tuple[str, ...], model: str = "", *, option: bool = False) -> None:
        """keys: where it stands. model: whose code would be run. option: whether it is one of a spec."""
        if keys and keys[-1] == "trust_remote_code":
            if value:  # whatever is true in Python, such as the text "false"
                self._require(is_trusted(model), keys, f"code of {_shown(model)} to run", model)
        elif isinstance(value, Mapping):
            model = next((item for key in ("name", "use") if isinstance(item := value.get(key), str)), model)
            if isinstance(use := value.get("use"), str):
                self._require_own_server(use, value, (*keys, "use"))
            for key, item in value.items():
                inside = (option or "use" in value) and key != "use"
                self.read(item, (*keys, str(key)), model, option=inside)
        elif isinstance(value, list | tuple):
            for item in value:
                self.read(item, keys, model, option=option)
        elif isinstance(value, str) and value:
            self._read_text(value, keys, model, option)

    def _read_text(self, text: str, keys: tuple[str, ...], model: str, option: bool) -> None:
        key = keys[-1] if keys else ""
        if key.endswith("_env"):
            self._require(is_trusted(text), keys, f"the environment variable {_shown(text)}", text)
        elif key in ADDRESSES or key.endswith("_url"):
            self._require(is_trusted(text), keys, f"the address {_shown(text)}", text)
        else:
            if keys == LINES:
                for word in _words(text):
                    role, equals, spec = word.partition("=")
                    if equals and ROLE.fullmatch(role):
                        self._read_text(spec, (*keys, role), model, False)
                    elif not word.endswith(".toml"):  # what another file names is checked where that file is read
                        self._read_spec(word, keys, model, False)
            if keys != LINES or option:
                self._read_spec(text, keys, model, option)

    def _read_spec(self, text: str, keys: tuple[str, ...], model: str, option: bool) -> None:
        """A text that is a name, a spec with options, an address, a path, or any other text."""
        name, _, query = (text, "", "") if keys and keys[-1] == "use" else text.partition("?")
        options = dict(parse_qsl(query, keep_blank_values=True))
        first, colon, source = name.partition(":")
        if colon and first in entry_point_names("editcritic.experts"):  # as in vlm:FOLDER
            self._require_own_server(name, options, keys)
            if MODULE_PATH.fullmatch(name) and _is_module(first):  # where a spec is of no expert, it names this module
                self._require(is_trusted_module(first), keys, f"the module {_shown(first)}", first)
            elif "://" in source and source.partition(":")[0] not in entry_point_names("editcritic.experts"):
                self._require(is_trusted(source), keys, f"the address {_shown(source)}", source)
            elif source not in registered_models():  # what an expert is built with may be the spec of another
                self._read_spec(source, keys, model, option)
        elif "://" in name:
            self._require(is_trusted(text), keys, f"the address {_shown(text)}", text)
            return
        elif MODULE_PATH.fullmatch(name):
            if registered(name) is None:
                self._require(is_trusted_module(first), keys, f"the module {_shown(first)}", first)
            self._require_own_server(name, options, keys)
        else:
            if query:
                self._require_own_server(name, options, keys)
            if option or not _is_installed(name):
                self._read_path(name, keys, option)
        for key, value in parse_qsl(query, keep_blank_values=True):
            # `build` reads an option as JSON, or as it is, by its type.
            self.read(parse_option(value), (*keys, key), options.get("name", name), option=True)
            if key != "trust_remote_code":
                self.read(value, (*keys, key), name, option=True)

    def _read_path(self, text: str, keys: tuple[str, ...], option: bool) -> None:
        path = Path(text)
        is_plain = option and bool(keys) and keys[-1] in PLAIN
        try:
            acts = path.is_absolute() or ".." in path.parts or text.startswith("~") or (not is_plain and path.exists())
        except (OSError, ValueError):  # a text that is no path
            acts = False
        if text and acts:
            self._require(is_trusted_path(path), keys, f"the path {_shown(text)}", text)

    def _require_own_server(self, name: str, options: Mapping[str, Any], keys: tuple[str, ...]) -> None:
        """Of an expert with an address of its own, require that this is trusted, unless another is given."""
        first, _, source = name.partition(":")
        point = registered(name) or entry_point_names("editcritic.experts").get(first)
        address = None if point is None else HOSTED.get(point.value)
        if address is not None and "://" not in source and not options.get("base_url"):
            self._require(is_trusted(address), keys, f"the address {address}, since it gives no base_url", address)

    def _require(self, trusted: bool, keys: Sequence[str], what: str, text: str) -> None:
        if not trusted:
            self.untrusted.append((what + (f" (at {_shown('.'.join(keys))})" if keys else ""), text))


def _shown(text: str) -> str:
    return text if text.isprintable() and len(text) <= _SHOWN else ascii(text[:_SHOWN])


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError:  # refused with a reason where experts are bound
        return []


def _is_installed(name: str) -> bool:
    return (
        name in registered_models() or name in bundles() or any(name in entry_point_names(g) for g in get_args(Group))
    )


def _is_module(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ValueError:  # one that is being imported, or was made by hand
        return True
