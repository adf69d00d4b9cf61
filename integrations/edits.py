"""What an editor makes of a policy's words while a trainer waits: each edit once, however many ask for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..reward import EditSample, Image, build
from ..reward.spec import Spec
from ..verifiers import Editor, Journal, Noise, Want
from ..verifiers.making import Maker


class Edits:
    """The edits of one step of a trainer, all from one seed: the same words on the same pictures are one edit.

    What the editor failed to make is not tried again, so that whoever asks for the same is told the same.
    """

    def __init__(self, editor: Editor, seed: int) -> None:
        self.editor = editor
        self._seed = seed
        self._journal = Journal()
        self._maker = Maker(editor, self._journal, lambda cost, known: None)
        self._known: dict[object, Image | str] = {}

    def of(self, asked: Sequence[EditSample]) -> list[Image | str]:
        """A picture each, or the problem of the editor. asked: what it is told; see `asking`.

        Raises `EditorFailed` where it has made nothing at all in a few attempts.
        """
        keys = [_key(one) for one in asked]
        wanted = {key: one for key, one in zip(keys, asked, strict=True) if key not in self._known}
        for start in range(0, len(wanted), self.editor.batch):
            part = dict(list(wanted.items())[start : start + self.editor.batch])
            wants = [Want(str(number), one, one, Noise(self._seed)) for number, one in enumerate(part.values())]
            for key, made in zip(part, self._maker.whole(wants), strict=True):
                self._known[key] = made.problem if made.picture is None else made.picture
        return [self._known[key] for key in keys]

    def close(self) -> None:
        """Forget the pictures."""
        self._journal.close()
        self._known.clear()

    def __enter__(self) -> Edits:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def asking(sample: EditSample, picture: Image, words: str) -> EditSample:
    """What the editor is told where a policy goes on from a picture: its words, for those of the sample."""
    return replace(sample, instruction=words, sources=(picture, *sample.sources[1:]))


def editor_from(given: Editor | Spec) -> Editor:
    """The editor, or the one that a spec stands for. Raises ValueError where that is none."""
    built: Any = build(given) if isinstance(given, str | Mapping) else given
    if not isinstance(built, Editor):
        raise ValueError(f"{given!r} is no editor, but {type(built).__name__}")
    return built


def _key(asked: EditSample) -> object:
    earlier = tuple((one.instruction, one.edited.digest) for one in asked.earlier)
    return tuple(image.digest for image in asked.sources), asked.instruction, earlier
