"""A question as HTML, and its pictures as files with random names: no address tells an editor or a file."""

from __future__ import annotations

import hashlib
import html
import json
import secrets
import tempfile
import threading
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2

from ...reward import Image
from ..human_eval.shown_questions import Feedback, ShownPicture, ShownQuestion
from ..report.page import page_templates
from ..suites.human_labels import LabelAnswer

MIN_SIDE = 400  # pixels: a question whose pictures are all smaller shows them enlarged to this side
COARSE_SIDE = 128  # pixels: smaller pictures are shown without interpolation


@dataclass
class PictureStore:
    """folder: the page's own, in which a folder of pictures is made; None: a temporary one."""

    folder: str | None

    def __post_init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(dir=self.folder))
        self._secret = secrets.token_bytes(16)
        self._lock = threading.Lock()

    def address(self, image: Image, side: int | None = None) -> str:
        """The address of the picture below that of the page, shrunk to this side. Raises `ImageError` and OSError."""
        key = hashlib.blake2b(f"{image.digest} {side}".encode(), key=self._secret, digest_size=12).hexdigest()
        path = self._folder / f"{key}.png"
        with self._lock:
            if not path.exists():
                picture = image.pil()
                if side is not None:
                    picture.thumbnail((side, side))
                picture.save(path, "PNG", compress_level=1)
        return f"gradio_api/file={path}"


def question_html(shown: ShownQuestion, annotator: str, store: PictureStore) -> str:
    """The question with its pictures; all texts are escaped. Raises `ImageError` and OSError."""
    is_drawing = shown.question_type.kind == "boxes"
    drawn = shown.previous_answer if isinstance(shown.previous_answer, tuple) else ()
    source = store.address(shown.pictures[0].image)
    side = max(MIN_SIDE, *(max(picture.image.size) for picture in shown.pictures))
    return (
        templates()
        .get_template("question.html")
        .render(
            shown=shown,
            annotator=annotator,
            is_drawing=is_drawing,
            boxes=json.dumps(drawn),
            pictures=[_picture(picture, store, source, side) for picture in shown.pictures],
        )
    )


def feedback_html(feedback: Feedback, shown: ShownQuestion) -> str:
    """What a practice question's answer is held against, in words."""
    texts: dict[LabelAnswer, str] = {choice.value: choice.text for choice in shown.choices}
    known = html.escape(texts.get(feedback.known, "other boxes"))
    text = "This is the known answer." if feedback.is_correct else f"The known answer is: {known}."
    note = f" {html.escape(feedback.note)}" if feedback.note else ""
    verdict = "correct" if feedback.is_correct else "wrong"
    return f'<p class="label-verdict {verdict}" role="status">{text}{note}</p>'


def _picture(picture: ShownPicture, store: PictureStore, source: str, side: int) -> dict[str, Any]:
    """side: of all pictures of the question, in pixels, so that none is shown smaller than another."""
    width, height = picture.image.size
    is_source = picture.role.startswith("source")
    return {
        "role": picture.role,
        "place": "base" if is_source else "edit",
        "address": store.address(picture.image),
        "under": "" if is_source else source,
        "width": width,
        "height": height,
        "largest": round(width * side / max(width, height)),
        "is_coarse": max(width, height) <= COARSE_SIDE,
    }


@cache
def templates() -> jinja2.Environment:
    """Those of the page."""
    return page_templates(Path(__file__).parent)


def drawing_script(name: str) -> str:
    """A script of a component on which boxes are drawn."""
    return "".join(files(__package__).joinpath(one).read_text(encoding="utf-8") for one in ("boxes.js", name))
